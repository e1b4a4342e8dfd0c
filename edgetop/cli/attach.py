"""`edgetop attach`: the live screen of a session that another process runs."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetop.cli import completion
from edgetop.cli import screen_options as screen
from edgetop.cli.companions import needs, option
from edgetop.errors import EXIT_DONE, InputError

if TYPE_CHECKING:
    from edgetop.recording.files import FolderHandle
    from edgetop.ui.settings import ScreenSettings

EXAMPLES = """\b
Examples:
  edgetop attach                   the session that runs; where several do, one to choose
  edgetop attach soak-42
  edgetop attach ssh:pi@board      the newest that runs on another machine
  edgetop attach ssh:pi@board:soak-42 --remote-command '~/.local/bin/edgetop'
"""
LAST_ORDERS_S = 2.0
THERE = "ssh HOST edgetop attach --headless"


def is_remote(session: str | None) -> bool:
    return session is not None and session.startswith("ssh:")


def is_local(session: str | None) -> bool:
    return not is_remote(session)


OPTIONS = (
    screen.REFRESH, screen.THEME, screen.ASCII, screen.CONFIG, screen.ALERT, screen.NOTIFY,
    option(
        "--headless", is_flag=True, help="No screen: lines on stderr, to the session's end.",
        rules=[needs("session", holds=is_local, message="{} does not go with ssh:", advice=THERE)],
    ),
    screen.LIVE,
    option(
        "--remote-command", default="edgetop", metavar="TEXT", help="Of ssh:HOST: how edgetop is called there.",
        rules=[
            needs("session", holds=is_remote, message="{} needs ssh:HOST", advice="it is how edgetop is called there")
        ],
    ),
)  # fmt: skip


@click.command("attach", params=[*OPTIONS], epilog=EXAMPLES)
@click.argument("session", required=False, shell_complete=completion.running_sessions)
def command(
    session: str | None, *, refresh: int | None, theme: str | None, ascii_only: bool | None, config_file: Path | None,
    alerts: tuple[Any, ...], notify: bool, headless: bool, live: bool, remote_command: str,
) -> int:  # fmt: skip
    """Watch SESSION, a path, a name, or enough of an id, from its beginning to its end.

    Without SESSION: the one that runs. Where several do, you choose on a terminal; elsewhere give a name.

    q, d and Ctrl+C leave it running; Q asks whether to stop it.
    Several may watch at once.

    ssh:[USER@]HOST[:SESSION] watches over ssh (edgetop help remote).
    """
    from edgetop.cli.choosing import running  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.viewing import line_settings, screen_settings  # noqa: PLC0415

    if session and is_remote(session):
        from edgetop.cli.attach_remote import watch_remote  # noqa: PLC0415
        from edgetop.feeds.ssh import parse_target  # noqa: PLC0415

        target = parse_target(session)
        settings = screen_settings(refresh, theme, ascii_only, notify=notify, config_file=config_file)
        watch_remote(target, settings, remote_command, alerts)
        return EXIT_DONE
    folder = running(session, newest=True)
    if headless:
        refresh_ns, is_ascii = line_settings(refresh, ascii_only, config_file)
        live_ns = refresh_ns if live else None
        seen = _print_lines(folder, alerts, live_ns=live_ns, notifies=notify, ascii_only=is_ascii)
    else:
        settings = screen_settings(refresh, theme, ascii_only, folder, notify=notify, config_file=config_file)
        seen = _on_screen(folder, alerts, settings)
    from edgetop.cli.background import how_to_come_back  # noqa: PLC0415
    from edgetop.cli.output import print_text  # noqa: PLC0415
    from edgetop.recording.files import is_live  # noqa: PLC0415

    if is_live(seen.path):
        print_text(how_to_come_back(seen.name), err=True)
    return EXIT_DONE


def _print_lines(folder: Path, alerts: tuple[Any, ...], **how: Any) -> "FolderHandle":
    """`how`: options of `follow`."""
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  as above
    from edgetop.cli.headless import follow  # noqa: PLC0415
    from edgetop.cli.viewing import noted_signals  # noqa: PLC0415
    from edgetop.feeds.attach import AttachFeed  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    feed = AttachFeed(folder, SystemClock())
    with noted_signals() as come:
        follow(feed, Analysis(alerts), lambda: bool(come), **how)
    return feed.folder


def _on_screen(folder: Path, alerts: tuple[Any, ...], settings: "ScreenSettings") -> "FolderHandle":
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  as above
    from edgetop.cli.viewing import require_screen, show_until_left  # noqa: PLC0415
    from edgetop.feeds.attach import AttachFeed  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    require_screen("edgetop attach --headless prints lines instead; edgetop report tells how it stands")
    feed = AttachFeed(folder, SystemClock())
    failure = show_until_left(feed, Analysis(alerts), replace(settings, moved=feed))
    feed.close(LAST_ORDERS_S)
    if failure:
        raise InputError(f"the screen failed: {failure}", "the session goes on")
    return feed.folder
