"""The PMUs of cores and their events, as sysfs lists them."""

from pathlib import Path

import pytest

from edgetop.sensors.core_pmus import EVENTS, core_pmus, line_bytes
from tests.support.trees import plant

DEVICES = "sys/bus/event_source/devices"
ARM_EVENTS = {
    "cpu_cycles": 0x11, "inst_retired": 0x08, "l1d_cache": 0x04, "l1d_cache_refill": 0x03, "l2d_cache": 0x16,
    "l2d_cache_refill": 0x17, "br_mis_pred": 0x10, "stall_backend": 0x24, "bus_access": 0x19,
}  # fmt: skip


def arm(name: str, number: int, cpus: str = "0-3", **more: int) -> dict[str, str]:
    """The files of a PMU as drivers/perf/arm_pmuv3.c makes them."""
    files = {f"{name}/type": f"{number}\n", f"{name}/cpus": f"{cpus}\n", f"{name}/format/event": "config:0-15\n"}
    files |= {f"{name}/events/{event}": f"event=0x{code:04x}\n" for event, code in (ARM_EVENTS | more).items()}
    return {f"{DEVICES}/{path}": text for path, text in files.items()}


def x86(name: str, number: int, events: dict[str, str], **formats: str) -> dict[str, str]:
    formats = {"event": "config:0-7", "umask": "config:8-15"} | formats
    files = {f"{name}/type": f"{number}\n"}
    files |= {f"{name}/format/{field}": f"{place}\n" for field, place in formats.items()}
    files |= {f"{name}/events/{event}": f"{line}\n" for event, line in events.items()}
    return {f"{DEVICES}/{path}": text for path, text in files.items()}


INTEL = {
    "cpu-cycles": "event=0x3c", "instructions": "event=0xc0", "cache-references": "event=0x2e,umask=0x4f",
    "cache-misses": "event=0x2e,umask=0x41", "branch-misses": "event=0xc5", "bus-cycles": "event=0x3c,umask=0x01",
}  # fmt: skip


def cache(level: int, size: int, index: int) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
    return {f"{folder}/level": f"{level}\n", f"{folder}/coherency_line_size": f"{size}\n"}


def test_a_cortex_a53_counts_its_l2_cache(tmp_path: Path) -> None:
    (pmu,) = core_pmus(plant(tmp_path, arm("armv8_cortex_a53", 8)))
    assert pmu.name == "armv8_cortex_a53"
    assert [event.name for event in pmu.events] == list(EVENTS)
    assert [event.config for event in pmu.events] == [0x11, 0x08, 0x17, 0x10, 0x24, 0x19, 0x16]
    assert {event.type for event in pmu.events} == {8}
    assert pmu.cache == "the L2 cache"


def test_two_kinds_of_cores_count_the_same_cache(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        arm("armv8_cortex_a55", 8) | arm("armv8_cortex_a76", 9, "4-7", ll_cache_miss_rd=0x37, ll_cache_rd=0x36),
    )
    little, big = core_pmus(root)
    assert [little.cache, big.cache] == ["the L2 cache"] * 2
    assert [event.type for event in big.events] == [9] * len(EVENTS)


def test_the_last_level_cache_is_preferred(tmp_path: Path) -> None:
    (pmu,) = core_pmus(plant(tmp_path, arm("armv8_cortex_a76", 9, ll_cache_miss_rd=0x37, ll_cache_rd=0x36)))
    by_name = {event.name: event.config for event in pmu.events}
    assert (by_name["cache-misses"], by_name["cache-references"]) == (0x37, 0x36)


def test_an_intel_cpu_has_no_bus_accesses(tmp_path: Path) -> None:
    (pmu,) = core_pmus(plant(tmp_path, x86("cpu", 4, INTEL)))
    assert {event.name: event.config for event in pmu.events} == {
        "cycles": 0x3C, "instructions": 0xC0, "cache-misses": 0x412E, "branch-misses": 0xC5, "cache-references": 0x4F2E,
    }  # fmt: skip


def test_a_hybrid_cpu_has_a_pmu_for_each_kind(tmp_path: Path) -> None:
    files = x86("cpu_core", 4, INTEL) | x86("cpu_atom", 10, INTEL) | x86("uncore_imc_0", 20, {})
    files |= {f"{DEVICES}/{name}/cpus": "0-3\n" for name in ("cpu_core", "cpu_atom")}
    assert {pmu.name: pmu.events[0].type for pmu in core_pmus(plant(tmp_path, files))} == {
        "cpu_core": 4,
        "cpu_atom": 10,
    }


def test_a_field_may_lie_in_two_places(tmp_path: Path) -> None:
    """The event number of AMD has twelve bits (arch/x86/events/amd/core.c)."""
    events = {"cpu-cycles": "event=0x576", "instructions": "event=0xc0,umask=0x1ff", "branch-misses": "frob=1"}
    (pmu,) = core_pmus(plant(tmp_path, x86("cpu", 4, events, event="config:0-7,32-35")))
    assert [(event.name, event.config) for event in pmu.events] == [("cycles", 0x5_0000_0076)]


def test_a_pmu_without_a_list_has_the_kernels_own_events(tmp_path: Path) -> None:
    (pmu,) = core_pmus(plant(tmp_path, {f"{DEVICES}/cpu/type": "4\n"}))
    assert [(event.name, event.type, event.config) for event in pmu.events][:3] == [
        ("cycles", 0, 0), ("instructions", 0, 1), ("cache-misses", 0, 3),
    ]  # fmt: skip


def test_a_virtual_machine_has_none(tmp_path: Path) -> None:
    assert core_pmus(plant(tmp_path, {f"{DEVICES}/software/type": "1\n", f"{DEVICES}/msr/type": "6\n"})) == ()


def test_not_more_pmus_than_kinds_of_cores_are_believed(tmp_path: Path) -> None:
    files = {f"{DEVICES}/pmu{n}/{name}": f"{n}\n" for n in range(50) for name in ("type", "cpus")}
    assert len(core_pmus(plant(tmp_path, files))) == 8


@pytest.mark.parametrize(
    ("levels", "more", "expected"),
    [
        ([(1, 64), (2, 64)], {}, 64),
        ([(1, 64), (2, 64), (3, 128)], {}, None),  # a miss of the L2 cache may hit the L3 cache
        ([(1, 64), (2, 64), (3, 128)], {"l3d_cache_refill": 0x2A, "l3d_cache": 0x2B}, 128),
        ([(1, 64), (2, 0)], {"ll_cache_miss_rd": 0x37}, 64),
        ([], {}, None),
    ],
)
def test_a_miss_of_the_last_cache_fetches_its_line(
    tmp_path: Path, levels: list[tuple[int, int]], more: dict[str, int], expected: int | None
) -> None:
    files = arm("armv8_cortex_a53", 8, **more)
    for index, (level, size) in enumerate(levels):
        files |= cache(level, size, index)
    root = plant(tmp_path, files)
    assert line_bytes(root, core_pmus(root)) == expected
