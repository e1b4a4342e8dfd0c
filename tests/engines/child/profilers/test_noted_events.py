"""Which operator an event belongs to, by the time of its note, on the profiler's clock or on that of the kernel."""

import pytest

from edgetop.engines.child.profilers import Profile
from edgetop.engines.child.profilers.noted_events import MOST_ROOM, RESOLUTION_NS, Counts, Noted, Run, Span, offsets_ns

US = 1_000
SPANS = [Span(0, 100 * US, 50 * US), Span(1, 150 * US, 100 * US), Span(0, 250 * US, 20 * US)]


def run(times: list[int], begin_ns: int, end_ns: int, every: int = 1, zero_ns: int = 0) -> Run:
    return Run(SPANS, Noted({"page-faults": (times, every)}, begin_ns, end_ns), zero_ns)


def counted(*runs: Run) -> dict[str, list[object]]:
    counts = Counts()
    counts.add(runs)
    return counts.describe()


def test_on_one_clock_each_note_belongs_to_the_operator_at_its_time() -> None:
    times = [90 * US, 110 * US, 149 * US - 1, 160 * US, 260 * US, 275 * US]
    found = counted(run(times, 80 * US, 300 * US))
    assert found == {"page-faults": [1, 1, [[0, 3, 3, 3], [1, 1, 1, 1]]]}


def test_a_note_stands_for_several_events_and_runs_add_up() -> None:
    found = counted(*[run([120 * US, 200 * US, 201 * US], 80 * US, 300 * US, every=1_000)] * 3)
    assert found == {"page-faults": [1_000, 3, [[0, 3_000, 3_000, 3_000], [1, 6_000, 6_000, 6_000]]]}


def test_a_clock_of_its_own_is_known_up_to_the_time_outside_of_the_operators() -> None:
    """The run takes 290 us, and its last operator ends 270 us after the profiler began."""
    begin_ns = 10**12
    least, middle, most = offsets_ns(run([], begin_ns, begin_ns + 290 * US)) or (0, 0, 0)
    assert (least, most) == (begin_ns, begin_ns + 20 * US + RESOLUTION_NS)
    assert least < middle < most
    at_border, inside = begin_ns + 155 * US, begin_ns + 200 * US
    found = counted(run([at_border, inside], begin_ns, begin_ns + 290 * US))
    assert found["page-faults"][2] == [[0, 1, 0, 1], [1, 1, 1, 2]]


def test_a_profiler_that_began_earlier_says_when_the_run_began() -> None:
    begin_ns, zero_ns = 10**12, 90 * US
    assert offsets_ns(run([], begin_ns, begin_ns + 180 * US, zero_ns=zero_ns)) == (
        begin_ns - zero_ns, begin_ns - zero_ns + RESOLUTION_NS // 2, begin_ns - zero_ns + RESOLUTION_NS
    )  # fmt: skip


@pytest.mark.parametrize(("end_us", "zero_us"), [(200, 0), (900, 120)])
def test_clocks_that_contradict_each_other_count_nothing(end_us: int, zero_us: int) -> None:
    one = run([10**12 + 1], 10**12, 10**12 + end_us * US, zero_ns=zero_us * US)
    assert offsets_ns(one) is None
    assert counted(one) == {}


def test_a_run_that_another_program_delayed_outside_of_its_operators_does_not_count() -> None:
    begin_ns = 10**12
    good = run([begin_ns + 200 * US], begin_ns, begin_ns + 280 * US)
    within = run([begin_ns + 200 * US], begin_ns, begin_ns + (270 + 10 * MOST_ROOM) * US)
    late = run([begin_ns + 200 * US], begin_ns, begin_ns + (280 + 20 * MOST_ROOM) * US)
    assert [counted(good, other)["page-faults"][1] for other in (good, within, late)] == [2, 2, 1]


def test_what_runs_in_the_body_of_a_loop_does_not_count_for_the_loop() -> None:
    spans = [Span(0, 100 * US, 80 * US), Span(1, 110 * US, 30 * US)]
    one = Run(spans, Noted({"cycles": ([105 * US, 115 * US, 120 * US], 1)}, 90 * US, 200 * US), 0)
    assert counted(one) == {"cycles": [1, 1, [[0, 1, 1, 1], [1, 2, 2, 2]]]}


def test_operators_on_several_threads_have_no_counts() -> None:
    profile = Profile()
    profile.begin_run(300 * US)
    profile.run.noted = Noted({"cycles": ([120 * US], 1)}, 90 * US, 300 * US)
    profile.add("a", "Conv", "CPU", 50 * US, 100 * US, thread=1)
    profile.add("b", "Conv", "CPU", 50 * US, 100 * US, thread=2)
    assert "counts" not in profile.describe()
    profile.run.begins[1] = (150 * US, 1)
    assert profile.describe()["counts"] == {"cycles": [1, 1, [[0, 1, 1, 1]]]}
