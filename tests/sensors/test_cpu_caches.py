"""The sizes of caches come from sysfs: the largest data cache of each level, however the cores differ."""

from pathlib import Path

import pytest

from edgetop.sensors.cpu_caches import read_caches
from edgetop.sensors.root import Root
from edgetop.session.caches import Cache, smallest_holding
from edgetop.wording.cache_words import fit_words
from tests.support.trees import plant

KIB, MIB = 1024, 1024 * 1024


def cores(tree: Path, *each: list[tuple[str, str, str]]) -> Root:
    """Caches of cores, each (type, level, size)."""
    files = {
        f"sys/devices/system/cpu/cpu{core}/cache/index{place}/{name}": f"{value}\n"
        for core, caches in enumerate(each)
        for place, values in enumerate(caches)
        for name, value in zip(("type", "level", "size"), values, strict=True)
    }
    return plant(tree, files)


def test_of_an_rk3588_the_large_cores_count(tmp_path: Path) -> None:
    """Sizes of arch/arm64/boot/dts/rockchip/rk3588s.dtsi."""
    little = [("Data", "1", "32K"), ("Instruction", "1", "32K"), ("Unified", "2", "128K"), ("Unified", "3", "3072K")]
    large = [("Data", "1", "64K"), ("Instruction", "1", "64K"), ("Unified", "2", "512K"), ("Unified", "3", "3072K")]
    root = cores(tmp_path, little, large)
    assert read_caches(root) == (Cache(1, 64 * KIB), Cache(2, 512 * KIB), Cache(3, 3 * MIB))


@pytest.mark.parametrize("size", ["", "0K", "-1K", "K", "99999999999K", "32 apples", "٣٢K"])
def test_a_size_that_is_none_is_unknown(size: str, tmp_path: Path) -> None:
    root = cores(tmp_path, [("Data", "1", size), ("Unified", "2", "1M"), ("Unified", "x", "4M")])
    assert read_caches(root) == (Cache(2, MIB),)


def test_a_board_without_such_files_has_no_caches(tmp_path: Path) -> None:
    assert read_caches(Root(tmp_path)) == ()


CACHES = (Cache(1, 32 * KIB), Cache(2, MIB))


@pytest.mark.parametrize(
    ("size", "place"), [(0, "L1"), (32 * KIB, "L1"), (32 * KIB + 1, "L2"), (MIB + 1, "memory"), (None, None)]
)
def test_a_working_set_is_in_the_smallest_cache_that_holds_it(size: int | None, place: str | None) -> None:
    assert smallest_holding(size, CACHES) == place
    assert smallest_holding(size, ()) is None


def test_what_does_not_fit_is_told_with_sizes() -> None:
    sets = [("a", 10), ("b", 40 * KIB), ("c", 3 * MIB), ("d", None)]
    assert fit_words(sets, CACHES) == [
        "too large: 2 of 3 operators for L1, 1 for L2 (1 operator of unknown size)",
        "largest: c, 3.0 MiB, does not fit into L2 (1.0 MiB)",
    ]
    assert fit_words(sets[:1], CACHES) == ["all of 1 fit into L1", "largest: a, 10 B, fits into L1"]
    assert fit_words(sets, ()) == fit_words([("d", None)], CACHES) == []
