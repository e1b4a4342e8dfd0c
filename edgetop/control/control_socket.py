"""The protocol of the control socket, and its client.

An order is `{"edgetop": 1, "do": "stop" | "mark" | "pause" | "resume" | "profile", "note": TEXT}` and
a newline. The answer is `{"edgetop": 1, "ok": true}`, or has `"ok": false` and an `"error"` in words.
`stop` is answered when the recording is final, with the session's `"end_reason"`.
"""

import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgetop.control.lock_holders import is_stopped
from edgetop.engines.child.descriptors import until_readable
from edgetop.errors import EdgetopError, InputError
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.recording.session_folder import SOCKET
from edgetop.session.events import ACTIONS, Order

VERSION = 1
MAX_LINE = 4096
MAX_NOTE = 500


@frozen
class Answer:
    error: str = ""  # in words; "" if the order was carried out
    end_reason: str | None = None  # why the session ended; None unless it has
    exit_code: int = 0  # exit code of the session's process, in the answer to a stop

    @property
    def is_refusal(self) -> bool:
        """Whether the session refused the order. False for a stop that ended the session, even if with an error."""
        return bool(self.error) and not self.end_reason


def pack_order(order: Order) -> bytes:
    """Return an order, such as a stop, as a line of JSON. Raises ValueError if the order's note is too long."""
    if len(order.note) > MAX_NOTE:
        raise ValueError(f"a note may have {MAX_NOTE} characters")
    return _line({"do": order.do, "note": order.note})


def parse_order(line: bytes) -> Order:
    """Return the order, such as a stop, in a line of JSON. Raises ValueError, with the reason, for any other line."""
    document = _document(line)
    do, note = document.get("do"), document.get("note", "")
    if do not in ACTIONS:
        raise ValueError(f"no such order; there are {', '.join(ACTIONS)}")
    if not isinstance(note, str) or len(note) > MAX_NOTE:
        raise ValueError(f"a note is a text of at most {MAX_NOTE} characters")
    return Order(do, note)


def pack_answer(answer: Answer) -> bytes:
    fields = {"error": answer.error[: MAX_LINE // 8], "end_reason": answer.end_reason, "exit_code": answer.exit_code}
    return _line({"ok": not answer.error, **{key: value for key, value in fields.items() if value}})


def parse_answer(line: bytes) -> Answer:
    """Return the session's answer from a line of JSON. Raises ValueError if the line is not an answer."""
    document = _document(line)
    error, reason, code = document.get("error"), document.get("end_reason"), document.get("exit_code")
    reason_given = error if isinstance(error, str) and error else "it gave no reason"
    return Answer(
        "" if document.get("ok") is True else reason_given,
        reason if isinstance(reason, str) else None,
        code if type(code) is int and 0 <= code < 256 else 0,
    )


def _line(content: Mapping[str, object]) -> bytes:
    text = json.dumps({"edgetop": VERSION, **content}, ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"


def _document(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a line of JSON") from None
    if not isinstance(document, dict) or type(document.get("edgetop")) is not int:
        raise ValueError('not of edgetop: "edgetop" must say the version of the protocol')
    if document["edgetop"] != VERSION:
        raise ValueError(f"version {document['edgetop']} of the protocol; this edgetop speaks {VERSION}")
    return document


@contextlib.contextmanager
def address(folder: Path) -> Iterator[str]:
    """Yield a short path of the control socket in the session's folder `folder`. It is valid until the context ends.

    The usual path may be too long for a socket, whose path has at most 108 bytes (unix(7)). Raises OSError if the
    folder cannot be opened.
    """
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET}"
    finally:
        os.close(fd)


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return the process id and the user id of the other end of a connection.

    The kernel provides both: SO_PEERCRED (unix(7)). The process id is 0 if that process is not visible from here, for
    example because it is in another container.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return int(pid), int(uid)


TIMEOUT_S = 5.0  # for all orders except a stop
LOOK_S = 1.0  # interval of looking whether the process is stopped, while waiting for the answer to a stop


class NotRunningError(InputError):
    """Raised if the session is not running, or ends before it has answered."""


def give(folder: Path, order: Order) -> Answer:
    """Send an order, such as a stop, to the session in `folder`, and return the session's answer.

    For a stop, this waits until the session has ended.

    Raises NotRunningError if the session is not running. Raises EdgetopError if the session refuses the order or does
    not answer.
    """
    name, pid = folder.name, 0
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT_S)
            with address(folder) as path:
                owner = Path(path).parent.stat().st_uid  # through the open descriptor, since the folder may be moved
                connection.connect(path)
            pid, uid = peer_of(connection)
            if uid not in (os.geteuid(), owner):
                raise InputError(f"{folder}: another user answers in its name", "nothing was asked of it")
            with contextlib.suppress(BrokenPipeError):  # a session that refuses answers at once and closes
                connection.sendall(pack_order(order))
            line = _end_line(connection, name, pid) if order.do == "stop" else _answer_line(connection)
    except (FileNotFoundError, ConnectionRefusedError):
        raise NotRunningError(f"{name}: is not running, or takes no orders") from None
    except PermissionError:
        raise InputError(f"{folder}: belongs to another user") from None
    except TimeoutError:
        refuse_stopped(name, pid)
        raise EdgetopError(f"{name}: does not answer", "it may be stopped or hang; nothing else was done") from None
    except ConnectionError:
        line = b""
    except OSError as error:
        raise InputError(f"{folder}: cannot be asked: {error.strerror or error}") from None
    if not line:
        raise NotRunningError(f"{name}: ended without an answer")
    return _understood(name, line)


def refuse_stopped(name: str, pid: int) -> None:
    """Raise EdgetopError if the process `pid` is stopped, for example by Ctrl+Z, so that it cannot answer.

    `name` is the session's name, for the message.
    """
    if is_stopped(pid):
        advice = f"kill -CONT {pid}, or fg in its shell, lets it go on, and it then takes the order"
        raise EdgetopError(f"{name}: process {pid}, which runs it, is stopped, as by Ctrl+Z", advice)


def _end_line(connection: socket.socket, name: str, pid: int) -> bytes:
    """Wait for the answer to a stop, without a time limit, and return its line.

    Raises EdgetopError if the session's process `pid` is stopped meanwhile, for example by Ctrl+Z. `name` is the
    session's name, for the message.
    """
    connection.settimeout(None)
    while not until_readable(connection.fileno(), LOOK_S):
        refuse_stopped(name, pid)
    return _answer_line(connection)


def _answer_line(connection: socket.socket) -> bytes:
    came = b""
    while b"\n" not in came and len(came) <= MAX_LINE:
        piece = connection.recv(MAX_LINE)
        if not piece:
            return b""
        came += piece
    return came.partition(b"\n")[0]


def _understood(name: str, line: bytes) -> Answer:
    try:
        answer = parse_answer(line)
    except ValueError as error:
        raise EdgetopError(f"{name}: gave an answer that is {error}") from None
    if answer.is_refusal:
        raise EdgetopError(f"{name}: {clean(answer.error)}")
    return answer
