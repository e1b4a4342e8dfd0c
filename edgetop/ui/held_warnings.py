"""Warnings that come and go within seconds: each stays on the screen long enough to be seen."""

from collections.abc import Sequence

from edgetop.analysis.findings import Finding
from edgetop.session.seconds import NS

SEEN_NS = 10 * NS  # session time for which a warning stays after it first appeared


class HeldWarnings:
    """Keeps each warning on the screen for at least ten seconds, even if its reason disappears sooner."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, Finding]] = {}  # by code: when it appeared, and its latest figures
        self._now_ns = 0

    def with_held(self, present: Sequence[Finding], now_ns: int, *, is_over: bool) -> tuple[Finding, ...]:
        """Return the present warnings, followed by those that are over but were shown for less than ten seconds.

        `now_ns` is the present session time. No warning is kept if the session is over (`is_over`), or after a jump
        back in a replay.
        """
        if is_over or now_ns < self._now_ns:
            self._held = {}
        self._now_ns = now_ns
        appeared = {code: at_ns for code, (at_ns, _) in self._held.items()}
        codes = {one.code for one in present}
        gone = {
            code: (at_ns, one)
            for code, (at_ns, one) in self._held.items()
            if code not in codes and now_ns - at_ns < SEEN_NS
        }
        self._held = gone | {one.code: (appeared.get(one.code, now_ns), one) for one in present}
        return (*present, *(one for _, one in gone.values()))
