"""`edgetop sessions`: list running and recorded sessions."""

import shutil
import sys
from dataclasses import asdict

import click


@click.command("sessions")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document: a list, the newest first.")
def command(*, as_json: bool) -> None:
    """List the running sessions, marked with *, and then the recorded sessions, the newest first.

    Sessions are found in the current folder, in the recordings folder (edgetop help recording),
    and wherever they were recorded with -o, unless they were moved since.

    \b
    Examples:
      edgetop sessions
      edgetop sessions --json | jq -r '.[] | select(.state == "live") | .path'
    """
    from pathlib import Path  # noqa: PLC0415  --help needs none of it

    from edgetop.cli.output import print_json, print_text  # noqa: PLC0415
    from edgetop.cli.sessions.session_list import listed, table  # noqa: PLC0415
    from edgetop.paths import recordings_home  # noqa: PLC0415

    sessions = listed(recordings_home(), Path.cwd())
    if as_json:
        print_json([asdict(session) for session in sessions])
        return
    if not sessions:
        print_text(f"no running and no recorded sessions in {recordings_home()}", err=True)
        return
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print_text("\n".join(table(sessions, columns)))
