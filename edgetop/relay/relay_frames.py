"""The format of the frames on the pipe between `edgetop relay` and its viewer.

    magic "ETr" | kind u8 | bytes of the payload u32 | CRC-32 of kind, length and payload u32 | payload

BATCH carries a packed batch (`encoding`), COMMAND and ACK a numbered line, every other kind one JSON object. The
header and HELLO are the same in every version, so that two versions can always detect that they differ.

History of PROTOCOL: 1, the first. 2: seconds have response times and runs of misses. 3: BATCH carries what a
journal's frame does, positions refer to the journal, and COMMAND and ACK carry the control socket's lines.
4: a viewer may ask for summaries instead of batches.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from edgetop import __version__
from edgetop.frozen import frozen
from edgetop.session.manifest import FORMAT_VERSION

PROTOCOL = 4
MAGIC = b"ETr"

# The first frame of both sides: {"protocol", "edgetop", "format"}. The viewer adds {"position"} to continue after a
# lost link, or {"summaries": {"gates": [TEXT]}} to get summaries instead of batches.
HELLO = 1
BEGIN = 2  # from the board: {"session"}: the folder, by which a viewer finds the session again
BATCH = 3  # from the board
ACK = 4  # from the board: the number of a command u32, and the session's answer
FAILED = 5  # from the board: {"message"}: why it cannot go on; the last frame
END = 6  # from the board: {}: the session is over and was sent completely; the last frame
COMMAND = 7  # from the viewer: a number u32 of its choice, and the line of an order
ALIVE = 8  # from the viewer, and from a board that takes long to send the next frame: {}
SUMMARY = 10  # from the board: {"changed": fields of a session.summary, "events": [[age in s, severity, text]]}
# Between two processes of the board: {"segment", "offset", "until_ns", "live"}: where the journal continues the past.
PLACE = 9

MAX_PAYLOAD = 512 * 1024
MAX_SUMMARY = 32 * 1024
MAX_NOISE = 64 * 1024  # what a shell's start-up files may print before the first frame
MAX_WORDS = 1_000  # characters of a message for people

_HEADER = struct.Struct("<3sBII")
_CHECKED = struct.Struct("<BI")
_NUMBER = struct.Struct("<I")


class WireError(ValueError):
    """Raised if the received bytes do not follow this protocol or were damaged on the way."""


@frozen
class Frame:
    kind: int
    payload: bytes

    @property
    def message(self) -> Mapping[str, Any]:
        """The JSON object in the payload. Raises WireError if the payload is not a JSON object."""
        try:
            document = json.loads(self.payload)
        except (ValueError, RecursionError):
            raise WireError("a message that is not JSON") from None
        if not isinstance(document, dict):
            raise WireError("a message that is not an object")
        return document

    def text(self, key: str) -> str:
        """Return the text under `key` of the frame's JSON object, cut to `MAX_WORDS`
        characters, or "" if there is no text.
        """
        value = self.message.get(key)
        return value[:MAX_WORDS] if isinstance(value, str) else ""

    @property
    def line(self) -> tuple[int, bytes]:
        """The number and the line in the payload of a COMMAND or an ACK. Raises WireError if the payload is damaged."""
        if len(self.payload) < _NUMBER.size:
            raise WireError("a line without a number")
        return _NUMBER.unpack_from(self.payload)[0], self.payload[_NUMBER.size :]

    def number(self, key: str) -> int:
        """Return the whole number under `key` of the frame's JSON object, or -1 if there is no number."""
        value = self.message.get(key)
        return value if type(value) is int else -1


def seal(kind: int, payload: bytes) -> bytes:
    return _HEADER.pack(MAGIC, kind, len(payload), _checksum(kind, payload)) + payload


def pack_message(kind: int, **message: object) -> bytes:
    """Return the bytes of a frame of this `kind` whose payload is a JSON object with the fields `message`."""
    return seal(kind, json.dumps(message).encode())


def pack_line(kind: int, number: int, line: bytes) -> bytes:
    """Return the bytes of a frame with a number and a line. `kind` is COMMAND or ACK."""
    return seal(kind, _NUMBER.pack(number) + line)


def hello(**more: object) -> bytes:
    """Return the bytes of a HELLO frame of this version. `more` are the fields that only a viewer sends."""
    return pack_message(HELLO, protocol=PROTOCOL, edgetop=__version__, format=FORMAT_VERSION, **more)


def _checksum(kind: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_CHECKED.pack(kind, len(payload))))


class FrameParser:
    """Finds the frames in a stream of bytes, which may arrive in pieces of any size."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self.has_begun = False
        self.noise = b""  # bytes before the first frame, such as a shell's greeting

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield each frame that is complete once `data` has arrived. Raises WireError if the bytes are not frames."""
        self._pending += data
        if not self.has_begun:
            at = self._pending.find(MAGIC + bytes([HELLO]))
            self.has_begun = at >= 0
            self.noise = bytes(self._pending[: at if at >= 0 else MAX_NOISE])
            if at < 0 and len(self._pending) > MAX_NOISE:
                raise WireError("what answers is not edgetop relay")
            del self._pending[: max(at, 0)]
        while self.has_begun and len(self._pending) >= _HEADER.size:
            magic, kind, size, checksum = _HEADER.unpack_from(self._pending)
            if magic != MAGIC or size > MAX_PAYLOAD:
                raise WireError("not a frame of edgetop relay")
            if len(self._pending) < _HEADER.size + size:
                return
            payload = bytes(self._pending[_HEADER.size : _HEADER.size + size])
            if _checksum(kind, payload) != checksum:
                raise WireError("a frame was damaged on its way")
            del self._pending[: _HEADER.size + size]
            yield Frame(kind, payload)


def misfit(theirs: Frame, there: str) -> str:
    """Return one line that says why this edgetop cannot talk to another, or "" if it can.

    `theirs` is the other edgetop's HELLO. `there` says where the other edgetop runs, such as "on the board".
    """
    protocol, format_version, version = theirs.number("protocol"), theirs.number("format"), theirs.text("edgetop")
    what = f"edgetop {version or 'of an unknown version'} {there}"
    if protocol != PROTOCOL:
        older = "here" if protocol > PROTOCOL else there
        return f"{what} speaks relay protocol {protocol}, edgetop {__version__} here {PROTOCOL}: update edgetop {older}"
    if format_version > FORMAT_VERSION:
        return (
            f"{what} records sessions of format {format_version}, edgetop {__version__} here reads {FORMAT_VERSION}: "
            "update edgetop here"
        )
    return ""
