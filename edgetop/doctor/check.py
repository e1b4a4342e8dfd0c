"""The input and the result of a check. A result has a status and, where needed, advice and a shell command."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from edgetop.frozen import frozen
from edgetop.sensors.root import Root

if TYPE_CHECKING:  # `run` checks logging out before it forks, and must not have loaded numpy by then
    from edgetop.sensors.sensor_protocol import Missing
    from edgetop.sensors.survey import Row
    from edgetop.session.manifest import Board


Status = Literal["ok", "warning", "problem"]
_ORDER: tuple[Status, ...] = ("ok", "warning", "problem")


@frozen
class Check:
    """The result of one check: its status, what was found, and what the user can do."""

    name: str
    status: Status
    found: str
    advice: str | None = None
    fix: str | None = None  # a shell command


def ok(name: str, found: str, advice: str | None = None) -> Check:
    return Check(name, "ok", found, advice)


def warning(name: str, found: str, advice: str | None = None, fix: str | None = None) -> Check:
    return Check(name, "warning", found, advice, fix)


def problem(name: str, found: str, advice: str | None = None, fix: str | None = None) -> Check:
    return Check(name, "problem", found, advice, fix)


def unknown(name: str, why: str, advice: str | None = None, fix: str | None = None) -> Check:
    """Return the result of a check that could not be made, because of `why`. Its status is a warning.

    `advice` is a sentence that says what to do, or None. `fix` is a shell command that helps, or None.
    """
    return Check(name, "warning", f"unknown: {why}", advice, fix)


def worst(checks: Iterable[Check]) -> Status:
    """Return the worst status of the results `checks`, or `ok` if there are none."""
    return max((check.status for check in checks), key=_ORDER.index, default="ok")


BOOTED = "run/systemd/system"  # exists if systemd runs the machine: sd_booted(3)


@frozen
class Facts:
    """The input of all checks: what is known about the board and about the planned measurement."""

    root: Root
    board: "Board"
    rows: "tuple[Row, ...]" = ()
    missing: "tuple[Missing, ...]" = ()
    power_mode: str | None = None  # as declared for production
    governor: str | None = None  # as declared for production
    busy: Mapping[str, float] | None = None  # load of other processes by name, in percent of a core; None: unknown
    unseen: str | None = None  # why not all processes can be seen (`why_unseen`); None if all can
    recordings: Path = Path("/")  # folder of the recordings
    python: str = ""  # the engine's interpreter

    def values(self, prefix: str) -> dict[str, float]:
        """Return the values of the sensors whose id begins with `prefix`, such as `temp/`, by id.

        Sensors without a value are left out.
        """
        return {
            row.info.id: row.value
            for row in self.rows
            if row.info.id.startswith(prefix) and isinstance(row.value, (int, float))
        }
