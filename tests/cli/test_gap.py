"""`edgetop gap` on recordings, as a user types it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.cli.running.recorded_arrivals import arrivals_of
from edgetop.cli.watching.gap import explain
from edgetop.errors import InputError
from edgetop.recording.session_folder import Retention, read_manifest
from edgetop.session.manifest import Watched, WatchedStream
from tests.support.commands import edgetop
from tests.support.recordings import back_to_back, content, record, session

pytestmark = pytest.mark.slow

MS = 1_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    of_program = Watched(("app",), ("hook",), streams=(WatchedStream("/m/model.onnx", 500, threads=1),))
    for name, latency_ns in (("loop", 10 * MS), ("app", 14 * MS)):
        batches = list(session(back_to_back(500, latency_ns)))
        if name == "app":
            batches = [
                replace(batch, manifest=replace(batch.manifest, watched=of_program) if batch.manifest else None)
                for batch in batches
            ]
        record(home / f"{name}.edgetop", batches)
    record(home / "few.edgetop", list(session(back_to_back(50, MS))), Retention(raw=False))
    return home


def test_what_no_evidence_explains_is_not_explained(home):
    done = edgetop("gap", "app", "loop", "--json", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["gap_ms"] == pytest.approx(4, rel=0.1)
    assert (document["causes"], document["inferences"]) == ([], [500, 500])
    assert document["not_explained"]["share"] == pytest.approx(1)


def test_the_gap_as_text(home):
    lines = edgetop("gap", "app", "loop", home=home).stdout.splitlines()
    assert lines[0].startswith("gap        an inference takes 14.")
    assert lines[2] == "differs    threads: 1 in the application, the runtime's default in the loop"
    assert lines[-1].endswith("100.0 %  not explained")


def test_the_arrival_times_of_a_session_are_those_of_its_model(home, monkeypatch):
    monkeypatch.chdir(home)
    starts_ns = arrivals_of("app.edgetop", "elsewhere/model.onnx")
    own_ns = back_to_back(500, 14 * MS)["t_ns"]
    assert starts_ns[:-1] == tuple((own_ns - own_ns[0]).tolist())
    assert starts_ns[-1] > starts_ns[-2]
    with pytest.raises(InputError, match="single inferences"):
        arrivals_of("few.edgetop", "model.onnx")


def test_a_session_whose_arrivals_are_used_is_left_as_it_is(tmp_path):
    """Even one that was cut short, which most commands complete."""
    folder = shutil.copytree(Path(__file__).parents[1] / "recordings/v1/killed.edgetop", tmp_path / "killed.edgetop")
    before = content(folder)
    assert len(arrivals_of(str(folder), read_manifest(folder).model.path)) > 100
    assert content(folder) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("app", "few"), "has no measured inferences to look at"),
        (("app", "loop", "--stream", "3"), "there is no stream 3"),
        (("app", "none"), "none"),
    ],
)
def test_sessions_that_cannot_be_compared_are_refused(home, arguments, told):
    done = edgetop("gap", *arguments, home=home)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_loop_after_a_session_that_is_not_recorded_is_refused(home):
    (home / "m.onnx").write_bytes(b"x")
    done = edgetop("watch", "--against", "m.onnx", "--no-record", "--", "true", home=home)
    assert done.returncode == 2
    assert "--against and --no-record contradict each other" in done.stderr


def test_damage_is_why_nothing_can_be_compared(tmp_path):
    damaged = tmp_path / "damaged.edgetop"
    shutil.copytree(Path(__file__).parents[1] / "recordings/v1/finished.edgetop", damaged)
    (damaged / "inferences.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match="is damaged"):
        explain(str(damaged), str(damaged), None, None, [])
