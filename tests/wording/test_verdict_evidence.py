"""A verdict that blames something has what proves it beside it in the document, also if no slowdown came of it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.verdict_reasons import State
from edgetop.session.batch import Batch
from edgetop.wording.report_document import report_document
from edgetop.wording.verdict_words import STATES
from tests.support.fuzzed import Fuzz
from tests.support.generator.plans import generate
from tests.support.generator.programs import generate_program
from tests.support.scripts import Script, manifest, sensor
from tests.support.thorough import mostly_thorough

BLAMELESS = {STATES[state] for state in (State.LOADING, State.MEASURING, State.STEADY, State.STOPPING, State.STOPPED)}
EVERY_S = 20.0  # looks at a generated session


def cuts(end_s: float) -> tuple[float, ...]:
    return tuple(EVERY_S * number for number in range(1, int(end_s / EVERY_S)))


def documents(batches: Iterable[Batch]) -> Iterator[dict[str, Any]]:
    """Yield the document of a session after each batch."""
    analysis = Analysis()
    for batch in batches:
        analysis.fold(batch)
        yield report_document(analysis)


def fuzzed(seed: int) -> Iterable[Batch]:
    return Fuzz(seed).batches()


def of_a_board(seed: int) -> Iterable[Batch]:
    session = generate(seed)
    return session.batches(cuts(session.end_s))


def of_a_program(seed: int) -> Iterable[Batch]:
    session = generate_program(seed).session
    return session.batches(cuts(session.end_s), single=True)


@pytest.mark.parametrize("seed", mostly_thorough(range(16), 3))
@pytest.mark.parametrize("make", [fuzzed, of_a_board, of_a_program])
def test_who_blames_has_evidence(make: Callable[[int], Iterable[Batch]], seed: int) -> None:
    for document in documents(make(seed)):
        for verdict in (document["verdict"], *(one["verdict"] for one in document["streams"] or ())):
            assert verdict["evidence"] or verdict["now"] in BLAMELESS, verdict


def taken_at_the_end() -> Script:
    """Heat throttles the board for a while. At the end, others take the CPU, too briefly for a slowdown."""
    sensors = [sensor(name) for name in ("throttle/thermal", "load/cpu", "load/engine", "rate/run-queue-wait")]

    def weather(second: float) -> dict[str, float]:
        is_taken = second >= 111
        return {
            "throttle/thermal": float(60 <= second < 70), "load/engine": 60.0 if is_taken else 100.0,
            "load/cpu": 200.0 if is_taken else 102.0, "rate/run-queue-wait": 400.0 if is_taken else 1.0,
        }  # fmt: skip

    script = Script(manifest(sensors=tuple(sensors)), weather)
    return script.load().warm_up(median_ms=10.0).begin().measure(117, rate_hz=50.0, median_ms=10.0)


def test_contention_without_a_slowdown_is_told_with_who_took_the_cpu() -> None:
    script = taken_at_the_end()
    running, over = (list(documents([script.whole()]))[-1] for script in (script, script.end("duration")))
    for document in (running, over):
        assert document["slowdowns"] == []
        assert document["verdict"]["now"] == "CONTENDED"
        assert document["verdict"]["evidence"] == ["others 140 %"]
    assert over["verdict"]["past"] == ["was throttled once, 9 % of the time (thermal)"]
