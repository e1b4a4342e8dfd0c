"""The GPU's memory on Jetson, and contiguous memory: never silently left out, never made up."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import memory_sensors
from edgetop.sensors.memory_sensors import CLIENTS, client_mib, nvmap_client
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant

# nvmap_dev.c prints columns of these widths.
TABLE = (
    "CLIENT                        PROCESS      PID        SIZE\n"
    "user                         gpu_burn     7979   23525644K\n"
    "user                   python3 worker     4711       2048K\n"
    "user                          Xwayland     811          3M\n"
    "user                           tiny         12      524288\n"
    "total                                            23549320K\n"
)


def pools(tmp_path: Path, meminfo: str) -> dict[str, float | Gap]:
    found = memory_sensors.discover_pools(plant(tmp_path, {"proc/meminfo": meminfo}))
    return {
        info.id: value for source in found.sources for info, value in zip(source.sensors, source.read(), strict=True)
    }


def test_what_the_gpu_holds_is_told_beside_what_processes_hold(tmp_path: Path) -> None:
    assert pools(tmp_path, "MemTotal: 9 kB\nNvMapMemUsed:     740352 kB\n") == {"mem/system-accelerator": 723.0}


def test_contiguous_memory_is_told_as_what_is_taken_of_it(tmp_path: Path) -> None:
    assert pools(tmp_path, "CmaTotal:  262144 kB\nCmaFree:  260096 kB\n") == {"mem/system-cma": 2.0}


@pytest.mark.parametrize("meminfo", ["MemTotal: 9 kB\n", "CmaTotal: 0 kB\nCmaFree: 0 kB\n", "CmaTotal: 9 kB\n", ""])
def test_a_board_without_them_has_no_such_sensor(tmp_path: Path, meminfo: str) -> None:
    assert pools(tmp_path, meminfo) == {}


def test_more_free_than_there_is_is_a_gap(tmp_path: Path) -> None:
    (value,) = pools(tmp_path, "CmaTotal: 1024 kB\nCmaFree: 2048 kB\n").values()
    assert isinstance(value, Gap)


def test_a_figure_that_goes_is_a_gap_of_its_own(tmp_path: Path) -> None:
    root = plant(tmp_path, {"proc/meminfo": "NvMapMemUsed: 9 kB\nCmaTotal: 2048 kB\nCmaFree: 1024 kB\n"})
    (source,) = memory_sensors.discover_pools(root).sources
    plant(tmp_path, {"proc/meminfo": "CmaTotal: 2048 kB\nCmaFree: 1024 kB\n"})
    assert source.read() == [Gap("no NvMapMemUsed in the file"), 1.0]


@pytest.mark.parametrize(("pid", "mib"), [(4711, 2.0), (811, 3.0), (12, 0.5), (5, 0.0)])
def test_the_engines_part_is_that_of_its_process(tmp_path: Path, pid: int, mib: float) -> None:
    assert nvmap_client(plant(tmp_path, {CLIENTS: TABLE}), pid).read() == [mib]


def test_the_parts_of_a_process_with_several_clients_are_added() -> None:
    assert client_mib(TABLE + "user  camera  4711  1024K\n", 4711) == 3.0


def test_a_line_that_is_not_understood_may_be_the_engines() -> None:
    assert client_mib(TABLE + "user  odd  ?  9K\n", 4711) == 2.0
    with pytest.raises(ValueError, match="not understood"):
        client_mib(TABLE + "user  odd  ?  9K\n", 5)


@pytest.mark.parametrize("text", ["", "\n", "total 9K\n", "no such thing"])
def test_what_is_no_table_is_an_error_and_not_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="not a table"):
        client_mib(text, 4711)


def test_the_processes_of_a_captured_board_are_not_ours(tmp_path: Path) -> None:
    root = plant(tmp_path, {CLIENTS: TABLE})
    assert memory_sensors.has_clients(root)
    assert memory_sensors.discover_engine_on_gpu(4711, root).sources == ()


def test_without_the_table_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert not memory_sensors.has_clients(Root(tmp_path))


@settings(deadline=None, max_examples=60)
@given(
    meminfo=st.sampled_from(("NvMapMemUsed: {} kB\nCmaTotal: 9 kB\nCmaFree: {} kB\n", "{}{}")),
    number=st.sampled_from(("-1", "9" * 400, "²", "12", "5", "", "1_0")) | st.text(max_size=20),
)
def test_no_content_makes_up_a_value(tmp_path_factory: pytest.TempPathFactory, meminfo: str, number: str) -> None:
    tree = tmp_path_factory.getbasetemp() / "nvmap"
    root = plant(
        tree, {"proc/meminfo": meminfo.format(number, number), CLIENTS: f"CLIENT\nuser x {number} {number}K\n"}
    )
    for source in (*memory_sensors.discover_pools(root).sources, nvmap_client(root, 12)):
        values = read_source(source)
        assert not (isinstance(values, Gap) and "internal error" in values.reason)
        if not isinstance(values, Gap):
            assert all(isinstance(value, Gap) or value >= 0 for value in values)
