"""An error in the analysis: the command gives what stands, says what is missing and what to send, and exits with 4."""

import contextlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgetop.analysis.folds import FOLDS
from edgetop.cli.main import main
from edgetop.errors import EdgetopError
from edgetop.recording.reader import Recording
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.records import MEASURE
from tests.support.broken_program import breaks
from tests.support.commands import ROOT, environment
from tests.support.waiting import PATIENCE_S, wait_until

FINISHED = ROOT / "tests/recordings/v1/finished.edgetop"
FIRST = ROOT / "tests/recordings/v1/first.edgetop"


def run(arguments: list[Any], capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    out, err = capsys.readouterr()
    return end.value.code, out, err


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(FOLDS, "slowdowns", breaks("slowdowns", 0))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.usefixtures("broken")
def test_a_report_has_what_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(["report", FINISHED], capsys)
    assert code == 4
    assert "180 inferences" in out
    assert "missing streams, tail, burst, sustained, drift ratio, input sizes, throttled, slowdowns:" in " ".join(
        out.split()
    )
    assert "nothing was steady" not in out
    (line,) = err.splitlines()
    assert "slowdowns: not available: internal error in slowdowns: BrokenError: on purpose" in line
    (named,) = re.findall(r"report it with (\S+\.txt)", line)
    (written,) = (tmp_path / "edgetop" / "internal-errors").iterdir()
    assert Path(named) == written
    text = written.read_text()
    assert "BrokenError: on purpose" in text
    assert str(Path.home()) not in text
    assert run(["report", FINISHED], capsys)[0] == 4
    assert len(list(written.parent.iterdir())) == 1  # the same error is one file


@pytest.mark.thorough
@pytest.mark.usefixtures("broken")
def test_the_other_forms_have_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(["report", FINISHED, "--json"], capsys)
    document = json.loads(out)
    assert code == 4
    assert document["slowdowns"] is document["burst"] is None
    assert document["unavailable"]["slowdowns"].startswith("not available: internal error in slowdowns")
    page, junit = tmp_path / "page.html", tmp_path / "gates.xml"
    gates = ["--fail-if", "drift>10%", "--fail-if", "p99>33s"]
    code, _, err = run(["report", FINISHED, "--html", page, "--junit", junit, *gates], capsys)
    assert code == 4
    assert "gate failed: drift>10%: not available: internal error in slowdowns" in err
    assert "not available" in page.read_text()
    assert 'failures="1"' in junit.read_text()
    code, out, _ = run(["compare", FINISHED, FIRST], capsys)
    assert code == 4
    assert "p50" in out


@pytest.mark.usefixtures("broken")
def test_a_list_says_it_and_keeps_no_such_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "edgetop"
    (home / "one.edgetop").mkdir(parents=True)
    for file in FINISHED.iterdir():
        (home / "one.edgetop" / file.name).write_bytes(file.read_bytes())
    code, out, _ = run(["sessions", "--json"], capsys)
    assert code == 4
    assert json.loads(out)[0]["verdict"] == "internal error"
    assert {file.name for file in (home / "one.edgetop").iterdir()} == {file.name for file in FINISHED.iterdir()}


@pytest.mark.slow
def test_a_run_goes_on_and_is_recorded_to_the_end(tmp_path: Path) -> None:
    words = ["tracks", 0, "run", "--headless", "--rate", 40, "--profile-every", 0, "-o", tmp_path / "s"]
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.support.broken_program", *map(str, words)],
        cwd=ROOT, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        folder = tmp_path / "s.edgetop"
        wait_until(lambda: faults_in(folder))
        before = measured_in(folder)
        wait_until(lambda: measured_in(folder) > before)
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=PATIENCE_S)
    finally:
        run.kill()
        run.communicate()
    assert run.returncode == 4, err
    assert "Traceback" not in err
    assert "internal error in tracks: BrokenError: on purpose" in err
    recording = Recording(folder)
    assert recording.manifest.end_reason == "signal"
    assert not recording.problems
    assert f"{measured_in(folder)} inferences" in out
    (event,) = faults_in(folder)
    assert "BrokenError: on purpose" in str(event.body.traceback)


def batches_of(folder: Path) -> list[Batch]:
    """All that is recorded by now."""
    with contextlib.suppress(EdgetopError, OSError):  # not yet
        return list(Recording(folder).play(inferences=True))
    return []


def faults_in(folder: Path) -> list[Event]:
    return [one for batch in batches_of(folder) for one in batch.events if one.kind == "analysis-failed"]


def measured_in(folder: Path) -> int:
    return sum(int((batch.inferences["phase"] == MEASURE).sum()) for batch in batches_of(folder))
