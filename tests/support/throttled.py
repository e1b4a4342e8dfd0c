"""What edgetop says of the throttling of a captured board, as if its values stood still for some seconds."""

from collections.abc import Sequence

from edgetop.analysis.slowdowns.throttles import Throttles, ThrottlesView
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap, Source
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from tests.support.sessions import make_manifest, make_readings, phase_event


def read(sources: Sequence[Source], second: float) -> list[tuple[int, int, float]]:
    rows, place = [], 0
    for source in sources:
        values = read_source(source)
        for number in range(len(source.sensors)):
            value = values if isinstance(values, Gap) else values[number]
            if not isinstance(value, Gap):
                rows.append((round(second * NS), place, float(value)))
            place += 1
    return rows


def view(root: Root, times: int = 3) -> ThrottlesView:
    """After so many reads a second apart."""
    sources = discover_board(root).sources
    sensors = [info for source in sources for info in source.sensors]
    rows = [row for second in range(1, times + 1) for row in read(sources, second)]
    return folded(root, sensors, rows, times)


def folded(root: Root, sensors: Sequence[object], rows: list[tuple[int, int, float]], until_s: float) -> ThrottlesView:
    fold = Throttles()
    manifest = make_manifest(*sensors, board=read_board(root))  # type: ignore[arg-type]
    events = (phase_event(0, "measure"),)
    fold.fold(Batch(until_ns=round(until_s * NS), manifest=manifest, readings=make_readings(*rows), events=events))
    return fold.view()


def causes(found: ThrottlesView) -> list[str]:
    return [span.cause for span in found.spans if span.end_ns is None]
