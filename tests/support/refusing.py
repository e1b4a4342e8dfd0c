"""A root some of whose files give errors that no plain file gives: ENODATA, EACCES for root, EAGAIN."""

import os
from pathlib import Path

from edgetop.sensors.root import Root


class RefusingRoot(Root):
    """As the root of the same path, but for the files that it is told to refuse, by the ends of their paths."""

    def __init__(self, path: Path, error: int, *endings: str) -> None:
        super().__init__(path)
        self.error: int = error
        self.endings = endings

    def open(self, relative: str) -> int:
        if relative.endswith(self.endings):
            raise OSError(self.error, os.strerror(self.error), relative)
        return super().open(relative)
