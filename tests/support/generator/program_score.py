"""How well the slowdowns of generated programs are judged: which model slowed, when, and why."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from edgetop.analysis.analysis import Analysis
from edgetop.session.seconds import NS
from tests.support.generator.programs import Program

NEAR_S = 5.0


@dataclass
class ProgramScore:
    """True slowdowns, how many of them have the right stream, cause and beginning, and what was found beside them."""

    true: int = 0
    right: int = 0
    false: int = 0
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, label: str, program: Program) -> None:
        session = program.session
        left = list(Analysis.of(session.batches()).slowdowns_view().slowdowns)
        for truth in session.truth if program.slowed else ():
            self.true += 1
            near = [one for one in left if one.start_ns / NS < truth.end_s]
            near = [one for one in near if (one.end_ns or session.end_s * NS) / NS > truth.start_s - 2]
            match = max(near, key=lambda one: (one.cause == truth.cause, one.latency_ratio or 0.0), default=None)
            self.confusion[truth.cause, match.cause if match else "nothing"] += 1
            if match is None:
                self.faults.append(f"{label}: {truth} not found")
                continue
            left.remove(match)
            is_near = abs(match.start_ns / NS - truth.start_s) <= NEAR_S
            is_right = match.cause == truth.cause and set(match.streams) <= set(program.slowed) and is_near
            self.right += is_right
            if not is_right:
                self.faults.append(f"{label}: {truth} of {program.slowed} found {match}")
        self.false += len(left)
        self.faults += [f"{label}: {session.truth} not true {one}" for one in left]

    @property
    def share(self) -> float:
        return self.right / max(self.true, 1)


def score_programs(programs: Iterable[tuple[str, Program]]) -> ProgramScore:
    total = ProgramScore()
    for label, program in programs:
        total.add(label, program)
    return total
