"""`edgetop attach ssh:HOST`: the screen here, the session there."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from edgetop.analysis.alerts.rules import AlertRule
from edgetop.analysis.analysis import Analysis
from edgetop.cli.output import print_text
from edgetop.cli.viewing import require_screen, show_until_left
from edgetop.errors import InputError
from edgetop.feeds.remote import RemoteFeed
from edgetop.feeds.ssh import SshLink, Target
from edgetop.session.clock import SystemClock
from edgetop.ui.settings import ScreenSettings

LAST_ORDERS_S = 5.0  # a link may be slow


def watch_remote(
    target: Target, settings: ScreenSettings, remote_command: str, alerts: tuple[AlertRule, ...] = ()
) -> None:
    """Show that session until it is left.

    Connects before the screen opens, since ssh may have to ask for a password. Raises InputError.
    """
    require_screen(f"ssh {target} edgetop report")
    print_text(f"edgetop: connecting to {target}", err=True)
    messages = _SshMessages()
    feed = RemoteFeed(partial(_connect, target, remote_command, messages), str(target), SystemClock())
    messages.are_printed = False
    settings = replace(settings, recording=Path(feed.session), recording_host=str(target))
    failure = show_until_left(feed, Analysis(alerts), settings)
    unconfirmed = feed.close(LAST_ORDERS_S)
    if failure:
        raise InputError(f"the screen failed: {failure}", "the session goes on")
    if feed.failure:
        raise InputError(feed.failure)
    if unconfirmed:
        raise InputError(
            f"{target} has not confirmed: {', '.join(unconfirmed)}", f"edgetop attach ssh:{target} looks again"
        )


class _SshMessages:
    """Prints what ssh says (a banner, a warning), until it would tear a screen."""

    are_printed = True

    def print_line(self, line: str) -> None:
        if self.are_printed:
            print_text(line, err=True)


def _connect(target: Target, command: str, messages: _SshMessages, session: str | None, attended: bool) -> SshLink:
    return SshLink(target, session or target.session, command, attended=attended, on_line=messages.print_line)
