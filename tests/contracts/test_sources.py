"""What every source of readings keeps, whoever made it."""

import contextlib
import importlib
import inspect
import itertools
import math
import os
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from edgetop import sensors
from edgetop.sensors import cgroup, memory_traffic
from edgetop.sensors.competitors import application
from edgetop.sensors.discovery import discover_board, discover_engine
from edgetop.sensors.i2c import parse_spec, power_monitor
from edgetop.sensors.ina import Registers, ina226
from edgetop.sensors.jetson_stats import JetsonStats
from edgetop.sensors.memory_sensors import nvmap_client
from edgetop.sensors.nvml import discover_gpus
from edgetop.sensors.power_log import LogSpec, PowerLog
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import UNIT_OF_KIND, Closable, Found, Gap, Source, paced
from edgetop.simulation.virtual_board import marked
from tests.sensors.test_memory_traffic import ROCKCHIP
from tests.support.fake_nvml import FakeNvml, discrete
from tests.support.fake_perf import FakePerf
from tests.support.ina_bus import FakeBus, FakeIna226
from tests.support.trees import plant

TREE = {
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "61400\n",
    "sys/class/thermal/thermal_zone1/type": "gpu-thermal\n",
    "sys/class/thermal/thermal_zone1/temp": "-256000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "1500000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq": "2400000\n",
    "sys/class/thermal/cooling_device0/type": "cpufreq-cpu0\n",
    "sys/class/thermal/cooling_device0/cur_state": "0\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
    "sys/class/hwmon/hwmon0/name": "nvme\n",
    "sys/class/hwmon/hwmon0/temp1_input": "41850\n",
    "sys/class/hwmon/hwmon0/fan1_input": "0\n",
    "sys/class/apex/apex_0/temp": "56550\n",
    "sys/class/devfreq/17000000.gpu/cur_freq": "306000000\n",
    "sys/class/devfreq/17000000.gpu/max_freq": "918000000\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "sys/class/devfreq/fb000000.gpu/load": "12@300000000Hz\n",
    "sys/kernel/debug/nvmap/iovmm/clients": "CLIENT PROCESS PID SIZE\nuser python3 1 2048K\n",
    "proc/meminfo": "MemAvailable: 1024 kB\nNvMapMemUsed: 2048 kB\n",
    "proc/vmstat": "pswpin 1\npswpout 2\npgmajfault 3\n",
    "proc/net/dev": "eth0: 1 2 3 4 5 6 7 8 9 10\n",
    "proc/4711/cgroup": "0::/\n",
    "proc/self/mountinfo": "1 1 0:1 / /cgroup rw - cgroup2 cgroup2 rw\n",
    "cgroup/memory.current": "4096\n",
    "cgroup/memory.max": "8192\n",
    "proc/stat": "cpu  1 2 3 4 5 6 7 8 9 10\n",
    "sys/class/powercap/intel-rapl:0/name": "package-0\n",
    "sys/class/powercap/intel-rapl:0/energy_uj": "65997277274\n",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850\n",
    "sys/class/power_supply/BAT0/type": "Battery\n",
    "sys/class/power_supply/BAT0/status": "Discharging\n",
    "sys/class/power_supply/BAT0/power_now": "8200000\n",
    "sys/class/power_supply/ac/type": "Mains\n",
    "sys/class/power_supply/ac/online": "0\n",
    "sys/class/power_supply/ac/power_now": "0\n",
    "sys/class/hwmon/hwmon1/name": "amdgpu\n",
    "sys/class/hwmon/hwmon1/power1_average": "31009000\n",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plant(tmp_path_factory.mktemp("board"), TREE)
    return tmp_path_factory.getbasetemp() / "board0"


def all_sources(tree: Path) -> dict[str, tuple[Source, ...]]:
    """Those that live together in one session, by the kind of session."""
    board = discover_board(Root(tree)).sources
    return {
        "an engine of its own": (*board, *discover_engine(os.getpid(), shares_process=False).sources),
        "an engine within": (*board, *discover_engine(os.getpid(), shares_process=True).sources),
        "this machine": discover_board(Root()).sources,
        "a virtual board": marked(discover_board(Root(tree))).sources,
        "measured by the user": _users_own(tree),
        "a limited group and a GPU's table": (
            *cgroup.discover_engine(4711, shares_process=False, root=Root(tree)).sources,
            nvmap_client(Root(tree), 1),
        ),
        "a watched application": (
            *discover_engine(os.getpid(), shares_process=False).sources,
            application(os.getpid()),
        ),
        "a service": (JetsonStats(["true"], 1),),
    }


def _users_own(tree: Path) -> tuple[Source, ...]:
    """Instruments, and a GPU, on a board whose power is read at a rate of the user's choice."""
    chip = FakeIna226()
    registers = Registers(FakeBus(at_40=chip), 0x40)
    monitor = power_monitor(parse_spec("1:0x40:ina226:0.002"), ina226(0.002, 0.5), registers, ["total"], 1.0)
    chip.convert()
    log = tree / "log.csv"
    log.write_text("time_s,power_w\n0,5\n1,6\n")
    gpus = discover_gpus(lambda _: FakeNvml(discrete())).sources
    plant(tree, ROCKCHIP)
    memory = memory_traffic.discover(
        Root(tree), lambda: FakePerf({(11, 0): 2.1, (11, 1): 6, (11, 2): 2}, uncore={11: (4,)})
    )
    reader = PowerLog(LogSpec(log, "csv", None), lambda: 10**10)
    return (*paced(Found((monitor,)), 1.0).sources, monitor, reader, *gpus, *memory.sources)


def close(found: Mapping[str, Sequence[Source]]) -> None:
    """Close all sources: those of an engine hold dozens of descriptors each."""
    for source in itertools.chain(*found.values()):
        if isinstance(source, Closable):
            source.close()


@pytest.fixture(
    params=[
        "an engine of its own",
        "an engine within",
        "this machine",
        "a virtual board",
        "measured by the user",
        "a limited group and a GPU's table",
        "a service",
    ]
)
def sources(request: pytest.FixtureRequest, tree: Path) -> Iterator[tuple[Source, ...]]:
    found = all_sources(tree)
    yield found[request.param]
    close(found)


def implementations() -> Iterator[type]:
    """Every class of the package that has what a source has."""
    for module in pkgutil.iter_modules(sensors.__path__, "edgetop.sensors."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            is_protocol = getattr(kind, "_is_protocol", False)
            if kind.__module__ == module.name and not is_protocol and callable(getattr(kind, "read", None)):
                yield kind


def test_every_implementation_is_held_to_this(tree: Path) -> None:
    found = all_sources(tree)
    held = {type(source) for sources in found.values() for source in sources}
    close(found)
    assert set(implementations()) <= held


def test_each_sensor_gives_a_value_or_a_gap_with_a_reason(sources: tuple[Source, ...]) -> None:
    for source in sources:
        for _ in range(3):
            try:
                values = source.read()
            except (OSError, ValueError):  # a gap in all of them
                continue
            assert len(values) == len(source.sensors)
            for value in values:
                assert value.reason if isinstance(value, Gap) else isinstance(value, float) and math.isfinite(value)


def test_units_are_those_of_the_kinds(sources: tuple[Source, ...]) -> None:
    assert all(info.unit == UNIT_OF_KIND[info.kind] for source in sources for info in source.sensors)


def test_ids_are_a_kind_and_a_label_and_unique(sources: tuple[Source, ...]) -> None:
    ids = [info.id for source in sources if not getattr(source, "interval_s", None) for info in source.sensors]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+/[^/\n]+", given) for given in ids)


def test_it_says_what_it_is_and_where_it_reads(sources: tuple[Source, ...]) -> None:
    assert all(source.name for source in sources)
    assert all(info.source.startswith("/") for source in sources for info in source.sensors)


def test_its_sensors_and_cadence_stay_what_they_were(sources: tuple[Source, ...]) -> None:
    for source in sources:
        before = (source.sensors, source.cadence_s, source.name)
        with contextlib.suppress(OSError, ValueError):
            source.read()
        assert (source.sensors, source.cadence_s, source.name) == before
        assert source.cadence_s >= (0.1 if isinstance(source, PowerLog) else 1)
