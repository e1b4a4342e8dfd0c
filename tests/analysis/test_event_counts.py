"""What was counted for an inference: rates over the measured phase, divided by its inferences."""

from types import SimpleNamespace

import numpy as np
import pytest

from edgetop.analysis.event_counts import EventFigures
from edgetop.analysis.report_operators import counted_figures
from edgetop.analysis.session_report import report
from edgetop.cli.printing.report_text import summary
from edgetop.session.ceilings import Ceilings
from edgetop.session.event_kinds import SensorMissing
from edgetop.session.events import Event
from edgetop.session.seconds import NS
from edgetop.wording.counter_words import counter_words
from edgetop.wording.report_document import report_document
from tests.support.sessions import (
    MadeSession,
    ended_event,
    folded,
    make_inferences,
    make_manifest,
    make_readings,
    make_sensor,
    phase_event,
)

RATES = {
    "rate/cycles": 1.5e9, "rate/instructions": 3e9, "rate/cache-misses": 4e3, "rate/branch-misses": 1e4,
    "rate/context-switches": 20.0, "rate/migrations": 0.5, "rate/page-faults": 10.0, "rate/missed-bytes": 256e3,
    "rate/task-clock": 750.0, "rate/stalled-cycles": 2e8,
}  # fmt: skip


def session(rates: dict[str, float] = RATES, *, read_until_s: int = 62, missing: tuple[str, ...] = ()) -> MadeSession:
    """Forty seconds of ten inferences each, after twenty seconds in which the engine did not count."""
    sensors = tuple(map(make_sensor, rates))
    rows = [
        (second * NS, place, value if second > 20 else 1e12)
        for second in range(1, read_until_s)
        for place, value in enumerate(rates.values())
    ]
    told = tuple(Event(NS, SensorMissing(), "info", "sensor CPU counters", why) for why in missing)
    return MadeSession(
        manifests=((0, make_manifest(*sensors)),),
        inferences=make_inferences(np.arange(200, 600) * NS // 10, NS // 20),
        readings=make_readings(*rows),
        events=(*told, phase_event(20 * NS, "measure"), ended_event(60 * NS, last_end_ns=60 * NS)),
        end_ns=61 * NS,
    )


def counters_of(made: MadeSession) -> dict | None:
    return report_document(folded(made.batches(())))["counters"]


def test_counts_are_those_of_an_inference_of_the_measured_phase() -> None:
    assert counters_of(session()) == {
        "cycles": pytest.approx(1.5e8), "instructions": pytest.approx(3e8), "ipc": 2.0,
        "cache_misses": pytest.approx(400), "branch_misses": pytest.approx(1000), "context_switches": pytest.approx(2),
        "migrations": pytest.approx(0.05), "page_faults": pytest.approx(1), "bytes": pytest.approx(25_600),
        "clock_mhz": pytest.approx(2000), "stalled_cycles": pytest.approx(2e7), "why": None,
    }  # fmt: skip


def test_a_rare_event_is_no_zero() -> None:
    """One migration in 500 seconds of ten inferences each."""
    made = session({"rate/migrations": 0.002})
    found = counters_of(made)
    assert found is not None
    assert found["migrations"] == pytest.approx(0.0002)
    assert counter_words(EventFigures(migrations=found["migrations"])) == "under 0.001 migrations"


def test_what_was_not_counted_is_unknown_with_the_reason() -> None:
    found = counters_of(session({"rate/migrations": 0.5}, missing=("the kernel has no counters of this CPU",)))
    assert found is not None
    assert found["migrations"] == pytest.approx(0.05)
    assert found["cycles"] is found["ipc"] is found["clock_mhz"] is None
    assert found["why"] == "the kernel has no counters of this CPU"


def test_a_session_without_counters_has_none() -> None:
    assert counters_of(session({"load/engine": 50.0})) is None


@pytest.mark.parametrize(("until_s", "is_known"), [(38, False), (44, True)])
def test_counts_of_less_than_half_of_the_phase_are_unknown(until_s: int, is_known: bool) -> None:
    found = counters_of(session(read_until_s=until_s, missing=("x",)))
    assert found is not None
    assert (found["cycles"] is not None) == is_known


def test_the_summary_names_them() -> None:
    text = " ".join(summary(report(folded(session().batches(())))).split())
    assert "counted 150 M cycles at 2000 MHz, 2.00 instructions a cycle, 400 cache misses, 1000 branch misses" in text
    assert "0.05 migrations, at least 25.0 KiB from memory; of an inference" in text


@pytest.mark.parametrize(
    ("moved", "flops", "found"),
    [
        (10e6, 1_000_000, "memory-bound"), (1e6, 100_000_000, "compute-bound"), (1e3, 1_000, "overhead"),
        (10e6, None, None), (None, 1_000_000, None),
    ],
)  # fmt: skip
def test_the_bytes_that_were_counted_tell_what_limits_the_model(
    moved: float | None, flops: int | None, found: str | None
) -> None:
    """Of 1 ms; the board moves 10 bytes and computes 100 FLOPs in a nanosecond. The second operator runs twice."""
    operators = [SimpleNamespace(flops=flops, calls=1.0), SimpleNamespace(flops=0, calls=2.0)]
    analysis = SimpleNamespace(
        event_figures=lambda: EventFigures(bytes=moved),
        statistics=lambda: SimpleNamespace(percentile_ns=lambda _: 1e6),
        operators=SimpleNamespace(
            session=SimpleNamespace(views=lambda: operators), ceilings=Ceilings(100e9, 10e9, "2026-11-21T10:00:00Z")
        ),
    )
    figures = counted_figures(analysis, make_manifest())  # type: ignore[arg-type]
    assert figures is not None
    assert figures.bound == found
