"""What the supply of a Pi 5 agreed to deliver."""

from pathlib import Path

import pytest

from edgetop.sensors import raspberry_pi
from edgetop.sensors.root import Root
from tests.support.trees import plant


@pytest.mark.parametrize(("cells", "amperes"), [(b"\0\0\x13\x88", 5.0), (b"\0\0\x0b\xb8", 3.0)])
def test_the_contract_is_big_endian_and_in_ma(tmp_path: Path, cells: bytes, amperes: float) -> None:
    (source,) = raspberry_pi.discover_supply(plant(tmp_path, {raspberry_pi.MAX_CURRENT: cells})).sources
    assert source.sensors[0].id == "current/supply-limit"
    assert source.read() == [amperes]


@pytest.mark.parametrize("cells", [b"", b"\0\x13\x88", b"\0\0\0\0\x13\x88"])
def test_another_size_is_no_contract(tmp_path: Path, cells: bytes) -> None:
    (source,) = raspberry_pi.discover_supply(plant(tmp_path, {raspberry_pi.MAX_CURRENT: cells})).sources
    with pytest.raises(ValueError, match="32-bit"):
        source.read()


def test_boards_without_it_are_not_asked(tmp_path: Path) -> None:
    assert raspberry_pi.discover_supply(Root(tmp_path)).sources == ()
