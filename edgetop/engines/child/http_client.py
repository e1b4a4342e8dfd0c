"""A small HTTP/1.1 client whose waits end when the run stops.

`http.client` cannot continue a read after a timeout, so it cannot wait for a token and for the end of the run at the
same time. The answers come from a program that edgetop does not know, so the length of every line, header and body is
limited.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any, Callable, Dict, Iterator, Optional, Tuple
from urllib.parse import urlsplit

from .descriptors import until_readable
from .engine_error import EngineError, one_line

CONNECT_S = 10.0
LOOK_S = 0.2  # interval at which a wait looks whether the run stops
SILENCE_S = 600.0  # longest wait for the next byte: the prefill of a long prompt may take minutes
DOCUMENT_S = 20.0  # longest time for a whole document, such as /slots: llama-server answers between two batches
MOST_LINE, MOST_HEADERS = 65_536, 200
MOST_BODY = 64 * 1024 * 1024
MOST_DOCUMENT = 8 * 1024 * 1024


class StoppedError(Exception):
    """Raised if the run ends before the server has answered."""


class HttpError(Exception):
    """Raised if the server answers with an error, or with something that is not HTTP."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status  # 0: there was no status


class HttpClient:
    """A client of the server at one URL. Each request opens a new connection."""

    def __init__(self, url: str) -> None:
        """Parse `url`, such as http://127.0.0.1:8080.

        Raises EngineError("input") if it is not a URL of HTTP or HTTPS.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EngineError("input", "--url %s: is not a URL of HTTP" % url, "write http://127.0.0.1:8080")
        self.url, self.host = url, parts.hostname
        self.is_secure = parts.scheme == "https"
        self.port = port or (443 if self.is_secure else 80)
        self.path = parts.path.rstrip("/")
        self._name = parts.netloc.rpartition("@")[2]

    def request(
        self, path: str, content: Optional[Dict[str, Any]] = None, is_over: Callable[[], bool] = lambda: False
    ) -> "Answer":
        """Send a GET request, or a POST with `content` as JSON. Return the answer once its headers have come.

        `path` is appended to the path of the URL. `is_over` returns True when the run has ended. The whole answer to a
        GET request must come within DOCUMENT_S seconds. Raises StoppedError if the run ends first, OSError if the
        connection fails, and HttpError if the server answers with an error.
        """
        connection = socket.create_connection((self.host, self.port), CONNECT_S)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.is_secure:
                import ssl  # noqa: PLC0415  of https alone

                connection = ssl.create_default_context().wrap_socket(connection, server_hostname=self.host)
            body = b"" if content is None else json.dumps(content).encode()
            head = "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: edgetop\r\nAccept: */*\r\nConnection: close\r\n" % (
                "GET" if content is None else "POST", (self.path + path) or "/", self._name
            )  # fmt: skip
            if content is not None:
                head += "Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
            connection.sendall(head.encode("latin-1", "replace") + b"\r\n" + body)
            return Answer(connection, is_over, DOCUMENT_S if content is None else None)
        except BaseException:
            connection.close()
            raise

    def document(self, path: str, is_over: Callable[[], bool] = lambda: False) -> Any:
        """Return the JSON document at `path`, parsed. `is_over` ends the wait when it returns True.

        Raises what `request` raises, and HttpError if the document is not JSON.
        """
        with self.request(path, None, is_over) as answer:
            try:
                return json.loads(answer.whole())
            except (ValueError, RecursionError):
                raise HttpError("%s is no JSON" % path) from None

    def gone(self, error: object) -> EngineError:
        """Return an EngineError which says that the server does not answer any more. `error` is the reason."""
        return EngineError("engine", "the server at %s is gone: %s" % (self.url, one_line(error, 100)))


class Answer:
    """One HTTP answer: its status, and its body, which is read while it arrives."""

    def __init__(self, connection: Any, is_over: Callable[[], bool], within_s: Optional[float] = None) -> None:
        """Read the status and the headers from `connection`. `is_over` returns True when the run has ended.

        `within_s` is the longest time for the whole answer in s; None for no limit.
        """
        self._connection, self._is_over, self._within_s = connection, is_over, within_s
        self._begun = time.monotonic()
        self._held = b""
        self._ended = False
        self.received_ns = 0  # CLOCK_MONOTONIC when the last bytes came
        self._connection.setblocking(False)
        try:
            self.status = self._read_status()
            self._headers = self._read_headers()
            self._refuse_errors()
        except BaseException:
            self._connection.close()
            raise

    def _read_status(self) -> int:
        words = self._line().split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise HttpError("it does not speak HTTP")
        return int(words[1][:3])

    def _refuse_errors(self) -> None:
        if self.status >= 300:
            raise HttpError(self._explained(), self.status)

    def __enter__(self) -> "Answer":  # noqa: PYI034  Self is in typing from Python 3.11 on
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _read_headers(self) -> Dict[str, str]:
        headers: Dict[str, str] = {}
        for _ in range(MOST_HEADERS):
            line = self._line()
            if not line:
                return headers
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        raise HttpError("its answer has too many headers")

    def _explained(self) -> str:
        """Return the answer's status and the server's message, such as "HTTP status 404: no such model"."""
        text = ""
        with contextlib.suppress(HttpError, ValueError, RecursionError, OSError):
            error = json.loads(self.whole(MOST_LINE))
            error = error.get("error", error) if isinstance(error, dict) else error
            text = str(error.get("message", "")) if isinstance(error, dict) else str(error)
        return "HTTP status %d%s" % (self.status, ": " + one_line(text, 200) if text else "")

    def _fill(self) -> bool:
        """Wait for more bytes of the answer and keep them. Return False if the server has closed the connection.

        Raises what `HttpClient.request` raises.
        """
        until = time.monotonic() + SILENCE_S
        while not self._ended:
            if self._is_over():
                raise StoppedError
            if self._within_s is not None and time.monotonic() - self._begun > self._within_s:
                raise HttpError("its answer takes longer than %g s" % self._within_s)
            try:
                data = self._connection.recv(65_536)
            except (BlockingIOError, InterruptedError):
                data = None
            except OSError as error:
                if not _wants_more(error):
                    raise
                data = None
            if data:
                self.received_ns = time.monotonic_ns()
                self._held += data
                return True
            if data is not None:
                self._ended = True
                return False
            if time.monotonic() > until:
                raise HttpError("it sent nothing for %d s" % SILENCE_S)
            until_readable(self._connection.fileno(), LOOK_S)
        return False

    def _line(self) -> bytes:
        while b"\n" not in self._held:
            if len(self._held) > MOST_LINE:
                raise HttpError("a line of its answer is too long")
            if not self._fill():
                raise HttpError("it closed the connection")
        line, self._held = self._held.split(b"\n", 1)
        return line.rstrip(b"\r")

    def _take(self, count: int) -> Iterator[bytes]:
        while count > 0:
            if not self._held and not self._fill():
                raise HttpError("it closed the connection")
            piece, self._held = self._held[:count], self._held[count:]
            count -= len(piece)
            yield piece

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces of any size, as they come. Raises what `HttpClient.request` raises."""
        total = 0
        for piece in self._raw_pieces():
            total += len(piece)
            if total > MOST_BODY:
                raise HttpError("its answer is too long")
            yield piece

    def _raw_pieces(self) -> Iterator[bytes]:
        if "chunked" in self._headers.get("transfer-encoding", "").lower():
            while True:
                size = self._line().partition(b";")[0].strip()
                try:
                    count = int(size, 16)
                except ValueError:
                    raise HttpError("a chunk of its answer has no size") from None
                if not 0 <= count <= MOST_BODY:
                    raise HttpError("a chunk of its answer is too long")
                if not count:
                    return
                yield from self._take(count)
                self._line()
        elif "content-length" in self._headers:
            length = self._headers["content-length"]
            if not length.isdigit() or int(length[:12]) > MOST_BODY:
                raise HttpError("its answer is too long")
            yield from self._take(int(length))
        else:
            while self._held or self._fill():
                piece, self._held = self._held, b""
                yield piece

    def whole(self, most: int = MOST_DOCUMENT) -> bytes:
        """Return the whole body. Raises HttpError if it is longer than `most` bytes."""
        body = b""
        for piece in self.pieces():
            body += piece
            if len(body) > most:
                raise HttpError("its answer is too long")
        return body

    def events(self) -> Iterator[Tuple[int, bytes]]:
        """Yield (time in ns at which it came, data) for each server-sent event.

        The format: https://html.spec.whatwg.org/multipage/server-sent-events.html
        """
        held = b""
        for piece in self.pieces():
            held += piece
            *lines, held = held.split(b"\n")
            if len(held) > MOST_DOCUMENT:
                raise HttpError("an event of its answer is too long")
            for line in lines:
                if line.startswith(b"data:"):
                    yield self.received_ns, line[5:].strip()


def _wants_more(error: OSError) -> bool:
    """Whether the error only says that TLS needs more bytes before it can go on, such as ssl.SSLWantReadError."""
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")
