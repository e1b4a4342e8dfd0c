"""`edgetop import`: convert the results of another tool to a session."""

from pathlib import Path

import click

from edgetop.cli import options as text
from edgetop.cli.companions import PATH, option
from edgetop.cli.output import print_text
from edgetop.errors import InputError

OPTIONS = (
    option("-o", "--output", type=PATH, metavar="PATH", help="Folder of the session. Default: named after FILE."),
    option("--model", metavar="NAME", help="Name of the model, if the files do not have it."),
    option(
        "--warmup-time", type=text.duration_or_zero, default="200ms", show_default=True, metavar="TIME",
        help="Warm-up time of trtexec (--warmUp). Inferences that began during it do not count.",
    ),
    option(
        "--interval", type=text.duration, default="1s", show_default=True, metavar="TIME",
        help="Interval of tegrastats or docker stats, for a log whose lines have no time.",
    ),
    option(
        "--latency-column", metavar="NAME[:UNIT]",
        help="Column of a CSV that has the latencies. Unit: s, ms, us or ns. Default: found by its name.",
    ),
    option(
        "--time-column", metavar="NAME[:UNIT]",
        help="Column of a CSV that has the starts of inferences. Default: found by its name.",
    ),
    option("--force", is_flag=True, help="Replace an imported session."),
)  # fmt: skip


@click.command("import", params=[*OPTIONS])
@click.argument("files", nargs=-1, required=True, type=PATH)
def command(
    files: tuple[Path, ...],
    *,
    output: Path | None,
    model: str | None,
    warmup_time: int,
    interval: int,
    latency_column: str | None,
    time_column: str | None,
    force: bool,
) -> None:
    """Make a session from FILE, the results of another tool or the log of a board.

    \b
    trtexec                 --exportTimes, --exportProfile; its output
    onnxruntime_perf_test   its result file; its output
    benchmark_model         its output
    litert-benchmark        its output; --result_json
    ONNX Runtime            a profile
    tegrastats              a log, which has the sensors of the board
    docker stats, pidstat   samples of a program; /usr/bin/time -v: its totals
    a CSV                   latencies, one in a row
    \b
    Examples:
      trtexec --onnx=resnet50.onnx --separateProfileRun --exportTimes=times.json --exportProfile=layers.json
      edgetop import times.json layers.json --model resnet50.onnx -o resnet50-trt
      edgetop report resnet50-trt
      edgetop import bench.txt              output of benchmark_model
      edgetop import result.csv perf.txt    files of onnxruntime_perf_test
      edgetop import board.log              log of tegrastats
      edgetop import mine.csv --latency-column infer:us --time-column timestamp
    """
    from edgetop.imports.imported_session import Imported  # noqa: PLC0415
    from edgetop.imports.latency_table import Columns  # noqa: PLC0415
    from edgetop.imports.read import Options, read_all  # noqa: PLC0415  --help needs none of it
    from edgetop.paths import recordings_home  # noqa: PLC0415
    from edgetop.recording.session_folder import SUFFIX, session_folder  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    folder = session_folder(output or recordings_home() / files[0].stem).absolute()
    try:
        options = Options(warmup_time, interval, Columns(latency_column, time_column))
        imported = Imported(folder.name.removesuffix(SUFFIX), model, read_all(files, options))
        imported.record(folder, SystemClock().utc(), force=force)
    except MemoryError:
        named = ", ".join(map(str, files))
        raise InputError(f"{named}: not enough memory here to import it", "export a shorter run") from None
    print_text(f"wrote {folder}: {imported.summary}", err=True)
    for note in imported.measured.notes:
        print_text(f"note: {note}", err=True)
