"""Where the rings of watched programs are."""

import tempfile
from pathlib import Path

import pytest

from edgetop.taps.taps import Taps


@pytest.mark.parametrize("shared", ["/proc", "/nowhere"], ids=["full", "not there"])
def test_rings_are_elsewhere_where_shared_memory_has_no_room(shared: str) -> None:
    """As in a container with a small `--shm-size`. The file system /proc has no free bytes."""
    taps = Taps()
    folder = taps.open(Path(shared))
    assert folder.parent == Path(tempfile.gettempdir())
    taps.close()
    assert not folder.exists()


def test_rings_are_in_shared_memory_where_it_has_room(tmp_path: Path) -> None:
    taps = Taps()
    assert taps.open(tmp_path).parent == tmp_path
    taps.close()
