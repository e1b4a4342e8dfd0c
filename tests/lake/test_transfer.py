"""Sessions go into a lake and come back, whatever happens on the way."""

import errno
import json
import shutil
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetop.errors import InputError, OutputError
from edgetop.lake.engines import ask
from edgetop.lake.place import FIRST_PAUSE_S, Place
from edgetop.lake.tables import dataset
from edgetop.lake.transfer import board_id, follow, pull, push, push_pieces, remove, row_until
from edgetop.recording.files import MANIFEST
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.registry import PUSHED
from tests.support.recordings import back_to_back, content, until, with_phases
from tests.support.recordings import session as session_of

GOLDEN = Path(__file__).parents[1] / "recordings/v1/finished.edgetop"
ID = json.loads((GOLDEN / MANIFEST).read_text())["id"]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "finished.edgetop"))


class Killed(BaseException):
    """The process is gone: nothing handles it."""


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
    place.fs = Breaking(place.fs, at, error, times)
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
    row = row_until(Recording(session), {})
    monkeypatch.setattr("edgetop.lake.transfer.row_until", lambda *_: row)  # which costs the most, each time the same
    steps, _ = pushed(session, tmp_path / "whole")
    whole = content(tmp_path / "whole")
    assert steps > 40
    for at in range(1, steps + 1, 2):
        lake = tmp_path / f"lake-{at}"
        (session / PUSHED).unlink(missing_ok=True)
        with pytest.raises(Killed):
            pushed(session, lake, at)
        assert not (session / PUSHED).exists()
        rows = lake / "sessions"
        assert not list(rows.rglob("*.parquet")) or content(lake) == whole  # the row comes last
        pushed(session, lake)
        assert content(lake) == whole, at


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
    remove(session)
    assert not session.exists()


def test_rows_of_strangers_lead_nowhere_else(session: Path, tmp_path: Path) -> None:
    document = json.loads((session / MANIFEST).read_text())
    document["name"] = "../../evil\x1b[2J"
    (session / MANIFEST).write_text(json.dumps(document))
    lake = Place(str(tmp_path / "lake"))
    push(session, lake, "pi-1")
    folder, _ = pull(lake, ID, None, tmp_path / "home")
    assert folder == tmp_path / "home" / f"{ID}.edgetop"


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
