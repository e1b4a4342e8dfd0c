"""`edgetop replay`: play a recorded session on the live screen, at up to a thousand times its speed."""

from typing import TYPE_CHECKING

import click

from edgetop import formatting
from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli import screen_options as screen
from edgetop.cli.companions import Value, option
from edgetop.errors import EXIT_DONE, InputError

if TYPE_CHECKING:
    from edgetop.analysis.alerts.alert_rules import AlertRule

EXAMPLES = """\b
Examples:
  edgetop replay                   the newest session
  edgetop replay soak-42
  edgetop replay soak-42.edgetop --from 1h30m --speed 100
"""


class _Speed(text.FiniteRange):
    """A click type for a speed such as `10`, or `10x` as the screen shows it."""

    def convert(self, value: Value, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        return super().convert(value.removesuffix("x") if isinstance(value, str) else value, param, ctx)


OPTIONS = (
    option(
        "--speed", type=_Speed(0.1, 1000), default=1.0, show_default=True,
        help="Playback speed; 2 or 2x is twice real time.",
    ),
    option(
        "--from", "from_ns", type=text.session_time, default="0s", metavar="TIME",
        help="Session time at which to begin: 01:30:00 or 1h30m.",
    ),
    screen.REFRESH, screen.THEME, screen.ASCII, screen.CONFIG, screen.ALERT,
)  # fmt: skip


@click.command("replay", params=[*OPTIONS], epilog=EXAMPLES)
@click.argument("session", required=False, shell_complete=completion.sessions)
def command(
    session: str | None, *, speed: float, from_ns: int, alerts: "tuple[AlertRule, ...]", **screen_options: Value
) -> int:
    """Play SESSION, given as a path, a name or the beginning of an id, on the live screen.

    Without SESSION, play the newest, whose name is printed to stderr.

    Space plays and pauses, < and > change the speed, the arrow keys seek; ? lists every key.
    """
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.choosing import recorded  # noqa: PLC0415
    from edgetop.cli.config import screen_settings  # noqa: PLC0415
    from edgetop.cli.output import raise_problems  # noqa: PLC0415
    from edgetop.cli.shell_words import session_word  # noqa: PLC0415
    from edgetop.cli.viewing import require_screen, show_until_left  # noqa: PLC0415
    from edgetop.feeds.replay_feed import ReplayFeed  # noqa: PLC0415
    from edgetop.recording.reader import Recording  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    with Recording(recorded(session)) as recording:
        require_screen(f"edgetop report {session_word(recording.folder)}")
        feed = ReplayFeed(recording, SystemClock(), speed=speed, from_ns=from_ns)
        end_ns = feed.transport.end_ns
        if from_ns > end_ns:
            raise InputError(f"--from: the session ends at {formatting.clock_time(end_ns)}")
        show_until_left(
            feed, Analysis(alerts), screen_settings(screen.ScreenChoices.of(screen_options), recording.folder)
        )
        raise_problems(recording.problems, "the rest is played")
        return EXIT_DONE
