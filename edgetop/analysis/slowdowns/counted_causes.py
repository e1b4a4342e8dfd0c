"""The causes that the engine's counters prove: what the kernel counted around a slow inference.

A counter that measures time gives a share of the lost time. Where only the whole sleep is known, the share is an upper
limit.
"""

from edgetop.frozen import frozen
from edgetop.session.engine_events import SlowInference as Counted

# Share of what an inference lost that a thing must explain to be its cause. Choice. Larger: several small causes give
# "unexplained"; smaller: what is always there is a cause.
PART = 0.25
# Time of a minor page fault, which clears a page. Choice: about what a fast CPU takes; a small board takes more.
# Larger: faults are blamed for what others did; smaller: the faults of a heap that grows are missed.
MINOR_FAULT_NS = 500
# Time that a major page fault takes at most, if it was not measured: another thread than the engine's loop had it.
# Choice: a read from an SD card. Larger: faults are blamed for what others did; smaller: those of workers are missed.
MAJOR_FAULT_NS = 1_000_000
# Time that one preemption may take from a thread. Choice: ten slices of 3 ms. Larger: an engine that stood still while
# another program ran is unexplained; smaller: a worker that waits for a CPU is taken for an engine that stands still.
PREEMPTED_NS = 30_000_000
# Time of a wait for a disk that the pressure of a disk may not show. Kernel: `collect_percpu_times` in
# kernel/sched/psi.c weights each CPU by whole ticks, of 10 ms at most. Larger: other sleeps are put down to a short
# fault; smaller: faults are no cause where the kernel rounded the pressure to 0.
UNSEEN_NS = 10_000_000


@frozen
class CountedCause:
    """A cause of a slow inference, whose time the engine's counters show."""

    cause: str
    share: float  # of the lost time, 0..1
    is_limit: bool = False  # Whether the cause took at most this share.


def measured(counted: Counted, lost_ns: int, disk_ns: float) -> list[CountedCause]:
    """Return the causes whose time was measured, the one that took longest first.

    Causes that took less than PART of the lost time are left out. `counted` is what the engine counted around the
    inference. `lost_ns` is by how many ns the inference was slower than usual, at least 1. `disk_ns` is for how many ns
    threads may have waited for a disk meanwhile; infinite if that is unknown.
    """
    waits_ns, faults_ns = _beside(counted)
    waited_ns = counted.waited_ns or 0
    # How long a fault lasted is not counted: it is at most as long as the thread slept, and as the disk was waited for.
    slept_ns = min(max(_slept_ns(counted), faults_ns), disk_ns)
    minor_ns = counted.minor_faults * MINOR_FAULT_NS
    minor_ns = 0 if counted.major_faults and counted.slept_ns is None else minor_ns
    small_ns = 0.0 if counted.capacity is None else counted.latency_ns * (1 - counted.capacity)
    took_ns = (
        ("small-cores", small_ns, False),
        ("fewer-cpus" if counted.lost_cpus else "contention", max(waited_ns, waits_ns), waits_ns > waited_ns),
        ("page-faults", minor_ns + slept_ns, slept_ns > 0),
    )
    largest = sorted((one for one in took_ns if one[1] >= PART * lost_ns), key=lambda one: -one[1])
    found = [CountedCause(cause, min(ns / lost_ns, 1.0), is_limit) for cause, ns, is_limit in largest]
    return found or _stopped(counted, lost_ns, disk_ns)


def lacks_others(counted: Counted, lost_ns: int) -> bool:
    """Whether other threads than the loop's ran less than usual, for PART of the time that was lost."""
    return (counted.lacking_ns or 0) >= PART * lost_ns


def _slept_ns(counted: Counted) -> int:
    """Return for how many ns the loop may have slept for major faults. It is 0 if that was not measured."""
    if not counted.major_faults or counted.slept_ns is None:  # None in recordings of earlier versions
        return 0
    # A thread sleeps until the disk has the page. If another thread than the loop has the fault, the loop waits for it,
    # but it also waits for threads that were preempted.
    others_ns = 0 if counted.loop_major_faults else counted.preempted * PREEMPTED_NS
    return max(counted.slept_ns - others_ns, 0)


def _beside(counted: Counted) -> tuple[int, int]:
    """Return for how many ns threads beside a running loop waited at most for a CPU, and for a page of a major fault.

    The engine measures for how long they did not run. As many of these ns as preemptions of these threads may explain
    are waits, and the rest is of their faults, if they had any.
    """
    lacking_ns = counted.lacking_ns or 0
    preempted = counted.preempted - (counted.loop_preempted or 0)
    faults = counted.major_faults - (counted.loop_major_faults or 0)
    waits_ns = min(lacking_ns, max(preempted, 0) * PREEMPTED_NS)
    return waits_ns, lacking_ns - waits_ns if faults > 0 else 0


def _stopped(counted: Counted, lost_ns: int, disk_ns: float) -> list[CountedCause]:
    # If threads were preempted or had to wait for a page, the others may have waited for them.
    stood_ns = (counted.idle_ns or 0) - counted.preempted * PREEMPTED_NS - (disk_ns if counted.major_faults else 0)
    is_stopped = not counted.lost_cpus and stood_ns >= PART * lost_ns
    return [CountedCause("stopped", min((counted.idle_ns or 0) / lost_ns, 1.0))] if is_stopped else []


def unmeasured(counted: Counted, lost_ns: int, disk_ns: float) -> str:
    """Return the cause that the engine's counters prove although they measure no time of it, or "" if there is none.

    The arguments are those of `measured`.
    """
    is_earlier = counted.slept_ns is None  # Recordings of earlier versions do not tell how long a fault took.
    least_ns = PART * lost_ns
    if counted.major_faults and (is_earlier or min(counted.major_faults * MAJOR_FAULT_NS, disk_ns) >= least_ns):
        return "page-faults"
    if counted.lost_cpus:
        return "fewer-cpus"
    return "contention" if counted.waited_ns is None and counted.preempted else ""
