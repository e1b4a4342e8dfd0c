"""Where a running session's metrics go: `--prom-textfile`, `--metrics`, `--otlp`. Each observes the one analysis."""

import contextlib
import ipaddress
from functools import partial
from pathlib import Path

from edgetop.cli.live_session import Observer
from edgetop.cli.output import print_text
from edgetop.cli.request import Options
from edgetop.errors import InputError
from edgetop.runner.session_state import SessionState

MOST_TOKEN_BYTES = 4096


class Exporters:
    """Opened before anything runs, so that what cannot be is refused then."""

    def __init__(self, options: Options, stack: contextlib.ExitStack) -> None:
        """Until `stack` is left. Raises InputError."""
        self._observers: list[Observer] = []
        self._session_state: SessionState | None = None
        if options.get("prom_textfile"):
            self._open_textfile(options["prom_textfile"], stack)
        if options.get("metrics"):
            self._open_endpoint(options, stack)
        if options.get("otlp"):
            self._open_otlp(options["otlp"], stack)

    def observers_of(self, session_state: SessionState) -> list[Observer]:
        """What goes wrong is an event of the session."""
        self._session_state = session_state
        return self._observers

    def _told(self, option: str, why: str) -> None:
        """`why`: metrics do not arrive; "": they do again."""
        text = f"{option}: metrics cannot be written: {why}" if why else f"{option}: metrics are written again"
        if self._session_state and self._session_state.has_ended:
            print_text(f"edgetop: {text}", err=True)
        elif self._session_state:
            self._session_state.add_event("metrics-failed" if why else "metrics-back", "warning", "edgetop", text)

    def _open_textfile(self, folder: Path, stack: contextlib.ExitStack) -> None:
        from edgetop.metrics.outlet import Outlet  # noqa: PLC0415  where it is asked for
        from edgetop.metrics.textfile import EVERY_S, Textfile  # noqa: PLC0415

        file = Textfile(folder)
        stack.callback(file.remove)
        outlet = Outlet(EVERY_S, file.write, partial(self._told, "--prom-textfile"))
        stack.callback(outlet.close, last=False)
        self._observers.append(outlet)

    def _open_endpoint(self, options: Options, stack: contextlib.ExitStack) -> None:
        from edgetop.metrics.endpoint import Access, Endpoint  # noqa: PLC0415  takes 10 MiB

        host, port = options["metrics"]
        token = _token(options["metrics_token_file"])
        endpoint = Endpoint(host, port, Access(token, options["metrics_cert"], options["metrics_key"]))
        stack.callback(endpoint.close)
        if not port or not _is_loopback(host):
            anybody = "" if token or _is_loopback(host) else "; whoever reaches it can read them (--metrics-token-file)"
            print_text(f"edgetop: metrics are at {endpoint.url}{anybody}", err=True)
        self._observers.append(endpoint)

    def _open_otlp(self, url: str, stack: contextlib.ExitStack) -> None:
        from edgetop.metrics.otlp import EVERY_S, Collector  # noqa: PLC0415  takes 16 MiB
        from edgetop.metrics.outlet import Outlet  # noqa: PLC0415

        collector = Collector(url)
        stack.callback(collector.close)
        outlet = Outlet(EVERY_S, collector.send, partial(self._told, "--otlp"))
        stack.callback(outlet.close, last=True)
        self._observers.append(outlet)


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        token = file.read_text("utf-8")[:MOST_TOKEN_BYTES].strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"--metrics-token-file {file}: cannot be read: {why}") from None
    if not token:
        raise InputError(f"--metrics-token-file {file}: is empty", "put a token of your own into it")
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
