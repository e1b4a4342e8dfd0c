"""`edgetop attach`: the live screen of a session that another process runs, on this machine or on another."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetop.cli import completion
from edgetop.cli import screen_options as screen
from edgetop.cli.companions import needs, option
from edgetop.errors import EXIT_DONE, InputError

if TYPE_CHECKING:
    from edgetop.analysis.alerts.alert_rules import AlertRule
    from edgetop.feeds.remote import Connect
    from edgetop.feeds.ssh import Target
    from edgetop.recording.session_folder import FolderHandle
    from edgetop.ui.screen_settings import ScreenSettings

EXAMPLES = """\b
Examples:
  edgetop attach                   the session that runs; where several do, one to choose
  edgetop attach soak-42
  edgetop attach ssh:pi@board      the newest that runs on another machine
  edgetop attach ssh:pi@board:soak-42 --remote-command '~/.local/bin/edgetop'
"""
LAST_ORDERS_S, LAST_REMOTE_ORDERS_S = 2.0, 5.0  # a link may be slow
GOES_ON = "the session goes on"
THERE = "ssh HOST edgetop attach --headless"


def is_remote(session: str | None) -> bool:
    return session is not None and session.startswith("ssh:")


OPTIONS = (
    screen.REFRESH, screen.THEME, screen.ASCII, screen.CONFIG, screen.ALERT, screen.NOTIFY,
    option(
        "--headless", is_flag=True, help="No screen: lines on stderr, to the session's end.",
        rules=[
            needs("session", holds=lambda given: not is_remote(given), message="{} does not go with ssh:", advice=THERE)
        ],
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
def command(session: str | None, **options: Any) -> int:
    """Watch SESSION, a path, a name, or enough of an id, from its beginning to its end.

    Without SESSION: the one that runs. Where several do, you choose on a terminal; elsewhere give a name.

    q, d and Ctrl+C leave it running; Q asks whether to stop it.
    Several may watch at once.

    ssh:[USER@]HOST[:SESSION] watches over ssh (edgetop help remote).
    """
    from edgetop.cli.config import screen_settings  # noqa: PLC0415  --help needs none of it

    if session and is_remote(session):
        from edgetop.feeds.ssh import parse_target  # noqa: PLC0415

        target, settings = parse_target(session), screen_settings(screen.ScreenChoices.of(options))
        watch_remote(target, settings, options["remote_command"], options["alerts"])
        return EXIT_DONE
    from edgetop.cli.choosing import running  # noqa: PLC0415
    from edgetop.cli.output import print_text  # noqa: PLC0415
    from edgetop.cli.terminal import how_to_come_back  # noqa: PLC0415
    from edgetop.recording.session_folder import is_live  # noqa: PLC0415

    seen = _follow(running(session, newest=True), options)
    if is_live(seen.path):
        print_text(how_to_come_back(seen.name), err=True)
    return EXIT_DONE


def _follow(folder: Path, options: dict[str, Any]) -> "FolderHandle":
    """Show the session in lines or on the screen, and return its folder, which may have moved."""
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  as above
    from edgetop.cli.config import line_settings, screen_settings  # noqa: PLC0415
    from edgetop.cli.viewing import noted_signals, require_screen, show_until_left  # noqa: PLC0415
    from edgetop.feeds.attach_feed import AttachFeed  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    analysis, notifies = Analysis(options["alerts"]), options["notify"]
    if options["headless"]:
        from edgetop.cli.running.headless import follow  # noqa: PLC0415

        refresh_ns, ascii_only = line_settings(screen.ScreenChoices.of(options))
        live_ns = refresh_ns if options["live"] else None
        feed = AttachFeed(folder, SystemClock())
        with noted_signals() as come:
            follow(feed, analysis, partial(bool, come), live_ns=live_ns, notifies=notifies, ascii_only=ascii_only)
        return feed.folder
    settings = screen_settings(screen.ScreenChoices.of(options), folder)
    require_screen("edgetop attach --headless prints lines instead; edgetop report prints its state")
    feed = AttachFeed(folder, SystemClock())
    try:
        show_until_left(feed, analysis, replace(settings, recorded_in=lambda: feed.name), GOES_ON)
    finally:
        feed.close(LAST_ORDERS_S)
    return feed.folder


def watch_remote(
    target: "Target", settings: "ScreenSettings", remote_command: str, alerts: "tuple[AlertRule, ...]" = ()
) -> None:
    """Show the session at `target` until it is left.

    Connects before the screen opens, since ssh may have to ask for a password. Raises InputError.
    """
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  as above
    from edgetop.cli.output import print_text  # noqa: PLC0415
    from edgetop.cli.viewing import require_screen, show_until_left  # noqa: PLC0415
    from edgetop.feeds.remote import RemoteFeed  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    has_screen = False  # which a line of ssh (a banner, a warning) would tear

    def print_line(line: str) -> None:
        if not has_screen:
            print_text(line, err=True)

    require_screen(f"ssh {target} edgetop report")
    print_line(f"edgetop: connecting to {target}")
    feed = RemoteFeed(connector(target, remote_command, print_line), str(target), SystemClock())
    has_screen = True
    settings = replace(settings, recording=Path(feed.session), recording_host=str(target))
    try:
        show_until_left(feed, Analysis(alerts), settings, GOES_ON)
    finally:
        unconfirmed = feed.close(LAST_REMOTE_ORDERS_S)
    if feed.failure:
        raise InputError(feed.failure)
    if unconfirmed:
        raise InputError(
            f"{target} has not confirmed: {', '.join(unconfirmed)}", f"edgetop attach ssh:{target} looks again"
        )


def connector(target: "Target", command: str, on_line: Callable[[str], None]) -> "Connect":
    """Return the function that makes links to a board by ssh. `on_line` is called with what ssh prints."""
    from edgetop.feeds.ssh import SshLink  # noqa: PLC0415  as above

    def connect(session: str | None, attended: bool) -> SshLink:
        return SshLink(target, session or target.session, command, attended=attended, on_line=on_line)

    return connect
