"""The steps of `edgetop board-report`. Each step measures something and selects what the report tells of the result."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edgetop import demo
from edgetop.cli.board import diagnosis, observer_effect, sensor_table
from edgetop.cli.running.child_run import ChildRun, show_progress
from edgetop.cli.terminal import edgetop_command
from edgetop.doctor import state_checks
from edgetop.errors import EdgetopError
from edgetop.formatting import clean, cut
from edgetop.sensors.capture.collect import Capture, collect
from edgetop.sensors.capture.unpack import MAX_ARCHIVE_BYTES, unpack
from edgetop.sensors.root import UNREADABLE, Root
from edgetop.sensors.survey import survey_board
from edgetop.session.typed_json import Document

SOAK_SHARE = 0.55  # of the whole time; the observer effect gets the rest
IDLE_SHARE = 0.2  # of a soak
LOADED_AFTER = 0.6  # of a soak: when the board is read and captured under load
SUDO_S = 120.0
REFUSED = ("EACCES", "EPERM")
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


def capture() -> Capture:
    return collect(Root())


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
    """Runs the built-in model on each installed runtime for some time. Meanwhile, the board's sensors and files are
    read.

    Each run begins with a rest, in which the idle power is measured.
    """

    def __init__(self, formats: list[str], folder: Path, environment: Mapping[str, str], total_s: float) -> None:
        """Prepare a run for each of `formats`, such as "onnx". All runs together take `total_s` seconds.

        `folder` is a private folder for the sessions. `environment` are the environment variables of the runs.
        """
        self.reports: dict[str, Document] = {}
        self.sensors: Document | None = None  # under load
        self.loaded: Capture | None = None  # the board under load
        self._formats, self._folder, self._environment = formats, folder, environment
        self._each_s = total_s / max(1, len(formats))

    def run(self) -> None:
        """Run the model on all runtimes. If some runs fail, the others still run.

        Afterwards the EdgetopError of the first failed run is raised.
        """
        failed: list[EdgetopError] = []
        for model_format in self._formats:
            try:
                self.reports[model_format] = self._soak(model_format)
            except EdgetopError as error:  # noqa: PERF203  the other runtime is to run all the same
                failed.append(error)
        if failed:
            raise failed[0]

    def _soak(self, model_format: str) -> Document:
        idle_ms, load_ms = (self._each_s * share * 1000 for share in (IDLE_SHARE, 1 - IDLE_SHARE))
        phases = ("--idle-baseline", f"{idle_ms:.0f}ms", "--duration", f"{load_ms:.0f}ms")
        model = str(demo.model_path(model_format))
        arguments = ["run", model, *phases, "-o", str(self._folder / f"soak-{model_format}")]
        run = ChildRun(arguments, self._folder, environment=self._environment)
        look_at_s = time.monotonic() + self._each_s * LOADED_AFTER
        until_s = time.monotonic() + self._each_s + observer_effect.PATIENCE_S

        def look() -> None:
            show_progress(f"  {cut(clean(run.progress), 70)}")
            if self.loaded is None and time.monotonic() > look_at_s:
                self.sensors, self.loaded = sensors(), capture()
            if time.monotonic() > until_s:
                raise EdgetopError("the run did not end")

        try:
            outcome = run.run(look, observer_effect.PATIENCE_S)
        finally:
            show_progress("")
        if not outcome.is_complete or outcome.report is None:
            raise EdgetopError(f"{model_format}: {outcome.reason or f'the run ended: {outcome.end_reason}'}")
        return figures_of(outcome.report)


def figures_of(report: Document) -> Document:
    """Return the parts of a session's JSON report that are numbers, causes or codes. Sentences are left out."""
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
    model_format: str, folder: Path, environment: Mapping[str, str], total_s: float, tell: Callable[[str], None]
) -> Document:
    """Measure the observer effect (what edgetop costs a model) in about `total_s` seconds. Return a JSON document.

    `model_format` is such as "onnx". `folder` is a private folder for the sessions, and `environment` are their
    environment variables. `tell` gets a line of text before each turn. Raises EdgetopError if a turn fails.
    """
    rounds, seconds = observer_effect.plan(total_s)
    turns = observer_effect.Turns(demo.model_path(model_format), rounds, seconds, folder, environment)
    return observer_effect.document(model_format, seconds, observer_effect.measure(turns, tell))


def versions() -> list[str]:
    from edgetop.cli.versions import verbose_lines  # noqa: PLC0415  for this report alone

    return list(verbose_lines())
