"""What `edgetop ab` has beside a run: two engines for one, and an end when the difference is known."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from edgetop.analysis.analysis import Analysis
from edgetop.cli import request
from edgetop.cli.request import Options
from edgetop.engines.process import ProcessEngine
from edgetop.engines.turns import TurnsEngine
from edgetop.sensors.protocol import Found
from edgetop.session.seconds import NS
from edgetop.session.turns import SHORTEST_NS, SIDES, plan

POWER_TURN_NS = NS  # where a sensor tells the board's power, which is seldom read oftener


def engine_in_turns(options: Options, board: Found, stack: ExitStack, folder: Path | None) -> TurnsEngine:
    """Raises InputError for a model or an interpreter that is not there. Each variant has limits of its own."""
    variants = zip(options["variants"], SIDES, strict=True)
    first, second = (_engine({**variant, "variants": ()}, stack, folder, side) for variant, side in variants)
    has_power = any(info.kind == "power" and info.role == "total" for s in board.sources for info in s.sensors)
    least_ns = options["turn"] or (POWER_TURN_NS if has_power else SHORTEST_NS)
    make = partial(plan, duration_ns=options["duration"], seed=options["order_seed"], least_ns=least_ns)
    return TurnsEngine((first, second), make)


def _engine(options: Options, stack: ExitStack, folder: Path | None, side: str) -> ProcessEngine:
    spec = request.engine_spec(options, request.find_model(options))
    return request.process_engine(options, request.keeping(spec, folder, side), stack)


class Resolution:
    """Looks at an analysis once a second: by the width of the interval alone, whatever it says."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        self._stop = stop

    def look(self, analysis: Analysis) -> None:
        view = analysis.ab_view()
        if view is not None and view.is_resolved:
            self._stop("resolved")
