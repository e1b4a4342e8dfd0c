"""Small file trees that stand in for a board's /sys and /proc."""

import os
from collections.abc import Mapping
from pathlib import Path

from edgetop.sensors.root import Root


def plant(tree: Path, files: Mapping[str, str | bytes]) -> Root:
    """Write each file under `tree`, over what is there. Gives the root to read them through."""
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Root(tree)


def link(tree: Path, name: str, target: str | Path) -> None:
    """A symbolic link at `name` that reads `target`."""
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


class RefusingRoot(Root):
    """The root of a path, some of whose files, by the ends of their paths, give an error that no plain file gives.

    Such are ENODATA, EACCES for root, EAGAIN.
    """

    def __init__(self, path: Path, error: int, *endings: str) -> None:
        super().__init__(path)
        self.error: int = error
        self.endings = endings

    def open(self, relative: str) -> int:
        if relative.endswith(self.endings):
            raise OSError(self.error, os.strerror(self.error), relative)
        return super().open(relative)
