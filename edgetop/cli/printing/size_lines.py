"""The lines of a text report about latency by the size of the inputs."""

from collections.abc import Iterator, Sequence

from edgetop import formatting
from edgetop.analysis.input_shapes import ShapeView
from edgetop.analysis.session_report import Report
from edgetop.cli.output import table
from edgetop.formatting import clean, quantity, shortened

MOST_SIZES, MOST_STREAMS = 12, 3


def size_lines(report: Report) -> Iterator[str]:
    """Yield a table of latency by input size, for each of the three busiest models whose inputs have several sizes."""
    several = len(report.streams) > 1
    found = [(one.name, one.shapes) for one in report.streams if one.shapes]
    for name, shapes in found[:MOST_STREAMS]:
        yield ""
        of = f" of {shortened(clean(name), 40)}" if several else ""
        yield f"sizes      latency{of} by the size of the inputs, of sampled calls"
        yield from table(("elements", "calls", "p50 ms", "p99 ms"), _rows(shapes), words=(), indent=" " * 11)
        if len(shapes) > MOST_SIZES:
            yield f"           and {quantity(len(shapes) - MOST_SIZES, 'size')} between these"


def _rows(shapes: Sequence[ShapeView]) -> list[Sequence[str]]:
    """Return a table row for each input size.

    Of more than twelve sizes, only twelve get a row: the first, the last, and ten at equal distances between these.
    """
    last = len(shapes) - 1
    shown = range(len(shapes)) if last < MOST_SIZES else [round(n * last / (MOST_SIZES - 1)) for n in range(MOST_SIZES)]
    return [_row(shapes[place]) for place in shown]


def _row(shape: ShapeView) -> Sequence[str]:
    least, most = (f"{elements:,}" for elements in shape.elements)
    times = (formatting.milliseconds(ms * 1e6) for ms in (shape.p50_ms, shape.p99_ms))
    return least if least == most else f"{least} to {most}", formatting.count(shape.count), *times
