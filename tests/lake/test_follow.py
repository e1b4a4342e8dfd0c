"""A session goes into a lake while it runs."""

from pathlib import Path

import pytest

from edgetop.lake import follow
from edgetop.lake.dataset import dataset
from edgetop.lake.engines import ask
from edgetop.lake.place import Place
from edgetop.lake.push import MARKER, push
from edgetop.recording.recorder import Recorder
from tests.support.recordings import back_to_back, content, session, until, with_phases

COUNTED = "SELECT sum(count) AS n FROM seconds JOIN sessions ON seconds.session = sessions.session"


@pytest.fixture
def pieces_of_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "PIECE_S", 10)
    monkeypatch.setattr(follow, "SETTLES_S", 5)


@pytest.mark.slow
@pytest.mark.usefixtures("pieces_of_ten_seconds")
def test_pieces_are_final_resumed_and_replaced_by_the_whole(tmp_path: Path) -> None:
    batches = list(session(with_phases(back_to_back(480, 100e6))))
    folder, lake = tmp_path / "soak.edgetop", Place(str(tmp_path / "lake"))
    recorder = Recorder(folder, batches[0].manifest)
    early = until(batches, 38)
    for batch in early:
        recorder.write(batch)
    assert "30 s more" in follow.push_pieces(folder, lake, "pi-1")
    assert follow.push_pieces(folder, lake, "pi-1") == ""
    assert [path.rsplit(".", 2)[1] for path in lake.files("seconds")] == ["0-10", "10-20", "20-30"]
    in_30_s = sum(int(b.seconds.rows["count"][b.seconds.rows["t_ns"] < 30e9].sum()) for b in batches if len(b.seconds))
    assert ask(lake, COUNTED).rows == ((in_30_s,),)
    before = content(tmp_path / "lake")
    (tmp_path / "lake" / lake.files("seconds")[-1]).unlink()  # as if it was killed before the last one
    follow.push_pieces(folder, lake, "pi-1")
    assert content(tmp_path / "lake") == before

    waited = []

    def finish(_: float) -> None:
        waited.append(ask(lake, COUNTED).rows)
        for batch in batches[len(early) :]:
            recorder.write(batch)
        recorder.finish(batches[-1].manifest)

    follow.follow(folder, lake, "pi-1", lambda _: None, finish)
    assert waited == [((in_30_s,),)]
    push(folder, Place(str(tmp_path / "other")), "pi-1")
    assert content(tmp_path / "lake") == content(tmp_path / "other")
    assert (folder / MARKER).exists()


def test_beside_a_whole_table_nobody_reads_its_pieces(tmp_path: Path) -> None:
    where = "seconds/date=2026-11-21/board=pi-1"
    names = [f"{where}/{name}.parquet" for name in ("one", "one.0-600", "one.600-1200", "two.0-600", "two.600-1200")]
    found = dataset(Place(str(tmp_path)), "seconds", [*names, "seconds/else.parquet"]).files
    assert [Path(name).name for name in found] == ["one.parquet", "two.0-600.parquet", "two.600-1200.parquet"]
