import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from edgetop.analysis.findings import EVENT_CODES
from edgetop.recording.columns import SCHEMAS
from edgetop.recording.export.export_formats import TABLES
from edgetop.recording.export.to_session import SAID_ONCE
from edgetop.recording.reader import Recording
from edgetop.recording.rows import WHOLE, Span
from edgetop.recording.session_folder import Retention
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import Anchor
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.seconds import NS
from tests.support.exports import export, put_operators
from tests.support.recordings import back_to_back, left_by_a_dead_writer, record, session, with_phases
from tests.support.scripts import paced
from tests.support.sessions import differences, folded

CUT = Span(4 * NS, 9 * NS)


def cut_of(folder: Path, span: Span, *tables: str) -> Path:
    path = folder.parent / "cut.edgetop"
    assert export(folder, "session", path, span, tables or TABLES) == []
    return path


def played(folder: Path, span: Span = WHOLE) -> Batch:
    recording = Recording(folder)
    batch = merge(list(recording.play(inferences=True, span=span)))
    assert recording.problems == []
    return batch


def kinds(batch: Batch) -> list[str]:
    return [event.kind for event in batch.events]


def test_a_cut_counts_time_from_its_begin(recorded):
    expected, cut = played(recorded, CUT), played(cut_of(recorded, CUT))
    expected.inferences["t_ns"] -= CUT.begin_ns
    expected.readings["t_ns"] -= CUT.begin_ns
    expected.seconds.rows["t_ns"] -= CUT.begin_ns
    for name in ("inferences", "readings", "seconds"):
        assert differences(getattr(expected, name), getattr(cut, name)) == []
    assert len(cut.seconds) == 5
    its_own = cut.events[kinds(cut).index("cut") + 1 : -1]
    assert [(e.t_ns + CUT.begin_ns, e.message) for e in its_own] == [(e.t_ns, e.message) for e in expected.events]


def test_a_cut_is_a_finished_session_of_its_own(recorded):
    whole, cut = (Recording(folder).manifest for folder in (recorded, cut_of(recorded, CUT)))
    assert (cut.state, cut.end_reason, cut.duration_ns) == ("finished", "user", 5 * NS)
    assert cut.id != whole.id
    assert cut.methodology.measure_runs == int(played(recorded, CUT).seconds.rows["count"].sum())
    assert cut.methodology.notes[-1] == f"cut from test ({whole.id}): 00:00:04 to 00:00:09"
    assert (cut.board, cut.model, cut.engine, cut.sensors) == (whole.board, whole.model, whole.engine, whole.sensors)


def test_a_cut_lies_where_it_lay_on_both_clocks(recorded):
    path = recorded / "session.json"
    document = json.loads(path.read_text())
    document["clock"]["anchors"] += [{"t_ns": 6 * NS, "utc": "2026-11-21T11:00:00.000000Z"}]
    path.write_text(json.dumps(document))
    whole, cut = (Recording(folder).manifest for folder in (recorded, cut_of(recorded, CUT)))
    assert cut.clock.origin_monotonic_ns == whole.clock.origin_monotonic_ns + CUT.begin_ns
    assert cut.clock.anchors == (
        Anchor(0, "2026-11-21T10:59:58.000000Z"),
        Anchor(2 * NS, "2026-11-21T11:00:00.000000Z"),
    )
    assert cut.created_utc == "2026-11-21T10:59:58.000000Z"


def test_recorded_outputs_are_copied_and_non_files_reported(recorded):
    (recorded / "outputs.npz").write_bytes(b"kept")
    (recorded / "outputs-b.npz").symlink_to("/etc/hostname")
    cut = recorded.parent / "cut.edgetop"
    (problem,) = export(recorded, "session", cut, CUT, TABLES)
    assert "outputs-b.npz: cannot be read" in problem
    assert (cut / "outputs.npz").read_bytes() == b"kept"
    assert not (cut / "outputs-b.npz").exists()


def test_a_cut_is_widened_to_whole_seconds(recorded):
    cut = Recording(cut_of(recorded, Span(4 * NS + 1, 9 * NS - 1)))
    assert cut.end_ns == 5 * NS


def test_a_cut_of_the_whole_session_has_the_same_report(recorded):
    whole, cut = (folded(Recording(folder).play()) for folder in (recorded, cut_of(recorded, WHOLE)))
    assert differences(whole.statistics(), cut.statistics()) == []
    assert whole.progress.warmup == cut.progress.warmup
    assert Recording(recorded.parent / "cut.edgetop").manifest.end_reason == "runs"


def test_a_cut_knows_its_phase_and_its_end(recorded):
    analysis = folded(Recording(cut_of(recorded, CUT)).play())
    progress = analysis.progress.view()
    inferences = played(recorded, CUT).inferences
    last_end_ns = int((inferences["t_ns"] + inferences["latency_ns"]).max()) - CUT.begin_ns
    assert (progress.phase, progress.end_reason, progress.measured_ns) == ("over", "user", last_end_ns)


def test_the_last_words_of_a_session_speak_of_the_cut_in_it(recorded):
    whole, cut = played(recorded).events[-1], played(cut_of(recorded, Span(4 * NS, WHOLE.end_ns))).events[-1]
    assert (whole.kind, cut.kind) == ("ended", "ended")
    assert cut.body.reason == whole.body.reason
    assert cut.body.last_end_ns == whole.body.last_end_ns - 4 * NS
    assert (cut.body.warmup_runs, cut.body.warmup_ns) == (None, 0)
    assert whole.body.warmup_runs > 0


def test_without_single_inferences_a_cut_has_the_same_end(tmp_path):
    """Where the last second is far from full, the end of that second would be another answer."""
    batches = list(session(with_phases(back_to_back(620, 20e6))))
    folder = record(tmp_path / "s.edgetop", batches, Retention(raw=False))
    whole, cut = (folded(Recording(path).play()) for path in (folder, cut_of(folder, WHOLE)))
    assert differences(whole.statistics(), cut.statistics()) == []
    assert whole.progress.warmup == cut.progress.warmup


def told(t_ns: int, kind: str, source: str = "engine") -> Event:
    return read_event(t_ns, kind, "info", source, f"{kind} of {source}")


def test_of_what_stays_true_for_a_session_nothing_is_lost():
    """A warning that the whole session has would be missing from its end."""
    over = {"records-lost", "inference-failed", "recording-failed", "recording-behind", "recovered"}
    over |= {"memory-limit", "cpu-quota", "no-inference", "left-behind"}
    changes = {"governor-changed", "power-mode-changed", "cpus-changed"}  # before the cut: it has one setting all along
    onsets = {"cpu-quota", "memory-limit"}  # what began before the cut is seen in the readings behind it
    assert EVENT_CODES - over - changes - onsets <= SAID_ONCE


def test_state_at_the_begin_of_a_cut_is_repeated_there(tmp_path):
    first, *rest = session(with_phases(back_to_back(300, 20e6)))
    rest = [replace(batch, events=[e for e in batch.events if e.kind in ("phase", "ended")]) for batch in rest]
    early = (
        told(1, "engine-loaded"), told(2, "provider-dropped"), told(3, "log"), told(4, "sensor-lost", "sensor a"),
        told(5, "sensor-lost", "sensor b"), told(6, "sensor-back", "sensor a"), told(7, "recording-paused"),
        told(8, "recording-resumed"), told(9, "mark"), told(10, "sensor-missing", "sensor c"), told(11, "profiler"),
        told(12, "profiler"), told(13, "alert-rule"),
    )  # fmt: skip
    folder = record(tmp_path / "s.edgetop", [replace(first, events=(*early, *first.events)), *rest])
    cut = played(cut_of(folder, CUT))
    expected = [
        "engine-loaded", "provider-dropped", "sensor-lost", "sensor-missing", "profiler", "alert-rule", "phase", "cut",
        "ended",
    ]  # fmt: skip
    assert kinds(cut) == expected
    assert {event.t_ns for event in cut.events[:-1]} == {0}
    assert [event.source for event in cut.events if event.kind == "sensor-lost"] == ["sensor b"]
    assert cut.events[6].body.phase == "measure"


def test_how_a_recovered_session_ended_stays_with_its_end(tmp_path):
    folder = left_by_a_dead_writer(tmp_path / "s.edgetop", list(session(back_to_back(300, 20e6)))[:-1])
    end_ns = Recording(folder).end_ns
    cut = played(cut_of(folder, Span(end_ns - 2 * NS, WHOLE.end_ns)))
    last = cut.events[-1]
    assert (last.kind, kinds(cut).count("ended")) == ("recovered", 0)
    assert last.body.last_end_ns <= 3 * NS
    assert Recording(tmp_path / "cut.edgetop").manifest.end_reason in {"power-loss", "writer-killed"}


def test_operators_are_cut_too(recorded):
    conv = (0, "conv", "Conv", "CPU", 10, 500, None, 7)
    put_operators(recorded, [(3 * NS, 0, *conv), (5 * NS, 1, *conv)])
    (row,) = pq.read_table(cut_of(recorded, CUT) / "operators.parquet").to_pylist()
    assert (row["t_ns"], row["burst"], row["name"]) == (NS, 1, "conv")


def test_without_single_inferences_the_seconds_stay(recorded):
    path = cut_of(recorded, CUT, *TABLES[1:])
    assert pq.read_metadata(path / "inferences.parquet").num_rows == 0
    assert len(played(path).seconds) == 5
    assert Recording(path).manifest.methodology.warmup_runs is None


def test_the_files_are_those_of_a_finished_session(recorded):
    path = cut_of(recorded, CUT)
    assert {file.name for file in path.iterdir()} == {"session.json", *(f"{name}.parquet" for name in SCHEMAS)}
    assert path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {0o600}
    for name in SCHEMAS:
        assert pq.read_schema(path / f"{name}.parquet").equals(SCHEMAS[name])


def test_a_cut_of_a_cut_is_that_cut_of_the_whole(recorded):
    once = played(cut_of(recorded, Span(5 * NS, 8 * NS)))
    (recorded.parent / "cut.edgetop").rename(recorded.parent / "once.edgetop")
    cut_of(recorded, Span(3 * NS, 9 * NS)).rename(recorded.parent / "wider.edgetop")
    twice = played(cut_of(recorded.parent / "wider.edgetop", Span(2 * NS, 5 * NS)))
    np.testing.assert_array_equal(once.inferences, twice.inferences)
    assert differences(once.seconds, twice.seconds) == []


def test_a_cut_of_a_paced_session_keeps_misses_streams_gates(tmp_path):
    script = paced(20, first="p99>33ms")
    methodology = replace(script.manifest.methodology, stream_runs=(600, 0))
    script.manifest = replace(script.manifest, methodology=methodology)
    folder = record(tmp_path / "s.edgetop", script.end().batches)
    span = Span(10 * NS, 20 * NS)
    expected, cut = played(folder, span), played(cut_of(folder, span))
    expected.seconds.rows["t_ns"] -= span.begin_ns
    expected.seconds.response.rows["t_ns"] -= span.begin_ns
    assert differences(expected.seconds, cut.seconds) == []
    analysis = folded(Recording(tmp_path / "cut.edgetop").play())
    assert analysis.manifest.methodology.stream_runs == (len(cut.inferences), 0)
    assert analysis.response().count == analysis.statistics().count == len(cut.inferences)
    assert [gate.text for gate in analysis.gates] == ["p99>33ms"]
