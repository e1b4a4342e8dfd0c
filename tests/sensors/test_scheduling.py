"""How the engine's threads fared with the scheduler."""

import os
import shutil
from pathlib import Path

from edgetop.sensors import cpu_load
from edgetop.sensors.cpu_load import UNCOUNTED, engine_scheduling
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap, Reader
from tests.support.trees import plant


def thread(tid: int, ran_ns: int, waited_ns: int, switches: int) -> dict[str, str]:
    folder = f"proc/77/task/{tid}"
    status = f"Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t{switches}\n"
    return {f"{folder}/schedstat": f"{ran_ns} {waited_ns} 12\n", f"{folder}/status": status}


def engine(tmp_path: Path, *times: float, **more: object) -> Reader:
    at_s = iter(times)
    return engine_scheduling(77, root=Root(tmp_path), now=lambda: next(at_s), **more)


def test_waits_and_switches_of_all_threads_are_rates(tmp_path: Path) -> None:
    source = engine(tmp_path, 10.0, 12.0)
    plant(tmp_path, thread(77, 10**9, 5_000_000, 3) | thread(78, 10**8, 1_000_000, 1))
    assert [type(value) for value in source.read()] == [Gap, Gap]
    plant(tmp_path, thread(77, 2 * 10**9, 25_000_000, 5) | thread(78, 10**8, 21_000_000, 3))
    assert [info.id for info in source.sensors] == ["rate/run-queue-wait", "rate/involuntary-switches"]
    assert source.read() == [20.0, 2.0]


def test_threads_that_end_or_begin_make_no_jump(tmp_path: Path) -> None:
    source = engine(tmp_path, 10.0, 11.0)
    plant(tmp_path, thread(77, 10**9, 5_000_000, 3) | thread(78, 10**8, 9_000_000, 9))
    source.read()
    shutil.rmtree(tmp_path / "proc/77/task/78")
    plant(tmp_path, thread(77, 2 * 10**9, 6_000_000, 4) | thread(79, 10**8, 8_000_000, 8))
    assert source.read() == [1.0, 1.0]


def test_no_thread_waits_for_longer_than_it_can(tmp_path: Path) -> None:
    """A wait counts at its end, so that one of three seconds is no leap."""
    source = engine(tmp_path, 10.0, 11.0, 12.0)
    plant(tmp_path, thread(77, 10**9, 0, 0))
    source.read()
    plant(tmp_path, thread(77, 10**9, 3 * 10**9, 0))
    assert source.read() == [1000.0, 0.0]
    plant(tmp_path, thread(77, 10**9, 10**15, 2**40))
    assert [type(value) for value in source.read()] == [Gap, Gap]


def test_threads_that_are_not_the_engines_are_left_out(tmp_path: Path) -> None:
    source = engine(tmp_path, 10.0, 11.0, others=lambda: {78})
    plant(tmp_path, thread(77, 10**9, 0, 0) | thread(78, 10**8, 0, 0))
    source.read()
    plant(tmp_path, thread(77, 2 * 10**9, 4_000_000, 1) | thread(78, 10**8, 8_000_000, 8))
    assert source.read() == [4.0, 1.0]


def test_a_kernel_that_keeps_no_account_makes_a_gap_and_no_zero(tmp_path: Path) -> None:
    source = engine(tmp_path, 10.0, 11.0)
    plant(tmp_path, thread(77, 0, 0, 3))
    source.read()
    plant(tmp_path, thread(77, 0, 0, 5))
    assert source.read() == [UNCOUNTED, 2.0]


def test_what_is_no_schedstat_is_a_failed_read(tmp_path: Path) -> None:
    source = engine(tmp_path, 10.0)
    plant(tmp_path, thread(77, 0, 0, 3) | {"proc/77/task/77/schedstat": "garbage\n"})
    assert isinstance(read_source(source), Gap)
    plant(tmp_path, thread(77, 0, 0, 3) | {"proc/77/task/77/status": "Name: x\n"})
    assert isinstance(read_source(engine(tmp_path, 10.0)), Gap)


def test_the_real_process_tells_both() -> None:
    (source,) = cpu_load.discover_engine_scheduling(os.getpid(), shares_process=False).sources
    source.read()
    assert all(isinstance(value, float) or value == UNCOUNTED for value in source.read())
