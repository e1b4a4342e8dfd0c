"""The options of `edgetop run` for the session of ONNX Runtime: optimisation, threads, memory, custom operators."""

import click
from click import BadParameter, IntRange

from edgetop.cli.companions import PATH, option
from edgetop.formatting import shortened


def session_option(text: str) -> tuple[str, str]:
    """Return the key and the value of a config entry. The value may be empty, and may contain "=".

    >>> session_option("session.disable_prepacking=1")
    ('session.disable_prepacking', '1')
    """
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise BadParameter(f"{shortened(text)!r}: write KEY=VALUE, as in session.disable_prepacking=1")
    return key.strip(), value


SESSION_OPTIONS = (
    option(
        "--optimize", type=IntRange(0, 3), metavar="0..3",
        help="ONNX Runtime: graph optimisation; 0 none, 1 basic, 2 extended, 3 all. Default: 3.",
    ),
    option(
        "--session-option", "session_options", type=session_option, multiple=True, metavar="KEY=VALUE",
        help="ONNX Runtime: config entry of the session: session.disable_prepacking=1. Repeatable.",
    ),
    option(
        "--custom-ops", "custom_ops", type=PATH, multiple=True, metavar="LIBRARY",
        help="ONNX Runtime: shared library with custom operators. Repeatable.",
    ),
    option(
        "--execution-mode", type=click.Choice(["sequential", "parallel"]),
        help="ONNX Runtime: run operators one after the other (default), or branches of the model in parallel.",
    ),
    option(
        "--inter-op-threads", type=IntRange(0, 1024), metavar="N",
        help="ONNX Runtime: number of operators that run at once with --execution-mode parallel; 0 for the default.",
    ),
    option(
        "--no-arena", is_flag=True,
        help="ONNX Runtime: give the memory of each inference back instead of keeping it for the next one.",
    ),
)  # fmt: skip
