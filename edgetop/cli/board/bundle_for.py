"""`edgetop bundle-for`: one file with edgetop and all its packages, for a board without pip or network."""

from pathlib import Path

import click

from edgetop.cli.companions import PATH, option

EXAMPLES = """\b
Examples:
  edgetop bundle-for aarch64 py311               Debian 12, Raspberry Pi OS 12
  edgetop bundle-for aarch64 py310 --extra tflite
  scp edgetop.pyz pi@board: && ssh -t pi@board python3 edgetop.pyz
"""

OPTIONS = (
    option(
        "-o", "--output", type=PATH, default="edgetop.pyz", show_default=True, metavar="FILE", help="File to write.",
    ),
    option(
        "--extra", "extras", multiple=True, metavar="NAME",
        help="Extra of edgetop to put in. Repeatable. Default: onnx and tflite.",
    ),
    option(
        "--glibc", default="2.28", show_default=True, metavar="VERSION",
        help="Oldest C library that the board may have; `ldd --version` there prints its own.",
    ),
    option("--force", is_flag=True, help="Overwrite the file."),
)  # fmt: skip


@click.command("bundle-for", params=[*OPTIONS], epilog=EXAMPLES)
@click.argument("architecture")
@click.argument("python")
def command(architecture: str, python: str, *, output: Path, extras: tuple[str, ...], glibc: str, force: bool) -> None:
    """Write one file that runs edgetop on a board that has neither pip nor a network.

    ARCHITECTURE is what `uname -m` prints on the board: aarch64 or x86_64. PYTHON is its Python, as py311 or 3.11.
    The wheels of that platform are downloaded with pip (or uv) here. On the board, `python3 edgetop.pyz` takes the
    arguments of edgetop.
    """
    from edgetop.cli.board.archive_making import make_archive, parse_target  # noqa: PLC0415  --help needs none of it

    make_archive(parse_target(architecture, python, glibc), output, extras or ("onnx", "tflite"), force=force)
