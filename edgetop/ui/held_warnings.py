"""Warnings that come and go within seconds: each stays on the screen long enough to be seen."""

from collections.abc import Sequence

from edgetop.analysis.findings import Finding
from edgetop.session.seconds import NS

SEEN_NS = 10 * NS  # session time for which a warning stays after it first appeared


class HeldWarnings:
    """Keeps a warning on the screen for ten seconds since it appeared, even if its reason is over before."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, Finding]] = {}  # by code: when it appeared, and its latest figures
        self._now_ns = 0

    def with_held(self, present: Sequence[Finding], now_ns: int, *, is_over: bool) -> tuple[Finding, ...]:
        """Return the present warnings, followed by those that have gone but must still be seen.

        `now_ns` is the present session time. After the end of a session (`is_over`), and after a jump back in a replay,
        no warning is kept.
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
