"""Runs the checks of the doctor, and formats their results."""

import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edgetop.cli import request
from edgetop.cli.board import board_root
from edgetop.cli.sensor_table import board_line
from edgetop.doctor.check import Check, Facts, Status, worst
from edgetop.doctor.examine import examine, left_out
from edgetop.doctor.state import watch_processes
from edgetop.formatting import clean
from edgetop.paths import recordings_home
from edgetop.sensors.root import Root
from edgetop.sensors.survey import RATE_INTERVAL_S, Survey, survey_board
from edgetop.session.manifest import Board

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Diagnosis:
    board: Board
    checks: tuple[Check, ...]
    left_out: tuple[str, ...]

    @property
    def status(self) -> Status:
        return worst(self.checks)


def diagnose(options: Mapping[str, Any]) -> Diagnosis:
    python = request.engine_python(options) or sys.executable
    root = board_root(options["sysroot"])
    survey = survey_board(root)
    busy = _read(root, survey)
    facts = Facts(
        root=root,
        board=survey.board,
        rows=survey.rows,
        missing=survey.missing,
        power_mode=options["power_mode"],
        governor=options["governor"],
        busy=busy,
        recordings=recordings_home(),
        python=python,
    )
    return Diagnosis(survey.board, tuple(examine(facts)), tuple(left_out(facts)))


def _read(root: Root, survey: Survey) -> dict[str, float] | None:
    """Read the sensors, and meanwhile see what else runs here. None: they cannot be listed."""
    if not root.is_host:
        survey.read_whole()
        return None
    busy: dict[str, float] = {}
    try:
        with watch_processes(busy, at_least_s=RATE_INTERVAL_S):
            survey.read_whole()
    except OSError:
        return None
    return busy


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the document that `doctor --json` prints (edgetop help doctor)."""
    return {
        "board": asdict(diagnosis.board),
        "checks": [asdict(check) for check in diagnosis.checks],
        "status": diagnosis.status,
    }


def lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield board_line(diagnosis.board)
    yield ""
    width = max(len(check.name) for check in diagnosis.checks)
    for check in diagnosis.checks:
        yield from _check_lines(check, width)
    yield ""
    counts = Counter(check.status for check in diagnosis.checks)
    yield f"{_count(counts['problem'], 'problem')}, {_count(counts['warning'], 'warning')}, {counts['ok']} ok"


def _check_lines(check: Check, width: int) -> Iterator[str]:
    head = f"{check.status:<8} {check.name:<{width}}  "
    margin = " " * len(head)
    yield from textwrap.wrap(clean(check.found), WIDTH, initial_indent=head, subsequent_indent=margin) or [head]
    if check.advice:
        yield from textwrap.wrap(clean(check.advice), WIDTH, initial_indent=margin, subsequent_indent=margin)
    if check.fix:
        yield f"{margin}fix: {clean(check.fix)}"  # never broken: it is there to be copied


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
