"""`edgetop attach --headless`: another process's session, as lines on stderr."""

import time
from collections.abc import Sequence

from edgetop.analysis.analysis import Analysis
from edgetop.cli.announcer import Announcer
from edgetop.cli.headless import REDRAW_S, WINDOW_NS, shown_on_stderr
from edgetop.cli.tell import tell
from edgetop.feeds.protocol import Feed


def follow(
    feed: Feed, come: Sequence[int], analysis: Analysis, *, live_ns: int | None, is_told: bool, ascii_only: bool = False
) -> None:
    """Until the session is over or a signal has `come`. `live_ns`: a plain line so often; `is_told`: ring at alerts."""
    announcer = Announcer()
    shown, trouble = shown_on_stderr(live_ns, ascii_only=ascii_only), ""
    while not feed.is_over and not come:
        if feed.trouble != trouble:
            trouble = feed.trouble
            if trouble:
                tell(f"edgetop: {trouble}", err=True, ascii_only=ascii_only)
        batch = feed.read()
        if batch is None:
            time.sleep(REDRAW_S)
            continue
        analysis.fold(batch)
        view = analysis.view(WINDOW_NS)
        if is_told:
            announcer.look(view)
        shown.show(view)
    shown.close()
