"""`edgetop sweep`: measure every combination of models and settings, so that heat favours none of them."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
from click import IntRange

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import PATH, AsWritten, Value, given_names, needs, option, passed_on, raw_words, taken
from edgetop.cli.comparing import sweep_program
from edgetop.cli.comparing.sweep_options import SweepOptions
from edgetop.cli.running import demo, run
from edgetop.cli.running.generation_options import GENERATION_OPTIONS
from edgetop.errors import InputError
from edgetop.sweep_plan import FILE, GOALS, Plan, read_plan

EXAMPLES = """\b
Examples:
  edgetop sweep fp32.onnx int8.onnx --threads 1,2,4 --repeat 5
  edgetop sweep det.tflite --threads 2,4 --provider CPU,XNNPACK --duration 5m --detach
  edgetop sweep -f models.txt --batch 1,4 --goal throughput --max-temp 80C --dry-run
  edgetop sweep --resume ~/.local/state/edgetop/sweep-20261122-101502.sweep
  edgetop sweep --limit memory=512M --models a.tflite,b.tflite --threads 1,2 -- python3 app.py {model} {threads}
  edgetop sweep --limit cpus=1 --values lr=0.1,0.01 -- python3 train.py --rate {lr}
"""
DEFAULT_DURATION = "60s"

# Options of `run` that `sweep` defines itself, because they differ between runs or do not apply to each run.
_OWN = {"model", "threads", "providers", "batch", "rate", "cooldown_to", "output", "no_record", "note"} | {
    *("optimize", "execution_mode", "inter_op_threads")
}
_OF_RUN = passed_on(
    (
        *run.MODEL_OPTIONS, *GENERATION_OPTIONS, *run.RUN_OPTIONS, run.LIMIT_OPTION, *run.LOAD_OPTIONS,
        *run.COOLDOWN_OPTIONS, *run.POWER_OPTIONS, *run.RECORD_OPTIONS,
    ),
    without=_OWN,
)  # fmt: skip


# ParamType is generic in some versions of Click only.
def listed(what: click.ParamType) -> Callable[[str], tuple[Value, ...]]:  # type: ignore[type-arg]
    """Return a function that parses comma-separated values of the type `what` into a tuple.

    >>> listed(click.INT)("1,2,4")
    (1, 2, 4)
    """

    def parse(given: str) -> tuple[Value, ...]:
        return tuple(what.convert(part.strip(), None, None) for part in given.split(","))

    return parse


def provider_list(given: str) -> tuple[str, ...]:
    """Parse a list of providers. A provider with options must be given alone, because options contain commas.

    >>> provider_list("CPU,XNNPACK"), provider_list("CUDA:a=1,b=2")
    (('CPU', 'XNNPACK'), ('CUDA:a=1,b=2',))
    """
    parts = (given,) if ":" in given else tuple(part.strip() for part in given.split(","))
    for part in parts:
        text.with_options(part)
    return parts


OWN_OPTIONS = (
    option("-f", "--file", "--models-file", "models_file", type=PATH, metavar="FILE",
        help="File of further models, one per line; # begins a comment."),
    option("--models", "more_models", type=PATH, multiple=True, metavar="A,B", help="Further models. Repeatable."),
    option("--threads", type=listed(IntRange(0, 1024)), metavar="1,2,4",
        help="Thread counts to measure; 0 is the default of the runtime."),
    option(
        "--provider", "providers", type=provider_list, multiple=True, metavar="CPU,XNNPACK",
        shell_complete=completion.providers, help="Providers to measure. Repeatable.",
    ),
    option("--batch", type=listed(IntRange(1)), metavar="1,4", help="Batch sizes to measure."),
    option("--rate", type=listed(text.Rate()), metavar="10,30", help="Rates to measure, in Hz."),
    option("--optimize", type=listed(IntRange(0, 3)), metavar="0,3",
        help="ONNX Runtime: levels of graph optimisation to measure."),
    option("--execution-mode", type=listed(click.Choice(["sequential", "parallel"])), metavar="sequential,parallel",
        help="ONNX Runtime: execution modes to measure."),
    option("--inter-op-threads", type=listed(IntRange(0, 1024)), metavar="1,2",
        help="ONNX Runtime: numbers of operators that run at once, to measure."),
    option("--repeat", type=IntRange(1, 1000), default=3, show_default=True, help="Sessions per combination."),
    option(
        "--cooldown-to", type=text.celsius, metavar="45C",
        help="Cool the board to this temperature before each run. Default: 2 C above the start of the first run.",
    ),
    option("--goal", type=click.Choice([goal for goal in GOALS if goal != "run-energy"]),
        help="Goal by which a combination is recommended. Default: p99, or time for a program."),
    option("--max-temp", type=text.celsius, metavar="80C", help="Recommend no combination that gets hotter."),
    option("--max-rss", type=text.size, metavar="512M", help="Recommend no combination that needs more memory."),
    option("--labels", "classes", rules=[needs("keep_outputs", "resume")], **text.LABELS),
    option("--metric", rules=[needs("keep_outputs", "resume")], **text.METRIC),
    option("--scenario", type=demo.scenario, metavar="NAME", shell_complete=completion.scenarios,
           help="Run on the virtual board (edgetop help demo)."),
    option(
        "--speed", type=AsWritten(click.types.convert_type(demo.speed)), metavar="20x",
        help="Speed of the virtual board.", rules=[needs("scenario")],
    ),
    option("-o", "--output", type=PATH, metavar="PATH", help="Folder of the sweep; .sweep is appended."),
    option("--resume", type=PATH, metavar="FOLDER",
        help="Continue a sweep that was stopped or killed, or show its result."),
    option("--dry-run", is_flag=True, help="Show what would run, how often and for how long."),
    option("--detach", is_flag=True, help="Run in the background: edgetop attach shows the run, --resume the result."),
    option("--json", "as_json", is_flag=True, help="Print the result as one JSON document (edgetop help sweep)."),
    option("--csv", "csv_file", type=PATH, metavar="FILE", help="Also write the table as CSV."),
    option("--html", type=PATH, metavar="FILE", help="Write the comparison as one HTML page, which works offline."),
    option("--md", "md_file", **text.MARKDOWN),
    option("--force", is_flag=True, help="Replace existing files.", rules=[needs("csv_file", "html", "md_file")]),
)  # fmt: skip

_PROGRAM_OPTIONS = sweep_program.of_program(_OF_RUN)
_DIMENSIONS = {"models", "more_models", "models_file", "values", "threads", "providers", "batch", "rate"}
# Options that must be given again with --resume.
_ORDERS = (
    "delegates", "engine_python", "i2c", "providers", "container", "dockerfile", "setup", "container_args",
    "custom_ops", "session_options",
)  # fmt: skip
_BESIDE_RESUME = {
    *("resume", "as_json", "csv_file", "html", "md_file", "force", "detach", "dry_run"),
    *("goal", "max_temp", "max_rss", "deadline", "classes", "metric"),
}


# Names of options by the group in which `--help` lists them.
GROUPS = {
    "Combinations": (
        "models_file", "more_models", "threads", "providers", "batch", "rate", "optimize", "values", "repeat",
    ),
    "Runs": ("duration", "runs", "cooldown_to", "cooldown", "detach", "resume", "dry_run"),
    "Result": (
        "goal", "max_temp", "max_rss", "deadline", "output", "as_json", "html", "md_file", "csv_file", "force",
        "classes", "metric",
    ),
    "Program": ("stop_signal", "stop_timeout", "follow_children", "no_hook", "no_preload"),
    "Virtual board": ("scenario", "speed"),
    **run.GROUPS,
}  # fmt: skip


@click.command(
    "sweep", cls=sweep_program.SweepCommand, params=[*OWN_OPTIONS, *_OF_RUN, *sweep_program.OPTIONS], groups=GROUPS,
    epilog=EXAMPLES,
)  # fmt: skip
@click.argument("models", nargs=-1, type=PATH, metavar="[MODEL...] [-- COMMAND]")
@click.pass_context
def command(ctx: click.Context, /, **values: Value) -> int:
    """Measure every combination of MODELs and settings, each in its own session, and recommend one.

    The order is random within each repetition, and the board cools down before each run, so that neither heat
    nor drift affects the result. Ctrl+C stops the sweep. --resume continues a sweep that was stopped or killed,
    which loses at most one run. Other options are those of `edgetop run` and apply to each run.

    With COMMAND, each run is one of this program, as under `edgetop watch`. {model}, {threads}, {provider}, {batch},
    {rate} and the {NAME} of --values are replaced in its words.
    """
    from edgetop.cli.terminal import terminal_for  # noqa: PLC0415  --help needs none of it

    given = given_names(ctx)
    options, program = taken(SweepOptions, values), sweep_program.command_of(ctx)
    written = {str(param.name): _written(ctx, str(param.name)) for param in ctx.command.params}
    sweep_program.refuse_mixed(given, written, program)
    options = sweep_program.with_values(options)
    beside = {*_BESIDE_RESUME, *_ORDERS, *(_DIMENSIONS if program else ())}
    if options.resume and (wrong := [name for name in given if name not in beside]):
        raise InputError(f"--resume continues a plan, which {_written(ctx, wrong[0])} cannot change")
    if options.detach and (options.as_json or options.md_file == "-"):
        printed = "--json" if options.as_json else "--md -"
        raise InputError(
            f"{printed} and --detach contradict each other", f"edgetop sweep --resume FOLDER {printed} gives the result"
        )
    runs_here = not options.dry_run
    terminal = terminal_for(headless=False, detach=options.detach and runs_here, is_recorded=runs_here)
    from edgetop.cli.comparing.sweep_run import resume_sweep, start_sweep  # noqa: PLC0415  the launcher stays small

    if options.resume:
        folder = Path(os.path.abspath(options.resume))  # noqa: PTH100  links are kept
        params = (*_OF_RUN, *sweep_program.OPTIONS)
        orders = list(raw_words(params, [name for name in given if name in _ORDERS], ctx.params))
        return resume_sweep(folder, checked_plan(folder), options, given, orders, terminal, program)
    options = replace(options, goal=sweep_program.goal_of(options.goal, program))
    if program:
        sweep_program.refuse_unused(options, program)
        seed = int(ctx.params["seed"] or 0)
        return start_sweep(options, list(raw_words(_PROGRAM_OPTIONS, given, ctx.params)), terminal, program, seed)
    return start_sweep(options, _run_options(ctx, given), terminal)


def checked_plan(folder: Path) -> Plan:
    """Read the plan of the sweep in `folder`, and check it, because somebody else may have written it. Return the plan.

    The options in the plan are changed to one standard form. Raises InputError if there is no plan, or if it has an
    option that the runs of a sweep cannot have.
    """
    plan = read_plan(folder)
    own = [param for param in OWN_OPTIONS if param.name in ("scenario", "speed")]
    params: list[click.Parameter] = [*_OF_RUN, *own] if plan.program is None else [*_PROGRAM_OPTIONS]
    try:
        ctx = click.Command("sweep", params=params).make_context("sweep", list(plan.options))
    except (click.ClickException, InputError) as error:
        why = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise InputError(f"{folder / FILE}: is not the plan of a sweep: {why}") from None
    if plan.program is not None:
        return replace(plan, options=tuple(raw_words(_PROGRAM_OPTIONS, given_names(ctx), ctx.params)))
    return replace(plan, options=tuple(_run_options(ctx, given_names(ctx))))


def _written(ctx: click.Context, name: str) -> str:
    param = next(param for param in ctx.command.params if param.name == name)
    return max(param.opts, key=len) if isinstance(param, click.Option) else "MODEL"


def _run_options(ctx: click.Context, given: list[str]) -> list[str]:
    words = list(raw_words(_OF_RUN, given, ctx.params))
    if "duration" not in given and "runs" not in given:
        words.append(f"--duration={DEFAULT_DURATION}")
    if scenario := ctx.params["scenario"]:
        words.append(f"--scenario={scenario.name}")
        words += [f"--speed={ctx.params['speed']}"] if ctx.params["speed"] else []
    return words
