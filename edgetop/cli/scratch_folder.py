"""A temporary folder for work in progress. If its disk is full, an error names the disk and says what helps."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from edgetop.errors import DISK_FULL, OutputError

ELSEWHERE = "free space there, or name another folder: TMPDIR=FOLDER edgetop ..."


@contextlib.contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """Yield a new temporary folder, which is removed at the end. `purpose` is a part of its name.

    Raises OutputError if the disk of temporary files is full, now or within the `with` block.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=f"edgetop-{purpose}-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        text = f"{tempfile.gettempdir()}: temporary files cannot be written: {error.strerror}"
        raise OutputError(text, ELSEWHERE) from None
