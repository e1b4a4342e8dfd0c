"""The metrics over HTTP: `--metrics`. Loaded only where it is asked for: the library takes 10 MiB.

A scrape takes the analysis' lock while values are collected, as a screen does, and nothing of the run waits for that.
Clients are limited: the number of connections, the time of each, and one path.
"""

import contextlib
import hmac
import http.server
import socket
import ssl
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any

from edgetop.analysis.analysis import Analysis
from edgetop.errors import InputError
from edgetop.metrics.families import families
from edgetop.metrics.prometheus import OPENMETRICS, PLAIN, rendered

PATH = "/metrics"
MOST_AT_ONCE = 8
PATIENCE_S = 5.0  # with a client that says nothing, or does not read


class Endpoint(http.server.ThreadingHTTPServer):
    """An observer of a session. It listens from its construction until `close`."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, host: str, port: int, token: str | None = None, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        """`token`: that a client must send as a bearer. `certificate`, `key`: PEM, for TLS; one file may have both.

        Raises InputError where it cannot listen there.
        """
        context = None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                context.load_cert_chain(certificate, key)
            except OSError as error:  # as ssl.SSLError is
                what = f"--metrics-cert {certificate}: cannot be used: {error.strerror or error}"
                raise InputError(what, "PEM files, please") from None
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.token = token
        self.analysis: Analysis | None = None
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        try:
            super().__init__((host, port), _Handler)
            if context:  # shaking hands is left to the thread of the connection, which has a time limit
                self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"--metrics {host}:{port}: cannot listen: {why}", "give another port") from None
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http{'s' if context else ''}://{shown}:{self.server_address[1]}{PATH}"
        threading.Thread(target=self.serve_forever, name="metrics", daemon=True).start()

    def observe(self, analysis: Analysis) -> None:
        self.analysis = analysis

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        """Bind as the library does, but without a name server's lookup of this host."""
        http.server.socketserver.TCPServer.server_bind(self)  # type: ignore[attr-defined]
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that left or spoke no TLS."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Endpoint
    timeout = PATIENCE_S
    server_version, sys_version = "edgetop", ""

    def do_GET(self) -> None:
        status, kind, body = self._answer()
        self.send_response(status)
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            if self.command != "HEAD":
                self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self) -> tuple[HTTPStatus, str, bytes]:
        token, analysis = self.server.token, self.server.analysis
        given = self.headers.get("Authorization", "")
        if token is not None and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return HTTPStatus.UNAUTHORIZED, PLAIN, b"a bearer token is needed\n"
        if self.path.partition("?")[0] != PATH:
            return HTTPStatus.NOT_FOUND, PLAIN, f"metrics are at {PATH}\n".encode()
        if analysis is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, PLAIN, b"the session begins\n"
        with analysis.lock:
            found = families(analysis)
        wants_openmetrics = "application/openmetrics-text" in self.headers.get("Accept", "")
        kind = OPENMETRICS if wants_openmetrics else PLAIN
        return HTTPStatus.OK, kind, rendered(found, openmetrics=wants_openmetrics)

    def log_message(self, *_: object) -> None:
        """Print nothing: standard error belongs to the screen."""
