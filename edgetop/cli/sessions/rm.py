"""`edgetop rm`: delete recorded sessions."""

import click

from edgetop.cli import completion


@click.command("rm")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=completion.sessions)
@click.option("--yes", is_flag=True, help="Do not ask. Names must then be whole.")
def command(sessions: tuple[str, ...], *, yes: bool) -> None:
    """Delete each SESSION, given as a path, a name or the beginning of an id, after a question.

    Only files that edgetop wrote are deleted; other files stay in the folder of the session. A session that is being
    recorded is never deleted, nor is one that goes on in such a session (run --rotate).

    \b
    Examples:
      edgetop rm demo-20261121-101502
      edgetop rm soak-41 soak-42 --yes
    """
    from edgetop.cli.sessions.removing import remove_sessions  # noqa: PLC0415  --help needs none of it

    remove_sessions(sessions, asks=not yes)
