"""The session's side of the control socket: one thread, which sleeps in select(2) until a client connects.

The number of clients is limited. So are the bytes that each client may send, and the time that it may take.
"""

import contextlib
import errno
import os
import selectors
import socket
import threading
import time
from functools import partial
from pathlib import Path

from edgetop.control.control_socket import MAX_LINE, Answer, address, pack_answer, parse_order, peer_of
from edgetop.recording.session_folder import FILE_MODE
from edgetop.session.events import TakesOrders

MAX_CLIENTS = 32
PATIENCE_S = 10.0  # time that a client has to send its order
RETRY_S = 0.5
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ControlServer:
    """Takes orders for a session, such as a stop, from the socket in the session's folder."""

    def __init__(
        self, folder: Path, session: TakesOrders, *, uid: int | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        """Make a socket in `folder`, which takes orders as soon as `start` is called.

        `session` carries out the orders. `uid` is the user whose orders are taken, besides root's; by default this
        process's user. `patience_s` is how many seconds a client may take to send its order. Raises OSError if the
        folder's file system does not support sockets.
        """
        self._session = session
        self._uids = {0, os.geteuid() if uid is None else uid}
        self._patience_s = patience_s
        self._listener = _listening(folder)
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._clients: set[_Client] = set()
        self._last: Answer | None = None
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, answer: Answer) -> None:
        """Send `answer` to the clients that asked the session to stop, then close the socket and end the thread."""
        self._last = answer
        self._wake.send(b"x")
        self._thread.join()
        for end in (self._listener, self._wake, self._woken):
            end.close()

    # The methods below run on the server's thread.

    def _serve(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, lambda: None)
        while self._last is None:
            for key, _ in self._selector.select(self._time_left_s()):
                key.data()
            now_s = time.monotonic()
            for client in [c for c in self._clients if not c.waits_for_the_end and c.until_s <= now_s]:
                client.answer(Answer("the order did not come in time"))
                self._drop(client)
        for client in tuple(self._clients):
            if client.waits_for_the_end:
                client.answer(self._last)
            self._drop(client)
        self._selector.close()

    def _time_left_s(self) -> float | None:
        """Return the seconds until the first client runs out of time to send its order.

        Returns None if every client has sent its order.
        """
        until_s = min((client.until_s for client in self._clients if not client.waits_for_the_end), default=None)
        return None if until_s is None else max(0.0, until_s - time.monotonic())

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:  # select(2) would report the connection again at once
                time.sleep(RETRY_S)
            return
        connection.setblocking(False)
        client = _Client(connection, time.monotonic() + self._patience_s)
        if peer_of(connection)[1] not in self._uids:
            client.answer(Answer("this session belongs to another user"))
        elif len(self._clients) >= MAX_CLIENTS:
            client.answer(Answer("too many ask at once"))
        else:
            self._clients.add(client)
            self._selector.register(connection, selectors.EVENT_READ, partial(self._read, client))
            return
        connection.close()

    def _read(self, client: "_Client") -> None:
        line = client.read()
        if line == b"" or (line and client.waits_for_the_end):
            return
        if line:
            try:
                order = parse_order(line)
            except ValueError as error:
                client.answer(Answer(str(error)))
            else:
                self._session.order(order)
                if order.do == "stop":
                    client.waits_for_the_end = True
                    return
                client.answer(Answer())
        self._drop(client)

    def _drop(self, client: "_Client") -> None:
        self._clients.discard(client)
        self._selector.unregister(client.connection)
        client.connection.close()


class _Client:
    def __init__(self, connection: socket.socket, until_s: float) -> None:
        self.connection = connection
        self.until_s = until_s  # deadline for the order, by time.monotonic
        self.waits_for_the_end = False
        self._came = b""

    def read(self) -> bytes | None:
        """Return the line of the order.

        Return b"" if it is not complete yet, and None if the client has closed the connection.
        """
        try:
            piece = self.connection.recv(MAX_LINE)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        if not piece:
            return None
        self._came = (self._came + piece)[: MAX_LINE + 1]
        line, end, _ = self._came.partition(b"\n")
        if end or len(self._came) <= MAX_LINE:
            return line if end else b""
        return b"too long"

    def answer(self, answer: Answer) -> None:
        """Send an answer to the client, without blocking. If the client is gone, nothing happens.

        The answer always fits into the socket's buffer.
        """
        with contextlib.suppress(OSError):
            self.connection.send(pack_answer(answer))


def _listening(folder: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with address(folder) as path:
            listener.bind(path)
            Path(path).chmod(FILE_MODE)  # before anybody can connect
            listener.listen(MAX_CLIENTS)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
