"""The side of who gives an order."""

import contextlib
import os
import socket
from pathlib import Path

from edgetop.control.wire import MAX_LINE, Answer, address, pack_order, parse_answer, peer_uid
from edgetop.errors import EdgetopError, InputError
from edgetop.formatting import clean
from edgetop.session.orders import Order

TIMEOUT_S = 5.0  # for what is done at once


class NotRunningError(InputError):
    """Nobody is there to take the order."""


def give(folder: Path, order: Order) -> Answer:
    """Have an order carried out by the session that is recorded in `folder`; a stop waits for its end.

    Raises NotRunningError, and EdgetopError where it is refused.
    """
    name = folder.name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT_S)
            with address(folder) as path:
                connection.connect(path)
            if peer_uid(connection) not in (os.geteuid(), folder.stat().st_uid):
                raise InputError(f"{folder}: another user answers in its name", "nothing was asked of it")
            with contextlib.suppress(BrokenPipeError):  # it has answered before it was asked
                connection.sendall(pack_order(order))
            connection.settimeout(None if order.do == "stop" else TIMEOUT_S)
            line = _line(connection)
    except (FileNotFoundError, ConnectionRefusedError):
        raise NotRunningError(f"{name}: is not running, or takes no orders") from None
    except PermissionError:
        raise InputError(f"{folder}: belongs to another user") from None
    except TimeoutError:
        raise EdgetopError(f"{name}: does not answer", "it may be stopped or hang; nothing else was done") from None
    except ConnectionError:
        line = b""
    except OSError as error:
        raise InputError(f"{folder}: cannot be asked: {error.strerror or error}") from None
    if not line:
        raise NotRunningError(f"{name}: ended without an answer")
    return _understood(name, line)


def _line(connection: socket.socket) -> bytes:
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
