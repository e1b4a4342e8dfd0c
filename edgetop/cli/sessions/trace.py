"""`edgetop trace`: find the energy of each inference of a session in the log of a fast power meter."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import PATH, needs, not_beside, option

if TYPE_CHECKING:
    from edgetop.imports.power_trace import Scale

FORMATS = ("ppk2", "monsoon", "joulescope", "otii", "oscilloscope", "csv")  # those of `edgetop.imports.power_trace`
OPTIONS = (
    option("--format", "log_format", type=click.Choice(FORMATS), required=True, help="Format of the log."),
    option("--power-volts", type=text.volts, metavar="5V", help="Supply voltage, for a log that holds current only."),
    option("--current-column", type=text.scale, metavar="NAME[:A]", help="Column of the current; A: amperes per unit."),
    option("--voltage-column", type=text.scale, metavar="NAME[:V]", help="Column of the voltage; V: volts per unit."),
    option("--power-column", type=text.scale, metavar="NAME[:W]", help="Column of the power; W: watts per unit."),
    option(
        "--offset", type=text.offset_seconds, metavar="TIME",
        help="Session time at which the time of the log is 0, instead of searching for it.",
    ),
    option(
        "--marker", metavar="COLUMN", help="Digital column that rises at the first mark, or the first inference.",
        rules=[not_beside("offset")],
    ),
    option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help power)."),
    option("--html", type=PATH, metavar="FILE", help="Write the mean waveform and the text as one HTML page."),
    option("--force", is_flag=True, help="Replace an existing file.", rules=[needs("html")]),
)  # fmt: skip


@click.command("trace", params=[*OPTIONS])
@click.argument("session", shell_complete=completion.sessions)
@click.argument("log", type=PATH)
def command(
    session: str,
    log: Path,
    *,
    log_format: str,
    power_volts: float | None,
    current_column: "Scale | None",
    voltage_column: "Scale | None",
    power_column: "Scale | None",
    offset: float | None,
    marker: str | None,
    as_json: bool,
    html: Path | None,
    force: bool,
) -> None:
    """Cut LOG, the log of a fast power meter, by the inferences of SESSION.

    The log is aligned to the session by the pattern of its inferences, unless you give an offset or a marker.
    The result has the energy of an inference and of each operator, the peak power and its place, and the mean waveform.

    \b
    Examples:
      edgetop trace soak-42 ppk2.csv --format ppk2 --power-volts 5V
      edgetop trace soak-42 scope.csv --format oscilloscope --current-column CH1:10 --power-volts 5V
      edgetop trace soak-42 monsoon.csv --format monsoon --html waveform.html
      edgetop trace soak-42 js220.csv --format joulescope --json | jq .energy_mj
    """
    from edgetop.cli.sessions.tracing import print_trace  # noqa: PLC0415  --help needs none of it
    from edgetop.imports.power_trace import TraceSpec  # noqa: PLC0415

    given = {"current": current_column, "voltage": voltage_column, "power": power_column}
    columns = {quantity: scale for quantity, scale in given.items() if scale is not None}
    spec = TraceSpec(log, log_format, power_volts, columns, marker)
    print_trace(session, spec, offset_s=offset, as_json=as_json, html=html, force=force)
