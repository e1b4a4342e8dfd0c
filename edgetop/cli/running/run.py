"""`edgetop run`: run a model and watch it."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click import IntRange

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli import screen_options as screen
from edgetop.cli.companions import PATH, Given, Value, needs, not_beside, option
from edgetop.cli.grouped_help import GroupedCommand
from edgetop.cli.running.exporters import METRICS_OPTIONS
from edgetop.cli.running.generation_options import GENERATION_OPTIONS
from edgetop.cli.running.session_options import SESSION_OPTIONS
from edgetop.engines.child.adapters import names_text
from edgetop.sensors.log_formats import FORMATS

if TYPE_CHECKING:
    from edgetop.cli.running.run_request import DemoSubject, ModelSubject, RunRequest

EXAMPLES = """\b
Examples:
  edgetop run mobilenet.onnx --threads 4
  edgetop run detector.tflite --duration 2h -o soak-42 --label enclosure=closed
  edgetop run detector.onnx --rate 30 --deadline 33ms --fail-if 'misses>0.1%'
  edgetop run model.onnx --headless --duration 60s --json > result.json
  edgetop run model.onnx --duration 48h --detach
"""


SHAPE = option(
    "--shape", "shapes", type=text.named_shape, multiple=True, metavar="NAME:DIMS",
    help="Fill the unknown dimensions of an input: image:1,3,224,224. Repeatable.",
)  # fmt: skip
BATCH = option(
    "--batch",
    type=IntRange(1),
    metavar="N",
    help="Batch size: the first dimension of every input; of a language model, most prompt tokens processed at once.",
)
A_PROCESS = needs("isolation", holds=lambda given: given != "thread", message="{} needs --isolation process")
MODEL_OPTIONS = (
    *SESSION_OPTIONS,
    option(
        "--engine", metavar="NAME", shell_complete=completion.engines,
        help=f"Runtime: {names_text()}. Default: chosen by the file's content.",
    ),
    option(
        "--provider", "providers", type=text.with_options, multiple=True, metavar="NAME[:K=V,...]",
        shell_complete=completion.providers,
        help="ONNX Runtime provider (CUDA, TensorRT:trt_fp16_enable=1) or provider of a TFLite runtime (XNNPACK, CPU, "
        "and LiteRT's GPU and NPU). Repeatable, in order of preference.",
    ),
    option(
        "--delegate", "delegates", type=text.with_options, multiple=True, metavar="PATH[:K=V,...]",
        help="TFLite delegate library with its options. Repeatable.",
    ),
    option("--no-xnnpack", is_flag=True, help="Run TFLite models without XNNPACK, the runtimes' default delegate."),
    option(
        "--threads", type=IntRange(0, 1024), default=0, show_default=True,
        help="Number of threads of the runtime; 0 for its default.",
    ),
    BATCH,
    option(
        "--engine-python", type=PATH, metavar="PATH",
        help="Python interpreter that runs the engine, such as JetPack's or one with an older runtime.",
        rules=[A_PROCESS],
    ),
    option(
        "--input", "inputs", type=text.named_source, multiple=True, metavar="[NAME=]SOURCE",
        help="Input data: random (default), random:N (N arrays in turn), zeros, numbers (sr=16000, "
        "scales=0.667,1,0.8), text:N, a .npy, .npz, .pb, .jpg or .png file, or a folder of such files to cycle "
        "through, such as test_data_set_0. Repeatable.",
    ),
    SHAPE,
    option(
        "--image-size", type=text.image_size, metavar="WxH",
        help="Size to which pictures are scaled, for an input without one of its own: 320x240.",
    ),
    option(
        "--image-layout", type=click.Choice(["nchw", "nhwc"]), help="Order of the axes of pictures. Default: by shape.",
    ),
    option(
        "--image-mean", type=text.numbers, metavar="R,G,B",
        help="Subtract from the pixels (0 to 255) of pictures. Default: 0.",
    ),
    option(
        "--image-scale", type=text.numbers, metavar="S|R,G,B",
        help="Then multiply by this. Default: 1/255; 1 for integers that are not quantised.",
    ),
    option(
        "--signature", metavar="NAME",
        help="Signature of a TFLite model to run, if it has several. Default: its first graph.",
    ),
    option(
        "--seed", type=IntRange(0, 2**32 - 1), default=0, show_default=True,
        help="Seed of random inputs and arrivals.",
    ),
    option(
        "--require-full-delegation", is_flag=True,
        help="Exit with code 2 if an operator does not run on the requested provider or delegate.",
    ),
)  # fmt: skip

RUN_OPTIONS = (
    option("--duration", type=text.duration, metavar="TIME", help="Stop after measuring for TIME: 500ms, 10s, 5m, 2h."),
    option("--runs", type=IntRange(1), metavar="N", help="Stop after N measured inferences."),
    option(
        "--warmup-runs", type=text.warmup_runs, default="auto", metavar="N|steady",
        help="Number of warm-up inferences, or steady: warm up until latency no longer drifts, for at most a minute. "
        "Default: 50; 1 for a language model.",
    ),
    option(
        "--warmup-time", type=text.duration_or_zero, default="0s", metavar="TIME", help="Warm up for at least TIME."
    ),
    option(
        "--idle-baseline", type=text.duration_or_zero, default="0", metavar="TIME",
        help="Measure idle power for TIME before the warm-up, so that net energy can be computed: 30s.",
    ),
    option(
        "--isolation", type=click.Choice(["process", "thread"]), default="process", show_default=True,
        help="Run inference in its own process or in a thread. A thread shares the process and the GIL of the monitor.",
    ),
    option(
        "--profile-every", type=text.duration_or_zero, default="10s", show_default=True, metavar="TIME",
        help="Profile operators every TIME; 0 for never. Takes at most 1 % of the time, in which nothing is measured.",
    ),
    option(
        "--engine-cpus", type=text.cpus, metavar="CPUS", help="Pin the engine to CPUS: 2-3.",
        rules=[A_PROCESS],
    ),
    option("--monitor-cpus", type=text.cpus, metavar="CPUS", help="Pin edgetop itself to CPUS."),
    option("--sysroot", type=PATH, metavar="DIR", help="Read the board's sensors from a captured file tree."),
)  # fmt: skip

LIMIT_OPTION = option(
    "--limit", "limits", type=text.limit, multiple=True, metavar="WHAT",
    help="Limit the engine: cpus=2, memory=512M, quota=150%[,period=10ms], io=10M/s (edgetop help limits). Repeatable.",
    rules=[A_PROCESS],
)  # fmt: skip
COOLDOWN_OPTIONS = (
    option(
        "--cooldown", type=text.duration_or_zero, default="0", metavar="TIME",
        help="Before loading the model, rest for TIME: 30s. Works without a temperature sensor too.",
    ),
    option(
        "--cooldown-to", type=text.celsius, metavar="45C",
        help="Before loading the model, wait until the hottest zone of the board has cooled to this temperature.",
    ),
    option(
        "--cooldown-max", type=text.duration, default="10m", show_default=True, metavar="TIME",
        help="Longest wait of --cooldown-to.",
    ),
)  # fmt: skip

LOAD_OPTIONS = (
    option(
        "--rate", type=text.Rate(), metavar="HZ",
        help="Start inferences at this rate in each stream, however long they take. Default: back to back.",
    ),
    option(
        "--arrivals", type=click.Choice(["fixed", "poisson"]),
        rules=[needs("rate", advice="a load without a rate has no arrivals")],
        help="With --rate: start inferences at fixed intervals (default), or at random ones drawn from --seed.",
    ),
    option(
        "--pace-of", "pace_of", metavar="SESSION", shell_complete=completion.sessions,
        rules=[not_beside("rate", "arrivals", "streams", "delay", "duty")],
        help="Start inferences at the times of a recorded session, in a loop (edgetop help gap).",
    ),
    option("--streams", type=IntRange(1, 64), default=1, show_default=True, help="Number of concurrent inferences."),
    option(
        "--delay", type=text.duration, metavar="TIME", help="Without --rate: pause for TIME after each inference.",
        rules=[not_beside("rate", advice="a rate says when each starts, a delay how long after")],
    ),
    option("--duty", type=text.duty_cycle, metavar="ON:OFF", help="Alternate between work and rest: 2s:8s."),
    option(
        "--deadline", type=text.duration, metavar="TIME",
        help="Count inferences that take longer than TIME, and show how close p99 is to it.",
    ),
)  # fmt: skip

A_GATE = needs("gates", message="{} needs a gate", advice="give one with --fail-if (edgetop help gates)")
GATE_OPTIONS = (
    option(
        "--fail-if", "gates", type=text.gate, multiple=True, metavar="GATE",
        help="Exit with code 1 if this holds at the end: 'p99>33ms', throttled (edgetop help gates). Repeatable.",
    ),
    option(
        "--junit", type=PATH, metavar="FILE", help="Write the results of the gates as a JUnit file, for CI systems.",
        rules=[A_GATE],
    ),
    option(
        "--fail-fast", is_flag=True, help="Stop as soon as a gate is certain to fail.", rules=[A_GATE]
    ),
)  # fmt: skip

ALERT_OPTIONS = (
    screen.ALERT,
    screen.NOTIFY,
    option(
        "--on-event", "hooks", type=text.event_hook, multiple=True, metavar="EVENT=COMMAND",
        shell_complete=completion.events,
        help="Run COMMAND at each EVENT, which it reads as JSON: throttled='logger -t edgetop'. Repeatable.",
    ),
)  # fmt: skip

A_POWER_LOG = needs("power_log", message="{} needs --power-log FILE")
POWER_OPTIONS = (
    option(
        "--i2c", type=text.i2c_spec, multiple=True, metavar="BUS:ADDR:CHIP:SHUNT[:NAME]",
        help="Read an INA219, 226, 228, 260 or 3221 on an I2C bus: 1:0x40:ina226:0.002:5V-IN. Repeatable.",
    ),
    option(
        "--hz", type=text.FiniteRange(0.01, 1000),
        help="Average rate at which power is read, at most the update rate of the sensor. Default: set by each sensor.",
    ),
    option(
        "--sample-time", type=text.sample_time, metavar="TIME",
        help="Interval of readings of the CPU, memory and traffic of the engine or program, 100ms to 1m. Default: 1s.",
    ),
    option(
        "--battery", type=text.battery, metavar="3.7V,1000mAh[,RATE][,+EXTRA mW]",
        help="Estimate how long this battery lasts at the measured rate or at RATE. EXTRA: power of other consumers.",
    ),
    option(
        "--power-log", type=PATH, metavar="FILE",
        help="Read power from the log that an instrument writes during the run (edgetop help power).",
    ),
    option(
        "--power-log-format", type=click.Choice(FORMATS), help="Format of the power log.", rules=[A_POWER_LOG]
    ),
    option(
        "--power-volts", type=text.volts, metavar="5V", help="Supply voltage, for a log that holds current only.",
        rules=[A_POWER_LOG],
    ),
    option(
        "--power-log-offset", type=text.offset_seconds, default="0s", show_default=True, metavar="TIME",
        help="Session time at which the time of the log is 0; negative if the log began before the session.",
        rules=[A_POWER_LOG],
    ),
    option(
        "--power-log-interval", type=text.duration, metavar="TIME",
        help="Interval of tegrastats, if its lines have no time (JetPack 4). Default: 1s.",
        rules=[A_POWER_LOG],
    ),
)  # fmt: skip

KEPT = not_beside("no_record", advice="it says how to record")
NOTHING_KEPT = not_beside("output", advice="it says where to record")
RECORD_OPTIONS = (
    option("-o", "--output", type=PATH, metavar="PATH", help="Folder of the recording; .edgetop is appended."),
    option("--no-record", is_flag=True, help="Do not record the session.", rules=[NOTHING_KEPT]),
    option(
        "--no-raw", is_flag=True, help="Record per-second statistics, readings and events, but not every inference.",
        rules=[KEPT],
    ),
    option(
        "--max-size", type=text.recording_size, metavar="SIZE",
        help="Drop the oldest single inferences when the recording exceeds SIZE; everything else stays: 512M, 1G.",
        rules=[KEPT],
    ),
    option(
        "--fsync-interval", type=text.duration, default="5s", show_default=True, metavar="TIME",
        help="Write to disk at least this often: the most that a loss of power may cost. Each write wears an SD card.",
        rules=[KEPT],
    ),
    option(
        "--keep-outputs", type=IntRange(1, 100_000), metavar="N",
        help="Keep the outputs of N inferences before the warm-up, so that edgetop compare can check their agreement.",
        rules=[KEPT],
    ),
    option("--label", "labels", type=text.label, multiple=True, metavar="KEY=VALUE", help="Label of the recording."),
    option("--note", "notes", multiple=True, metavar="TEXT", help="Add a note about the set-up to the recording."),
    option(
        "--ambient", type=text.ambient, metavar="35C|SENSOR",
        help="Room temperature to note in the recording, or the sensor that measures it: ambient/bme280.",
    ),
    option("--enclosure", metavar="TEXT", help="Enclosure of the board, to be noted in the recording."),
)  # fmt: skip

KEEPING_OPTIONS = (
    option(
        "--rotate", type=text.duration, metavar="TIME",
        help="Begin a new session every TIME while the engine keeps running: 24h (edgetop help service).",
        rules=[KEPT, not_beside("gates", advice="a gate judges one session; --alert and --on-event work in each")],
    ),
    option(
        "--sessions-quota", type=text.recording_size, metavar="SIZE",
        help="Remove other sessions in this folder when all exceed SIZE, pushed ones first, then the oldest: 2G.",
        rules=[KEPT],
    ),
)  # fmt: skip

SCREEN_OPTIONS = (
    option("--headless", is_flag=True, help="Run without a screen: progress on stderr, the result on stdout."),
    screen.LIVE,
    option(
        "--detach", is_flag=True, help="Return once the run has begun. edgetop attach shows it, edgetop stop ends it.",
        rules=[not_beside("no_record", advice="edgetop attach needs a recording")],
    ),
    option(
        "--json", "as_json", is_flag=True, help="Print the result as one JSON document (edgetop help report).",
        rules=[not_beside("detach", advice="edgetop report SESSION --json gives the result")],
    ),
    screen.REFRESH,
    screen.THEME,
    screen.ASCII,
    screen.CONFIG,
)  # fmt: skip


PRESET = option(
    "--preset", metavar="NAME", shell_complete=completion.presets,
    help="Options from the section [preset.NAME] of edgetop.toml; options of the command line win.",
)  # fmt: skip

# Names of options by the group in which `edgetop run --help` lists them. The other options are used rarely.
GROUPS = {
    "Load": (
        "duration", "runs", "rate", "streams", "deadline", "warmup_runs", "arrivals", "delay", "duty", "preset",
    ),
    "Model": (
        "engine", "providers", "delegates", "threads", "batch", "inputs", "shapes", "engine_python", "prompt",
        "prompt_tokens", "max_tokens", "optimize", "session_options", "custom_ops",
    ),
    "Recording": ("output", "no_record", "no_raw", "max_size", "labels", "notes", "keep_outputs"),
    "Board": ("i2c", "power_log", "battery", "idle_baseline", "ambient", "enclosure", "cooldown", "cooldown_to"),
    "Limits": ("limits", "engine_cpus", "monitor_cpus", "isolation"),
    "Gates": ("gates", "fail_fast", "junit", "alerts", "hooks"),
    "Screen": ("headless", "detach", "as_json", "live", "refresh", "theme", "ascii_only", "notify"),
}  # fmt: skip

OPTIONS = (
    PRESET, *MODEL_OPTIONS, *GENERATION_OPTIONS, *RUN_OPTIONS, LIMIT_OPTION, *COOLDOWN_OPTIONS, *LOAD_OPTIONS,
    *GATE_OPTIONS, *ALERT_OPTIONS, *POWER_OPTIONS, *METRICS_OPTIONS, *RECORD_OPTIONS, *KEEPING_OPTIONS, *SCREEN_OPTIONS,
)  # fmt: skip


class RunCommand(GroupedCommand):
    """A click command that replaces `--preset NAME` by the options of that preset."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given: dict[str, Value] = {}
        if any(arg.startswith("--preset") for arg in args):
            with contextlib.suppress(click.UsageError):  # raised again below
                given = self.make_parser(ctx).parse_args(args=list(args))[0]
        if name := given.get("preset"):
            from edgetop.cli.running.presets import preset_words  # noqa: PLC0415  where it is asked for

            config = given.get("config_file")
            args = [*preset_words(name, self, ctx, Path(config) if config else None), *args]
        return super().parse_args(ctx, args)


@click.command("run", cls=RunCommand, params=[*OPTIONS], groups=GROUPS, epilog=EXAMPLES)
@click.argument("model", required=False, type=PATH)
def command(**options: Value) -> int:
    """Run MODEL, an ONNX, TFLite or GGUF file, and watch it. Without MODEL, run the built-in demo model.

    Press ? on the screen for its keys. The session is recorded while it runs;
    `edgetop report` prints its results again. Press `d` twice to leave it running in the
    background; it also continues if the terminal hangs up. `edgetop attach` shows it again.
    """
    return run_model(model_request(options))


def model_request(options: Given) -> "RunRequest":
    """Return the request to run a model, made from the command-line options of `edgetop run`.

    Raises InputError for options that cannot be used together.
    """
    from edgetop.cli.running.run_request import ModelChoice, ModelSubject  # noqa: PLC0415  --help needs none of it

    return request_of(options, ModelSubject(ModelChoice.of(options), options["isolation"]))


def request_of(given: Given, subject: "ModelSubject | DemoSubject", **noted: Value) -> "RunRequest":
    """Return the request for a session, made from the command-line options of `run` or `demo`.

    `given` holds the parsed options by name. `subject` is the model to run. `noted` holds fields of the request's
    `Keeping` part, such as `labels`. These fields replace the values of the options.
    """
    from edgetop.cli.running import run_request as asked  # noqa: PLC0415  --help needs none of it

    return asked.RunRequest(
        subject=subject,
        phases=asked.Phases.of(given),
        load=asked.LoadRequest.of(given),
        board=asked.BoardRequest.of(given),
        judging=asked.Judging.of(given),
        keeping=replace(asked.Keeping.of(given), **noted),
        metrics=asked.MetricsRequest.of(given),
        showing=asked.Showing.of(given),
    )


def run_model(request: "RunRequest") -> int:
    """Run the requested session to its end. Return the exit code of the command."""
    from edgetop.cli.terminal import terminal_for  # noqa: PLC0415  --help needs none of it

    showing = request.showing
    is_recorded = request.keeping.is_recorded
    terminal = terminal_for(headless=showing.headless, detach=showing.detach, is_recorded=is_recorded)
    child = None
    with contextlib.ExitStack() as stack:
        if _may_start_early(request):
            from edgetop.engines.spawn import Child  # noqa: PLC0415  --help needs none of it

            child = Child()
            stack.callback(child.discard)
        from edgetop.cli.running.run_session import run_session  # noqa: PLC0415  only now: the process that waits for the run stays small

        return run_session(request, terminal, child).exit_code()


def _may_start_early(request: "RunRequest") -> bool:
    """Whether the engine's process can be started before the session is prepared.

    True if there is one engine in its own process, and no option changes how that process runs.
    """
    from edgetop.cli.running.run_request import DemoSubject, ModelSubject  # noqa: PLC0415  --help needs none of it

    match request.subject:
        case ModelSubject(model, "process") | DemoSubject(model):
            return not (model.limit.is_any or model.cpus or request.board.monitor_cpus or model.python)
    return False
