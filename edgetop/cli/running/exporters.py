"""Sends the metrics of a session to monitoring systems.

Holds the options `--metrics`, `--prom-textfile` and `--otlp`.
"""

import contextlib
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from click import BadParameter

from edgetop.cli.companions import PATH, needs, option
from edgetop.cli.output import print_text
from edgetop.errors import InputError
from edgetop.files import read_text, why

if TYPE_CHECKING:
    from edgetop.cli.running.live_session import Observer
    from edgetop.cli.running.run_request import MetricsRequest
    from edgetop.metrics.endpoint import Endpoint
    from edgetop.metrics.metric_outlet import Send
    from edgetop.metrics.prometheus import Textfile
    from edgetop.runner.session_state import SessionState

PORT = 9464  # default port of a Prometheus exporter in the OpenTelemetry specification
MOST_TOKEN_BYTES = 4096

_METRICS = needs("metrics")


def address(text: str) -> tuple[str, int]:
    """Parse `127.0.0.1:9464`, `[::1]:9464` or `9464` into a host and a port. A port alone means this machine only.

    >>> address("9464"), address("[::]:80")
    (('127.0.0.1', 9464), ('::', 80))
    """
    match = re.fullmatch(r"(?:(?:\[([0-9a-fA-F:]+)\]|([^:\[\]/]+)):)?([0-9]{1,5})", text.strip())
    if not match or int(match[3]) > 65_535:
        raise BadParameter(f"{text!r} is not an address; write 127.0.0.1:{PORT} or [::1]:{PORT}")
    return match[1] or match[2] or "127.0.0.1", int(match[3])


def collector(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", text):
        raise BadParameter(f"{text!r} is not a URL; write http://HOST:4318")
    return text


METRICS_OPTIONS = (
    option(
        "--prom-textfile", type=PATH, metavar="DIR",
        help="Write metrics for node_exporter's textfile collector into DIR (edgetop help metrics).",
    ),
    option(
        "--metrics", type=address, metavar="[HOST:]PORT",
        help=f"Serve metrics for Prometheus: 127.0.0.1:{PORT}. Without HOST, serve them to this machine only.",
    ),
    option(
        "--metrics-token-file", type=PATH, metavar="FILE", help="Require the bearer token in FILE.",
        rules=[_METRICS],
    ),
    option(
        "--metrics-cert", type=PATH, metavar="FILE", help="Serve over TLS with this certificate (PEM).",
        rules=[_METRICS],
    ),
    option(
        "--metrics-key", type=PATH, metavar="FILE", help="Private key of the certificate, if it is in another file.",
        rules=[needs("metrics_cert")],
    ),
    option("--otlp", type=collector, metavar="URL", help="Send metrics to an OpenTelemetry collector: http://HOST:4318."),
)  # fmt: skip


class Exporters:
    """Sends the metrics of one session to the monitoring systems that the user named.

    All files and connections are opened before the session runs, so that invalid options are found first.
    """

    def __init__(self, asked: "MetricsRequest", stack: contextlib.ExitStack, last: contextlib.ExitStack) -> None:
        """Open the exporters that the options in `asked` request.

        `stack` closes the sender to an OpenTelemetry collector. `last` closes the Prometheus endpoint and text file.
        Close `last` after `stack`, because closing `last` waits until Prometheus has read how the session ended.
        """
        self._stack, self._last = stack, last
        self.observers: list[Observer] = []
        self.session_state: SessionState | None = None  # records failures as events
        if asked.textfile_folder:
            from edgetop.metrics import prometheus  # noqa: PLC0415  where it is asked for

            file = prometheus.Textfile(asked.textfile_folder)
            last.callback(file.close)
            last.callback(_hand_over_at_shutdown, file)
            self._send_to(file.send, prometheus.EVERY_S, "--prom-textfile")
        if asked.endpoint:
            self._open_endpoint(asked, *asked.endpoint)
        if asked.collector:
            from edgetop.metrics import otlp  # noqa: PLC0415  takes 16 MiB

            receiver = otlp.Collector(asked.collector)
            stack.callback(receiver.close)
            self._send_to(receiver.send, otlp.EVERY_S, "--otlp")

    def _send_to(self, send: "Send", every_s: float, option: str) -> None:
        from edgetop.metrics.metric_outlet import Outlet  # noqa: PLC0415  as above

        outlet = Outlet(every_s, send, partial(self._report, option))
        self._stack.callback(outlet.close)
        self.observers.append(outlet.observe)

    def _report(self, option: str, why: str) -> None:
        """Record as an event that metrics cannot be written, because of `why`.

        If `why` is "", the event says that metrics can be written again. `option` is the option of the exporter, such
        as `--otlp`.
        """
        text = f"{option}: metrics cannot be written: {why}" if why else f"{option}: metrics are written again"
        if self.session_state and self.session_state.has_ended:
            print_text(f"edgetop: {text}", err=True)
        elif self.session_state:
            from edgetop.session.event_kinds import Remark  # noqa: PLC0415  not for --help

            body = Remark("metrics-failed" if why else "metrics-back")
            self.session_state.add_event(body, "warning", "edgetop", text)

    def _open_endpoint(self, asked: "MetricsRequest", host: str, port: int) -> None:
        from edgetop.metrics.endpoint import Endpoint  # noqa: PLC0415  takes 10 MiB

        token = _token(asked.token_file)
        endpoint = Endpoint(host, port, token, asked.certificate, asked.key)
        self._last.callback(endpoint.close)
        self._last.callback(_hand_over, endpoint)
        if not port or not _is_loopback(host):
            anybody = "" if token or _is_loopback(host) else "; anyone can read them (--metrics-token-file)"
            print_text(f"edgetop: metrics are at {endpoint.url}{anybody}", err=True)
        self.observers.append(endpoint.observe)


def _hand_over(endpoint: "Endpoint") -> None:
    """Wait until Prometheus has read how the session ended. Otherwise, Prometheus would report a crash."""
    if (owed_s := endpoint.owed_s()) > 0:
        text = f"waiting until Prometheus has read that the session is over: up to {owed_s:.0f} s"
        print_text(f"edgetop: {text} (Ctrl+C stops waiting)", err=True)
    with contextlib.suppress(KeyboardInterrupt):
        endpoint.hand_over()


def _hand_over_at_shutdown(file: "Textfile") -> None:
    """If the machine is shutting down, wait until node_exporter has read how the session ended.

    If the machine is not shutting down, do not wait: node_exporter keeps running, and notices the end of the session.
    """
    from edgetop.cli.running.unattended import is_system_stopping  # noqa: PLC0415  not for --help

    if (owed_s := file.owed_s()) > 0 and is_system_stopping():
        text = f"the metrics stay until node_exporter has read that the session is over: up to {owed_s:.0f} s"
        print_text(f"edgetop: the system goes down: {text}", err=True)
        file.hand_over()


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        token = read_text(file, MOST_TOKEN_BYTES).strip()
    except (OSError, ValueError) as error:
        raise InputError(f"--metrics-token-file {file}: cannot be read: {why(error)}") from None
    if not token:
        raise InputError(f"--metrics-token-file {file}: is empty", "write a token of your own into it")
    return token


def _is_loopback(host: str) -> bool:
    import ipaddress  # noqa: PLC0415  --help needs none of it

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
