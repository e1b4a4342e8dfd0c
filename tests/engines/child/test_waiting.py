"""Waiting for a moment, on a machine whose sleeps end late."""

from edgetop.engines.child.loop import Control
from edgetop.engines.child.waiting import MAX_MARGIN_NS, MIN_MARGIN_NS, SLICE_NS, Waiter, sharpen_timers, yield_cpu

US = 1_000
MS = 1_000_000


class Machine:
    """Sleeps end `late_ns` late; a look at the clock takes 1 us."""

    def __init__(self, late_ns: int) -> None:
        self.now, self.late_ns, self.spun, self.slept = 0, late_ns, 0, 0
        self.control = Control()
        self.waiter = Waiter(self.control, lambda: self.now, self.sleep, self.spin)

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9) + self.late_ns
        self.slept += 1

    def spin(self) -> None:
        self.now += US
        self.spun += 1


def test_however_late_its_sleeps_end_it_is_there_in_time() -> None:
    for late_us in (0, 5, 60, 140, 300):
        machine = Machine(late_us * US)
        late = []
        for number in range(1, 200):
            machine.waiter.until(number * 10 * MS)
            late.append(machine.now - number * 10 * MS)
        assert max(late[1:]) <= US, late_us


def test_it_spins_no_longer_than_sleeps_are_late() -> None:
    machine = Machine(60 * US)
    for number in range(1, 301):
        machine.waiter.until(number * 33 * MS)
    machine.spun = 0
    for number in range(301, 401):
        machine.waiter.until(number * 33 * MS)
    assert machine.spun * US / (100 * 33 * MS) < 0.001


def test_what_another_process_takes_is_not_allowed_for() -> None:
    machine = Machine(10 * US)
    for number in range(1, 200):
        machine.waiter.until(number * 33 * MS)
    before = machine.waiter.margin_ns
    machine.late_ns = 8 * MS
    machine.waiter.until(machine.now + 33 * MS)
    assert machine.waiter.margin_ns == before


def test_the_margin_stays_within_its_bounds() -> None:
    for late_us in (0, 499):
        machine = Machine(late_us * US)
        for number in range(1, 400):
            machine.waiter.until(number * 10 * MS)
        assert MIN_MARGIN_NS <= machine.waiter.margin_ns <= MAX_MARGIN_NS


def test_a_moment_that_is_past_is_not_waited_for() -> None:
    machine = Machine(0)
    machine.now = 5 * MS
    assert machine.waiter.until(4 * MS)
    assert (machine.now, machine.slept) == (5 * MS, 0)


def test_a_stop_ends_the_wait_within_a_slice() -> None:
    machine = Machine(0)
    machine.control.stop_requested = True
    assert not machine.waiter.until(3600 * 1000 * MS)
    assert machine.now <= SLICE_NS


def test_the_real_ones_return() -> None:
    sharpen_timers()
    yield_cpu()
