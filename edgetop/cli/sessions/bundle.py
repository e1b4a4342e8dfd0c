"""`edgetop bundle`: one file with a session, to send to a colleague."""

from pathlib import Path

import click

from edgetop.cli import completion
from edgetop.cli.companions import PATH


@click.command("bundle")
@click.argument("session", required=False, shell_complete=completion.sessions)
@click.option("-o", "--output", type=PATH, metavar="FILE", help="The file to write. Default: NAME-bundle.zip here.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def command(session: str | None, *, output: Path | None, force: bool) -> None:
    """Put SESSION into one ZIP file: its report as a page, text and JSON, the session itself, its board, and versions.

    Names of persons and machines, addresses and paths are removed, and logs and kept outputs are left out. What is in
    the file is printed; look through it before you send it. Without SESSION, the newest session is taken.

    \b
    Examples:
      edgetop bundle soak-42
      edgetop bundle soak-42 -o for-anna.zip
    """
    from edgetop.cli.sessions.bundling import make_bundle  # noqa: PLC0415  --help needs none of it

    make_bundle(session, output, force=force)
