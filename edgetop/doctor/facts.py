"""What the checks are given: the board, its sensors as just read, and what the user declared."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetop.sensors.root import Root

if TYPE_CHECKING:  # `run` asks the doctor of logging out before it loads numpy: it forks
    from edgetop.sensors.protocol import Missing
    from edgetop.sensors.survey import Row
    from edgetop.session.manifest import Board

BOOTED = "run/systemd/system"  # there where systemd runs the machine: sd_booted(3)
POLICIES = "sys/devices/system/cpu/cpufreq"


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


def number(root: Root, path: str) -> int | None:
    text = root.line(path) or ""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def policies(root: Root) -> list[str]:
    """The folders of the cpufreq policies."""
    return [f"{POLICIES}/{name}" for name in root.names(POLICIES) if name.startswith("policy")]
