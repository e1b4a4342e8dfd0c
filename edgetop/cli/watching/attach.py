"""`edgetop attach`: the live screen of a session that another process runs, on this machine or on another one."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli import screen_options as screen
from edgetop.cli.companions import Given, Value, needs, option
from edgetop.errors import EXIT_DONE, InputError
from edgetop.frozen import frozen

if TYPE_CHECKING:
    from edgetop.analysis.alerts.alert_rules import AlertRule
    from edgetop.feeds.remote import Connect
    from edgetop.feeds.ssh import Target
    from edgetop.recording.session_folder import FolderHandle
    from edgetop.ui.screen_settings import ScreenSettings

EXAMPLES = """\b
Examples:
  edgetop attach                   the running session, or a choice of several
  edgetop attach soak-42
  edgetop attach ssh:pi@board      the newest running session of another machine
  edgetop attach ssh:pi@board:soak-42 --remote-command '~/.local/bin/edgetop'
"""
# How long to wait for answers to the last orders when the screen closes, here and over ssh.
LAST_ORDERS_S, LAST_REMOTE_ORDERS_S = 2.0, 5.0
GOES_ON = "the session continues"
THERE = "ssh HOST edgetop attach --headless"


def is_remote(session: str | None) -> bool:
    return session is not None and session.startswith("ssh:")


OPTIONS = (
    screen.REFRESH, screen.THEME, screen.ASCII, screen.CONFIG, screen.ALERT, screen.NOTIFY,
    option(
        "--headless", is_flag=True, help="Print lines on stderr until the session ends, without a screen.",
        rules=[
            needs("session", holds=lambda given: not is_remote(given), message="{} does not go with ssh:", advice=THERE)
        ],
    ),
    screen.LIVE,
    option(
        "--remote-command", default="edgetop", metavar="TEXT", help="Command that starts edgetop on the remote host.",
        rules=[
            needs("session", holds=is_remote, message="{} needs ssh:HOST", advice="it is the command of a remote host")
        ],
    ),
)  # fmt: skip


@frozen
class AttachOptions:
    screen: screen.ScreenChoices
    alerts: "tuple[AlertRule, ...]"
    headless: bool
    live: bool
    remote_command: str

    @classmethod
    def of(cls, given: Given) -> "AttachOptions":
        return cls(
            screen.ScreenChoices.of(given), given["alerts"], given["headless"], given["live"], given["remote_command"]
        )


@click.command("attach", params=[*OPTIONS], epilog=EXAMPLES)
@click.argument("session", required=False, shell_complete=completion.running_sessions)
def command(session: str | None, **given: Value) -> int:
    """Watch SESSION, given as a path, a name or the beginning of an id, on the live screen.

    Without SESSION, watch the running one. If several run, you can choose one on a terminal.

    q, d and Ctrl+C leave it running; Q asks whether to stop it.
    Several screens can watch one session.

    ssh:[USER@]HOST[:SESSION] watches over ssh (edgetop help remote).
    """
    from edgetop.cli.config import screen_settings  # noqa: PLC0415  --help needs none of it

    options = AttachOptions.of(given)
    if session and is_remote(session):
        from edgetop.feeds.ssh import parse_target  # noqa: PLC0415

        target, settings = parse_target(session), screen_settings(options.screen)
        watch_remote(target, settings, options.remote_command, options.alerts)
        return EXIT_DONE
    from edgetop.cli.choosing import running  # noqa: PLC0415
    from edgetop.cli.output import print_text  # noqa: PLC0415
    from edgetop.cli.terminal import how_to_come_back  # noqa: PLC0415
    from edgetop.recording.session_folder import is_live  # noqa: PLC0415

    seen = _follow(running(session, newest=True), options)
    if is_live(seen.path):
        print_text(how_to_come_back(seen.name), err=True)
    return EXIT_DONE


def _follow(folder: Path, options: AttachOptions) -> "FolderHandle":
    """Show the session in `folder` until the user leaves: on the screen, or as lines with `--headless`.

    Return a handle of the folder. The handle stays valid if the folder is moved meanwhile.
    """
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  as above
    from edgetop.cli.config import line_settings, screen_settings  # noqa: PLC0415
    from edgetop.cli.viewing import noted_signals, require_screen, show_until_left  # noqa: PLC0415
    from edgetop.feeds.attach_feed import AttachFeed  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    analysis, notifies = Analysis(options.alerts), options.screen.notify
    if options.headless:
        from edgetop.cli.running.headless import follow  # noqa: PLC0415

        refresh_ns, ascii_only = line_settings(options.screen)
        live_ns = refresh_ns if options.live else None
        feed = AttachFeed(folder, SystemClock())
        with noted_signals() as come:
            follow(feed, analysis, partial(bool, come), live_ns=live_ns, notifies=notifies, ascii_only=ascii_only)
        return feed.folder
    settings = screen_settings(options.screen, folder)
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
    """Show a session of another machine on the screen, over ssh, until the user leaves it.

    `target` is the host and the session. `remote_command` is the command that starts edgetop there, such as
    `~/.local/bin/edgetop`. `alerts` are the rules of `--alert`. The connection is made before the screen opens, because
    ssh may ask for a password. Raises InputError if no connection can be made, or if the other machine did not confirm
    a command of the user, such as to stop the session.
    """
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  as above
    from edgetop.cli.output import print_text  # noqa: PLC0415
    from edgetop.cli.viewing import require_screen, show_until_left  # noqa: PLC0415
    from edgetop.feeds.remote import RemoteFeed  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    has_screen = False  # lines that ssh prints, such as a banner, must not be written over the screen

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
            f"{target} has not confirmed: {', '.join(unconfirmed)}", f"check with edgetop attach ssh:{target}"
        )


def connector(target: "Target", command: str, on_line: Callable[[str], None]) -> "Connect":
    """Return a function that opens an ssh connection to `target`.

    `command` is the command that starts edgetop there. `on_line` is called with each line that ssh prints.
    """
    from edgetop.feeds.ssh import SshLink  # noqa: PLC0415  as above

    def connect(session: str | None, attended: bool) -> SshLink:
        return SshLink(target, session or target.session, command, attended=attended, on_line=on_line)

    return connect
