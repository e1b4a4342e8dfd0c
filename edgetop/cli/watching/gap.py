"""`edgetop gap`: explain why an application is slower than a loop over the same model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli.running.recorded_arrivals import read_evidence
from edgetop.cli.scratch_folder import scratch_folder
from edgetop.errors import EXIT_DONE, InputError

if TYPE_CHECKING:
    from edgetop.comparison.gap_evidence import Gap

LOOP = "20s"


@click.command("gap")
@click.argument("app", metavar="APP", shell_complete=completion.sessions)
@click.argument("loop", metavar="LOOP", shell_complete=completion.sessions)
@click.argument("paced", metavar="[PACED]", required=False, shell_complete=completion.sessions)
@click.option(
    "--stream", type=click.IntRange(0), metavar="N", help="Stream of APP. Default: the one that runs LOOP's model."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help gap).")
def command(app: str, loop: str, paced: str | None, stream: int | None, *, as_json: bool) -> int:
    """Explain why the application of session APP is slower than LOOP, a session that ran the same model back to back.

    PACED is a session of the model with the start times of the application. It separates pacing from other causes.

    \b
    Examples:
      edgetop watch -o app -- python3 app.py
      edgetop run model.onnx --duration 20s -o loop
      edgetop gap app loop
      edgetop run model.onnx --pace-of app -o paced
      edgetop gap app loop paced
    """
    print_gap(app, loop, paced, stream, as_json=as_json)
    return EXIT_DONE


def explain(app: str, loop: str, paced: str | None, stream: int | None, problems: list[str]) -> "Gap":
    """Return the causes of the difference in latency between two sessions.

    `app` is the session of an application. In `loop`, the same model ran without pauses. In `paced`, it ran with the
    start times of the application; None if there is no such session. These three are names or paths. `stream` is the
    number of the model in `app`, from 0; None for the model of `loop`. A line about each unreadable part is appended to
    `problems`. Raises InputError if the sessions cannot be compared.
    """
    from edgetop.cli.output import raise_problems  # noqa: PLC0415
    from edgetop.comparison.application_gap import gap  # noqa: PLC0415

    ours, theirs = read_evidence(app, problems), read_evidence(loop, problems)
    try:
        return gap(ours, theirs, read_evidence(paced, problems) if paced else None, stream)
    except ValueError as error:
        raise_problems(problems, "what is left cannot be compared")
        raise InputError(str(error), "edgetop gap APP LOOP needs two sessions of one model") from None


def loop_after(app: Path, model: Path) -> None:
    """Run `model` in a loop for 20 s, with as many threads as the application used.

    Then print why the application is slower than this loop. `app` is the folder of the application's session. The new
    session is recorded beside it.
    """
    from edgetop.cli.output import print_text  # noqa: PLC0415
    from edgetop.cli.running.child_run import ChildRun, run_to_end  # noqa: PLC0415
    from edgetop.comparison.application_gap import stream_of  # noqa: PLC0415
    from edgetop.recording.session_folder import SUFFIX, read_manifest  # noqa: PLC0415
    from edgetop.session.manifest import Model  # noqa: PLC0415

    manifest = read_manifest(app)
    try:
        number = stream_of(manifest, replace(manifest, model=Model(str(model))), None)
    except ValueError as error:
        raise InputError(f"--against: {error}") from None
    threads = manifest.watched.streams[number].threads if manifest.watched and number is not None else None
    names = (f"{app.stem}-loop{number}{SUFFIX}" for number in ("", *range(2, 100)))
    loop = next(path for name in names if not (path := app.with_name(name)).exists())
    print_text(f"edgetop: the program has ended; {model} runs in a loop for {LOOP}, recorded in {loop}", err=True)
    options = ("--duration", LOOP, "--profile-every", "0", "--threads", str(threads or 0))
    with scratch_folder("loop") as folder:
        run_to_end(ChildRun(["run", str(model), *options, "-o", str(loop)], folder), loop)
    print_gap(str(app), str(loop))


def print_gap(
    app: str, loop: str, paced: str | None = None, stream: int | None = None, *, as_json: bool = False
) -> None:
    """Print why the application of session `app` is slower than the same model in the session `loop`.

    In `loop`, the model ran without pauses. `app`, `loop` and `paced` are names or paths. In `paced`, the model ran
    with the start times of the application; None if there is no such session. `stream` is the number of the model in
    `app`, from 0; None for the model of `loop`. `as_json` prints a JSON document instead of text. Raises InputError if
    the sessions cannot be compared, or if parts cannot be read.
    """
    from edgetop.cli.output import print_json, print_text, raise_problems, text_columns  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.printing.report_text import wrapped  # noqa: PLC0415

    problems: list[str] = []
    found = explain(app, loop, paced, stream, problems)
    if as_json:
        print_json(found.to_json())
    else:
        print_text("\n".join(wrapped(_lines(found), text_columns())))
    raise_problems(problems, "the rest is compared")


def _lines(found: "Gap") -> Iterator[str]:
    from edgetop.formatting import clean, count, milliseconds, percent  # noqa: PLC0415

    app, loop, more = (milliseconds(ms * 1e6) for ms in (found.app_ms, found.loop_ms, abs(found.ms)))
    word, what = "more" if found.ms >= 0 else "less", "a frame" if found.of == "frame" else "an inference"
    yield f"gap        {what} takes {app} ms, the loop {loop} ms: {more} ms {word}"
    counts = " and ".join(map(count, found.counts))
    yield f"           means of {counts} inferences of {clean(found.model)}"
    for difference in found.differences:
        yield f"differs    {clean(difference)}"
    if found.ms <= 0:
        yield "           the application is not slower than the loop"
        return
    for cause in found.causes:
        share = percent(found.share(cause.ms) or 0.0)
        estimate = " (estimated)" if cause.estimated else ""
        yield f"{milliseconds(cause.ms * 1e6):>8} ms  {share:>6}  {clean(cause.name)}{estimate}"
        yield f"                     {clean(cause.evidence)}"
        yield f"                     -> {clean(cause.advice)}"
    rest = found.not_explained_ms
    if rest < 0:
        yield f"{milliseconds(-rest * 1e6):>8} ms          less: its inferences were faster than those of the loop"
        return
    yield f"{milliseconds(rest * 1e6):>8} ms  {percent(found.share(rest) or 0.0):>6}  not explained"
