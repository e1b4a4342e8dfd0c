"""Sessions go into a lake and come back, whatever happens on the way."""

import errno
import fcntl
import json
import os
import shutil
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgetop.errors import InputError, OutputError, RecordingError
from edgetop.lake.lake_tables import dataset
from edgetop.lake.place import FIRST_PAUSE_S, Place
from edgetop.lake.query_engines import ask
from edgetop.lake.transfer import board_id, follow, pull, push, push_pieces, remove, row_until
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.removal import PUSHED
from edgetop.recording.session_folder import MANIFEST, WriterLock
from tests.recording.test_token_recording import batches, recorded
from tests.support.killing import Killed, killed_at
from tests.support.recordings import back_to_back, content, until, with_phases
from tests.support.recordings import session as session_of

GOLDEN = Path(__file__).parents[1] / "recordings/v1/finished.edgetop"
ID = json.loads((GOLDEN / MANIFEST).read_text())["id"]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "finished.edgetop"))


class Breaking:
    """A file system on which a step fails: the `at`-th that changes or reads something."""

    def __init__(self, fs: object, at: int, error: type[BaseException] = Killed, times: int = 1) -> None:
        self._fs, self._at, self._error, self._times, self.steps = fs, at, error, times, 0

    def __getattr__(self, name):
        found = getattr(self._fs, name)
        if not callable(found):
            return found

        def step(*arguments, **named):
            self.count()
            result = found(*arguments, **named)
            return _Stream(result, self) if name == "open_output_stream" else result

        return step

    def count(self) -> None:
        self.steps += 1
        if self._at <= self.steps < self._at + self._times:
            raise self._error("the link is down")


class _Stream:
    """Of what is written a half gets through when it breaks."""

    def __init__(self, stream, owner: Breaking) -> None:
        self._stream, self._owner = stream, owner

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stream.close()

    def write(self, data: bytes) -> None:
        self._stream.write(data[: len(data) // 2])
        self._owner.count()
        self._stream.write(data[len(data) // 2 :])


def pushed(session: Path, lake: Path, at: int = 10**9, error: type[BaseException] = Killed, times: int = 1):
    """How many steps it took, and the pauses."""
    pauses: list[float] = []
    place = Place(str(lake), pause=pauses.append)
    place.fs, place.is_local = Breaking(place.fs, at, error, times), False
    push(session, place, "pi-1")
    return place.fs.steps, pauses


def test_a_session_comes_back_as_it_was(session: Path, tmp_path: Path) -> None:
    lake = Place(str(tmp_path / "lake"))
    found = push(session, lake, "pi-1")
    assert found.sent == found.size > 10_000
    assert push(session, lake, "pi-1").sent == 0
    folder, session_id = pull(lake, ID[:8], None, tmp_path / "home")
    assert session_id == ID
    back, was = content(folder), content(session)
    assert was.pop(PUSHED)
    assert back == was
    assert lake.files("seconds") == [f"seconds/date=2026-11-21/board=pi-1/{ID}.parquet"]


def test_killed_at_every_other_step_and_repeated_makes_one_copy(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a server, of which nothing is known but that it renames."""
    same_row(session, monkeypatch)
    steps, _ = pushed(session, tmp_path / "whole")
    whole = content(tmp_path / "whole")
    assert steps > 40
    for at in range(1, steps + 1, 2):
        lake = tmp_path / f"lake-{at}"
        (session / PUSHED).unlink(missing_ok=True)
        with pytest.raises(Killed):
            pushed(session, lake, at)
        assert not (session / PUSHED).exists()
        assert not rows(lake) or tables(lake) == whole  # the row comes last
        pushed(session, lake)
        assert tables(lake) == whole, at


def same_row(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making the row costs the most: it is made once."""
    row = row_until(Recording(session), {})
    monkeypatch.setattr("edgetop.lake.transfer.row_until", lambda *_: row)


def rows(lake: Path) -> list[Path]:
    return list((lake / "sessions").rglob("*.parquet"))


def tables(lake: Path) -> dict[str, bytes]:
    """The contents without what a killed push left under another name."""
    return {name: data for name, data in content(lake).items() if not name.endswith(".partial")}


def test_killed_at_any_call_and_repeated_makes_one_copy_here(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_row(session, monkeypatch)
    push(session, Place(str(tmp_path / "whole")), "pi-1")
    whole, step = content(tmp_path / "whole"), 1
    while True:
        lake = tmp_path / f"lake-{step}"
        (session / PUSHED).unlink(missing_ok=True)
        if not killed_at(step, lambda lake=lake: push(session, Place(str(lake)), "pi-1")):
            break
        assert not rows(lake) or tables(lake) == whole
        push(session, Place(str(lake)), "pi-1")
        assert content(lake) == whole, step
        shutil.rmtree(lake)
        step += 7
    assert step > 60


@pytest.mark.thorough
def test_a_removal_killed_at_any_call_loses_nothing(session: Path, tmp_path: Path) -> None:
    """The session is whole, or gone and in the lake; a file of the user is there in any case."""
    (session / "notes.txt").write_text("of the user")
    lake, was, step = Place(str(tmp_path / "lake")), content(session), 1
    while True:
        copy = shutil.copytree(session, tmp_path / f"copy-{step}")
        done = push(copy, lake, "pi-1")
        if not killed_at(step, lambda copy=copy, done=done: remove(copy, done)):
            break
        now = content(copy)
        assert now.pop("notes.txt") == b"of the user"
        if MANIFEST in now:
            assert was.items() <= {**now, "notes.txt": b"of the user"}.items()
        step += 1
    assert content(copy).keys() == {"notes.txt", PUSHED}
    assert step > 15


def test_a_pull_killed_at_any_call_leaves_all_or_nothing(session: Path, tmp_path: Path) -> None:
    lake, step = Place(str(tmp_path / "lake")), 1
    push(session, lake, "pi-1")
    was = content(session)
    del was[PUSHED]
    while True:
        home = tmp_path / f"home-{step}"
        if not killed_at(step, lambda home=home: pull(lake, ID, None, home)):
            break
        assert list(home.glob("*.edgetop")) == []
        assert content(pull(lake, ID, None, home)[0]) == was
        step += 2
    assert step > 20


def test_a_bad_link_is_tried_again_with_pauses_that_double(session: Path, tmp_path: Path) -> None:
    _, pauses = pushed(session, tmp_path / "lake", at=9, error=OSError, times=3)
    assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    pushed(session, tmp_path / "other")
    assert content(tmp_path / "lake") == content(tmp_path / "other")


def test_a_link_that_stays_down_and_a_refusal_end_it(session: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the link is down"):
        pushed(session, tmp_path / "lake", at=9, error=OSError, times=100)

    class RefusedError(OSError):
        def __init__(self, _: str) -> None:
            super().__init__(errno.EACCES, "Permission denied")

    with pytest.raises(OutputError, match="Permission denied"):
        pushed(session, tmp_path / "lake", at=9, error=RefusedError)


def test_what_was_spoilt_there_is_sent_again(session: Path, tmp_path: Path) -> None:
    lake = Place(str(tmp_path / "lake"))
    push(session, lake, "pi-1")
    before = content(tmp_path / "lake")
    path = tmp_path / "lake" / lake.files("events")[0]
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(OutputError, match="is not what was pushed"):
        pull(lake, ID, tmp_path / "back.edgetop", tmp_path)
    assert not (tmp_path / "back.edgetop").exists()
    assert push(session, lake, "pi-1").sent == path.stat().st_size
    assert content(tmp_path / "lake") == before


def test_a_full_disk_is_left_alone(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetop.lake.place.shutil.disk_usage", lambda _: SimpleNamespace(free=2**24 + 1000))
    with pytest.raises(OutputError, match="the disk is full"):
        push(session, Place(str(tmp_path / "lake")), "pi-1")
    assert not list((tmp_path / "lake").rglob("*.parquet*"))


def test_a_session_has_one_board(session: Path, tmp_path: Path) -> None:
    lake = Place(str(tmp_path / "lake"))
    push(session, lake, "pi-1")
    with pytest.raises(InputError, match="is in the lake already, of board pi-1"):
        push(session, lake, "pi-2")
    assert remove(session, push(session, lake, "pi-1")) == ()
    assert not session.exists()


def test_what_was_stored_beside_the_tables_comes_back_too(session: Path, tmp_path: Path) -> None:
    for name in ("outputs.npz", "outputs-a.npz", "run.log"):
        (session / name).write_bytes(name.encode())
    (session / "outputs-b.npz").symlink_to("/etc/hostname")
    was, lake = content(session), Place(str(tmp_path / "lake"))
    done = push(session, lake, "pi-1")
    assert done.problems == (f"{session}/outputs-b.npz: cannot be pushed: Too many levels of symbolic links",)
    (session / "outputs-b.npz").unlink()
    assert push(session, lake, "pi-1").sent == 0
    assert content(pull(lake, ID, None, tmp_path / "home")[0]) == {n: d for n, d in was.items() if n != "outputs-b.npz"}
    assert lake.below("files") == [], "no engine takes them for tables"


def test_only_what_the_lake_has_is_removed(session: Path, tmp_path: Path) -> None:
    lake = Place(str(tmp_path / "lake"))
    (session / "outputs.npz").write_bytes(b"kept")
    for name in ("notes.txt", "00000001.journal.damaged", "x.parquet"):
        (session / name).write_text("of the user")
    (session / "pictures").mkdir()
    (session / "pictures/1.jpg").touch()
    (session / "link").symlink_to(tmp_path)
    done = push(session, lake, "pi-1")
    (session / "late.txt").touch()
    left = ("00000001.journal.damaged", "late.txt", "link", "notes.txt", "pictures/", "x.parquet")
    assert remove(session, done) == left
    assert sorted(path.name for path in session.iterdir()) == sorted([*(n.rstrip("/") for n in left), PUSHED])
    assert (pull(lake, ID, None, tmp_path / "home")[0] / "outputs.npz").read_bytes() == b"kept"


def test_the_log_of_a_run_that_goes_on_stays(session: Path, tmp_path: Path) -> None:
    """It runs in another session by now, and still writes its log into the first."""
    document = json.loads((session / MANIFEST).read_text())
    (session / MANIFEST).write_text(json.dumps({**document, "followed_by": "00000000-0000-4000-8000-000000000000"}))
    (session / "run.log").write_text("10 s\n")
    lake = Place(str(tmp_path / "lake"))
    done = push(session, lake, "pi-1")
    with (session / "run.log").open("a") as file:
        file.write("20 s\n")
    assert remove(session, done) == ("run.log",)
    assert (session / "run.log").read_text() == "10 s\n20 s\n"
    assert (pull(lake, ID, None, tmp_path / "home")[0] / "run.log").read_text() == "10 s\n"


@pytest.mark.parametrize("name", ["seconds.parquet", "outputs.npz", MANIFEST])
def test_what_changed_after_the_push_is_not_removed(session: Path, tmp_path: Path, name: str) -> None:
    (session / "outputs.npz").write_bytes(b"kept")
    done = push(session, Place(str(tmp_path / "lake")), "pi-1")
    with (session / name).open("ab") as file:
        file.write(b"\n")
    was = content(session)
    with pytest.raises(RecordingError, match=f"{name} has changed since it was pushed; nothing was removed"):
        remove(session, done)
    assert content(session) == was | {"session.json.lock": b""}


def test_a_session_that_is_written_or_cannot_be_removed_stays(session: Path, tmp_path: Path) -> None:
    done = push(session, Place(str(tmp_path / "lake")), "pi-1")
    was, lock = content(session), WriterLock(session)
    with pytest.raises(RecordingError, match="another edgetop is writing it"):
        remove(session, done)
    lock.release()
    (session / ".removing").symlink_to(tmp_path)
    with pytest.raises(RecordingError, match=r"cannot be removed: .*the lake has it"):
        remove(session, done)
    (session / ".removing").unlink()
    assert content(session) == was | {"session.json.lock": b""}


def test_a_folder_in_the_place_of_the_session_is_not_emptied(session: Path, tmp_path: Path) -> None:
    """A link, or a folder that was moved there meanwhile, has other files."""
    done = push(session, Place(str(tmp_path / "lake")), "pi-1")
    other = Path(shutil.copytree(session, tmp_path / "other"))
    was = content(other)
    session.rename(tmp_path / "moved")
    session.symlink_to(other)
    with pytest.raises(RecordingError, match="has changed since it was pushed"):
        remove(session, done)
    assert {**content(other), "session.json.lock": b""} == {**was, "session.json.lock": b""}


def test_a_session_that_has_lost_a_table_does_not_replace_the_whole_one(session: Path, tmp_path: Path) -> None:
    lake = Place(str(tmp_path / "lake"))
    (session / "outputs.npz").write_bytes(b"kept")
    push(session, lake, "pi-1")
    was = content(tmp_path / "lake")
    for name in ("readings.parquet", "outputs.npz"):
        (session / name).rename(tmp_path / name)
        with pytest.raises(InputError, match=f"{name}: is missing, and the lake has it"):
            push(session, lake, "pi-1")
        (tmp_path / name).rename(session / name)
    assert content(tmp_path / "lake") == was


def test_a_board_that_learnt_the_time_late_is_found_by_the_day(session: Path, tmp_path: Path) -> None:
    """Its clock began in 1970. A piece that was pushed under that day stays with it."""
    document = json.loads((session / MANIFEST).read_text())
    document["created_utc"] = "1970-01-01T00:00:42.000000Z"
    document["clock"]["anchors"] = [
        {"t_ns": 0, "utc": "1970-01-01T00:00:42.000000Z"}, {"t_ns": 2 * 10**9, "utc": "2026-11-21T10:15:04.000000Z"},
    ]  # fmt: skip
    (session / MANIFEST).write_text(json.dumps(document))
    lake = Place(str(tmp_path / "lake"))
    push(session, lake, "pi-1")
    assert lake.files("sessions", "2026-11-20") == [f"sessions/date=2026-11-21/board=pi-1/{ID}.parquet"]
    (tmp_path / "old/sessions/date=1970-01-01/board=pi-1").mkdir(parents=True)
    (tmp_path / f"old/sessions/date=1970-01-01/board=pi-1/{ID}.parquet").touch()
    push(session, Place(str(tmp_path / "old")), "pi-1")
    assert [path.name for path in (tmp_path / "old/seconds").iterdir()] == ["date=1970-01-01"]


# Texts, links and pipes of strangers.


def outside(tmp_path: Path) -> dict[str, bytes]:
    """What belongs to the user, beside the lake and the session."""
    return {name: data for name, data in content(tmp_path).items() if name.partition("/")[0] == "user"}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    for name in ("precious", "other.parquet", "authorized_keys"):
        (folder / name).write_text(f"{name} of the user")
    return folder


@pytest.mark.parametrize(("key", "text"), [
    ("id", "../../../../user/other"), ("id", "{user}/other"), ("id", ""), ("id", "x/../../y"),
    ("created_utc", "../../../x"), ("created_utc", "../user"), ("created_utc", ""),
])  # fmt: skip
def test_a_session_of_a_stranger_is_not_pushed_elsewhere(
    session: Path, tmp_path: Path, user: Path, key: str, text: str
) -> None:
    document = json.loads((session / MANIFEST).read_text())
    document[key] = text.format(user=user)
    (session / MANIFEST).write_text(json.dumps(document))
    was = content(tmp_path)
    with pytest.raises(InputError, match=key):
        push(session, Place(str(tmp_path / "lake")), "pi-1")
    assert content(tmp_path) == was


def changed_row(lake: Path, **columns: str) -> None:
    (row,) = rows(lake)
    table = pq.read_table(row)
    for name, text in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array([text]))
    pq.write_table(table, row)


@pytest.mark.parametrize("hostile", [
    {"id": "{user}/precious"}, {"id": "../../user/precious"}, {"id": "00000000-0000-4000-8000-000000000000"},
    {"created_utc": "../x"}, {"name": "../../user/x"}, {"name": "{user}/x"}, {"name": ""}, {"name": "-rf"},
    {"name": "x" * 300}, {"name": "a\0b"}, {"name": ".."},
])  # fmt: skip
def test_a_lake_of_a_stranger_writes_nothing_elsewhere(
    session: Path, tmp_path: Path, user: Path, hostile: dict[str, str]
) -> None:
    lake = Place(str(tmp_path / "lake"))
    push(session, lake, "pi-1")
    document = json.loads((session / MANIFEST).read_text())
    document.update({key: text.format(user=user) for key, text in hostile.items()})
    changed_row(tmp_path / "lake", manifest=json.dumps(document))
    was = outside(tmp_path)
    if "name" in hostile:
        folder, _ = pull(lake, ID, None, tmp_path / "home")
        assert folder == tmp_path / "home" / f"{ID}.edgetop"
    else:
        with pytest.raises(InputError, match="the row of"):
            pull(lake, ID, None, tmp_path / "home")
        assert not (tmp_path / "home").exists()
    assert outside(tmp_path) == was


@pytest.mark.parametrize("files", [
    '{"../../user/x": [1, ""]}', '{"outputs.npz/../../x": [1, ""]}', '{"seconds": [-1, ""]}', '{"seconds": [1]}',
    '{"seconds": ["1", ""]}', '{"notes.txt": [1, ""]}', "[]", "null", "5", "[" * 99_999, '{"seconds": null}',
    '{"seconds": [1e400, ""]}',
])  # fmt: skip
def test_a_row_with_files_that_cannot_be_is_refused(session: Path, tmp_path: Path, files: str) -> None:
    lake = Place(str(tmp_path / "lake"))
    push(session, lake, "pi-1")
    changed_row(tmp_path / "lake", files=files)
    with pytest.raises(InputError, match=r"the row of .* is not sound"):
        pull(lake, ID, None, tmp_path / "home")


def _of_a_tebibyte(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**40)


def test_pipes_and_endless_files_in_a_lake_are_no_tables(session: Path, tmp_path: Path) -> None:
    lake = Place(str(tmp_path / "lake"))
    push(session, lake, "pi-1")
    path = tmp_path / "lake" / lake.files("inferences")[0]
    path.unlink()
    for make, end in (
        (os.mkfifo, Path.unlink), (lambda p: p.symlink_to("/dev/zero"), Path.unlink), (Path.mkdir, Path.rmdir),
        (_of_a_tebibyte, Path.unlink),
    ):  # fmt: skip
        make(path)
        with pytest.raises(OutputError, match="is not what was pushed"):
            pull(lake, ID, None, tmp_path / "home")
        end(path)
    assert not list((tmp_path / "home").iterdir())


def test_nothing_is_written_through_a_link(session: Path, tmp_path: Path, user: Path) -> None:
    """Such as one in an archive that holds a session, or in a lake that others may write."""
    lake = tmp_path / "lake"
    push(session, Place(str(lake)), "pi-1")
    partials = [path.with_name(f"{path.name}.partial") for path in lake.rglob("*.parquet")]
    shutil.rmtree(lake)
    was = outside(tmp_path)
    for plant in (Path.symlink_to, Path.hardlink_to):
        for path in partials:
            path.parent.mkdir(parents=True, exist_ok=True)
            plant(path, user / "authorized_keys")
        for name in ("pushed.json", "pushed.json.tmp"):
            (session / name).unlink(missing_ok=True)
            (session / name).symlink_to(user / "authorized_keys")
        push(session, Place(str(lake)), "pi-1")
        assert not (session / PUSHED).is_symlink()
        assert outside(tmp_path) == was
        assert pull(Place(str(lake)), ID, tmp_path / f"{plant.__name__}.edgetop", tmp_path)
        shutil.rmtree(lake)


def test_pushes_of_one_session_at_once_all_succeed(session: Path, tmp_path: Path) -> None:
    push(session, Place(str(tmp_path / "whole")), "pi-1")
    whole, lake = content(tmp_path / "whole"), tmp_path / "lake"
    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(push, session, Place(str(lake)), "pi-1") for _ in range(4)]
        assert {one.result().size for one in done} == {sum(map(len, whole.values()))}
        assert content(lake) == whole
        shutil.rmtree(lake)


def test_a_push_beside_one_that_hangs_says_so(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetop.lake.place.PATIENCE_S", 0.1)
    lake = tmp_path / "lake"
    push(session, Place(str(lake)), "pi-1")
    (path,) = lake.rglob("seconds/**/*.parquet")
    path.unlink()
    with path.with_name(f"{path.name}.partial").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match="another push has been writing it"):
            push(session, Place(str(lake)), "pi-1")
    push(session, Place(str(lake)), "pi-1")


@pytest.mark.parametrize("given", ["none", ID[:3], "*"])
def test_a_session_that_is_not_there(session: Path, tmp_path: Path, given: str) -> None:
    lake = Place(str(tmp_path / "lake"))
    push(session, lake, "pi-1")
    with pytest.raises(InputError, match="no session"):
        pull(lake, given, None, tmp_path)


def test_it_is_the_same_each_time_and_another_on_each_machine(tmp_path: Path) -> None:
    machine = tmp_path / "machine-id"
    ids = []
    for _ in range(2):
        machine.write_text(uuid.uuid4().hex + "\n")
        ids.append(board_id(None, machine))
        assert board_id(None, machine) == ids[-1]
        assert machine.read_text()[:6] not in ids[-1]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("text", ["", "uninitialized\n", "00ff", "ä"])
def test_without_a_machine_id_one_is_to_be_chosen(tmp_path: Path, text: str) -> None:
    (tmp_path / "machine-id").write_text(text)
    with pytest.raises(InputError, match="--board-id"):
        board_id(None, tmp_path / "machine-id")


@pytest.mark.parametrize("chosen", ["", "42", "nan", "a/b", "..", "A", "a" * 64, "a b", "a=b", "a\n"])
def test_an_id_is_a_safe_name_that_is_no_number(chosen: str) -> None:
    with pytest.raises(InputError):
        board_id(chosen)


def test_a_chosen_id_is_taken() -> None:
    assert board_id("pi-07.lab") == "pi-07.lab"


COUNTED = "SELECT sum(count) AS n FROM seconds JOIN sessions ON seconds.session = sessions.session"


@pytest.fixture
def pieces_of_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetop.lake.transfer.PIECE_S", 10)
    monkeypatch.setattr("edgetop.lake.transfer.SETTLES_S", 5)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.usefixtures("pieces_of_ten_seconds")
def test_pieces_are_final_resumed_and_replaced_by_the_whole(tmp_path: Path) -> None:
    batches = list(session_of(with_phases(back_to_back(480, 100e6))))
    folder, lake = tmp_path / "soak.edgetop", Place(str(tmp_path / "lake"))
    recorder = Recorder(folder, batches[0].manifest)
    early = until(batches, 38)
    for batch in early:
        recorder.write(batch)
    assert "30 s more" in push_pieces(folder, lake, "pi-1")
    assert push_pieces(folder, lake, "pi-1") == ""
    assert [path.rsplit(".", 2)[1] for path in lake.files("seconds")] == ["0-10", "10-20", "20-30"]
    in_30_s = sum(int(b.seconds.rows["count"][b.seconds.rows["t_ns"] < 30e9].sum()) for b in batches if len(b.seconds))
    assert ask(lake, COUNTED).rows == ((in_30_s,),)
    before = content(tmp_path / "lake")
    (tmp_path / "lake" / lake.files("seconds")[-1]).unlink()  # as if it was killed before the last one
    push_pieces(folder, lake, "pi-1")
    assert content(tmp_path / "lake") == before

    waited = []

    def finish(_: float) -> None:
        waited.append(ask(lake, COUNTED).rows)
        for batch in batches[len(early) :]:
            recorder.write(batch)
        recorder.finish(batches[-1].manifest)

    follow(folder, lake, "pi-1", lambda _: None, finish)
    assert waited == [((in_30_s,),)]
    push(folder, Place(str(tmp_path / "other")), "pi-1")
    assert content(tmp_path / "lake") == content(tmp_path / "other")
    assert (folder / PUSHED).exists()


def test_beside_a_whole_table_nobody_reads_its_pieces(tmp_path: Path) -> None:
    where = "seconds/date=2026-11-21/board=pi-1"
    names = [f"{where}/{name}.parquet" for name in ("one", "one.0-600", "one.600-1200", "two.0-600", "two.600-1200")]
    found = dataset(Place(str(tmp_path)), "seconds", [*names, "seconds/else.parquet"]).files
    assert [Path(name).name for name in found] == ["one.parquet", "two.0-600.parquet", "two.600-1200.parquet"]


def test_the_requests_of_a_language_model_come_along(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "tokens.edgetop", batches())
    session = recording.manifest.id
    place = Place(str(tmp_path / "lake"))
    push(recording.folder, place, "pi-1")
    asked = ask(place, f"select count(*) from requests where session = '{session}'")
    requests = pq.read_table(recording.folder / "requests.parquet")
    assert list(asked.rows[0]) == [len(requests)]
    folder, _ = pull(place, session, tmp_path / "back.edgetop", tmp_path)
    assert pq.read_table(folder / "requests.parquet").equals(requests)
    assert {name for name in content(recording.folder) if name.endswith(".parquet")} <= content(folder).keys()


def test_a_lake_without_language_models_has_an_empty_table_of_requests(session: Path, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "lake"))
    push(session, place, "pi-1")
    assert list(ask(place, "select count(*) from requests").rows[0]) == [0]
