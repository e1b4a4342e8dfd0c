"""Export of a trace for ui.perfetto.dev.

Latency and sensors are counters, events are moments, and operators and inferences are spans of time. Individual
inferences are included only if there are few enough for a browser.
"""

import json
from typing import Any, BinaryIO

import numpy as np

from edgetop.errors import InputError
from edgetop.installation import extra_command
from edgetop.recording.export.export_formats import Output, Selection
from edgetop.recording.packing import encodable
from edgetop.session.event_codec import data_of
from edgetop.session.records import PHASES

# A Perfetto trace, packet by packet: https://perfetto.dev/docs/reference/synthetic-track-event
# A trace is one message with nothing but packets in it, so each is appended as it comes, as a trace of one packet, and
# nothing is held. The classes are those of the `perfetto` package.

_SEQUENCE = 1
_REALTIME, _MONOTONIC, _BOOTTIME = 1, 3, 6  # protos/perfetto/common/builtin_clock.proto

Argument = str | int | float
_FIELD_OF = {str: "string_value", int: "int_value", float: "double_value"}


class TraceWriter:
    def __init__(self, file: BinaryIO, origin_ns: int) -> None:
        """Write a trace to `file`. `origin_ns` is CLOCK_MONOTONIC at session time 0.

        Raises InputError if the `perfetto` package is missing.
        """
        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos  # noqa: PLC0415  an extra
        except ImportError:
            raise InputError(
                "Perfetto traces need the perfetto package", f"{extra_command('perfetto')}, or --to json"
            ) from None
        self._file = file
        # A clock from an odd file must not make the timestamps, which are unsigned, fail.
        self._origin_ns = origin_ns if 0 <= origin_ns < 2**62 else 0
        self._trace = protos.Trace
        self._tracks = 0

    def _write(self, packet: dict[str, Any]) -> None:
        """Write a packet, given by its fields."""
        packet["trusted_packet_sequence_id"] = _SEQUENCE
        # A new object for each, because a protobuf message keeps its memory even if it is cleared.
        self._file.write(self._trace(packet=[packet]).SerializeToString())

    def _time(self, t_ns: int) -> int:
        return max(0, self._origin_ns + t_ns)

    def clock(self, t_ns: int, utc_us: int) -> None:
        """Write that the wall-clock time at session time `t_ns` is `utc_us`, in microseconds since 1970."""
        # CLOCK_BOOTTIME is Perfetto's default, and equals CLOCK_MONOTONIC on a board that never sleeps.
        now_ns = self._time(t_ns)
        times = {_BOOTTIME: now_ns, _MONOTONIC: now_ns, _REALTIME: max(0, utc_us * 1000)}
        clocks = [{"clock_id": clock, "timestamp": value} for clock, value in times.items()]
        self._write({"timestamp": now_ns, "clock_snapshot": {"clocks": clocks}})

    def track(self, name: str, parent: int | None = None, unit: str | None = None) -> int:
        """Add a track (a row of the trace), and return its number, which the other methods need.

        `parent` is the number of the track under which the new track appears. With `unit`, such as "ms", the track is a
        counter.
        """
        self._tracks += 1
        counter = None if unit is None else {"unit_name": encodable(unit)}
        descriptor = {"uuid": self._tracks, "name": encodable(name), "parent_uuid": parent, "counter": counter}
        self._write({"track_descriptor": {key: value for key, value in descriptor.items() if value is not None}})
        return self._tracks

    def _event(self, kind: str, track: int, t_ns: int, **fields: Any) -> None:
        self._write({"timestamp": self._time(t_ns), "track_event": {"type": kind, "track_uuid": track, **fields}})

    def count(self, track: int, t_ns: int, value: float) -> None:
        """Set the value of a counter track from session time `t_ns` on."""
        self._event("TYPE_COUNTER", track, t_ns, double_counter_value=value)

    def begin(self, track: int, t_ns: int, name: str, **arguments: Argument) -> None:
        """Begin a slice (a named span of time) on a track, nested in the previous slice if that is still open.

        The trace shows `arguments` with the slice.
        """
        self._event("TYPE_SLICE_BEGIN", track, t_ns, **_named(name, arguments))

    def end(self, track: int, t_ns: int) -> None:
        """End the most recently begun slice (span of time) of the track."""
        self._event("TYPE_SLICE_END", track, t_ns)

    def instant(self, track: int, t_ns: int, name: str, **arguments: Argument) -> None:
        self._event("TYPE_INSTANT", track, t_ns, **_named(name, arguments))


def _named(name: str, arguments: dict[str, Argument]) -> dict[str, Any]:
    annotations = [
        {"name": key, _FIELD_OF[type(value)]: encodable(value) if isinstance(value, str) else value}
        for key, value in arguments.items()
    ]
    # An empty list costs a tenth of the time.
    return {"name": encodable(name)} | ({"debug_annotations": annotations} if annotations else {})


_PERCENTILES = ("p50", "p90", "p99", "max")
MAX_SPANS = 500_000  # 30 MB of trace
_TITLES = {
    "temp": "temperature",
    "freq": "clocks",
    "freqcap": "clock limits",
    "volt": "voltage",
    "mem": "memory",
}


def export(selection: Selection, output: Output) -> None:
    manifest = selection.recording.manifest
    with output.stream(is_text=False) as file:
        trace = TraceWriter(file, manifest.clock.origin_monotonic_ns)
        if wall := manifest.wall_time():
            begin = np.array([selection.bounds.begin_ns])
            trace.clock(int(begin[0]), int(wall.microseconds(begin)[0]))
        _put_events(trace, selection)
        inferences = _put_seconds(trace, selection)
        if "inferences" in selection.tables and inferences <= MAX_SPANS:
            _put_inferences(trace, selection)
        _put_operators(trace, selection)
        _put_readings(trace, selection)


def _put_events(trace: TraceWriter, selection: Selection) -> None:
    track = trace.track("events")
    for events in selection.recording.rows("events", selection.span):
        for event in events:
            data = data_of(event.body)
            more = {"message": event.message, "severity": event.severity, "source": event.source}
            more |= {"data": json.dumps(data)} if data else {}
            trace.instant(track, event.t_ns, event.kind, **more)


def _put_seconds(trace: TraceWriter, selection: Selection) -> int:
    """Write the latency, response time and counts of each second. Return the total number of inferences."""
    parent = trace.track("latency, each second")
    latency = {name: trace.track(f"{name} latency", parent, "ms") for name in _PERCENTILES}
    response: dict[str, int] = {}
    if selection.recording.manifest.load.is_paced:  # under a closed load nothing waits
        group = trace.track("response time, each second")
        response = {name: trace.track(f"{name} response time", group, "ms") for name in _PERCENTILES}
    counts = {name: trace.track(name, parent, "1/s") for name in ("count", "errors")}
    total = 0
    for seconds in selection.recording.rows("seconds", selection.span):
        total += seconds.runs
        for row in seconds.rows:
            t_ns = int(row["t_ns"])
            for name, track in counts.items():
                trace.count(track, t_ns, int(row[name]))
            _put_times(trace, latency, row)
        for row in seconds.response.rows if seconds.response is not None else ():
            _put_times(trace, response, row)
    return total


def _put_times(trace: TraceWriter, tracks: dict[str, int], row: np.void) -> None:
    for name, track in tracks.items() if row["count"] else ():
        trace.count(track, int(row["t_ns"]), int(row[f"{name}_ns"]) / 1e6)


def _put_inferences(trace: TraceWriter, selection: Selection) -> None:
    tracks: dict[int, int] = {}
    is_paced = selection.recording.manifest.load.is_paced
    for inferences in selection.recording.rows("inferences", selection.span):
        columns = (inferences[name].tolist() for name in ("t_ns", "latency_ns", "wait_ns", "stream", "phase", "ok"))
        for t_ns, latency_ns, wait_ns, stream, phase, ok in zip(*columns, strict=True):
            if stream not in tracks:
                tracks[stream] = trace.track(f"inferences, stream {stream}")
            waited = {"wait_ms": wait_ns / 1e6} if wait_ns else {}
            arguments = waited | ({"response_ms": (wait_ns + latency_ns) / 1e6} if is_paced else {})
            trace.begin(tracks[stream], t_ns, PHASES[phase] if ok else f"{PHASES[phase]}, failed", **arguments)
            trace.end(tracks[stream], t_ns + latency_ns)


def _put_operators(trace: TraceWriter, selection: Selection) -> None:
    """Write each profiling round as one inference: its operators one after the other, each with its mean time."""
    track = None
    open_burst: tuple[int, int] | None = None
    until_ns = 0
    for burst in (burst for bursts in selection.recording.rows("operators", selection.span) for burst in bursts):
        track = trace.track("operators, mean of each burst") if track is None else track
        if (burst.t_ns, burst.number) != open_burst:  # else the rest of one that was cut
            if open_burst is not None:
                trace.end(track, until_ns)
            open_burst, until_ns = (burst.t_ns, burst.number), burst.t_ns
            trace.begin(track, until_ns, f"burst {burst.number}")
        for info, calls, total_ns in zip(burst.infos, burst.calls.tolist(), burst.total_ns.tolist(), strict=True):
            known = {"op_type": info.op_type, "provider": info.provider, "calls": calls, "total_ns": total_ns}
            known |= {"flops": info.flops, "bytes": info.bytes}
            trace.begin(track, until_ns, info.name, **{key: v for key, v in known.items() if v is not None})
            until_ns += total_ns // calls
            trace.end(track, until_ns)
    if track is not None:
        trace.end(track, until_ns)


def _put_readings(trace: TraceWriter, selection: Selection) -> None:
    parents: dict[str, int] = {}
    tracks = []
    for info in selection.recording.manifest.sensors:
        if info.kind not in parents:
            parents[info.kind] = trace.track(_TITLES.get(info.kind, info.kind))
        name = f"{info.id} SIMULATED" if info.simulated else info.id
        tracks.append(trace.track(name, parents[info.kind], info.unit))
    for readings in selection.recording.rows("readings", selection.span):
        for t_ns, sensor, value in readings.tolist():
            trace.count(tracks[sensor], t_ns, value)
