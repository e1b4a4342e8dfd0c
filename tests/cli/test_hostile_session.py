"""Sessions of strangers: whatever their manifests say and their files are, nothing is written or waited for."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgetop.errors import InputError
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.lake.place import Place
from edgetop.lake.transfer import push
from edgetop.recording.quota import Quota
from edgetop.recording.reader import Recording
from edgetop.recording.session_folder import MANIFEST, read_manifest
from edgetop.session.manifest import Manifest
from tests.support.clocks import ManualClock
from tests.support.damage import ODD, run_here
from tests.support.recordings import back_to_back, content, left_by_a_dead_writer, with_phases
from tests.support.recordings import session as session_of
from tests.support.thorough import mostly_thorough

GOLDEN = Path(__file__).parents[1] / "recordings/v1/finished.edgetop"
PATHS = ("..", "../../user/precious", "/", "{user}/precious", "{user}/new", "a/../../b", "-rf", "--force", "", ".",
         "x\0y", "a\nb", "~", "$HOME", "{{}}", "%s", "x" * 300, "\u202e", "NaN", "date=1/board=2")  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from places(item, (*at, key))


DOCUMENT = json.loads((GOLDEN / MANIFEST).read_text())
PLACES = list(places(DOCUMENT))


def changed(place: tuple[Any, ...], value: Any) -> str:
    document = json.loads(json.dumps(DOCUMENT))
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return json.dumps(document)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The files of the user."""
    (tmp_path / "user").mkdir()
    (tmp_path / "user/precious").write_text("of the user")
    return tmp_path / "user"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Path(shutil.copytree(GOLDEN, tmp_path / "here/s.edgetop"))


def hostile(value: Any, user: Path) -> Any:
    return value.replace("{user}", str(user)) if isinstance(value, str) else value


def test_any_value_anywhere_is_taken_or_refused_in_a_line(session: Path, user: Path) -> None:
    path = session / MANIFEST
    values = (*ODD, *PATHS)
    for number, place in enumerate(PLACES):
        for value in values if place[0] in ("id", "created_utc", "name") else values[number % 5 :: 5]:
            path.write_text(changed(place, hostile(value, user)))
            said = f"{path}: "
            try:
                assert isinstance(read_manifest(session), Manifest)
            except InputError as error:
                said = str(error)
            assert said.startswith(f"{path}: ")
            assert "\n" not in said


def commands(folder: Path, number: int) -> Iterator[tuple[str, ...]]:
    yield "report", str(folder)
    yield "sessions", "--json"
    yield "export", str(folder), "--to", ("json", "csv", "session", "perfetto", "parquet")[number % 5], "-o", "out/x"
    yield "compare", str(folder), str(folder)
    yield "push", str(folder), "lake", "--board-id", "pi-1"
    yield "pull", "lake", DOCUMENT["id"]
    yield "lake", "lake", "sql", "SELECT * FROM sessions"
    yield "push", str(folder), "lake", "--board-id", "pi-1", "--delete-after"


def replayed(folder: Path) -> None:
    try:
        feed = ReplayFeed(Recording(folder), ManualClock())
    except InputError:
        return
    feed.seek(feed.transport.end_ns)
    feed.read()


# The folders in which these commands may write, beside that of the session.
OWN = {"lake", "out", "state", "s.edgetop"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 6))])
def test_no_command_fails_or_writes_elsewhere(session: Path, tmp_path: Path, user: Path, seed: int) -> None:
    rng = random.Random(seed)
    texts = [place for place in PLACES if place[0] in ("id", "name", "created_utc", "state", "end_reason", "labels")]
    for number in range(3):
        place = rng.choice(texts if number else PLACES)
        value = hostile(rng.choice((*ODD, *PATHS)), user)
        (session / MANIFEST).write_text(changed(place, value))
        (tmp_path / "here/out").mkdir(exist_ok=True)
        replayed(session)
        for command in commands(session, seed + number):
            _, said = run_here(*command)
            assert "internal error" not in said, (place, value, command)
            assert said.count("\n") < 2, (place, value, command)
        assert content(user) == {"precious": b"of the user"}, (place, value)
        assert {path.name for path in (tmp_path / "here").iterdir()} <= OWN, (place, value)
        assert {path.name for path in tmp_path.iterdir()} <= {"here", "state", "user"}, (place, value)
        shutil.rmtree(tmp_path / "here")
        (tmp_path / "here").mkdir()
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        shutil.copytree(GOLDEN, session)
        os.chdir(tmp_path / "here")


def as_link_outside(path: Path) -> None:
    path.symlink_to(path.parents[2] / "user/precious")


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo, "endless": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir,
    "link": as_link_outside, "circle": lambda path: path.symlink_to(path),
}  # fmt: skip
NAMES = ("session.json", "session.json.lock", "seconds.parquet", "inferences.parquet", "events.parquet", "outputs.npz",
         "outcome.json", "pushed.json", "run.log", "control.sock", "journal", ".removing")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_thorough(KINDS, "pipe"))
def test_no_file_of_another_kind_is_waited_for_or_followed(
    session: Path, tmp_path: Path, user: Path, kind: str
) -> None:
    for name in NAMES:
        path = session / name
        path.unlink(missing_ok=True)
        KINDS[kind](path)
        was = content(user)
        for command in (("report", str(session)), ("sessions",), ("push", str(session), "lake", "--board-id", "pi-1")):
            _, said = run_here(*command)
            assert "internal error" not in said, (name, command)
        Quota(0, lambda *_: None).enforce(tmp_path / "here")
        assert content(user) == was, name
        shutil.rmtree(tmp_path / "here")
        (tmp_path / "here").mkdir()
        shutil.copytree(GOLDEN, session)
        os.chdir(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_of_another_kind_in_a_journal_is_waited_for(tmp_path: Path, user: Path, kind: str) -> None:
    batches = list(session_of(with_phases(back_to_back(60, 20e6))))[:-1]
    left = left_by_a_dead_writer(tmp_path / "left/s.edgetop", batches, 4_096)
    for number, path in enumerate(sorted((left / "journal").iterdir())):
        folder = Path(shutil.copytree(left, tmp_path / f"here-{number}/s.edgetop"))
        (folder / "journal" / path.name).unlink()
        KINDS[kind](folder / "journal" / path.name)
        was = content(user)
        _, said = run_here("report", str(folder))
        assert "internal error" not in said
        assert content(user) == was


def test_a_push_goes_on_beside_files_of_another_kind(session: Path, tmp_path: Path) -> None:
    os.mkfifo(session / "run.log")
    done = push(session, Place(str(tmp_path / "lake")), "pi-1")
    assert done.problems == (f"{session}/run.log: cannot be pushed: not a regular file",)
