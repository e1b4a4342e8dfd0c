"""A dead session is completed when it is opened: once, wholly, and whatever interrupts it."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.feeds.attach_feed import AttachFeed
from edgetop.recording import footer
from edgetop.recording.catalog import Catalog, RowGroup
from edgetop.recording.columns import SCHEMAS
from edgetop.recording.compaction import run_job
from edgetop.recording.journal import TableJob
from edgetop.recording.journal_frames import ALONE, DEFLATED, MAGIC
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import END_NOTE, Retention, read_manifest, write_manifest
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import boot_id
from edgetop.session.manifest import Manifest
from edgetop.session.records import NO_INFERENCES
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.clocks import ManualClock
from tests.support.recordings import (
    SENSORS,
    back_to_back,
    content,
    first_manifest,
    journal_of,
    kill,
    last_changed_at,
    left_by_a_dead_writer,
    played,
    record,
    rewritten,
    session,
    until,
    with_phases,
)
from tests.support.sessions import seconds_of
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow

TABLES = {f"{name}.parquet" for name in SCHEMAS}
COMPLETE = TABLES | {"session.json", "session.json.lock"}


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    """Half a minute, as a conductor hands it on."""
    return list(session(with_phases(back_to_back(1_500, 20e6)), seed=4))


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, batches: list[Batch]) -> Path:
    """What a writer left that was killed after 20 seconds; its journal has several segments, some in tables already."""
    folder = tmp_path_factory.mktemp("left") / "s.edgetop"
    left_by_a_dead_writer(folder, until(batches, 20), segment_bytes=4_000)
    assert len(journal_of(folder)) > 1
    assert (folder / "journal/inferences-0000.partial").stat().st_size > 1_000
    return folder


@pytest.fixture
def dead(tmp_path: Path, left: Path) -> Path:
    return shutil.copytree(left, tmp_path / "s.edgetop")


def test_everything_that_was_journalled_comes_back(dead: Path, batches: list[Batch]) -> None:
    given, back = merge(until(batches, 20)), played(dead)
    assert back.inferences.tobytes() == given.inferences[: len(back.inferences)].tobytes()
    assert back.inferences["t_ns"][-1] > 19 * NS
    assert back.readings.tobytes() == given.readings[: len(back.readings)].tobytes()
    assert back.events[:-1] == given.events[: len(back.events) - 1]


def test_the_partial_second_is_completed_from_its_inferences(dead: Path) -> None:
    back = played(dead)
    from_singles = seconds_of(back.inferences)
    assert back.seconds.rows.tobytes() == from_singles.rows.tobytes()
    assert back.seconds.histogram().tolist() == from_singles.histogram().tolist()


def test_the_state_and_one_event_say_how_it_ended(dead: Path) -> None:
    back = played(dead)
    manifest = read_manifest(dead)
    assert (manifest.state, manifest.end_reason) == ("recovered", "power-loss")  # of a boot that is not this one
    assert manifest.duration_ns == back.until_ns
    assert 19 * NS < back.until_ns <= 20 * NS
    (event,) = [event for event in back.events if event.kind == "recovered"]
    assert event == back.events[-1]
    assert event.message.startswith("completed after 00:00:20: a time that is not known, and inferences that nobody")
    assert "the journal was flushed every 5.0s while edgetop ran" in event.message
    assert event.body.warmup_runs == 149
    assert manifest.methodology.warmup_runs == 149
    assert manifest.methodology.measure_runs == sum(back.inferences["phase"] == 2)


def test_a_writer_that_died_in_this_boot_was_killed(tmp_path: Path, batches: list[Batch]) -> None:
    here = [replace(b, manifest=_of_this_boot(b)) if b.manifest else b for b in until(batches, 5)]
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", here)
    assert Recording(folder).manifest.end_reason == "writer-killed"
    assert "edgetop was killed" in played(folder).events[-1].message
    assert "the engine left no word of how long it went on" in played(folder).events[-1].message


NOTE_S = 25.5  # when its engine ended


@pytest.mark.parametrize("raw", [True, False])
def test_how_much_a_killed_writer_lost_is_what_its_engine_counted(
    tmp_path: Path, batches: list[Batch], raw: bool
) -> None:
    """A writer may have been stopped for a long time before it was killed."""
    given = [replace(b, manifest=_of_this_boot(b)) if b.manifest else b for b in until(batches, 5)]
    given = given if raw else [replace(batch, inferences=NO_INFERENCES) for batch in given]
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", given)
    recorded = sum(len(batch.inferences) for batch in given)
    noted = {"t_ns": first_manifest().clock.origin_monotonic_ns + int(NOTE_S * NS), "inferences": recorded + 1234}
    (folder / END_NOTE).write_text(json.dumps(noted))
    lost = (Recording(folder), read_manifest(folder).lost)[1]
    assert lost.seconds == pytest.approx(NOTE_S - given[-1].until_ns / NS)
    assert lost.inferences == (1234 if raw else None)
    assert "its engine went on for" in lost.why


NO_NOTES = ("", "[]", "[" * 4000, '{"t_ns": -1, "inferences": 3}', '{"t_ns": 1e300, "inferences": 1}', "x" * 100_000)


@pytest.mark.parametrize("note", NO_NOTES)
def test_a_note_that_is_none_tells_nothing(tmp_path: Path, batches: list[Batch], note: str) -> None:
    here = [replace(b, manifest=_of_this_boot(b)) if b.manifest else b for b in until(batches, 5)]
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", here)
    (folder / END_NOTE).write_text(note)
    lost = (Recording(folder), read_manifest(folder).lost)[1]
    assert (lost.seconds, lost.inferences) == (None, None)


@pytest.mark.parametrize("boot", ["this one", "another"])
@pytest.mark.parametrize("share", [0.25, 0.6, 0.85])
def test_a_journal_that_was_cut_off_is_not_said_to_lack_a_second(
    tmp_path: Path, batches: list[Batch], boot: str, share: float
) -> None:
    """Its end is as of a writer that died then; when it was changed last tells more."""
    own = [
        replace(b, manifest=_of_this_boot(b)) if b.manifest and boot == "this one" else b for b in until(batches, 20)
    ]
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", own)
    (segment,) = journal_of(folder)
    data = segment.read_bytes()
    rewritten(segment, data[: int(len(data) * share)])
    back, lost = played(folder), read_manifest(folder).lost
    missing_s = (merge(own).until_ns - back.until_ns) / NS
    assert missing_s > 2
    assert lost
    assert (lost.seconds, lost.inferences) == (None, None)
    if missing_s > 5:
        assert "after its last batch" in lost.why


@pytest.mark.parametrize("later_s", [-86_400, 2 * 86_400])
def test_a_copy_without_its_times_does_not_tell_what_it_lacks(
    tmp_path: Path, batches: list[Batch], later_s: int
) -> None:
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", until(batches, 5))
    last_changed_at(folder, first_manifest(), (5 + later_s) * NS)
    back, lost = played(folder), read_manifest(folder).lost
    assert lost
    assert (lost.seconds, lost.inferences) == (None, None)
    assert "at most" not in back.events[-1].message
    assert "after its last batch" not in lost.why


def _of_this_boot(batch: Batch):
    assert batch.manifest
    return replace(batch.manifest, clock=replace(batch.manifest.clock, boot_id=boot_id()))


def last_end_ns(folder: Path) -> object:
    return played(folder).events[-1].body.last_end_ns


def test_the_measurement_ends_with_the_inference_that_ended_last(tmp_path: Path, batches: list[Batch]) -> None:
    """Of several streams that need not be the one that began last."""
    *earlier, last = until(batches, 5)
    inferences = last.inferences.copy()
    inferences["latency_ns"][0] = 3 * NS
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", [*earlier, replace(last, inferences=inferences)])
    assert last_end_ns(folder) == inferences["t_ns"][0] + 3 * NS


def test_without_single_inferences_it_ends_with_its_seconds(tmp_path: Path, batches: list[Batch]) -> None:
    """The second that was begun counts: so does its time."""
    given = until(batches, 5.5)
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", given, keep=Retention(raw=False))
    assert last_end_ns(folder) == played(folder).until_ns == given[-1].until_ns


def test_a_second_opening_changes_nothing(dead: Path) -> None:
    Recording(dead)
    before = content(dead)
    assert set(before) == COMPLETE
    played(dead)
    assert content(dead) == before


def test_a_recovered_session_reports_like_one_that_ended(dead: Path) -> None:
    document = report(dead)
    assert document["phases"]["warmup"]["runs"] == 149
    assert document["latency"]["count"] == int(played(dead).seconds.rows["count"].sum())
    assert "recovered" in [warning["code"] for warning in document["warnings"]]


def report(folder: Path):
    analysis = Analysis()
    for batch in Recording(folder).play():
        analysis.fold(batch)
    return report_document(analysis)


@pytest.mark.thorough
def test_where_nothing_can_be_written_it_is_completed_in_memory(dead: Path, tmp_path: Path) -> None:
    before = content(dead)
    lock = dead / "session.json.lock"
    lock.unlink()
    lock.mkdir()  # no lock to be had, as on a medium that cannot be written
    unwritten = Recording(dead)
    assert unwritten.manifest.state == "recovered"
    in_memory, document = merge(list(unwritten.play(inferences=True))), report(dead)
    lock.rmdir()
    assert {**content(dead), "session.json.lock": b""} == before
    assert in_memory.inferences.tobytes() == played(dead).inferences.tobytes()
    assert in_memory.seconds.rows.tobytes() == played(dead).seconds.rows.tobytes()
    assert in_memory.events == played(dead).events
    assert document == report(dead)


def test_a_writer_dead_before_its_first_batch_left_a_session(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest())
    kill(recorder)
    back = played(tmp_path / "s.edgetop")
    assert [event.kind for event in back.events] == ["recovered"]
    assert {path.name for path in (tmp_path / "s.edgetop").iterdir()} == COMPLETE


def test_a_session_that_had_ended_is_only_finished(tmp_path: Path, batches: list[Batch]) -> None:
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", batches)
    assert read_manifest(folder).state == "live"
    whole, back = merge(batches), played(folder)
    assert (back.manifest.state, back.manifest.end_reason) == ("finished", "runs")
    assert back.events == whole.events
    assert back.inferences.tobytes() == whole.inferences.tobytes()
    assert report(folder) == report(record(tmp_path / "other.edgetop", batches))


def test_tables_that_only_lack_publication_are_published(tmp_path: Path, batches: list[Batch]) -> None:
    folder = record(tmp_path / "s.edgetop", batches)
    (folder / "journal").mkdir()
    for name in sorted(TABLES)[:2]:
        before = (folder / name).read_bytes()
        assert before
    assert played(folder).inferences.tobytes() == merge(batches).inferences.tobytes()
    assert not (folder / "journal").exists()


def test_a_torn_batch_is_dropped_and_told(dead: Path) -> None:
    last = journal_of(dead)[-1]
    last.write_bytes(last.read_bytes()[:-5])
    event = played(dead).events[-1]
    assert event.kind == "recovered"
    assert event.body.torn_bytes > 20
    assert "a torn batch of" in event.message


@pytest.fixture
def in_one(tmp_path: Path, batches: list[Batch]) -> Path:
    """What a writer left that was killed after 8 seconds, all in one segment."""
    return left_by_a_dead_writer(tmp_path / "one.edgetop", until(batches, 8))


def with_damaged_frame(folder: Path, number: int) -> Path:
    (spoilt,) = journal_of(folder)
    data = bytearray(spoilt.read_bytes())
    frames = [place for place in range(len(data)) if data[place : place + 5] == MAGIC + bytes([ALONE | DEFLATED])]
    data[frames[number] + 50] ^= 1
    rewritten(spoilt, bytes(data))
    return folder


def test_a_rotten_batch_is_counted_and_its_bytes_are_kept(in_one: Path, tmp_path: Path) -> None:
    whole = played(shutil.copytree(in_one, tmp_path / "whole.edgetop"))
    (spoilt,) = journal_of(with_damaged_frame(in_one, 8))
    data = spoilt.read_bytes()
    back, manifest = played(in_one), read_manifest(in_one)
    missing = len(whole.inferences) - len(back.inferences)
    assert 10 < missing < 60
    assert manifest.lost
    assert (manifest.lost.seconds, manifest.lost.inferences) == (None, None)
    assert re.search(rf"damaged bytes in the journal \(0.[3-8]\d* s and {missing} inferences\)", manifest.lost.why)
    assert report(in_one)["lost"] == asdict(manifest.lost)
    (said,) = [event for event in back.events if event.kind == "recovered"]
    assert manifest.lost.why in said.message
    assert (in_one / f"{spoilt.name}.damaged").read_bytes() == data


def test_lost_seconds_are_rebuilt_from_what_there_is(in_one: Path, tmp_path: Path) -> None:
    whole = played(shutil.copytree(in_one, tmp_path / "whole.edgetop"))
    for number in range(2, 15):
        folder = with_damaged_frame(shutil.copytree(in_one, tmp_path / f"{number}.edgetop"), number)
        back = played(folder)
        missing = len(whole.inferences) - len(back.inferences)
        with_some = whole.seconds.rows["t_ns"][whole.seconds.rows["count"] > 0]
        assert set(with_some) <= set(back.seconds.rows["t_ns"])
        assert back.seconds.rows["count"].sum() >= whole.seconds.rows["count"].sum() - missing
        assert not missing or f" {missing} inference" in read_manifest(folder).lost.why


def test_a_damaged_journal_of_a_live_session_is_read_on(tmp_path: Path, batches: list[Batch]) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    for batch in until(batches, 8):
        recorder.write(batch)
    feed = AttachFeed(folder, ManualClock())
    before = feed.read()
    with_damaged_frame(folder, 8)
    for batch in batches[len(until(batches, 8)) :]:
        recorder.write(batch)
    with_damaged_frame(folder, -6)
    came = feed.read()
    assert before
    assert came
    assert came.inferences["t_ns"][-1] == merge(batches).inferences["t_ns"][-1]
    assert merge(list(Recording(folder).play(inferences=True))).inferences["t_ns"][-1] == came.inferences["t_ns"][-1]
    lost = recorder.finish(last_manifest(batches))
    missing = len(merge(batches).inferences) - len(played(folder).inferences)
    assert lost
    assert lost.inferences == missing > 10
    assert read_manifest(folder).lost == lost


def last_manifest(batches: list[Batch]) -> Manifest:
    manifest = batches[-1].manifest
    assert manifest
    return manifest


@pytest.mark.thorough
def test_any_truncation_of_the_last_batches_loses_only_those(tmp_path: Path, batches: list[Batch]) -> None:
    source = left_by_a_dead_writer(tmp_path / "source.edgetop", until(batches, 6))
    (segment,) = journal_of(source)
    whole = segment.read_bytes()
    full = merge(list(Recording(shutil.copytree(source, tmp_path / "whole.edgetop")).play(inferences=True)))
    for cut in range(len(whole) - 1_200, len(whole), 43):
        folder = shutil.copytree(source, tmp_path / f"{cut}.edgetop")
        journal_of(folder)[0].write_bytes(whole[:cut])
        back = played(folder)
        assert back.until_ns >= full.until_ns - 1.5 * NS
        assert back.inferences.tobytes() == full.inferences[: len(back.inferences)].tobytes()
        before = content(folder)
        assert played(folder).events == back.events
        assert content(folder) == before


INTERRUPTED = """
import os, shutil, sys
from pathlib import Path
from edgetop.recording.recovery import recover
from edgetop.recording.reader import Recording

left, work, stride = *map(Path, sys.argv[1:3]), int(sys.argv[3])
CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.truncate", "shutil.rmtree"}

def dies_at(count):
    seen = 0
    def hook(event, arguments):
        nonlocal seen
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if event in CHANGES or writes:
            seen += 1
            if seen == count:
                os._exit(9)
    sys.addaudithook(hook)

recover(shutil.copytree(left, work / "whole.edgetop"))  # loads what would be loaded in each child
for count in range(1, 200, stride):
    folder = shutil.copytree(left, work / f"{count}.edgetop")
    child = os.fork()
    if not child:
        dies_at(count)
        recover(folder)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(count)
        break
"""


@pytest.mark.parametrize(
    ("pieces", "stride"), [(1, 4), *(pytest.param(pieces, 1, marks=pytest.mark.thorough) for pieces in (1, 3))]
)
def test_the_next_recovery_completes_a_killed_one(
    batches: list[Batch], tmp_path: Path, pieces: int, stride: int
) -> None:
    """`pieces`: into how many a size limit has divided the inferences. `stride`: 4 checks one of 4 interruptions."""
    left = left_by_a_dead_writer(tmp_path / "left.edgetop", until(batches, 4), segment_bytes=100)
    if pieces > 1:
        run_job(left, TableJob(int(journal_of(left)[pieces - 1].stem), piece_bytes=1))
    assert len(journal_of(left)) > 1
    assert len(list(left.glob("journal/inferences-*.partial"))) == pieces
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(left), str(tmp_path), str(stride)],
        capture_output=True,
        text=True,
        check=True,
    )
    steps = int(done.stdout)
    assert steps > 15
    whole = played(tmp_path / f"{steps}.edgetop")
    for step in range(1, steps, stride):
        back = played(tmp_path / f"{step}.edgetop")
        assert back.inferences.tobytes() == whole.inferences.tobytes()
        assert back.readings.tobytes() == whole.readings.tobytes()
        assert back.seconds.rows.tobytes() == whole.seconds.rows.tobytes()
        assert back.events == whole.events
        assert {path.name for path in (tmp_path / f"{step}.edgetop").iterdir()} == COMPLETE


# What does not belong into a session.


def test_nothing_outside_is_written_whatever_links_lie_there(dead: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    for name in ("session.json.tmp", "journal/catalog", "journal/closing", *(f"{name}.parquet" for name in SCHEMAS)):
        (dead / name).unlink(missing_ok=True)
        (dead / name).symlink_to(outside / "precious")
    Recording(dead)
    assert content(outside) == {"precious": b"precious"}


def test_a_journal_that_is_a_link_is_no_journal(dead: Path, tmp_path: Path) -> None:
    (dead / "journal").rename(tmp_path / "outside")
    (dead / "journal").symlink_to(tmp_path / "outside")
    before = content(tmp_path / "outside")
    list(Recording(dead).play())
    assert content(tmp_path / "outside") == before


def foreign(journal: Path, entry: bytes | None = None) -> None:
    """Another row group of inferences, whole in itself, that is none of ours; `entry` in place of its index."""
    table = pa.table({"t_ns": ["text"], "phase": [None], "more": [1]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    body, end = footer.split(sink.getvalue().to_pybytes())
    (journal / "inferences-0007.partial").write_bytes(footer.MAGIC + body)
    (index,) = footer.row_groups_of(end, 0)
    ours = (journal / "catalog").read_bytes()
    Catalog(journal).append(RowGroup("inferences", 7, 4, len(body), 1, "nowhere", entry or index))
    (journal / "catalog").write_bytes((journal / "catalog").read_bytes() + ours)


@pytest.mark.parametrize("entry", mostly_thorough([None, b"\0", b"\xff" * 30], None))
def test_foreign_row_groups_are_reported_and_not_destroyed(dead: Path, tmp_path: Path, entry: bytes | None) -> None:
    clean = played(shutil.copytree(dead, tmp_path / "clean.edgetop"))
    foreign(dead / "journal", entry)
    for _ in range(2):
        recording = Recording(dead)
        batch = merge(list(recording.play(inferences=True)))
        assert batch.inferences.tobytes() == clean.inferences.tobytes()
        assert batch.seconds.rows.tobytes() == clean.seconds.rows.tobytes()
        assert batch.events == clean.events
        assert recording.problems


@pytest.mark.parametrize(
    "name", mostly_thorough(["catalog", "the last segment", "00000099.journal"], "the last segment")
)
@pytest.mark.parametrize("data", mostly_thorough([b"", b"\0" * 5_000, b"garbage" * 999], b"garbage" * 999))
def test_a_journal_of_garbage_is_opened_with_what_is_sound(dead: Path, name: str, data: bytes) -> None:
    path = journal_of(dead)[-1] if name == "the last segment" else dead / "journal" / name
    path.write_bytes(data)
    recording = Recording(dead)
    assert recording.manifest.state == "recovered"
    merge(list(recording.play(inferences=True)))
    assert report(dead)["latency"]["count"] > 0
    write_manifest(dead, read_manifest(dead))


@pytest.mark.thorough
def test_a_session_of_two_recoverers_is_recovered_once(dead: Path) -> None:
    command = [sys.executable, "-m", "edgetop", "report", str(dead), "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    results = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], results
    counts = [json.loads(out)["latency"]["count"] for out, _ in results]
    assert counts == [report(dead)["latency"]["count"]] * 2
    assert [event.kind for event in played(dead).events].count("recovered") == 1


def test_sensors_are_named_by_the_journal_itself(tmp_path: Path, batches: list[Batch]) -> None:
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", until(batches, 6))
    write_manifest(folder, replace(read_manifest(folder), sensors=()))
    names = set(pq.read_table(_opened(folder) / "readings.parquet")["sensor"].to_pylist())
    assert names == {info.id for info in SENSORS}


def _opened(folder: Path) -> Path:
    Recording(folder)
    return folder
