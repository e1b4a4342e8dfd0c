import json
import sys

import pyarrow.parquet as pq
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from edgetop.errors import InputError
from edgetop.recording.export import to_perfetto
from edgetop.recording.export.export_formats import TABLES
from edgetop.recording.rows import Span
from edgetop.session.seconds import NS
from tests.support.exports import export, put_operators

BEGIN, END, INSTANT, COUNTER = (
    getattr(TrackEvent, f"TYPE_{n}") for n in ("SLICE_BEGIN", "SLICE_END", "INSTANT", "COUNTER")
)
ORIGIN_NS = 1_000_000_000_000


class Parsed:
    """A trace as its reader sees it."""

    def __init__(self, path):
        packets = Trace.FromString(path.read_bytes()).packet
        descriptors = [packet.track_descriptor for packet in packets if packet.HasField("track_descriptor")]
        self.tracks = {descriptor.uuid: descriptor for descriptor in descriptors}
        assert len(self.tracks) == len(descriptors)
        self.events = [(p.timestamp - ORIGIN_NS, p.track_event) for p in packets if p.HasField("track_event")]
        self.clocks = [packet.clock_snapshot.clocks for packet in packets if packet.HasField("clock_snapshot")]

    def of(self, name):
        (uuid,) = (uuid for uuid, track in self.tracks.items() if track.name == name)
        return [(t_ns, event) for t_ns, event in self.events if event.track_uuid == uuid]

    def counts(self, name):
        return [(t_ns, event.double_counter_value) for t_ns, event in self.of(name) if event.type == COUNTER]

    def slices(self, name):
        """(begin, end, depth, name), in the order in which they begin."""
        done, depth = [], []
        for t_ns, event in self.of(name):
            if event.type == BEGIN:
                depth.append(len(done))
                done.append([t_ns, None, len(depth) - 1, event.name])
            else:
                assert event.type == END
                done[depth.pop()][1] = t_ns
        assert not depth
        return [tuple(one) for one in done]


def parsed(folder, path, **more):
    assert export(folder, "perfetto", path, **more) == []
    return Parsed(path)


def rows_of(folder, name):
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def arguments(event):
    return {one.name: getattr(one, one.WhichOneof("value")) for one in event.debug_annotations}


def test_each_inference_is_a_span_on_the_track_of_its_stream(recorded, tmp_path):
    expected = [(r["t_ns"], r["t_ns"] + r["latency_ns"], 0, r["phase"]) for r in rows_of(recorded, "inferences")]
    assert parsed(recorded, tmp_path / "out").slices("inferences, stream 0") == expected


def test_more_inferences_than_a_browser_takes_are_seconds_alone(recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(to_perfetto, "MAX_SPANS", 100)
    trace = parsed(recorded, tmp_path / "out")
    assert "inferences, stream 0" not in {track.name for track in trace.tracks.values()}
    assert len(trace.counts("count")) == len(rows_of(recorded, "seconds"))
    cut = parsed(recorded, tmp_path / "cut", span=Span(3 * NS, 4 * NS))
    assert 40 < len(cut.slices("inferences, stream 0")) < 60


def test_the_latency_of_each_second_is_a_counter(recorded, tmp_path):
    trace = parsed(recorded, tmp_path / "out")
    seconds = rows_of(recorded, "seconds")
    assert trace.counts("count") == [(row["t_ns"], row["count"]) for row in seconds]
    for name in ("p50", "p90", "p99", "max"):
        expected = [(row["t_ns"], row[f"{name}_ns"] / 1e6) for row in seconds if row["count"]]
        assert trace.counts(f"{name} latency") == expected


def test_a_paced_load_has_response_times_as_counters_and_spans(paced, tmp_path):
    trace, seconds = parsed(paced, tmp_path / "out"), rows_of(paced, "seconds")
    for name in ("p50", "p90", "p99", "max"):
        expected = [(row["t_ns"], row[f"response_{name}_ns"] / 1e6) for row in seconds if row["count"]]
        assert trace.counts(f"{name} response time") == expected
    (uuid,) = (uuid for uuid, track in trace.tracks.items() if track.name == "p50 response time")
    track = trace.tracks[uuid]
    assert (track.counter.unit_name, trace.tracks[track.parent_uuid].name) == ("ms", "response time, each second")
    spans = [arguments(event) for _, event in trace.of("inferences, stream 0") if event.type == BEGIN]
    singles = rows_of(paced, "inferences")
    assert [span["response_ms"] for span in spans] == [(r["wait_ns"] + r["latency_ns"]) / 1e6 for r in singles]


def test_back_to_back_there_are_no_tracks_of_response_time(recorded, tmp_path):
    trace = parsed(recorded, tmp_path / "out")
    assert not [track.name for track in trace.tracks.values() if "response" in track.name]


def test_each_sensor_is_a_counter_in_its_unit_below_its_kind(recorded, tmp_path):
    trace = parsed(recorded, tmp_path / "out")
    readings = rows_of(recorded, "readings")
    for sensor_id, unit, kind in (("temp/cpu-thermal", "°C", "temperature"), ("mem/rss", "MiB", "memory")):
        assert trace.counts(sensor_id) == [(r["t_ns"], r["value"]) for r in readings if r["sensor"] == sensor_id]
        (track,) = (track for track in trace.tracks.values() if track.name == sensor_id)
        assert (track.counter.unit_name, trace.tracks[track.parent_uuid].name) == (unit, kind)


def test_a_simulated_sensor_says_so(recorded, tmp_path):
    manifest = json.loads((recorded / "session.json").read_text())
    manifest["sensors"][0]["simulated"] = True
    (recorded / "session.json").write_text(json.dumps(manifest))
    assert parsed(recorded, tmp_path / "out").counts("temp/cpu-thermal SIMULATED")


def test_events_are_instants_with_their_words(recorded, tmp_path):
    instants = parsed(recorded, tmp_path / "out").of("events")
    expected = rows_of(recorded, "events")
    assert [(t_ns, event.name) for t_ns, event in instants] == [(row["t_ns"], row["kind"]) for row in expected]
    assert {event.type for _, event in instants} == {INSTANT}
    told = arguments(instants[0][1])
    assert [told[name] for name in ("message", "severity", "source", "data")] == [
        expected[0][name] for name in ("message", "severity", "source", "data")
    ]


def test_operators_are_slices_within_their_burst(recorded, tmp_path):
    conv, add = ("conv", "Conv", "CPU", 10), ("[add]:0", "Add", "XNNPACK", 10)
    bursts = [(100, 0, 0, *conv, 500, None, 7), (100, 0, 1, *add, 200, 9, 7), (900, 1, 0, *conv, 700, None, 7)]
    put_operators(recorded, bursts)
    trace = parsed(recorded, tmp_path / "out")
    assert trace.slices("operators, mean of each burst") == [
        (100, 170, 0, "burst 0"), (100, 150, 1, "conv"), (150, 170, 1, "[add]:0"),
        (900, 970, 0, "burst 1"), (900, 970, 1, "conv"),
    ]  # fmt: skip
    told = arguments(next(event for _, event in trace.of("operators, mean of each burst") if event.name == "[add]:0"))
    assert told == {"op_type": "Add", "provider": "XNNPACK", "calls": 10, "total_ns": 200, "flops": 9, "bytes": 7}


@pytest.mark.parametrize("odd", [(100, 0, 0, 0, 500), (100, 0, 0, 1, -5), (2**62, 0, 0, 1, 5), (100, 0, 0, 1, 2**62)])
def test_operators_that_cannot_be_true_are_left_out(odd, recorded, tmp_path):
    rows = [
        (t_ns, burst, position, "a", "A", "CPU", *rest, None, None)
        for t_ns, burst, position, *rest in (odd, (900, 1, 0, 1, 5))
    ]
    put_operators(recorded, rows)
    (problem,) = export(recorded, "perfetto", tmp_path / "out")
    assert "rows that cannot be true are left out: 1 or more" in problem
    slices = Parsed(tmp_path / "out").slices("operators, mean of each burst")
    assert slices == [(900, 905, 0, "burst 1"), (900, 905, 1, "a")]


def test_the_trace_knows_the_wall_clock(recorded, tmp_path):
    ((*clocks,),) = parsed(recorded, tmp_path / "out").clocks
    assert {clock.clock_id: clock.timestamp for clock in clocks}[1] == 1_795_256_100 * NS
    assert {clock.clock_id: clock.timestamp for clock in clocks}[6] == ORIGIN_NS


def test_a_cut_without_single_inferences_has_the_rest(recorded, tmp_path):
    trace = parsed(recorded, tmp_path / "out", span=Span(2 * NS, 4 * NS), tables=TABLES[1:])
    assert {t_ns // NS for t_ns, _ in trace.events} == {2, 3}
    assert "inferences, stream 0" not in {track.name for track in trace.tracks.values()}


@pytest.mark.parametrize("origin_ns", [-(2**62), -5, 2**62])
def test_a_clock_that_cannot_be_true_is_left_out(origin_ns, recorded, tmp_path):
    manifest = json.loads((recorded / "session.json").read_text())
    manifest["clock"]["origin_monotonic_ns"] = origin_ns
    (recorded / "session.json").write_text(json.dumps(manifest))
    trace = parsed(recorded, tmp_path / "out")
    assert min(t_ns for t_ns, _ in trace.events) + ORIGIN_NS < NS


def test_without_the_package_it_says_what_to_install(recorded, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(InputError, match=r"pip install .*perfetto"):
        export(recorded, "perfetto", tmp_path / "out")
    assert list(tmp_path.iterdir()) == [recorded]
