"""`edgetop sessions`: what runs and what was recorded."""

import shutil
import sys
from dataclasses import asdict

import click


@click.command("sessions")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list, the newest first.")
def command(*, as_json: bool) -> None:
    """List the sessions that run, marked with *, then those that were recorded, the newest first.

    Those in the current folder, those at home (edgetop help recording), and those that were
    recorded elsewhere with -o as long as they are there.

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
