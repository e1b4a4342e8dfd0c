"""Energy counters of the processor: domains once each, as watts, with what holds what."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetop.sensors import rapl
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant

ZONES = "sys/class/powercap"
RANGE_UJ = "262143328850"

LAPTOP = {
    "intel-rapl:0": "package-0",
    "intel-rapl:0:0": "core",
    "intel-rapl:0:1": "uncore",
    "intel-rapl:1": "psys",
    "intel-rapl-mmio:0": "package-0",
}
SERVER = {
    "intel-rapl:0": "package-0",
    "intel-rapl:0:0": "dram",
    "intel-rapl:1": "package-1",
    "intel-rapl:1:0": "dram",
}


def board(tree: Path, zones: Mapping[str, str], energy_uj: str = "65997277274") -> Root:
    files = {f"{ZONES}/intel-rapl/enabled": "1\n"}
    for folder, name in zones.items():
        files[f"{ZONES}/{folder}/name"] = f"{name}\n"
        files[f"{ZONES}/{folder}/energy_uj"] = f"{energy_uj}\n"
        files[f"{ZONES}/{folder}/max_energy_range_uj"] = f"{RANGE_UJ}\n"
    return plant(tree, files)


def roles(root: Root) -> dict[str, str | None]:
    return {info.id: info.role for source in rapl.discover(root).sources for info in source.sensors}


def test_a_laptop_has_psys_as_total_and_each_domain_once(tmp_path: Path) -> None:
    root = board(tmp_path, LAPTOP)
    assert roles(root) == {
        "power/package-0": "part", "power/core": "part", "power/uncore": "part", "power/psys": "total",
    }  # fmt: skip
    sources = [info.source for source in rapl.discover(root).sources for info in source.sensors]
    assert not any("mmio" in source for source in sources)


def test_without_a_platform_domain_nothing_is_the_total(tmp_path: Path) -> None:
    assert set(roles(board(tmp_path, {"intel-rapl:0": "package-0"})).values()) == {"part"}


def test_domains_of_two_packages_are_told_apart(tmp_path: Path) -> None:
    assert set(roles(board(tmp_path, SERVER))) == {
        "power/package-0", "power/package-0-dram", "power/package-1", "power/package-1-dram",
    }  # fmt: skip


def test_the_memory_mapped_interface_counts_where_it_is_alone(tmp_path: Path) -> None:
    assert roles(board(tmp_path, {"intel-rapl-mmio:0": "package-0"})) == {"power/package-0": "part"}


def test_every_domain_is_an_estimate_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    infos = [info for source in rapl.discover(board(tmp_path, LAPTOP)).sources for info in source.sensors]
    assert {info.accuracy for info in infos} == {"firmware-estimate"}
    assert all(info.note for info in infos)


def test_power_is_the_difference_over_the_time_between_and_wraps(tmp_path: Path) -> None:
    times = iter((10.0, 12.0, 13.0))
    root = board(tmp_path, {"intel-rapl:0": "package-0"}, "262143000000")
    energy = tmp_path / ZONES / "intel-rapl:0/energy_uj"
    (domain,) = rapl.discover(root, lambda: next(times)).sources
    assert isinstance(domain.read()[0], Gap)
    energy.write_text("262143300000\n")
    assert domain.read() == [pytest.approx(0.15)]
    energy.write_text("14971150\n")  # 28.85 mJ to the end of the range, and 14.971 J from its beginning
    assert domain.read() == [pytest.approx(15.0)]


class Guarded(Root):
    """A root that a user without rights reads."""

    def open(self, relative: str) -> int:
        if relative.endswith("energy_uj"):
            raise PermissionError(13, "Permission denied")
        return super().open(relative)


def test_counters_only_root_may_read_are_missing_with_a_fix(tmp_path: Path) -> None:
    board(tmp_path, LAPTOP)
    found = rapl.discover(Guarded(tmp_path))
    assert found.sources == ()
    (missing,) = found.missing
    assert missing.what == "processor power"
    assert "root alone (package-0, psys, core, uncore)" in missing.why
    assert missing.fix == "sudo chmod a+r /sys/class/powercap/*/energy_uj"


def test_a_board_without_counters_misses_nothing(tmp_path: Path) -> None:
    found = rapl.discover(Root(tmp_path))
    assert (found.sources, found.missing) == ((), ())


def test_a_counter_that_vanishes_is_an_error_of_its_reads(tmp_path: Path) -> None:
    root = board(tmp_path, {"intel-rapl:0": "package-0"})
    (domain,) = rapl.discover(root).sources
    (tmp_path / ZONES / "intel-rapl:0/energy_uj").unlink()
    with pytest.raises(FileNotFoundError):
        domain.read()


def test_a_still_counter_is_a_gap_except_of_graphics(tmp_path: Path) -> None:
    for domain in rapl.discover(board(tmp_path, LAPTOP)).sources:
        domain.read()
        (value,) = domain.read()
        assert value == (0.0 if domain.name == "power/uncore" else rapl.STILL)
