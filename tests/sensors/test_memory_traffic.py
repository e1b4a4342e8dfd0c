"""The memory's traffic and clock, against a kernel that counts what it is told to."""

import errno
from pathlib import Path

import pytest

from edgetop.doctor.counter_checks import check_counters
from edgetop.sensors import memory_traffic
from edgetop.sensors.counters import FIRST
from edgetop.sensors.engine_counters import PARTIAL
from edgetop.sensors.memory_traffic import MemoryTraffic
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Missing
from tests.support.facts import facts
from tests.support.fake_perf import FakePerf
from tests.support.trees import plant

FOLDER = "sys/bus/event_source/devices"
MIB = 2**20


def pmu(name: str, number: int, events: dict[str, str], *, cpumask: str = "0", **formats: str) -> dict[str, str]:
    """A PMU in sysfs. `events` has the file of each event, and those beside it."""
    files = {"type": str(number), "cpumask": cpumask}
    files |= {f"events/{event}": text for event, text in events.items()}
    files |= {f"format/{field}": bits for field, bits in (formats or {"event": "config:0-7"}).items()}
    return {f"{FOLDER}/{name}/{file}": f"{text}\n" for file, text in files.items()}


def of_bytes(events: dict[str, str], unit: str, scale: str) -> dict[str, str]:
    return {f"{name}{end}": text for name, code in events.items() for end, text in
            (("", code), (".unit", unit), (".scale", scale))}  # fmt: skip


# As drivers/devfreq/event/rockchip-dfi.c and arch/x86/events/intel/uncore_snb.c and uncore_snbep.c list them.
ROCKCHIP = pmu(
    "rockchip_ddr", 11,
    {"cycles": "event=0x0"}
    | of_bytes({"read-bytes": "event=0x1", "write-bytes": "event=0x2", "bytes": "event=0xb"}, "MB", "9.536743164e-07"),
    cpumask="4",
)  # fmt: skip
SKYLAKE = pmu(
    "uncore_imc", 12, of_bytes({"data_reads": "event=0x01", "data_writes": "event=0x02"}, "MiB", "6.103515625e-5")
)
TIGER_LAKE = {
    file: text
    for box in (0, 1)
    for file, text in pmu(
        f"uncore_imc_free_running_{box}", 20 + box,
        of_bytes({"data_read": "event=0xff,umask=0x20", "data_write": "event=0xff,umask=0x30"}, "MiB",
                 "6.103515625e-5"),
        event="config:0-7", umask="config:8-15",
    ).items()
}  # fmt: skip
SERVER = {
    file: text
    for box in (0, 1)
    for file, text in pmu(
        f"uncore_imc_{box}", 30 + box,
        {"clockticks": "event=0x00,umask=0x00"}
        | of_bytes({"cas_count_read": "event=0x04,umask=0x03", "cas_count_write": "event=0x04,umask=0x0c"}, "MiB",
                   "6.103515625e-5"),
        cpumask="0,28", event="config:0-7", umask="config:8-15",
    ).items()
} | TIGER_LAKE  # fmt: skip
AMD = pmu("amd_umc_0", 40, {}, event="config:0-7", rdwrmask="config:8-9")

BOARDS = {
    # Files; (type, config) and how often it counts in a ns; CPUs; what is read.
    "Rockchip": (
        ROCKCHIP, {(11, 0): 2.112, (11, 1): 6.0, (11, 2): 2.0}, {11: (4,)},
        {"dram/read": 6e9, "dram/write": 2e9, "freq/memory": 2112.0},
    ),
    "Intel up to Skylake": (
        SKYLAKE, {(12, 1): 0.1, (12, 2): 0.05}, {12: (0,)}, {"dram/read": 6.4e9, "dram/write": 3.2e9},
    ),
    "Intel from Tiger Lake on": (
        TIGER_LAKE, {(20 + box, code): 0.05 for box in (0, 1) for code in (0x20FF, 0x30FF)}, {20: (0,), 21: (0,)},
        {"dram/read": 6.4e9, "dram/write": 6.4e9},
    ),
    "an Intel server of two sockets": (
        SERVER,
        {(30 + box, code): rate for box in (0, 1) for code, rate in ((0, 1.4), (0x304, 0.1), (0xC04, 0.05))},
        {30: (0, 28), 31: (0, 28)},
        {"dram/read": 25.6e9, "dram/write": 12.8e9, "freq/memory": 1400.0},
    ),
    "AMD": (
        AMD, {(40, 0): 2.4, (40, 0x10A): 0.1, (40, 0x20A): 0.02, (40, 0x14): 0.96}, {40: (0,)},
        {"dram/read": 6.4e9, "dram/write": 1.28e9, "freq/memory": 2400.0, "load/emc": 20.0},
    ),
}  # fmt: skip


class Bench:
    def __init__(self, tree: Path, files: dict[str, str], **kernel: object) -> None:
        self.perf = FakePerf(**kernel)  # type: ignore[arg-type]
        self.root = plant(tree, files)

    def discover(self) -> Found:
        return memory_traffic.discover(self.root, lambda: self.perf)

    def source(self) -> MemoryTraffic:
        (source,) = self.discover().sources
        assert isinstance(source, MemoryTraffic)
        return source


def read(source: MemoryTraffic) -> dict[str, float | Gap]:
    return dict(zip((info.id for info in source.sensors), source.read(), strict=True))


def after_a_second(bench: Bench) -> dict[str, float | Gap]:
    """Return the values over the first second, by the ids of the sensors."""
    source = bench.source()
    source.read()
    bench.perf.pass_time(10**9)
    return read(source)


def board(tmp_path: Path, name: str, more: dict[str, str] | None = None, **kernel: object) -> Bench:
    files, known, uncore, _ = BOARDS[name]
    return Bench(tmp_path, files | (more or {}), known=dict(known), uncore=uncore, **kernel)


@pytest.mark.parametrize("name", BOARDS)
def test_the_counts_of_all_channels_are_bytes_and_a_clock(tmp_path: Path, name: str) -> None:
    bench = board(tmp_path, name)
    source = bench.source()
    assert set(read(source).values()) == {FIRST}
    for ns in (10**9, 3 * 10**9):
        bench.perf.pass_time(ns)
        assert read(source) == pytest.approx(BOARDS[name][3], rel=1e-6)
    source.close()
    assert bench.perf.opened == {}


def test_a_memory_at_rest_moves_nothing_and_keeps_its_clock(tmp_path: Path) -> None:
    bench = board(tmp_path, "Rockchip")
    bench.perf.known |= {(11, 1): 0.0, (11, 2): 0.0}
    assert after_a_second(bench) == {"dram/read": 0.0, "dram/write": 0.0, "freq/memory": pytest.approx(2112.0)}


def test_a_channel_without_memory_does_not_lower_the_clock(tmp_path: Path) -> None:
    bench = board(tmp_path, "an Intel server of two sockets")
    bench.perf.known[31, 0] = 0.0
    assert after_a_second(bench)["freq/memory"] == pytest.approx(1400.0)


def test_without_a_cycle_clock_and_load_are_unknown(tmp_path: Path) -> None:
    bench = board(tmp_path, "AMD")
    bench.perf.known[40, 0] = 0.0
    values = after_a_second(bench)
    assert values["freq/memory"] == values["load/emc"] == Gap("no clock cycle was counted")
    assert values["dram/read"] == pytest.approx(6.4e9)


@pytest.mark.parametrize(("event", "lacking"), [((40, 0x14), {"load/emc"}), ((40, 0), {"load/emc", "freq/memory"})])
def test_an_event_that_is_not_counted_takes_nothing_from_the_traffic(
    tmp_path: Path, event: tuple[int, int], lacking: set[str]
) -> None:
    bench = board(tmp_path, "AMD")
    del bench.perf.known[event]
    assert {info.id for info in bench.source().sensors} == set(BOARDS["AMD"][3]) - lacking


def test_counts_of_a_part_of_the_time_are_no_counts(tmp_path: Path) -> None:
    bench = board(tmp_path, "AMD")
    source = bench.source()
    source.read()
    bench.perf.pass_time(10**9, counted=0.75)
    assert set(source.read()) == {PARTIAL}
    bench.perf.pass_time(10**9)
    assert read(source) == pytest.approx(BOARDS["AMD"][3])


def test_impossible_counts_and_an_event_that_has_ended_are_gaps(tmp_path: Path) -> None:
    bench = board(tmp_path, "Rockchip")
    bench.perf.known |= {(11, 0): 1e3, (11, 1): 1e6}
    source = bench.source()
    source.read()
    bench.perf.pass_time(10**9)
    values = read(source)
    assert isinstance(values["dram/read"], Gap)
    assert isinstance(values["freq/memory"], Gap)
    assert values["dram/write"] == pytest.approx(2e9)
    bench.perf.read_count = lambda descriptor: b""  # type: ignore[method-assign]  # PERF_EVENT_STATE_ERROR
    with pytest.raises(OSError, match="no longer"):
        source.read()


def test_a_clock_that_devfreq_has_is_not_read_twice(tmp_path: Path) -> None:
    bench = board(tmp_path, "Rockchip", {"sys/class/devfreq/dmc/cur_freq": "2112000000\n"})
    assert [info.id for info in bench.source().sensors] == ["dram/read", "dram/write"]


@pytest.mark.parametrize(
    ("kernel", "files", "why", "fix"),
    [
        ({"paranoid": 2}, {"proc/sys/kernel/perf_event_paranoid": "2\n"}, "perf_event_paranoid is 2", "sysctl"),
        ({"paranoid": 1}, {"proc/sys/kernel/perf_event_paranoid": "1\n"}, "perf_event_paranoid is 1", "sysctl"),
        ({"refusal": errno.EPERM}, {"proc/sys/kernel/perf_event_paranoid": "-1\n"}, "as in a container", "docker run"),
        ({"refusal": errno.ENODEV}, {}, "the kernel does not count it", None),
        ({"refusal": errno.ENOSYS}, {}, "no perf events", None),
    ],
)
def test_what_cannot_be_counted_is_one_line_of_sensors_and_doctor(
    tmp_path: Path, kernel: dict[str, object], files: dict[str, str], why: str, fix: str | None
) -> None:
    bench = board(tmp_path, "Rockchip", files, **kernel)
    found = bench.discover()
    (missing,) = found.missing
    assert (found.sources, missing.what, why in missing.why) == ((), "memory traffic", True)
    assert missing.fix is None if fix is None else fix in (missing.fix or "")
    (check,) = [one for one in check_counters(facts(tmp_path), bench.perf) if "memory traffic" in one.found]
    assert (check.status, check.fix) == ("ok", missing.fix)
    assert bench.perf.opened == {}


def test_a_user_with_the_capability_may_count_whatever_paranoid_says(tmp_path: Path) -> None:
    bench = board(tmp_path, "Rockchip", paranoid=3, is_perfmon=True)
    assert [info.id for info in bench.source().sensors] == ["dram/read", "dram/write", "freq/memory"]


def test_the_doctor_says_what_is_counted_and_holds_no_counter(tmp_path: Path) -> None:
    bench = board(tmp_path, "Rockchip")
    checks = [one.found for one in check_counters(facts(tmp_path), bench.perf)]
    assert "counted of the memory: what is read and written, its clock" in checks
    assert bench.perf.opened == {}


@pytest.mark.parametrize(
    "files",
    [
        {},
        pmu("rockchip_ddr", 11, {"cycles": "event=0x0"}),  # without bytes
        {file: text for file, text in ROCKCHIP.items() if not file.endswith(".scale")},
        ROCKCHIP | {f"{FOLDER}/rockchip_ddr/events/read-bytes.unit": "furlongs\n"},
        ROCKCHIP | {f"{FOLDER}/rockchip_ddr/events/read-bytes.scale": "nan\n"},
        ROCKCHIP | {f"{FOLDER}/rockchip_ddr/cpumask": "\n"},
        ROCKCHIP | {f"{FOLDER}/rockchip_ddr/cpumask": "9999-99999999\n"},
        ROCKCHIP | {f"{FOLDER}/rockchip_ddr/type": "x\n"},
    ],
)
def test_a_kernel_that_does_not_say_what_it_counts_has_no_such_sensor(tmp_path: Path, files: dict[str, str]) -> None:
    assert Bench(tmp_path, files).discover() == Found()


def test_a_captured_board_is_not_counted(tmp_path: Path) -> None:
    found = memory_traffic.discover(plant(tmp_path, ROCKCHIP))
    assert found == Found(missing=(Missing("memory traffic", "it is counted on the board only, and not in a capture"),))


def test_this_machine_gives_traffic_or_a_reason_or_has_no_such_counter() -> None:
    found = memory_traffic.discover(Root())
    assert len(found.sources) + len(found.missing) <= 1
    for source in found.sources:
        assert isinstance(source, MemoryTraffic)
        source.close()
