"""Textual's Linux driver, made to survive the loss of its terminal.

A hang-up must cost the screen and nothing else. As it is, a write to a terminal that is gone
ends the writer thread and the app then waits for it for ever; and the SIGCONT that the kernel
sends with a hang-up (tty_ioctl(4), disassociate_ctty) starts the driver's threads anew.
"""

import signal
from typing import Any, TextIO

from textual.drivers.linux_driver import LinuxDriver


class SteadyDriver(LinuxDriver):
    """Tells its app, by setting `terminal_lost`, when the terminal is gone."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._steady_app = app
        self._file = _SteadyFile(self._file, self._lose_terminal)  # type: ignore[assignment, arg-type]
        signal.signal(signal.SIGCONT, self._continued)

    def start_application_mode(self) -> None:
        """At the beginning, and when it comes back from having been stopped: nothing of the screen is there."""
        self._steady_app.forget_terminal()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def _lose_terminal(self) -> None:
        self._steady_app.terminal_lost = True

    def _continued(self, *_: object) -> None:
        """Come back to the screen only after having left it by SIGTSTP."""
        if self._must_signal_resume:
            self._sigcont_application()

    def run_input_thread(self) -> None:
        """Read keys until the end; without a terminal there are none."""
        try:
            super().run_input_thread()
        except OSError:
            self._lose_terminal()


class _SteadyFile:
    """A terminal to write to; what cannot be written is dropped."""

    def __init__(self, file: TextIO, on_loss: Any) -> None:
        self._file = file
        self._on_loss = on_loss

    def write(self, text: str) -> None:
        self._try(self._file.write, text)

    def flush(self) -> None:
        self._try(self._file.flush)

    def fileno(self) -> int:
        return self._file.fileno()

    def _try(self, action: Any, *arguments: str) -> None:
        try:
            action(*arguments)
        except (OSError, ValueError):
            self._on_loss()
