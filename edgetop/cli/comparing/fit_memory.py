"""`edgetop fit-memory`: find the least memory with which a model runs as well as with no limit."""

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import click

from edgetop.cli import options as text
from edgetop.cli.companions import PATH, Value, given_names, option, passed_on, raw_words
from edgetop.cli.running import run
from edgetop.cli.running.child_run import ChildRun
from edgetop.cli.scratch_folder import scratch_folder
from edgetop.cli.shell_words import path_word
from edgetop.errors import EXIT_DONE, EXIT_ENGINE_DIED, EngineDiedError, InputError
from edgetop.formatting import or_unknown, plain
from edgetop.frozen import frozen

MIB = 2**20
DURATION = "5s"
FAULTS_HZ = 2.0  # major page faults per second; fewer have other causes than the limit
PATIENCE_S = 30.0  # time for an interrupted trial to end; nothing of it is kept

# Options of `run` that are passed on to each trial.
_OF_RUN = passed_on(
    (*run.MODEL_OPTIONS, *run.RUN_OPTIONS, run.LIMIT_OPTION, *run.LOAD_OPTIONS),
    without={"isolation", "monitor_cpus", "sysroot", "idle_baseline"},
)
OPTIONS = (
    option(
        "--tolerance", type=text.FiniteRange(0.1, 1000), default=10.0, show_default=True, metavar="PERCENT",
        help="How much higher p50 may be than without a limit.",
    ),
    option(
        "--resolution", type=text.size, default="4M", show_default=True, metavar="SIZE",
        help="Precision of the result.",
    ),
    option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help limits)."),
)  # fmt: skip


@frozen
class Trial:
    limit_bytes: int | None  # None: without a limit
    ok: bool = True
    reason: str = ""  # why it did not run well
    p50_ms: float | None = None
    p99_ms: float | None = None
    rss_peak_mib: float | None = None
    major_faults_hz: float | None = None
    limit_hits_hz: float | None = None

    @property
    def row(self) -> str:
        limit = "none" if self.limit_bytes is None else f"{self.limit_bytes / MIB:.0f} MiB"
        figures = (self.p50_ms, self.p99_ms, self.rss_peak_mib, self.major_faults_hz, self.limit_hits_hz)
        cells = (f"{or_unknown(value, plain):>9}" for value in figures)
        return f"{limit:>9}{''.join(cells)}  {'ok' if self.ok else self.reason}"


HEADS = f"{'memory':>9}{'p50 ms':>9}{'p99 ms':>9}{'RSS MiB':>9}{'faults/s':>9}{'hits/s':>9}  result"


@click.command("fit-memory", params=[*OPTIONS, *_OF_RUN])
@click.argument("model", type=PATH)
@click.pass_context
def command(ctx: click.Context, /, model: Path, *, tolerance: float, resolution: int, as_json: bool, **_: Value) -> int:
    """Find the least memory with which MODEL runs before it slows down, faults or dies.

    The model runs without a limit, and then with limits that a binary search chooses. Other options are those of
    `edgetop run` and apply to each trial; --duration is 5s by default.

    \b
    Examples:
      edgetop fit-memory model.onnx
      edgetop fit-memory detector.tflite --threads 2 --duration 20s --resolution 1M --json
    """
    from edgetop.cli.output import print_json, print_text  # noqa: PLC0415  --help needs none of it
    from edgetop.runner.cgroup_limits import enclosed  # noqa: PLC0415
    from edgetop.runner.engine_limit import Limit  # noqa: PLC0415

    given = given_names(ctx)
    words = list(raw_words(_OF_RUN, given, ctx.params))
    if "duration" not in given and "runs" not in given:
        words.append(f"--duration={DURATION}")
    with enclosed(Limit(memory_bytes=2**30)):  # raises an error before anything runs if limits are impossible here
        pass
    report = partial(print_text, err=as_json)
    report(HEADS)
    trials = Trials(partial(_trial, model, words), tolerance, report)
    whole = trials.whole
    least = least_that(trials.run_well, round((whole.rss_peak_mib or 64.0) * MIB), max(resolution, MIB))
    if as_json:
        document = {"model": str(model), "least_bytes": least, "reference": asdict(whole)}
        print_json({**document, "trials": [asdict(trial) for trial in trials.limited]})
    else:
        print_text(_words(model, least, resolution, whole))
    return EXIT_DONE if least is not None else EXIT_ENGINE_DIED


class Trials:
    """Runs a model under several memory limits. Compares each run with the first run, which has no limit."""

    def __init__(self, run: Callable[[int | None], Trial], tolerance: float, report: Callable[[str], None]) -> None:
        """Run the model without a limit. Raises EngineDiedError if that fails.

        `run(limit_bytes)` runs the model once; None means no limit. `tolerance` is the allowed increase of p50 in
        percent. `report` prints a line.
        """
        self._run, self._tolerance, self._report = run, tolerance, report
        self.whole = run(None)
        if not self.whole.ok:
            raise EngineDiedError(f"without a limit: {self.whole.reason}")
        report(self.whole.row)
        self.limited: list[Trial] = []

    def run_well(self, limit_bytes: int) -> bool:
        """Whether the model runs well with at most `limit_bytes` of memory.

        If only p50 is too high, the model runs once more, because that may be chance.
        """
        first = self._try(limit_bytes)
        return first.ok or (first.reason.startswith("p50") and self._try(limit_bytes).ok)

    def _try(self, limit_bytes: int) -> Trial:
        trial = judged(self._run(limit_bytes), self.whole, self._tolerance)
        self.limited.append(trial)
        self._report(trial.row)
        return trial


def least_that(runs_well: Callable[[int], bool], likely: int, resolution: int) -> int | None:
    """Return the least multiple of `resolution` with which `runs_well` is true.

    The binary search begins at `likely`. Return None if even 8 x `likely` is too little. All sizes are in bytes.

    >>> least_that(lambda size: size >= 70, likely=50, resolution=10)
    70
    """
    low, high = 0, -(-likely // resolution)
    while not runs_well(high * resolution):
        if high * resolution > 8 * likely:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if runs_well(middle * resolution) else (middle, high)
    return high * resolution


def judged(trial: Trial, whole: Trial, tolerance: float) -> Trial:
    """Return the trial, marked as failed if it ran worse than `whole`, the trial without a limit.

    `tolerance` is the allowed increase of p50 in percent. Too many major page faults count as worse as well.
    """
    if not trial.ok:
        return trial
    faults, usual = trial.major_faults_hz or 0.0, whole.major_faults_hz or 0.0
    if faults > FAULTS_HZ + 2 * usual:
        return replace(trial, ok=False, reason=f"{faults:.0f} major page faults a second")
    if trial.limit_hits_hz == 0:
        return trial  # the limit was never reached, so a higher p50 is due to other processes
    if trial.p50_ms and whole.p50_ms and trial.p50_ms > whole.p50_ms * (1 + tolerance / 100):
        return replace(trial, ok=False, reason=f"p50 is {(trial.p50_ms / whole.p50_ms - 1) * 100:.0f} % higher")
    return trial


def _trial(model: Path, words: list[str], limit_bytes: int | None) -> Trial:
    """Run the model once with at most `limit_bytes` of memory (None: no limit), and return its figures.

    `words` are options for `edgetop run`. Raises InputError if the run fails for another reason than memory.
    """
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415
    from edgetop.recording.reader import Recording  # noqa: PLC0415

    limit = [] if limit_bytes is None else [f"--limit=memory={limit_bytes}"]
    with scratch_folder("fit") as folder:
        session = folder / "trial.edgetop"
        child = ChildRun(["run", os.path.abspath(model), *words, *limit, "-o", str(session)], folder)  # noqa: PTH100
        outcome = child.run(lambda: None, PATIENCE_S)
        if outcome.code == EXIT_ENGINE_DIED:
            why = outcome.reason.removeprefix("the engine died: ").partition(" (")[0]
            return Trial(limit_bytes, ok=False, reason=why)
        if not outcome.is_complete or outcome.report is None:
            raise InputError(outcome.reason or f"the run ended: {outcome.end_reason}")
        with Recording(session) as recording:
            latency, tracks = outcome.report["latency"], Analysis.of(recording.play()).tracks
        rates = {track.info.id: track.mean for track in tracks.views("rate")}
        return Trial(
            limit_bytes,
            p50_ms=latency["p50_ms"],
            p99_ms=latency["p99_ms"],
            rss_peak_mib=outcome.report["memory"]["rss_peak_mib"],
            major_faults_hz=rates.get("rate/major-faults"),
            limit_hits_hz=rates.get("rate/memory-limit-hits"),
        )


def _words(model: Path, least: int | None, resolution: int, whole: Trial) -> str:
    if least is None:
        return "no limit was found with which it runs as well: other processes may load this machine (edgetop doctor)"
    return (
        f"least memory: {least / MIB:.0f} MiB, to {resolution / MIB:g} MiB\n"
        f"  without a limit {whole.rss_peak_mib or 0:.0f} MiB are resident at most, including libraries and files\n"
        "  that other processes have already read (edgetop help limits)\n"
        f"  edgetop run {path_word(model)} --limit memory={least // MIB}M"
    )
