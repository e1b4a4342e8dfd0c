"""The counters of the engine's threads, against a kernel that counts what it is told to."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from edgetop.doctor.counter_checks import check_counters
from edgetop.sensors import engine_counters
from edgetop.sensors.engine_counters import NO_ROOM, PARTIAL, EngineCounters
from edgetop.sensors.sensor_protocol import Found, Gap
from tests.sensors.test_core_pmus import arm, cache
from tests.support.facts import facts
from tests.support.fake_perf import EXCLUDE_KERNEL, INHERIT, INHERIT_THREAD, FakePerf
from tests.support.trees import plant

PID = 77
MS = 1_000_000
SOFTWARE = {
    (1, 1): 1.0,
    (1, 2): 1e-6,
    (1, 3): 2e-6,
    (1, 4): 1e-7,
}  # per ns: task-clock, page faults, switches, migrations
A53 = {
    (8, 0x11): 1.5,
    (8, 0x08): 3.0,
    (8, 0x17): 0.01,
    (8, 0x10): 0.02,
    (8, 0x24): 0.3,
    (8, 0x19): 0.05,
    (8, 0x16): 0.1,
}
A76 = {(9, code): 2 * rate for (_, code), rate in A53.items()}


def process(*tids: int) -> dict[str, str]:
    return {f"proc/{PID}/task/{tid}/comm": "x\n" for tid in (tids or (PID,))}


class Bench:
    """A machine, and the counters of process 77 on it."""

    def __init__(self, tree: Path, files: dict[str, str], **kernel: object) -> None:
        self.perf = FakePerf(**kernel)  # type: ignore[arg-type]
        self.now = 10.0
        self.root = plant(tree, files)

    def discover(self, **more: object) -> Found:
        return engine_counters.discover_engine(
            PID, shares_process=False, root=self.root, calls=self.perf, now=lambda: self.now, **more
        )

    def source(self, **more: object) -> EngineCounters:
        (source,) = self.discover(**more).sources
        assert isinstance(source, EngineCounters)
        return source

    def read(self, source: EngineCounters) -> dict[str, float | Gap]:
        self.now += 1
        return dict(zip((info.id for info in source.sensors), source.read(), strict=True))


def raspberry(tmp_path: Path, **kernel: object) -> Bench:
    settings = {"known": SOFTWARE | A53, "counters": {8: 7}} | kernel
    return Bench(tmp_path, arm("armv8_cortex_a53", 8) | cache(2, 64, 2) | process(77, 78), **settings)


def test_events_of_all_threads_are_rates(tmp_path: Path) -> None:
    bench = raspberry(tmp_path)
    source = bench.source()
    assert all(isinstance(value, Gap) for value in bench.read(source).values())
    bench.perf.run(77, 400 * MS, pmu=8)
    bench.perf.run(78, 100 * MS, pmu=8)
    assert bench.read(source) == {
        "rate/cycles": pytest.approx(750e6), "rate/instructions": pytest.approx(1.5e9),
        "rate/cache-misses": pytest.approx(5e6), "rate/branch-misses": pytest.approx(10e6),
        "rate/stalled-cycles": pytest.approx(150e6), "rate/bus-accesses": pytest.approx(25e6),
        "rate/cache-references": pytest.approx(50e6), "rate/task-clock": pytest.approx(500),
        "rate/page-faults": pytest.approx(500), "rate/context-switches": pytest.approx(1000),
        "rate/migrations": pytest.approx(50, abs=1), "rate/missed-bytes": pytest.approx(320e6),
    }  # fmt: skip


def test_the_set_of_a_cpu_with_fewer_counters_is_cut_at_its_end(tmp_path: Path) -> None:
    bench = raspberry(tmp_path, counters={8: 3})
    found = bench.discover()
    (source,) = found.sources
    ids = [info.id for info in source.sensors]
    assert ids[:4] == ["rate/cycles", "rate/instructions", "rate/cache-misses", "rate/task-clock"]
    (missing,) = found.missing
    assert missing.why == "it does not count branch-misses, stalled-cycles, bus-accesses, cache-references"


def test_counts_of_a_part_of_the_time_are_no_counts(tmp_path: Path) -> None:
    bench = raspberry(tmp_path)
    source = bench.source()
    bench.read(source)
    bench.perf.run(77, 400 * MS, pmu=8, counted=0.75)
    values = bench.read(source)
    assert values["rate/cycles"] == values["rate/missed-bytes"] == PARTIAL
    assert values["rate/task-clock"] == 400.0
    bench.perf.run(77, 400 * MS, pmu=8)
    assert bench.read(source)["rate/cycles"] == pytest.approx(600e6)


def test_a_set_that_never_fits_loses_its_last_events(tmp_path: Path) -> None:
    """Another program, or the kernel's watchdog, holds two of the seven counters."""
    bench = raspberry(tmp_path, taken=2)
    source = bench.source()
    for _ in range(12):
        bench.perf.run(77, 400 * MS, pmu=8)
        values = bench.read(source)
    assert values["rate/cycles"] == pytest.approx(600e6)
    assert values["rate/stalled-cycles"] == pytest.approx(120e6)
    assert values["rate/bus-accesses"] == values["rate/cache-references"] == NO_ROOM


def test_cores_of_two_kinds_are_counted_each_by_its_own(tmp_path: Path) -> None:
    files = arm("armv8_cortex_a55", 8) | arm("armv8_cortex_a76", 9) | process()
    bench = Bench(tmp_path, files, known=SOFTWARE | A53 | A76, counters={8: 7, 9: 7})
    source = bench.source()
    bench.read(source)
    bench.perf.run(77, 300 * MS, pmu=8)
    bench.perf.run(77, 100 * MS, pmu=9)
    values = bench.read(source)
    assert values["rate/cycles"] == pytest.approx(450e6 + 300e6)
    assert (values["load/on-armv8_cortex_a55"], values["load/on-armv8_cortex_a76"]) == (30.0, 10.0)
    bench.perf.run(77, 300 * MS, pmu=8, counted=0.9)
    assert bench.read(source)["rate/cycles"] == PARTIAL


def test_threads_inherit_the_events_and_processes_only_if_they_belong_to_the_program(tmp_path: Path) -> None:
    bench = raspberry(tmp_path)
    for is_program, has_bit, flags in (
        (False, True, INHERIT | INHERIT_THREAD),
        (True, True, INHERIT),
        (False, False, INHERIT),
    ):
        bench.perf.has_inherit_thread = has_bit
        source = bench.source(is_program=is_program)
        assert {one.flags for one in bench.perf.opened.values()} == {flags}
        source.close()
        assert not bench.perf.opened


def test_a_thread_that_begins_meanwhile_is_counted_once(tmp_path: Path) -> None:
    """It may have inherited the events or not, so all are opened again."""
    bench = raspberry(tmp_path)

    class Beginning(FakePerf):
        def open(self, attributes: bytes, tid: int, group: int) -> int:
            if tid == 78:
                plant(tmp_path, process(79))
            return super().open(attributes, tid, group)

    bench.perf = Beginning(known=SOFTWARE | A53, counters={8: 7})
    bench.source()
    groups = [(one.tid, one.event) for one in bench.perf.opened.values()]
    assert len(groups) == len(set(groups)) == 3 * 11


def test_a_process_whose_threads_never_rest_is_not_counted(tmp_path: Path) -> None:
    bench = raspberry(tmp_path)

    class Restless(FakePerf):
        begun = 100

        def open(self, attributes: bytes, tid: int, group: int) -> int:
            self.begun += 1
            plant(tmp_path, process(self.begun))
            return super().open(attributes, tid, group)

    bench.perf = Restless(known=SOFTWARE | A53, counters={8: 7})
    (missing,) = bench.discover().missing
    assert missing.why in ("its threads come and go too fast", "it has too many threads")
    assert not bench.perf.opened


def test_a_process_with_many_threads_is_not_counted(tmp_path: Path) -> None:
    bench = raspberry(tmp_path)
    plant(tmp_path, process(*range(100, 200)))
    (missing,) = bench.discover().missing
    assert missing.why == "it has too many threads"
    assert not bench.perf.opened


def test_a_process_that_has_ended_is_not_counted(tmp_path: Path) -> None:
    bench = raspberry(tmp_path)
    shutil.rmtree(tmp_path / "proc")
    assert [missing.what for missing in bench.discover().missing] == ["counters"]


@pytest.mark.parametrize(
    ("paranoid", "refusal", "why", "fix"),
    [
        (4, 0, "perf_event_paranoid is 4, which allows them to root only", "sudo sysctl kernel.perf_event_paranoid=1"),
        (1, errno.EPERM, "not allowed, as in a container or for another user's process",
         "docker run --cap-add PERFMON --security-opt seccomp=unconfined ..."),
        (1, errno.ENOSYS, "this kernel has no perf events (CONFIG_PERF_EVENTS)", None),
    ],
)  # fmt: skip
def test_what_forbids_counting_is_one_line_with_its_remedy(
    tmp_path: Path, paranoid: int, refusal: int, why: str, fix: str | None
) -> None:
    bench = raspberry(tmp_path, paranoid=paranoid, refusal=refusal)
    plant(tmp_path, {"proc/sys/kernel/perf_event_paranoid": f"{paranoid}\n"})
    found = bench.discover()
    assert [(missing.why, missing.fix) for missing in found.missing] == [(why, fix)]
    assert not found.sources


def test_without_privileges_only_user_space_is_counted(tmp_path: Path) -> None:
    """Switches and migrations happen in the kernel, so that there would be none."""
    bench = raspberry(tmp_path, paranoid=2)
    source = bench.source()
    assert all(one.flags & EXCLUDE_KERNEL for one in bench.perf.opened.values())
    ids = [info.id for info in source.sensors]
    assert "rate/cycles" in ids
    assert not {"rate/context-switches", "rate/migrations"} & set(ids)
    assert source.sensors[0].note == "in user space"
    assert "perf_event_paranoid allows user space only" in [missing.why for missing in bench.discover().missing]


def test_a_virtual_machine_counts_what_the_kernel_counts(tmp_path: Path) -> None:
    bench = Bench(tmp_path, process(), known=SOFTWARE)
    found = bench.discover()
    (source,) = found.sources
    ids = [info.id for info in source.sensors]
    assert ids == ["rate/task-clock", "rate/page-faults", "rate/context-switches", "rate/migrations"]
    assert [missing.what for missing in found.missing] == ["CPU counters"]


def test_a_count_that_no_cpu_makes_is_a_gap(tmp_path: Path) -> None:
    bench = raspberry(tmp_path)
    source = bench.source()
    bench.read(source)
    bench.perf.run(77, 400 * MS, pmu=8)
    next(iter(bench.perf.opened.values())).value = 1e18
    assert isinstance(bench.read(source)["rate/cycles"], Gap)


def test_this_kernel_counts_the_events_of_this_process_or_says_why_not() -> None:
    found = engine_counters.discover_engine(os.getpid(), shares_process=False)
    if not found.sources:  # a container's seccomp profile, or perf_event_paranoid
        (missing,) = found.missing
        assert missing.why
        return
    (source,) = found.sources
    assert isinstance(source, EngineCounters)
    source.read()
    sum(range(2_000_000))
    values = dict(zip((info.id for info in source.sensors), source.read(), strict=True))
    source.close()
    assert values["rate/task-clock"] > 0


def test_the_doctor_has_a_line_for_each(tmp_path: Path) -> None:
    files = arm("armv8_cortex_a55", 8) | arm("armv8_cortex_a76", 9)
    files |= {f"proc/{os.getpid()}/task/{os.getpid()}/comm": "x\n"}
    perf = FakePerf(SOFTWARE | A53 | A76, {8: 7, 9: 2}, paranoid=2)
    checks = check_counters(facts(tmp_path, files), perf)
    counted = "cycles, instructions, cache-misses, branch-misses, stalled-cycles, bus-accesses, cache-references"
    assert {check.status for check in checks} == {"ok"}
    assert [check.found for check in checks] == [
        f"counted of the engine: {counted}, task-clock, page-faults",
        "cores of 2 kinds, each counted by its own: armv8_cortex_a55, armv8_cortex_a76",
        "no CPU counters of the kernel's side: perf_event_paranoid allows user space only",
        f"no CPU counters of armv8_cortex_a76: it does not count {counted.removeprefix('cycles, instructions, ')}",
    ]
    assert [check.fix for check in checks] == [None, None, "sudo sysctl kernel.perf_event_paranoid=1", None]
    assert not perf.opened
