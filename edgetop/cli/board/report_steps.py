"""The steps of `edgetop board-report`. Each step measures something and selects the results that go into the report."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgetop import demo
from edgetop.cli.board import diagnosis, observer_effect, sensor_table
from edgetop.cli.board.observer_effect import STOP_S
from edgetop.cli.running.child_run import ChildRun, show_progress
from edgetop.cli.terminal import edgetop_command
from edgetop.doctor import state_checks
from edgetop.errors import EdgetopError
from edgetop.formatting import clean, cut
from edgetop.frozen import frozen
from edgetop.recording.session_folder import session_folder
from edgetop.sensors.capture.collect import DEADLINE_S, Capture, collect
from edgetop.sensors.capture.unpack import MAX_ARCHIVE_BYTES, unpack
from edgetop.sensors.root import UNREADABLE, Root
from edgetop.sensors.survey import survey_board
from edgetop.session.quiet import BACKGROUND_PCT
from edgetop.session.typed_json import Document

SOAK_SHARE = 0.55  # of the whole time; the observer effect gets the rest
IDLE_SHARE = 0.2  # of a soak
LOADED_AFTER = 0.6  # of a soak: the board is read and captured under load then, or once inferences are measured
SUDO_S = 120.0
BACKGROUND_S = 1.0  # time over which the load of other programs is measured, before the first turn and after the last
LEAST_PATIENCE_S, MOST_PATIENCE_S = 120.0, 600.0
PATIENCE_PER_STEP = 10  # times as long as the steps took that only read
CAPTURE_PER_IDLE = 5  # times as long as the capture at rest took
MOST_CAPTURE_S = 300.0
REFUSED = ("EACCES", "EPERM")
RUN_ENDED = "the model's run ended before the last files were read"
# Parts of a session's report that have figures only. Words in the others may name programs and files of the user.
FIGURES = (
    "latency", "phases", "burst", "sustained", "drift_ratio", "throttled", "throttled_share", "throttles",
    "temperature", "power", "energy", "memory", "usage", "overhead", "lost",
)  # fmt: skip
OF_SESSION = ("edgetop_version", "end_reason", "duration_ns", "board", "engine", "load", "constraints", "sensors")


def doctor() -> Document:
    """Return the results of `edgetop doctor` as a JSON document, without names of other processes."""
    document = diagnosis.document(diagnosis.diagnose(diagnosis.DoctorOptions()))
    for check in document["checks"]:
        if check["name"] == state_checks.BACKGROUND:
            check["found"] = check["found"].partition(":")[0]
    return document


def sensors() -> Document:
    """Read every sensor of the board. Return the JSON document that `edgetop sensors --json` prints."""
    survey = survey_board(Root())
    survey.read_whole()
    return sensor_table.document(survey)


def capture(deadline_s: float = DEADLINE_S) -> Capture:
    return collect(Root(), deadline_s=deadline_s)


@frozen
class Limits:
    """Limits on how long the runs of a report may take. A board that read its own files slowly gets more time."""

    patience_s: float  # time that a run may take beyond its length
    until_s: float  # value of `time.monotonic` at which the last run has to end
    capture_s: float = DEADLINE_S  # limit of the capture under load

    @classmethod
    def of(cls, read_s: float, capture_s: float, until_s: float) -> "Limits":
        """Return the limits for a board whose first steps, which only read its files, took `read_s` seconds.

        `capture_s` is the part of `read_s` that the capture took. `until_s` is the time of time.monotonic() at which
        the whole report has to end.
        """
        return cls(
            min(MOST_PATIENCE_S, max(LEAST_PATIENCE_S, PATIENCE_PER_STEP * read_s)),
            until_s - STOP_S,
            min(MOST_CAPTURE_S, max(DEADLINE_S, CAPTURE_PER_IDLE * capture_s)),
        )

    def of_run(self, what: str, length_s: float) -> float:
        """Return how many seconds a run of `length_s` seconds may take. Raises EdgetopError if no time is left for it.

        `what` names the run in the error.
        """
        left_s = self.until_s - time.monotonic()
        if left_s < length_s:
            left = f"the report may take only {max(0.0, left_s):.0f} s more"
            raise EdgetopError(f"{what} needs {length_s:.0f} s, and {left}")
        return min(length_s + self.patience_s, left_s)


def refused_files(found: Capture) -> int:
    """Return how many of the board's files this user is not allowed to read. `found` lists these files."""
    lines = found.files.get(UNREADABLE, b"").decode().splitlines()
    return sum(1 for line in lines if line.split(maxsplit=1)[0] in REFUSED)


def sudo_of(found: Capture) -> str | None:
    """Return the path of sudo, or None if sudo is missing or would not help.

    Sudo helps if this user is not root and is not allowed to read some of the board's files. `found` lists those files.
    """
    return shutil.which("sudo") if os.geteuid() != 0 and refused_files(found) else None


def capture_as_root(sudo: str, folder: Path, *, may_ask: bool) -> Capture:
    """Read the board's files as root, and return them as a capture. Raises EdgetopError if sudo or the reading fails.

    `sudo` is the path of sudo. `folder` is a private folder for a temporary archive. `may_ask` allows sudo to ask for
    a password.
    """
    path = folder / "root.tar.gz"
    prefix = [sudo] if may_ask else [sudo, "-n"]
    try:
        for argv in (edgetop_command("sensors", "--capture", str(path), "--yes"), ["cat", str(path)]):
            done = subprocess.run(  # noqa: S603  this very program, and cat
                [*prefix, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE if not may_ask else None,
                stdin=None if may_ask else subprocess.DEVNULL, timeout=SUDO_S, check=True,
            )  # fmt: skip
        return unpack(done.stdout[: MAX_ARCHIVE_BYTES + 1]).capture
    except subprocess.CalledProcessError as error:
        said = (error.stderr or b"").decode("utf-8", "replace").strip().splitlines()
        raise EdgetopError(f"sudo: {clean(said[-1]) if said else f'exit code {error.returncode}'}") from None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise EdgetopError(f"sudo: {clean(str(error))}") from None


class Soaks:
    """Runs the built-in model on ONNX Runtime and LiteRT, if installed, and reads the board's sensors and files then.

    Each run begins with a rest, in which the idle power is measured.
    """

    def __init__(
        self, formats: list[str], folder: Path, environment: Mapping[str, str], total_s: float, limits: Limits
    ) -> None:
        """Prepare a run for each of `formats`, such as "onnx". All runs together take `total_s` seconds.

        `folder` is a private folder for the sessions. `environment` are the environment variables of the runs. `limits`
        say how long a run may take.
        """
        self.start_s: float | None = None  # what the shortest run took beyond its length; None if no run ended
        self.reports: dict[str, Document] = {}
        self.sensors: Document | None = None  # under load
        self.loaded: Capture | None = None  # the board under load
        self._formats, self._folder, self._environment = formats, folder, environment
        self._each_s = total_s / max(1, len(formats))
        self._limits = limits

    def run(self) -> None:
        """Run the model on all runtimes. If some runs fail, the others still run.

        Afterwards an EdgetopError is raised that names each failed run.
        """
        failed: list[EdgetopError] = []
        for model_format in self._formats:
            try:
                self._soak(model_format)
            except EdgetopError as error:  # noqa: PERF203  the other runtime is to run all the same
                failed.append(error)
        if failed:
            raise EdgetopError("; ".join(map(str, failed)))

    def _soak(self, model_format: str) -> None:
        """Run the model of one format, and keep its report. Raises EdgetopError if the run did not end by itself.

        A run that takes too long is asked to end, and the figures that it measured until then are kept.
        """
        limit_s = self._limits.of_run(model_format, self._each_s)
        idle_ms, load_ms = (self._each_s * share * 1000 for share in (IDLE_SHARE, 1 - IDLE_SHARE))
        phases = ("--idle-baseline", f"{idle_ms:.0f}ms", "--duration", f"{load_ms:.0f}ms")
        model = str(demo.model_path(model_format))
        place = self._folder / f"soak-{model_format}"
        began_s = time.monotonic()
        run = ChildRun(["run", model, *phases, "-o", str(place)], self._folder, environment=self._environment)
        too_long = f"{model_format}: the run of {self._each_s:.0f} s did not end within {limit_s:.0f} s"
        stopped = False

        def look() -> None:
            nonlocal stopped
            show_progress(f"  {cut(clean(run.progress), 70)}")
            taken_s = time.monotonic() - began_s
            if self.loaded is None and taken_s > self._each_s * LOADED_AFTER and measures(session_folder(place)):
                self.sensors, self.loaded = sensors(), self._captured(run)
            if taken_s > limit_s + STOP_S:
                raise EdgetopError(too_long)
            if taken_s > limit_s and not stopped:
                stopped = True
                run.stop()

        try:
            outcome = run.run(look, STOP_S)
        finally:
            show_progress("")
        has_measured = outcome.report is not None and outcome.report["latency"]["count"]
        if outcome.report is not None and (outcome.is_complete or has_measured):
            self.reports[model_format] = figures_of(outcome.report)
        if stopped:
            kept = "what it measured until then is kept" if has_measured else "it measured nothing"
            raise EdgetopError(f"{too_long}: {kept}")
        if not outcome.is_complete or outcome.report is None:
            raise EdgetopError(f"{model_format}: {outcome.reason or f'the run ended: {outcome.end_reason}'}")
        beyond_s = time.monotonic() - began_s - self._each_s
        self.start_s = beyond_s if self.start_s is None else min(self.start_s, beyond_s)

    def _captured(self, run: ChildRun) -> Capture:
        """Return the board's files, read while `run` loads the board.

        If the run ended meanwhile, a note in the capture says so.
        """
        left_s = max(0.0, self._limits.until_s - time.monotonic())
        found = capture(min(self._limits.capture_s, left_s))
        if run.has_ended():
            found = replace(found, notes=(*found.notes, RUN_ENDED))
        return found


def measures(folder: Path) -> bool:
    """Return whether the session in `folder`, which is being recorded, has measured inferences."""
    try:
        return len(observer_effect.latencies_of(folder)) > 0
    except (EdgetopError, OSError):  # nothing is recorded yet
        return False


def figures_of(report: Document) -> Document:
    """Return a session's JSON report without its sentences: only figures and codes, such as causes of slowdowns."""
    session = report["session"]
    slowdowns = [
        {name: value for name, value in one.items() if name not in ("evidence", "considered", "who")}
        for one in report.get("slowdowns") or ()
    ]
    return {
        "session": {name: session[name] for name in OF_SESSION if name in session},
        "verdict": report["verdict"]["now"],
        **{name: report[name] for name in FIGURES if name in report},
        "slowdowns": slowdowns,
        "warnings": [one["code"] for one in report["warnings"]],
    }


def observe(
    model_format: str,
    folder: Path,
    environment: Mapping[str, str],
    total_s: float,
    tell: Callable[[str], None],
    *,
    limits: Limits,
    start_s: float | None,
    put: Callable[[Document], None],
) -> None:
    """Measure the observer effect (what edgetop costs a model) in about `total_s` seconds.

    `model_format` is such as "onnx". `folder` is a private folder for the sessions, and `environment` are their
    environment variables. `tell` gets a line of text before each turn. `start_s` is the time in s that edgetop needs to
    start and end a run, or None if that is unknown. `limits` say how long a turn may take. `put` gets the result as a
    JSON document. If a turn fails, `put` gets the result of the turns before it, and EdgetopError is raised.
    """
    rounds, seconds = observer_effect.plan(total_s, start_s)
    limit = partial(limits.of_run, length_s=seconds)
    turns = observer_effect.Turns(model_format, rounds, seconds, folder, environment, limit)
    found: list[dict[str, observer_effect.Turn]] = []
    before_pct = background_pct()
    if before := disturbed(before_pct):
        tell(f"warning: {before}")
    try:
        observer_effect.measure(turns, tell, found)
    finally:
        if whole := [one for one in found if one]:
            loads = [one for one in (before_pct, background_pct()) if one is not None]
            most_pct = max(loads, default=None)
            document = observer_effect.document(model_format, seconds, whole)
            put({**document, "background_load": most_pct, "warning": disturbed(most_pct)})


def background_pct() -> float | None:
    """Return the CPU use of other programs over BACKGROUND_S seconds, in % of a core, or None if it is unknown."""
    busy: dict[str, float] = {}
    try:
        with state_checks.watch_processes(busy, BACKGROUND_S):
            pass
    except OSError:
        return None
    return round(sum(busy.values()), 1)


def disturbed(load_pct: float | None) -> str | None:
    """Return a warning if other programs take so much CPU time that the observer effect cannot be measured, else None.

    `load_pct` is in percent of a core. The limit is that of `edgetop doctor`.
    """
    if load_pct is None or load_pct < BACKGROUND_PCT:
        return None
    return f"other programs take {load_pct:.0f} % of a core: no ratio here says what edgetop costs the model"


def versions() -> list[str]:
    from edgetop.cli.versions import verbose_lines  # noqa: PLC0415  for this report alone

    return list(verbose_lines())
