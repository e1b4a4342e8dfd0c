"""Which processes of this board run models: those that have mapped a runtime or the file of a model."""

import contextlib
import json
import pwd
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from edgetop.errors import InputError
from edgetop.taps import perf
from edgetop.taps.process import command_of, helper_command
from edgetop.taps.runtimes import libraries, mappings, models

SURVEY_S = 2.0
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class ModelProcess:
    pid: int
    user: str
    command: tuple[str, ...]
    runtimes: tuple[str, ...]  # names of the mapped libraries
    models: tuple[str, ...]  # paths of mapped model files: ONNX Runtime maps none
    calls_per_s: float | None = None  # None: not known


def model_processes() -> tuple[list[ModelProcess], int]:
    """Those that may be looked into, by number, and how many may not."""
    found, closed = [], 0
    for entry in sorted(
        (path for path in Path("/proc").iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
    ):
        pid = int(entry.name)
        maps = mappings(pid)
        if not maps:
            closed += _is_closed(entry)
            continue
        names, files = [path.rpartition("/")[2] for path in libraries(maps)], models(maps)
        if names or files:
            with contextlib.suppress(InputError):  # it ended meanwhile
                found.append(ModelProcess(pid, _user(entry), command_of(pid), tuple(names), tuple(files)))
    return found, closed


def _is_closed(entry: Path) -> bool:
    try:
        (entry / "maps").read_bytes()
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def _user(entry: Path) -> str:
    try:
        number = entry.stat().st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def why_no_rates() -> str:
    """Why it cannot be counted how often they run their models; "": it can."""
    return perf.why_not() or ("" if perf.may_set() else "counting calls needs root")


def with_rates(processes: list[ModelProcess]) -> list[ModelProcess]:
    """Counted by uprobes for two seconds."""
    words = helper_command("survey", str(SURVEY_S), *(str(one.pid) for one in processes))
    rates: dict[str, float] = {}
    with contextlib.suppress(subprocess.SubprocessError, OSError, ValueError):
        done = subprocess.run(words, capture_output=True, check=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)  # noqa: S603  our own
        rates = json.loads(done.stdout).get("calls_per_s", {})
    return [replace(one, calls_per_s=rates.get(str(one.pid))) for one in processes]
