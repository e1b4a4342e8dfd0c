"""A Perfetto trace, packet by packet: https://perfetto.dev/docs/reference/synthetic-track-event

A trace is one message with nothing but packets in it, so each is appended as it comes and
nothing is held. The classes are those of the `perfetto` package.
"""

from typing import Any, BinaryIO

from edgetop.errors import InputError
from edgetop.recording.packing import encodable

_FIELD_PACKET = b"\x0a"  # field 1 of Trace, length-delimited
_SEQUENCE = 1
_REALTIME, _MONOTONIC, _BOOTTIME = 1, 3, 6  # protos/perfetto/common/builtin_clock.proto

Argument = str | int | float


class TraceWriter:
    def __init__(self, file: BinaryIO, origin_ns: int) -> None:
        """`origin_ns`: CLOCK_MONOTONIC at session time 0. Raises InputError where the package is missing."""
        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos  # noqa: PLC0415  an extra
        except ImportError:
            raise InputError(
                "Perfetto traces need the perfetto package", "pip install 'edgetop[perfetto]', or --to json"
            ) from None
        self._file = file
        # A clock from an odd file must not make the timestamps, which are unsigned, fail.
        self._origin_ns = origin_ns if 0 <= origin_ns < 2**62 else 0
        self._event = protos.TrackEvent
        self._new_packet = protos.TracePacket
        self._packet = protos.TracePacket()
        self._tracks = 0

    def _next(self) -> Any:
        self._packet = self._new_packet()  # one that is cleared keeps the memory of all it has held
        self._packet.trusted_packet_sequence_id = _SEQUENCE
        return self._packet

    def _write(self) -> None:
        data = self._packet.SerializeToString()
        self._file.write(_FIELD_PACKET + _varint(len(data)) + data)

    def _time(self, t_ns: int) -> int:
        return max(0, self._origin_ns + t_ns)

    def clock(self, t_ns: int, utc_us: int) -> None:
        """What the wall clock said. The trace's own is taken for CLOCK_BOOTTIME, its default: boards do not sleep."""
        packet = self._next()
        packet.timestamp = self._time(t_ns)
        for clock, value in ((_BOOTTIME, packet.timestamp), (_MONOTONIC, packet.timestamp), (_REALTIME, utc_us * 1000)):
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=max(0, value))
        self._write()

    def track(self, name: str, parent: int | None = None, unit: str | None = None) -> int:
        """A new track, of a counter where it has a unit; what it is known by from here on."""
        self._tracks += 1
        descriptor = self._next().track_descriptor
        descriptor.uuid = self._tracks
        descriptor.name = encodable(name)
        if parent is not None:
            descriptor.parent_uuid = parent
        if unit is not None:
            descriptor.counter.unit_name = encodable(unit)
        self._write()
        return self._tracks

    def count(self, track: int, t_ns: int, value: float) -> None:
        """The counter has this value from here on."""
        event = self._at(track, t_ns, self._event.TYPE_COUNTER)
        event.double_counter_value = value
        self._write()

    def begin(self, track: int, t_ns: int, name: str, **arguments: Argument) -> None:
        """A slice begins; within one that has not ended, it is a part of that."""
        self._named(self._at(track, t_ns, self._event.TYPE_SLICE_BEGIN), name, arguments)

    def end(self, track: int, t_ns: int) -> None:
        """The slice that began last ends."""
        self._at(track, t_ns, self._event.TYPE_SLICE_END)
        self._write()

    def instant(self, track: int, t_ns: int, name: str, **arguments: Argument) -> None:
        self._named(self._at(track, t_ns, self._event.TYPE_INSTANT), name, arguments)

    def _at(self, track: int, t_ns: int, kind: int) -> Any:
        packet = self._next()
        packet.timestamp = self._time(t_ns)
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet.track_event

    def _named(self, event: Any, name: str, arguments: dict[str, Argument]) -> None:
        event.name = encodable(name)
        for key, value in arguments.items():
            annotation = event.debug_annotations.add(name=key)
            if isinstance(value, str):
                annotation.string_value = encodable(value)
            elif isinstance(value, int):
                annotation.int_value = value
            else:
                annotation.double_value = value
        self._write()


def _varint(value: int) -> bytes:
    """
    >>> _varint(300)
    b'\\xac\\x02'
    """
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
