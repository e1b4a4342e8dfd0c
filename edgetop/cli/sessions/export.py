"""`edgetop export`: convert a recording, or a part of it, for other tools or for a colleague."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion, options
from edgetop.cli.companions import needs, not_beside, option
from edgetop.cli.output import print_text, raise_problems
from edgetop.errors import InputError
from edgetop.formatting import clock_time, size
from edgetop.recording.export import export_formats

if TYPE_CHECKING:
    from edgetop.recording.reader import Recording
    from edgetop.recording.rows import Span


OPTIONS = (
    option("--to", "form", type=click.Choice(list(export_formats.FORMATS)), required=True, help="Export format."),
    option(
        "-o", "--output", metavar="PATH",
        help="Output file, or - for standard output. Default: SESSION in the current folder.",
    ),
    option("--begin", type=options.duration_or_zero, metavar="TIME", help="Export from this session time on: 10m."),
    option("--end", type=options.duration_or_zero, metavar="TIME", help="Export up to this session time."),
    option(
        "--last", type=options.duration_or_zero, metavar="TIME", help="Export only the last TIME of the session.",
        rules=[not_beside("begin", "end", message="{} cannot be combined with --begin or --end")],
    ),
    option(
        "--table", "tables", type=click.Choice(export_formats.TABLES), multiple=True,
        help="Table to export as csv or json. Repeatable. Default: all.",
        rules=[needs("form", holds=lambda form: form in ("csv", "json"), message="{} is for csv and json")],
    ),
    option(
        "--no-raw", is_flag=True, help="Omit single inferences.", rules=[
            needs("form", holds=lambda form: form != "parquet", message="{} is not for parquet",
                  advice="parquet has no single inferences")
        ],
    ),
    option(
        "--hz", type=float, default=1.0, show_default=True, help="Rows per second of parquet, such as 10 or 0.1.",
        rules=[
            needs("form", holds=lambda form: form == "parquet", message="{} is for parquet",
                  advice="other formats keep the original times")
        ],
    ),
    option("--force", is_flag=True, help="Replace an existing file."),
)  # fmt: skip


@click.command("export", params=[*OPTIONS])
@click.argument("session", shell_complete=completion.sessions)
def command(
    session: str, *, form: str, output: str | None, begin: int | None, end: int | None, last: int | None,
    tables: tuple[str, ...], no_raw: bool, hz: float, force: bool,
) -> None:  # fmt: skip
    """Export SESSION (a path, a name, or the beginning of an id), or a part of it.

    \b
    csv       one file per table
    json      the manifest, then one line per row
    parquet   one wide table on a regular time grid, one column per sensor
    perfetto  a trace for ui.perfetto.dev
    session   a smaller recording, to send to a colleague
    \b
    Examples:
      edgetop export soak-42 --to parquet --hz 1
      edgetop export soak-42 --to perfetto --last 5m
      edgetop export soak-42 --to csv --table events -o -
      edgetop export soak-42 --to session --begin 10m --end 25m -o slowdown
    """
    from edgetop.paths import recordings_home  # noqa: PLC0415  --help needs none of it
    from edgetop.recording.reader import Recording  # noqa: PLC0415
    from edgetop.recording.registry import locate  # noqa: PLC0415

    wanted = tuple(name for name in tables or export_formats.TABLES if not (no_raw and name == "inferences"))
    if not wanted:
        raise click.UsageError("--no-raw and --table inferences exclude each other")
    with Recording(locate(session, recordings_home())) as recording:
        place = _output(output, recording.folder, form, is_one=len(wanted) == 1, force=force)
        selection = export_formats.Selection(recording, _span(recording, begin, end, last), wanted, hz)
        export_formats.load(form)(selection, place)
        if isinstance(place, export_formats.NamedOutput):
            files = place.path.rglob("*") if place.path.is_dir() else [place.path]
            written = sum(file.stat().st_size for file in files if file.is_file())
            print_text(f"wrote {place.path} ({size(written)})", err=True)
        raise_problems(recording.problems, "the rest is exported")


def _span(recording: "Recording", begin: int | None, end: int | None, last: int | None) -> "Span":
    from edgetop.recording.rows import WHOLE, Span  # noqa: PLC0415

    if last is not None:
        begin = recording.end_ns - last
    elif begin is not None and begin >= recording.end_ns:
        raise InputError(f"--begin {clock_time(begin)}: the session lasts {clock_time(recording.end_ns)}")
    elif end is not None and end <= (begin or 0):
        raise click.UsageError("--end is not after --begin")
    return Span(WHOLE.begin_ns if begin is None else begin, WHOLE.end_ns if end is None else end)


def _output(given: str | None, folder: Path, form: str, *, is_one: bool, force: bool) -> export_formats.Output:
    from edgetop.recording.session_folder import session_folder  # noqa: PLC0415

    if given == "-":
        return export_formats.StreamOutput(sys.stdout.buffer)
    if given is not None:
        path = Path(given)
        return export_formats.NamedOutput(session_folder(path) if form == "session" else path, force=force)
    return export_formats.NamedOutput(export_formats.default_path(folder, form, is_one=is_one), force=force)
