"""The steps of `edgetop board-report` in order. The user is asked before a step that loads the board or needs root."""

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click

from edgetop import __version__
from edgetop.cli.board import observer_effect, report_steps
from edgetop.cli.board.capture import listing, refuse, write
from edgetop.cli.board.installation_checks import installed_formats
from edgetop.cli.board.redaction import Redaction
from edgetop.cli.output import print_text, wrapped
from edgetop.cli.scratch_folder import scratch_folder
from edgetop.errors import EXIT_DONE, EdgetopError, OutputError
from edgetop.files import why
from edgetop.formatting import axis_time, clean, quantity, size
from edgetop.sensors.capture.collect import LOADED, Capture, pack
from edgetop.sensors.capture.unpack import REPORT
from edgetop.sensors.root import Root
from edgetop.session.typed_json import Document

READING_S = 20.0  # time of the steps that only read
LEAST_S = 10.0  # of the steps that load the board
EXTRA_S = 1200.0  # time that all steps may take beyond the time asked for, because the board is slow
DECLINED = "declined"
READING = ("doctor", "sensors", "capture")  # steps that only read: they show how slow the board is
PARTS = ("doctor", "sensors", "sensors_loaded", "soaks", "observer")  # of the document; None if a step was not done


@dataclass
class Report:
    """What the steps of `edgetop board-report` have found so far: a note on each step, figures, and board files."""

    steps: list[Document] = field(default_factory=list)
    document: Document = field(default_factory=lambda: dict.fromkeys(PARTS))
    capture: Capture | None = None
    loaded: Capture | None = None
    start_s: float | None = None  # seconds that a run takes beyond its length; None if unknown


def make_report(path: Path, total_s: float, *, yes: bool, force: bool) -> int:
    """Measure the board, write the report to `path`, and return the exit code.

    A step that fails or is declined is noted, and the next steps still run. `total_s` is about how many seconds all
    steps take; on a slow board it may be up to EXTRA_S seconds more. With `yes`, the user is not asked. `force` allows
    replacing an existing file. Raises InputError and OutputError.
    """
    refuse(path, "--output", yes=yes, force=force)
    if not path.parent.is_dir():  # known before five minutes are spent
        raise OutputError(f"--output {path}: there is no folder {path.parent}", "create it, or choose another path")
    redaction = Redaction(Root())
    about, most = (axis_time(round(seconds)) for seconds in (_whole_s(total_s), _whole_s(total_s) + EXTRA_S))
    print_text(f"This takes about {about}, on a slow board at most {most}. Ctrl+C ends it without a file.", err=True)
    with scratch_folder("board-report") as folder:
        report = _measured(folder, _whole_s(total_s) - READING_S, yes=yes)
    document = redaction.document(
        {
            "edgetop_version": __version__,
            "versions": report_steps.versions(),
            "duration_s": total_s,
            "steps": report.steps,
            **report.document,
        }
    )
    capture = report.capture or Capture({}, {}, ("the board was not captured",))
    packed = pack(capture, report.loaded, {REPORT: json.dumps(document, indent=1).encode()})
    write(path, "--output", packed, force=force)
    lines = _contents(path, len(packed), capture, report.loaded, document)
    print_text("\n".join(part for line in lines for part in wrapped(line)))
    return EXIT_DONE


def _whole_s(total_s: float) -> float:
    return max(READING_S + LEAST_S, total_s)


def _measured(folder: Path, loaded_s: float, *, yes: bool) -> Report:
    # Neither the user's settings nor his recordings take part.
    private = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    report = Report()
    steps = _Steps(report, loaded_s + READING_S + EXTRA_S, yes=yes)
    steps.take(
        "doctor", "checks of the settings and the state of this board", partial(_put, report, report_steps.doctor)
    )
    steps.take("sensors", "every sensor is read", partial(_put, report, report_steps.sensors))
    steps.take("capture", "the files that describe this board are copied", partial(_capture, report))
    if report.capture and (sudo := report_steps.sudo_of(report.capture)):
        count = report_steps.refused_files(report.capture)
        question = f"Only root may read {quantity(count, 'file')} of the board. Read with sudo?"
        steps.take("root", "the same as root", partial(_capture_as_root, report, sudo, folder, yes), question)
    formats = installed_formats()
    if not formats:
        report.steps += [
            {"name": name, "done": False, "why": "no runtime is installed"} for name in ("soak", "observer")
        ]
        return report
    soak_s = loaded_s * report_steps.SOAK_SHARE
    soaks = partial(report_steps.Soaks, formats, folder, private, soak_s)
    question = f"Run the built-in model on all cores for {soak_s:.0f} s? The board gets warm."
    steps.take("soak", f"the built-in model runs: {', '.join(formats)}", partial(_soak, report, soaks, steps), question)
    observer_s = loaded_s - soak_s
    observer = partial(_observe, report, formats[0], folder, private, observer_s, steps)
    question = f"Run the built-in model on one core for {observer_s:.0f} s, in turns with and without edgetop?"
    steps.take("observer", "what edgetop costs the model", observer, question)
    return report


class _Steps:
    """Runs steps of `edgetop board-report`: asks the user, does the step, and notes whether it was done."""

    def __init__(self, report: Report, most_s: float, *, yes: bool) -> None:
        """Begin a report whose steps may take `most_s` seconds. Waiting for answers of the user does not count."""
        self._report, self._yes = report, yes
        self._until_s = time.monotonic() + most_s
        self._taken_s: dict[str, float] = {}  # by step

    def limits(self) -> report_steps.Limits:
        """Return how long the next runs may take. On a board whose first steps were slow, runs may take longer."""
        read_s = sum(self._taken_s.get(name, 0.0) for name in READING)
        return report_steps.Limits.of(read_s, self._taken_s.get("capture", 0.0), self._until_s)

    def take(self, name: str, what: str, work: Callable[[], None], question: str = "") -> None:
        """Run the step `name` by calling `work`. `what` describes the step to the user.

        `question` is asked before the step. If it is "", the user is not asked.
        """
        asked_s = time.monotonic()
        agreed = not question or self._yes or click.confirm(question, default=name != "root", err=True)
        began_s = time.monotonic()
        self._until_s += began_s - asked_s
        if not agreed:
            self._report.steps.append({"name": name, "done": False, "why": DECLINED})
            return
        print_text(f"{name}: {what}", err=True)
        reason = None
        try:
            work()
        except EdgetopError as error:
            reason = str(error)
        except OSError as error:
            reason = why(error)
        self._taken_s[name] = time.monotonic() - began_s
        if reason is not None:
            print_text(f"{name}: failed: {reason}", err=True)
        self._report.steps.append({"name": name, "done": reason is None, "why": reason})

    def tell(self, line: str) -> None:
        print_text(f"  {line}", err=True)


def _put(report: Report, make: Callable[[], Document]) -> None:
    report.document[getattr(make, "__name__", "")] = make()


def _capture(report: Report) -> None:
    report.capture = report_steps.capture()


def _capture_as_root(report: Report, sudo: str, folder: Path, yes: bool) -> None:
    report.capture = report_steps.capture_as_root(sudo, folder, may_ask=not yes)


def _soak(report: Report, prepare: Callable[[report_steps.Limits], report_steps.Soaks], steps: _Steps) -> None:
    soaks = prepare(steps.limits())
    try:
        soaks.run()
    finally:  # what one runtime measured is kept if the other fails
        report.document |= {"soaks": soaks.reports, "sensors_loaded": soaks.sensors}
        report.loaded, report.start_s = soaks.loaded, soaks.start_s


def _observe(
    report: Report, model_format: str, folder: Path, environment: Mapping[str, str], total_s: float, steps: _Steps
) -> None:
    def put(document: Document) -> None:
        report.document["observer"] = document

    report_steps.observe(
        model_format, folder, environment, total_s, steps.tell,
        limits=steps.limits(), start_s=report.start_s, put=put,
    )  # fmt: skip


def _contents(path: Path, packed: int, capture: Capture, loaded: Capture | None, document: Document) -> Iterator[str]:
    """Yield lines that describe the written report: its main figures, then the names of the files in it.

    `packed` is the size of the report in bytes. `document` is the report as JSON. `capture` has the board's
    files. `loaded` has those files as they were while the model ran, or is None.
    """
    yield f"In {clean(str(path))}, {size(packed)}, which only you may read:"
    yield f"  {REPORT}: the figures of these steps; made by {document['versions'][0]}"
    for step in document["steps"]:
        yield f"    {step['name']:<9} {'done' if step['done'] else clean(step['why'] or '')}"
    yield from (f"    {line}" for line in figures(document))
    yield from listing(capture)
    if loaded:
        yield f"{LOADED}: {len(loaded.files)} of these {len(capture.files)} files, read while the model ran"
        yield from (f"- {clean(note)}" for note in loaded.notes if note not in capture.notes)
    elif document["soaks"] is not None:
        yield f"no {LOADED}: no inference was measured in the time for it"
    name = clean(shlex.quote(str(path)))
    yield "Nothing was sent."
    yield f"To read the figures: tar xzOf {name} {REPORT}"
    yield f"To unpack all files: tar xzf {name}"


def figures(document: Document) -> Iterator[str]:
    """Yield a line of text with the main figures of each step, such as "sensors: 12 found, 1 missing".

    `document` is the report as JSON. Steps without figures are left out.
    """
    if doctor := document.get("doctor"):
        yield f"doctor: {doctor['status']}, {quantity(len(doctor['checks']), 'check')}"
    if sensors := document.get("sensors"):
        yield f"sensors: {len(sensors['sensors'])} found, {len(sensors['missing'])} missing"
    for name, soak in (document.get("soaks") or {}).items():
        yield f"soak {name}: {', '.join(_soak_words(soak))}"
    yield from _observer_words(document.get("observer") or {})


def _observer_words(observer: Document) -> Iterator[str]:
    if observer.get("warning"):
        yield f"warning: {observer['warning']}"
    for condition, ratios in observer.get("ratios", {}).items():
        rounds = observer_effect.compared(observer.get("rounds", ()), condition)
        told = ", ".join(f"{name} {_spread_words(one, rounds)}" for name, one in ratios.items())
        yield f"edgetop {condition} over a bare loop, {quantity(rounds, 'round')}: {told}"


def _spread_words(spread: Document, rounds: int) -> str:
    """Return a ratio as text, such as "1.02 (1.01 to 1.05)": the median, the least and the greatest.

    `spread` has these as `median`, `min` and `max`. If `rounds` is 1, only the median is given.
    """
    between = f" ({spread['min']:.2f} to {spread['max']:.2f})" if rounds > 1 else ""
    return f"{spread['median']:.2f}{between}"


def _soak_words(soak: Document) -> Iterator[str]:
    latency, power = soak["latency"], soak["power"]
    yield quantity(latency["count"], "inference")
    if latency["p50_ms"] is not None and latency["p99_ms"] is not None:
        yield f"p50 {latency['p50_ms']:.2f} ms, p99 {latency['p99_ms']:.2f} ms"
    for key, word in (("idle_w", "idle"), ("mean_w", "loaded")):
        yield f"{word} {power[key]:.2f} W" if power.get(key) is not None else f"{word} power unknown"
    throttled = soak["throttled"]
    yield "throttled" if throttled else "not throttled" if throttled is False else "throttling unknown"
