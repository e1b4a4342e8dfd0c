"""What benchmarks share: they say what they measured, whether they pass or fail."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    def print_through(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}")

    return print_through


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A temporary folder on a disk: `tmp_path` may be in memory, from which no file can be paged out."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="edgetop-") as folder:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
        of_folder = max(
            (mount for mount in mounts if Path(mount[0]) in Path(folder).parents), key=lambda of: len(of[0])
        )
        assert of_folder[1] not in ("tmpfs", "ramfs"), "/var/tmp is in memory"
        yield Path(folder)
