"""Ask systemd for the main process of a unit, without waiting for the answer."""

import shutil

from edgetop.errors import InputError
from edgetop.taps.asking import Asked

ASK_UNIT_S = 1.0
GONE_UNIT_S = 5.0  # a unit that has been stopped for this long is not being restarted
ANSWER_S = 10.0  # time limit for systemctl


class UnitQuestion:
    """Asks systemctl(1) for the main process of a systemd unit, without waiting for the answer."""

    def __init__(self, unit: str) -> None:
        """Start systemctl for the unit named `unit`. Raises InputError if that fails."""
        program = shutil.which("systemctl")
        if program is None:
            raise InputError(f"--unit {unit}: systemctl is not installed", "give the process: --pid N")
        self._unit = unit
        order = [program, "show", "--property=MainPID,ActiveState,LoadState", "--", unit]
        try:
            self._asked = Asked(order, ANSWER_S)
        except OSError:
            raise self._no_answer() from None

    def poll(self, *, waits: bool = False) -> tuple[int, str] | None:
        """Return (id of the unit's main process or 0, state of the unit such as "active"), or None before the answer.

        With `waits`, wait for the answer. Raises InputError if systemctl fails or does not know the unit. Call `close`
        in any case.
        """
        try:
            answer = self._asked.wait() if waits else self._asked.poll()
            if answer is None:
                return None
            lines = answer[1].decode("utf-8", "replace").splitlines()
            fields = dict(line.split("=", 1) for line in lines if "=" in line)
            pid = int(fields["MainPID"])
        except (OSError, KeyError, ValueError):
            raise self._no_answer() from None
        if fields.get("LoadState") == "not-found":
            raise InputError(f"--unit {self._unit}: there is no such unit", "systemctl list-units --type=service")
        return pid, fields.get("ActiveState", "")

    def _no_answer(self) -> InputError:
        message = f"--unit {self._unit}: systemctl does not report its main process"
        return InputError(message, f"systemctl status {self._unit}")

    def close(self) -> None:
        self._asked.close()
