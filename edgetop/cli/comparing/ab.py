"""`edgetop ab`: run two models or settings in turns, and find out whether one is really faster."""

import contextlib
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click import BadParameter, IntRange

from edgetop.cli import options as text
from edgetop.cli.companions import PATH, Given, Value, needs, not_beside, option, raw_words, taken
from edgetop.cli.grouped_help import GroupedCommand
from edgetop.cli.running import run
from edgetop.errors import InputError
from edgetop.frozen import frozen

if TYPE_CHECKING:
    from edgetop.cli.running.run_request import Variant
    from edgetop.comparison.comparison_gates import RelativeGate

EXAMPLES = """\b
Examples:
  edgetop ab fp32.onnx int8.onnx
  edgetop ab model.onnx --a '--threads 2' --b '--threads 4' --until 0.5%
  edgetop ab old.tflite new.tflite --headless --max-duration 60s --json > result.json
  edgetop ab fp32.onnx int8.onnx --keep-outputs 64 --html ab.html
  edgetop ab fp32.onnx int8.onnx --soak 10m -o hot
  edgetop ab old.onnx new.onnx --fail-if 'p50>+3%' --fail-if 'energy>+5%'
"""

# Options of `run` that do not apply: both variants run back to back, in processes, until the difference is known.
_NOT_OF_AB = {
    *("model", "preset", "runs", "duration", "isolation", "profile_every", "idle_baseline", "require_full_delegation"),
    *(
        "rate",
        "arrivals",
        "streams",
        "parallel",
        "delay",
        "duty",
        "deadline",
        "gates",
        "junit",
        "fail_fast",
        "rotate",
        "pace_of",
    ),
}
# Options that may differ between the variants.
_OF_A_SIDE = {
    *("engine", "providers", "delegates", "no_xnnpack", "threads", "batch", "engine_python", "inputs", "shapes"),
    *(
        "gpu_layers",
        "context",
        "signature",
        "image_size",
        "image_layout",
        "image_mean",
        "image_scale",
        "seed",
        "engine_cpus",
    ),
    *("optimize", "session_options", "custom_ops", "inter_op_threads", "execution_mode", "no_arena"),
}
# Options about the turns.
_OF_TURNS = ("until", "max_duration", "turn")
# Options of `run` that are not passed on to the sessions of a soak.
_NOT_OF_EACH = {"output", "no_record", "as_json", "headless", "live", "detach", "refresh", "theme", "ascii_only"}
LEAST_DURATION_NS = 2_000_000_000

SideOptions = tuple[str, Given]


def side_options(given: str) -> SideOptions:
    """Parse the options for one of the two models. Return `(text, values by option name)`. Raises BadParameter.

    For example, `--threads 2` gives `("--threads 2", {"threads": 2})`.
    """
    parser = click.Command("", params=[p for p in run.command.params if p.name in _OF_A_SIDE], add_help_option=False)
    try:
        context = parser.make_context("", shlex.split(given))
    except (click.ClickException, InputError, ValueError) as error:
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise BadParameter(f"{given!r}: {said}") from None
    source = click.core.ParameterSource.COMMANDLINE
    return given, {name: v for name, v in context.params.items() if context.get_parameter_source(name) == source}


def share(given: str) -> float:
    """Parse a percentage from 0.01 % to 50 % into a share. Raises BadParameter.

    >>> share("5%")
    0.05
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", given.strip())
    value = float(match[1]) / 100 if match else 0.0
    if not 1e-4 <= value <= 0.5:
        raise BadParameter(f"{given!r}: write a share from 0.01% to 50%, as in 1%")
    return value


def ratio_gate(given: str) -> "RelativeGate":
    """Parse a limit on the change from A to B, such as `p50>+3%`. Raises BadParameter."""
    gate: RelativeGate = text.relative_gate(given)
    from edgetop.analysis.ab_figures import METRICS  # noqa: PLC0415  loaded for a gate alone
    from edgetop.comparison.comparison_gates import OUTPUTS  # noqa: PLC0415

    if not gate.is_of_outputs and (gate.name not in METRICS or not gate.is_percent):
        names = ", ".join((*METRICS, *OUTPUTS))
        raise BadParameter(f"{given!r}: write a change in % of {names}, as in 'p50>+3%'")
    return gate


def max_duration(given: str) -> int:
    ns = text.duration(given)
    if not LEAST_DURATION_NS <= ns <= 86_400 * 10**9:
        raise BadParameter(f"{given!r}: write a time from 2s to 24h")
    return ns


PARAMS = (
    click.Argument(["model"], type=PATH, metavar="A"),
    click.Argument(["other"], type=PATH, required=False, metavar="[B]"),
    option("--a", "a", type=side_options, metavar="'OPTIONS'", help="Options for A only: --a '--threads 2'."),
    option("--b", "b", type=side_options, metavar="'OPTIONS'", help="Options for B only."),
    option(
        "--until", type=share, default="1%", show_default=True, metavar="SHARE",
        help="Stop when the ratio of p50 is known to within this share on each side.",
    ),
    option(
        "--max-duration", "--duration", "max_duration", type=max_duration, default="5m", show_default=True,
        metavar="TIME", help="Stop after TIME at the latest.",
    ),
    option(
        "--turn", type=text.duration, metavar="TIME",
        help="Length of a turn. Default: the time of fifty inferences, from 125ms to 2s.",
    ),
    option("--order-seed", type=IntRange(0), default=0, show_default=True, help="Seed of the order of turns."),
    option(
        "--soak", type=text.duration, metavar="TIME", rules=[not_beside(*_OF_TURNS, "detach")],
        help="Compare when hot: run each variant alone for TIME, in separate sessions with a cool-down before each.",
    ),
    option(
        "--repeat", type=IntRange(5, 1000), default=5, show_default=True, rules=[needs("soak")],
        help="Number of sessions of each variant with --soak.",
    ),
    option(
        "--fail-if", "ratio_gates", type=ratio_gate, multiple=True, metavar="CHANGE",
        help="Exit with code 1 if the change from A to B is certainly greater: 'p50>+3%', 'top-1<-1%'. Repeatable.",
    ),
    option("--labels", "classes", rules=[needs("keep_outputs")], **text.LABELS),
    option("--metric", rules=[needs("keep_outputs")], **text.METRIC),
    option("--html", type=PATH, metavar="FILE", help="Write charts and text as one HTML page, which works offline."),
    option("--force", is_flag=True, rules=[needs("html")], help="Replace an existing page."),
    *(param for param in run.command.params if param.name not in _NOT_OF_AB),
)  # fmt: skip


_RAW = "edgetop.raw"  # key in the meta dictionary of the Click context


# Names of options by the group in which `--help` lists them.
GROUPS = {
    "Comparison": (
        "a", "b", "until", "max_duration", "turn", "soak", "repeat", "ratio_gates", "classes", "metric", "html",
        "force", "order_seed",
    ),
    **run.GROUPS,
}  # fmt: skip


class Command(GroupedCommand):
    """The click command of `edgetop ab`.

    The command also keeps its options as text, because it passes these texts on to the sessions of `--soak`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with contextlib.suppress(click.UsageError):  # raised again below
            ctx.meta[_RAW] = self.make_parser(ctx).parse_args(args=list(args))[0]
        return super().parse_args(ctx, args)


@frozen
class AbOptions:
    """The parsed options of `edgetop ab` that `edgetop run` lacks, without `--a`, `--b` and `--fail-if`."""

    until: float  # share
    max_duration: int  # ns
    turn: int | None  # ns
    order_seed: int
    soak: int | None  # ns
    repeat: int
    classes: Path | None
    metric: str | None
    html: Path | None
    force: bool


@click.command("ab", cls=Command, params=list(PARAMS), groups=GROUPS, epilog=EXAMPLES)
def command(**given: Value) -> int:
    """Run two models, A and B, in short turns, and find out whether one is faster.

    Turns make heat, clocks and other processes affect both models alike. Both models are loaded, and one runs at a
    time. The run ends when the difference is known as precisely as --until asks. The session is recorded, and can be
    replayed and reported like any other.
    """
    judge, page = None, None
    variants = _variants(given)
    options = taken(AbOptions, given)
    if options.classes or options.metric:
        from edgetop.cli.printing.output_agreement_words import judge_of  # noqa: PLC0415  where it is asked for

        judge = judge_of(options.classes, options.metric)
    if options.html:
        from edgetop.cli.printing.page import refuse_html  # noqa: PLC0415

        page = refuse_html(options.html, force=options.force)
    from edgetop.cli.running import run_request as asked  # noqa: PLC0415  --help needs none of it

    request = asked.RunRequest(
        subject=asked.VariantsSubject(variants, options.until, options.turn, options.order_seed),
        phases=replace(asked.Phases.of(given), duration_ns=options.max_duration),
        load=asked.LoadRequest(),
        board=asked.BoardRequest.of(given),
        judging=asked.Judging.of(given, judge),
        keeping=asked.Keeping.of(given),
        metrics=asked.MetricsRequest.of(given),
        showing=asked.Showing.of(given, page),
    )
    if options.soak:
        from edgetop.cli.comparing.ab_soak import soak  # noqa: PLC0415

        names = {param.name for param in run.command.params if param.name} - _NOT_OF_EACH - _NOT_OF_AB
        raw = click.get_current_context().meta[_RAW]
        written = list(raw_words(run.command.params, names, raw))
        return soak(request, written, options.soak, options.repeat)
    return run.run_model(request)


def _variants(given: Given) -> "tuple[Variant, Variant]":
    """Return the variants A and B: each model with the common options and with its own options.

    `given` holds the parsed options by name. Raises InputError if there is neither a second model nor an
    option for one variant.
    """
    from edgetop.cli.running.run_request import ModelChoice, Variant  # noqa: PLC0415  --help needs none of it

    model, other = given["model"], given["other"]
    first: SideOptions = given["a"] or ("", {})
    second: SideOptions = given["b"] or ("", {})
    if other is None and not (first[0] or second[0]):
        raise InputError(f"ab {model}: there is nothing to compare it with", "add a second model, or --b '--threads 4'")
    paths = (model, model if other is None else other)
    one, two = (
        Variant(ModelChoice.of({**given, **own, "model": path}), written)
        for path, (written, own) in zip(paths, (first, second), strict=True)
    )
    return one, two
