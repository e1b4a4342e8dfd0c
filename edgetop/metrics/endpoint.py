"""Serves metrics over HTTP (`--metrics`). Import this module only for that option: its libraries take some MiB.

A scrape (a request for metrics) holds the lock of the analysis while it collects values; the run does not wait for it.

Clients are not trusted. One thread serves all clients and never waits for one of them. A connection carries one request
of limited size and time. If there are too many connections, the oldest is closed.

A scraper that finds no endpoint cannot tell whether the session has ended or the board has died. So at the end, the
endpoint can wait until each scraper has read how the session ended (`hand_over`).
"""

import asyncio
import contextlib
import hmac
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path

from edgetop.analysis.analysis import Analysis
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.metrics.metric_families import families
from edgetop.metrics.prometheus import OPENMETRICS, PLAIN, rendered

PATH = "/metrics"
MOST_AT_ONCE = 64  # most open connections
PATIENCE_S = 5.0  # time limit for a request, including the TLS handshake, and for its answer
MOST_REQUEST_BYTES = 16 * 1024  # the request line and the headers
BACKLOG = 128
SCRAPES_AT_ONCE = 2  # threads that collect values; each waits for the lock of the analysis
ACCEPT_AGAIN_S = 0.5  # pause after the system had no descriptor for a connection
SCRAPER_HEADER = "x-prometheus-scrape-timeout-seconds"  # sent by Prometheus and compatible scrapers
MOST_SCRAPERS = 8
LONGEST_INTERVAL_S = 60.0  # longest time between two scrapes; Prometheus' default
LATE_S = 1.0  # how late a scrape may be
_NO_HEADERS: Mapping[str, str] = {}


@frozen
class _Scrape:
    at_s: float  # time of the scrape, by time.monotonic
    interval_s: float  # time since the previous scrape, or LONGEST_INTERVAL_S
    is_last: bool  # whether the session was over


class Endpoint:
    """Serves the metrics of a session over HTTP, from its construction until `close`."""

    def __init__(
        self, host: str, port: int, token: str | None = None, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        """Listen for requests. Raises InputError if that is impossible.

        `host` is a name or an address. Clients must send the bearer token `token`; None for no token. `certificate` and
        `key` are PEM files for TLS; None for plain HTTP. One file may contain both.
        """
        self._tls = _tls(certificate, key) if certificate else None
        self._token = token
        self._analysis: Analysis | None = None
        self._open: dict[asyncio.Task[None], None] = {}  # open connections, oldest first
        self._taken: dict[str, _Scrape] = {}  # latest scrape by address of the scraper
        self._is_taken = threading.Condition()
        try:
            listener = _listener(host, port)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"--metrics {host}:{port}: cannot listen: {why}", "choose another port") from None
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http{'s' if self._tls else ''}://{shown}:{listener.getsockname()[1]}{PATH}"
        self._scrapes = ThreadPoolExecutor(SCRAPES_AT_ONCE, "metrics")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(listener,), name="metrics", daemon=True)
        self._thread.start()

    def observe(self, analysis: Analysis) -> None:
        self._analysis = analysis

    def owed_s(self) -> float:
        """Return the time in s until all scrapers should have read the end of the session.

        The result is 0 if they have read it, or if the session has not ended.
        """
        if not (self._analysis and _is_over(self._analysis)):
            return 0.0
        due_s = [one.at_s + one.interval_s for one in self._taken.values() if not one.is_last]
        return max(0.0, max(due_s, default=0.0) + LATE_S - time.monotonic())

    def hand_over(self) -> None:
        """Wait until each scraper has read the end of the session, for at most `owed_s` seconds."""
        with self._is_taken:
            while (left_s := self.owed_s()) > 0:
                self._is_taken.wait(left_s)

    def close(self) -> None:
        """Stop listening and close all connections."""
        with contextlib.suppress(RuntimeError):  # the loop is already closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, listener: socket.socket) -> None:
        loop = self._loop
        loop.set_exception_handler(lambda *_: None)  # ignore errors of clients that left or did not speak TLS
        tasks = {loop.create_task(self._accept(listener))}
        with contextlib.closing(listener):
            loop.run_forever()
            tasks |= self._open.keys()
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._scrapes.shutdown(wait=False, cancel_futures=True)
        loop.close()

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = await self._loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            while len(self._open) >= MOST_AT_ONCE:
                oldest = next(iter(self._open))
                del self._open[oldest]
                oldest.cancel()
            task = self._loop.create_task(self._serve(accepted))
            self._open[task] = None
            task.add_done_callback(lambda done: self._open.pop(done, None))
            await asyncio.sleep(0)  # let the task begin, because a task cancelled before that does not close its socket

    async def _serve(self, accepted: socket.socket) -> None:
        """Answer the request of one connection, and close the connection, even if the client misbehaves."""
        writer, head = await asyncio.wait_for(self._request(accepted), PATIENCE_S)
        try:
            await asyncio.wait_for(self._respond(writer, head), PATIENCE_S)
        finally:
            writer.transport.abort()

    async def _request(self, accepted: socket.socket) -> tuple[asyncio.StreamWriter, bytes | None]:
        """Return a writer for the answer, and the request line and headers, or None if they are too long.

        Raises OSError or EOFError if the client leaves or does not speak TLS.
        """
        reader, transport = asyncio.StreamReader(limit=MOST_REQUEST_BYTES), None
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, accepted, ssl=self._tls)
            head = await _head(reader)  # before creating a writer, which would warn if it were dropped unclosed
            return asyncio.StreamWriter(transport, protocol, reader, self._loop), head
        except BaseException:
            if transport:
                transport.abort()
            else:
                accepted.close()
            raise

    async def _respond(self, writer: asyncio.StreamWriter, head: bytes | None) -> None:
        if head is None:
            status, kind, body = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, PLAIN, b"the request is too long\n"
            method, headers, is_last = "", _NO_HEADERS, False
        else:
            method, path, headers = _parsed(head)
            status, kind, body, is_last = await self._answer(method, path, headers)
        peer = writer.get_extra_info("peername")
        more = "WWW-Authenticate: Bearer\r\n" if status == HTTPStatus.UNAUTHORIZED else ""
        writer.write(
            f"HTTP/1.1 {status.value} {status.phrase}\r\nServer: edgetop\r\nConnection: close\r\n{more}"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        if method != "HEAD":
            writer.write(body)
        writer.close()
        await writer.wait_closed()
        if (status, method) == (HTTPStatus.OK, "GET") and SCRAPER_HEADER in headers:
            self._note_scrape(str(peer[0]) if peer else "", is_last=is_last)

    def _note_scrape(self, scraper: str, *, is_last: bool) -> None:
        now_s = time.monotonic()
        with self._is_taken:
            before = self._taken.pop(scraper, None)
            if len(self._taken) >= MOST_SCRAPERS:
                del self._taken[next(iter(self._taken))]
            interval_s = min(now_s - before.at_s, LONGEST_INTERVAL_S) if before else LONGEST_INTERVAL_S
            self._taken[scraper] = _Scrape(now_s, interval_s, is_last)
            self._is_taken.notify_all()

    async def _answer(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[HTTPStatus, str, bytes, bool]:
        """Return the answer to a request: status, content type, body, and whether it reports the end of the session.

        Names in `headers` are in lower case.
        """
        given, analysis = headers.get("authorization", ""), self._analysis
        if method not in ("GET", "HEAD"):
            return HTTPStatus.NOT_IMPLEMENTED, PLAIN, b"GET and HEAD are understood\n", False
        if self._token is not None and not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            return HTTPStatus.UNAUTHORIZED, PLAIN, b"a bearer token is needed\n", False
        if path.partition("?")[0] != PATH:
            return HTTPStatus.NOT_FOUND, PLAIN, f"metrics are at {PATH}\n".encode(), False
        if analysis is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, b"the session begins\n", False
        wants_openmetrics = "application/openmetrics-text" in headers.get("accept", "")
        kind = OPENMETRICS if wants_openmetrics else PLAIN
        body, is_last = await self._loop.run_in_executor(self._scrapes, _scraped, analysis, wants_openmetrics)
        return HTTPStatus.OK, kind, body, is_last


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    """Return the request line and the headers of a request, or None if they are too long.

    Raises EOFError if the client leaves.
    """
    head = b""
    while b"\n\n" not in head and b"\r\n\r\n" not in head:
        if len(head) > MOST_REQUEST_BYTES:
            return None
        if not (more := await reader.read(MOST_REQUEST_BYTES)):
            raise EOFError
        head += more
    return head


def _scraped(analysis: Analysis, openmetrics: bool) -> tuple[bytes, bool]:
    """Return the text with all metrics, and whether the session is over.

    `openmetrics` selects the OpenMetrics format instead of the older format of Prometheus.
    """
    with analysis.lock:
        found, is_last = families(analysis), _is_over(analysis)
    return rendered(found, openmetrics=openmetrics), is_last


def _is_over(analysis: Analysis) -> bool:
    return analysis.progress.view().phase == "over"


def _parsed(head: bytes) -> tuple[str, str, Mapping[str, str]]:
    """Return the method, the path and the headers of a request. Header names become lower case (RFC 9112, 3 and 5).

    >>> _parsed(b"GET /metrics HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    ('GET', '/metrics', {'host': 'a'})
    """
    first, *lines = head.decode("latin-1").splitlines() or [""]
    method, path, *_ = [*first.split(" "), "", ""]
    pairs = (line.partition(":") for line in lines)
    return method, path, {name.strip().lower(): value.strip() for name, _, value in pairs if name}


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this host and port.

    Raises OSError if listening fails, and OverflowError if the port is impossible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _tls(certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # includes ssl.SSLError
        what = f"--metrics-cert {certificate}: cannot be used: {error.strerror or error}"
        raise InputError(what, "it must be a PEM file") from None
    return context
