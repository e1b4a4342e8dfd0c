"""Checks: what they receive, and their result with its level, advice and the command that would fix it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from edgetop.sensors.root import Root

if TYPE_CHECKING:  # `run` asks the doctor of logging out before it loads numpy: it forks
    from edgetop.sensors.sensor_protocol import Missing
    from edgetop.sensors.survey import Row
    from edgetop.session.manifest import Board


Status = Literal["ok", "warning", "problem"]
_ORDER: tuple[Status, ...] = ("ok", "warning", "problem")


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    status: Status
    found: str
    advice: str | None = None
    fix: str | None = None  # a command


def ok(name: str, found: str, advice: str | None = None) -> Check:
    return Check(name, "ok", found, advice)


def warning(name: str, found: str, advice: str | None = None, fix: str | None = None) -> Check:
    return Check(name, "warning", found, advice, fix)


def problem(name: str, found: str, advice: str | None = None, fix: str | None = None) -> Check:
    return Check(name, "problem", found, advice, fix)


def unknown(name: str, why: str, advice: str | None = None, fix: str | None = None) -> Check:
    """Return the result of a check that could not be made: a warning, never ok."""
    return Check(name, "warning", f"unknown: {why}", advice, fix)


def worst(checks: Iterable[Check]) -> Status:
    """The status of all of them together."""
    return max((check.status for check in checks), key=_ORDER.index, default="ok")


BOOTED = "run/systemd/system"  # there where systemd runs the machine: sd_booted(3)


@dataclass(frozen=True, slots=True)
class Facts:
    root: Root
    board: "Board"
    rows: "tuple[Row, ...]" = ()
    missing: "tuple[Missing, ...]" = ()
    power_mode: str | None = None  # declared: what production runs
    governor: str | None = None  # declared
    busy: Mapping[str, float] | None = None  # other processes by name, in percent of a core; None: not looked
    recordings: Path = Path("/")  # where recordings go
    python: str = ""  # the engine's interpreter

    def values(self, prefix: str) -> dict[str, float]:
        """The sensors that gave a value, whose id begins so."""
        return {
            row.info.id: row.value
            for row in self.rows
            if row.info.id.startswith(prefix) and isinstance(row.value, (int, float))
        }
