"""Lakes on the command line: what is printed, what is refused, and with which exit code."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.session.event_codec import read_event
from edgetop.session.manifest import Methodology
from edgetop.session.seconds import NS
from tests.support.commands import edgetop
from tests.support.heating import BEGAN_S, heating
from tests.support.lakes import make_lake
from tests.support.recordings import content, record

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "recordings/v1/finished.edgetop"
ID = json.loads((GOLDEN / "session.json").read_text())["id"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of fourteen boards, a recording, and one of a board that was warmed up in a box."""
    home = tmp_path_factory.mktemp("home")
    make_lake(home / "fleet", 14, 20)
    foreign = home / "strange/sessions/date=2026-11-20/board=x/notes.parquet"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    shutil.copytree(GOLDEN, home / "finished.edgetop")
    board = heating(0, change="none", room="still", trip_c=85.0)
    (batch,) = board.batches(600)
    end_ns = (600 + BEGAN_S) * NS
    manifest = replace(batch.manifest, methodology=Methodology(ambient_c=22.0, enclosure="box"))
    ended = read_event(
        end_ns, "ended", "info", "edgetop", "session over: user", {"reason": "user", "last_end_ns": end_ns}
    )
    last = replace(manifest, state="finished", end_reason="user", duration_ns=end_ns)
    record(home / "warm.edgetop", [replace(batch, manifest=manifest, events=(*batch.events, ended)),
                                   replace(batch, readings=batch.readings[:0], events=(), manifest=last)])  # fmt: skip
    return home


def test_pushed_asked_and_pulled(home: Path) -> None:
    done = edgetop("push", "finished", "lake", "--board-id", "pi-1", "--delete-after", "--json", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    (pushed,) = json.loads(done.stdout)
    assert (pushed["board"], pushed["removed"], (home / "finished.edgetop").exists()) == ("pi-1", True, False)
    (row,) = json.loads(edgetop("lake", "lake", "worst", "--json", home=home).stdout)
    done = edgetop("pull", "lake", pushed["session"][:6], "-o", "finished", home=home)
    assert (done.returncode, done.stdout.strip()) == (0, "finished.edgetop")
    report = json.loads(edgetop("report", "finished", "--json", home=home).stdout)
    assert content(home / "finished.edgetop") == content(GOLDEN)
    assert row["p99_ms"] == pytest.approx(report["latency"]["p99_ms"], rel=0.01)


def test_what_the_lake_does_not_have_stays_and_is_named(home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN, tmp_path / "kept.edgetop")
    (folder / "outputs.npz").write_bytes(b"kept")
    (folder / "notes.txt").write_text("of the user")
    done = edgetop("push", folder, tmp_path / "lake", "--board-id", "pi-1", "--delete-after", home=home)
    assert done.stdout.endswith("board pi-1, removed here (left: notes.txt)\n")
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", "pushed.json"]
    done = edgetop("pull", tmp_path / "lake", ID, "-o", tmp_path / "back", home=home)
    assert (done.returncode, (tmp_path / "back.edgetop/outputs.npz").read_bytes()) == (0, b"kept")
    again = edgetop("push", tmp_path / "back", tmp_path / "lake", "--board-id", "pi-1", "--delete-after", "--json",
                    home=home)  # fmt: skip
    (pushed,) = json.loads(again.stdout)
    assert (pushed["removed"], pushed["left"], (tmp_path / "back.edgetop").exists()) == (True, [], False)


def test_pushes_in_two_processes_at_once_both_succeed(home: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN, tmp_path / "s.edgetop")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(edgetop, "push", folder, tmp_path / "lake", "--board-id", "pi-1", home=home) for _ in "12"]
    assert [one.result().returncode for one in both] == [0, 0]
    assert not list((tmp_path / "lake").rglob("*.partial"))


def test_questions_in_words(home: Path) -> None:
    done = edgetop("lake", "fleet", "regressions", "--since", "2026-11-20", home=home)
    assert "net.onnx: v1 to v2, run on 12 boards" in done.stdout
    assert "slower" in done.stdout
    printed = edgetop("lake", "fleet", "--print-sql", "--dialect", "spark", home=home).stdout
    assert "inline(arrays_zip(bucket, bucket_count))" in printed


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["lake", "fleet", "sql"], 2, "sql needs a statement"),
        (["lake", "strange", "fleet"], 2, "notes.parquet': Parquet file size is 0 bytes (a file that was not pushed"),
        (["lake", "fleet", "--since", "tomorrow"], 2, "is not a day"),
        (["lake", "fleet", "--engine", "daft"], 2, "-m pip install 'daft[ray]>=0.7'"),
        (["push", "finished", "nix://bucket", "--board-id", "pi-1"], 2, "fsspec"),
        (["push", "finished", "/proc/lake", "--board-id", "pi-1"], 4, "/proc/lake"),
        (["forecast", "warm", "--ambient", "60C"], 2, "farther than 15 C"),
        (["forecast", "finished", "--ambient", "30C"], 2, "declares no ambient"),
    ],
)
def test_what_cannot_be_is_one_line(home: Path, arguments: list[str], code: int, words: str) -> None:
    done = edgetop(*arguments, home=home)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_forecast_for_another_room(home: Path) -> None:
    done = edgetop("forecast", "warm", "--ambient", "30C", "--lake", "fleet", "--json", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["ambient_c"], found["measured_at_c"], found["enclosure"]) == (30.0, 22.0, "box")
    assert found["throttles"] is False
    assert found["steady_range_c"][0] < found["steady_c"] < found["steady_range_c"][1] < 85
    assert found["fared"]["cases"] > found["fared"]["told"] >= found["fared"]["right"] > 0
    words = edgetop("forecast", "warm", "--ambient", "30C", home=home).stdout
    assert "will not throttle at this load: steady" in words
