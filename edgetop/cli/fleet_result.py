"""The results of many boards, for scripts and as text: `edgetop fleet --json`, `--headless`, and the gates."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from edgetop.analysis.gates import parse_gate
from edgetop.cli.output import print_text
from edgetop.feeds.fleet import BoardView, Fleet
from edgetop.session.seconds import NS
from edgetop.session.summary import to_json
from edgetop.ui.characters import CharacterSet
from edgetop.ui.panes.fleet import board_lines
from edgetop.ui.panes.pane import Area

LOOK_S = 0.2
MAX_EVENTS = 200
TABLE_CELLS = 118


@dataclass(frozen=True, slots=True)
class FleetGate:
    text: str  # as it was written
    is_of_all: bool  # it fails only where it holds on every board
    gate: str  # of one board, as that board judges it


def parse_fleet_gate(text: str) -> FleetGate:
    """`any throttled`, `all p99>33ms`, `throttled`. Raises ValueError, which says how to write it.

    >>> parse_fleet_gate("all p99>33ms").gate
    'p99>33ms'
    """
    match = re.fullmatch(r"\s*(?:(any|all)\s+)?(.*)", text, re.DOTALL)
    assert match
    return FleetGate(text.strip(), match[1] == "all", parse_gate(match[2], "a gate; begin with any or all, and").text)


def failing(gate: FleetGate, views: Sequence[BoardView]) -> dict[str, str]:
    """The boards on which it holds, and why. One that does not answer has not passed."""
    found = {}
    for view in views:
        failed = view.summary.failed_gates if view.summary else None
        if failed is None:
            found[view.address.name] = f"{gate.gate}: unknown: {view.word.lower()}"
        elif gate.gate in failed:
            found[view.address.name] = failed[gate.gate]
    return found


def print_failed(gates: Sequence[FleetGate], views: Sequence[BoardView]) -> bool:
    """Print on stderr which gates failed; whether any did."""
    has_failed = False
    for gate in gates:
        found = failing(gate, views)
        if len(found) == len(views) if gate.is_of_all else found:
            has_failed = True
            for name, reason in found.items():
                print_text(f"edgetop: gate failed: {gate.text}: {name}: {reason}", err=True)
    return has_failed


def document(fleet: Fleet, gates: Sequence[FleetGate]) -> dict[str, Any]:
    """Return the document that `--json` prints; its keys are a contract (edgetop help fleet)."""
    views, now, now_ns = fleet.views("name"), fleet.clock.utc(), fleet.clock.monotonic_ns()
    events = [
        {
            "utc": f"{_at(now.timestamp() - (now_ns - logged.t_ns) / NS)}",
            "board": logged.board, "severity": logged.happened.severity, "text": logged.happened.text,
        }
        for logged in fleet.log()[:MAX_EVENTS]
    ]  # fmt: skip
    return {
        "boards": [_board(view) for view in views],
        "gates": [
            {"expr": gate.text, "ok": len(found) < len(views) if gate.is_of_all else not found, "boards": found}
            for gate in gates for found in [failing(gate, views)]
        ],
        "events": events,
    }  # fmt: skip


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _board(view: BoardView) -> dict[str, Any]:
    address = view.address
    return {
        "name": address.name, "host": address.target.host, "group": address.group, "labels": dict(address.labels),
        "state": view.state, "reason": view.reason or None, "edgetop": view.version or None,
        "age_s": None if view.age_s is None else round(view.age_s, 1),
        "summary": to_json(view.summary) if view.summary else None,
    }  # fmt: skip


def table(views: Sequence[BoardView]) -> list[str]:
    """Return the table of boards in ASCII."""
    lines = board_lines(views, Area(TABLE_CELLS, len(views) + 1, CharacterSet(ascii_only=True)))
    return ["".join(span.text for span in of).rstrip() for of in lines]


def follow(fleet: Fleet, is_enough: Callable[[], bool], *, says: bool) -> None:
    """Wait until it is enough. `says`: print a line on stderr whenever the word for a board's state changes."""
    said: dict[str, str] = {}
    while True:
        is_last = is_enough()
        for view in fleet.views("name") if says else ():
            if view.state not in ("connecting", "refused") and said.get(view.address.name) != view.word:
                said[view.address.name] = view.word
                print_text(f"{view.address.name}: {view.word}{f': {view.details}' if view.details else ''}", err=True)
        if is_last:
            return
        time.sleep(LOOK_S)


def have_answered(fleet: Fleet) -> bool:
    """Each has a summary, or has failed."""
    return all(view.summary or view.has_failed for view in fleet.views())


def are_over(fleet: Fleet, patience_s: float) -> Callable[[], bool]:
    """The sessions of all are; one of which nothing comes for so long is waited for no more."""
    began_ns = fleet.clock.monotonic_ns()

    def is_over(view: BoardView) -> bool:
        waited_s = (fleet.clock.monotonic_ns() - began_ns) / NS if view.age_s is None else view.age_s
        return view.state in ("over", "refused") or waited_s > patience_s

    return lambda: all(map(is_over, fleet.views()))
