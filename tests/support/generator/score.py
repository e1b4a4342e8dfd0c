"""How well what was found agrees with what is true, over many generated sessions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.session.seconds import NS
from tests.support.generator.effects import Truth
from tests.support.generator.plans import CAUSES, Generated
from tests.support.generator.widened import WIDENED

NEAR_S = 3.0


@dataclass
class Score:
    """Of true slowdowns: found with which cause and how near; and what was found that is not true."""

    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    offsets_s: list[float] = field(default_factory=list)  # of those that were found
    true: int = 0
    near: int = 0  # of those that were found, whose beginning is right
    false: int = 0
    healthy_s: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def cause_share(self) -> float:
        return sum(n for (true, found), n in self.confusion.items() if true == found) / max(self.true, 1)

    @property
    def start_share(self) -> float:
        return self.near / max(self.true, 1)

    @property
    def false_per_day(self) -> float:
        return self.false / max(self.healthy_s, 1) * 86_400

    def add(self, session: Generated) -> None:
        found = judged(session)
        left = list(found)
        label = f"{session.seed} {session.kind} {session.board}"
        for truth in session.truth:
            self.true += 1
            near = [f for f in left if f.start_ns / NS < truth.end_s and _end(f, session) > truth.start_s - 2]
            match = max(near, key=lambda f: _agreement(f, truth, session), default=None)
            if match is None:
                self.confusion[truth.cause, "nothing"] += 1
                self.faults.append(f"{label}: {truth} not found")
                continue
            left.remove(match)
            self.confusion[truth.cause, match.cause] += 1
            self.offsets_s.append(match.start_ns / NS - truth.start_s)
            self.near += abs(self.offsets_s[-1]) <= _near_s(session)
            if match.cause != truth.cause or abs(self.offsets_s[-1]) > _near_s(session):
                self.faults.append(f"{label}: {truth} found {match}")
        slow_s = sum(truth.end_s - truth.start_s for truth in session.truth if not _is_beside(truth, session))
        self.healthy_s += session.end_s - slow_s
        self.false += len(left)
        self.faults += [f"{label}: {session.truth} not true {f}" for f in left]

    def table(self) -> str:
        columns = (*CAUSES, "nothing")
        rows = [" " * 16 + "  ".join(f"{name[:10]:>10}" for name in columns)]
        rows += [
            f"{true:<16}" + "  ".join(f"{self.confusion[true, found] or '':>10}" for found in columns)
            for true in CAUSES
        ]
        return "\n".join(rows)


def _end(found: Slowdown, session: Generated) -> float:
    return session.end_s if found.end_ns is None else found.end_ns / NS


def _is_beside(truth: Truth, session: Generated) -> bool:
    """Whether it lies within one that stands from the start."""
    first = session.truth[0]
    return truth is not first and first.end_s > truth.start_s


def _agreement(found: Slowdown, truth: Truth, session: Generated) -> float:
    """How much of both they have in common."""
    begin_s, end_s = found.start_ns / NS, _end(found, session)
    common_s = min(end_s, truth.end_s) - max(begin_s, truth.start_s)
    return common_s / (max(end_s, truth.end_s) - min(begin_s, truth.start_s))


def _near_s(session: Generated) -> float:
    """A beginning is right within 3 s, of slow models and paces within a window of five inferences."""
    apart_s = max(session.load.latency_s, 1 / (session.load.rate_hz or 1e9))
    return max(NEAR_S, 5 * apart_s) if session.kind in WIDENED and apart_s > 0.25 else NEAR_S


def judged(session: Generated) -> tuple[Slowdown, ...]:
    fold = Slowdowns()
    for batch in session.batches():
        fold.fold(batch)
    return fold.view().slowdowns


def score(sessions: Iterable[Generated]) -> Score:
    total = Score()
    for session in sessions:
        total.add(session)
    return total
