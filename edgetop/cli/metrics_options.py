"""The options that say where a session's metrics go."""

import re
from pathlib import Path

import click
from click import BadParameter, option

from edgetop.cli.companions import Companion, needs

PORT = 9464  # of Prometheus exporters of OpenTelemetry, by its specification

_PATH = click.Path(path_type=Path)
_METRICS = needs("metrics")


def address(text: str) -> tuple[str, int]:
    """`127.0.0.1:9464`, `[::1]:9464`, or a port of the loopback.

    >>> address("9464"), address("[::]:80")
    (('127.0.0.1', 9464), ('::', 80))
    """
    match = re.fullmatch(r"(?:(?:\[([0-9a-fA-F:]+)\]|([^:\[\]/]+)):)?([0-9]{1,5})", text.strip())
    if not match or int(match[3]) > 65_535:
        raise BadParameter(f"{text!r} is no address; write 127.0.0.1:{PORT} or [::1]:{PORT}")
    return match[1] or match[2] or "127.0.0.1", int(match[3])


def collector(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", text):
        raise BadParameter(f"{text!r} is no URL; write http://HOST:4318")
    return text


METRICS_OPTIONS = (
    option(
        "--prom-textfile", type=_PATH, metavar="DIR",
        help="Write metrics for node_exporter's textfile collector into DIR (edgetop help metrics).",
    ),
    option(
        "--metrics", type=address, metavar="[HOST:]PORT",
        help=f"Serve metrics for Prometheus: 127.0.0.1:{PORT}. Without HOST: to this machine alone.",
    ),
    option(
        "--metrics-token-file", type=_PATH, metavar="FILE", help="Ask for the bearer token that FILE holds.",
        cls=Companion, rules=[_METRICS],
    ),
    option(
        "--metrics-cert", type=_PATH, metavar="FILE", help="Serve over TLS with this certificate (PEM).",
        cls=Companion, rules=[_METRICS],
    ),
    option(
        "--metrics-key", type=_PATH, metavar="FILE", help="Its key, where that is in another file.",
        cls=Companion, rules=[needs("metrics_cert")],
    ),
    option("--otlp", type=collector, metavar="URL", help="Send metrics to an OpenTelemetry collector: http://HOST:4318."),
)  # fmt: skip
