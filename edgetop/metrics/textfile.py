"""A file for node_exporter's textfile collector: `--prom-textfile`.

Several runs may write into one folder. Each takes the lowest number that is free, which is the label `run` of its
series: so a run that follows another continues its series. A lock, which the kernel lets go of however its holder
ends, says what is free; a file that a killed run left behind goes with the next one.
"""

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from edgetop.errors import InputError
from edgetop.metrics.families import Family
from edgetop.metrics.text import rendered

EVERY_S = 10.0  # scrapes come every 15 s or more seldom
MOST_RUNS = 64
_FILE_MODE = 0o644  # node_exporter is another user


class Textfile:
    def __init__(self, folder: Path) -> None:
        """Raises InputError where nothing can be written there."""
        if not folder.is_dir():
            advice = "give the folder of node_exporter's --collector.textfile.directory"
            raise InputError(f"--prom-textfile {folder}: no such folder", advice)
        self._folder, self._run = folder, 0
        try:
            for run in range(1, MOST_RUNS + 1):
                if self._run and not _lock_of(folder, run).exists():
                    continue
                if (lock := _locked(folder, run)) is not None and not self._run:
                    self._run, self._lock = run, lock
                elif lock is not None:  # of a run that was killed
                    _remove(folder, run, lock)
        except OSError as error:
            raise InputError(f"--prom-textfile {folder}: cannot be written: {error.strerror}") from None
        if not self._run:
            raise InputError(f"--prom-textfile {folder}: {MOST_RUNS} runs write there already", "give another folder")

    def write(self, found: Sequence[Family]) -> str:
        """Why it could not be written; "": it was. A reader sees the file before or the new one, whole."""
        temporary = self._folder / f".edgetop-{self._run}.tmp"
        try:
            with temporary.open("wb") as file:
                os.fchmod(file.fileno(), _FILE_MODE)
                file.write(rendered(found, openmetrics=False, labels=(("run", str(self._run)),)))
            temporary.replace(_file(self._folder, self._run))
        except OSError as error:
            return f"{self._folder}: {error.strerror}"
        return ""

    def remove(self) -> None:
        _remove(self._folder, self._run, self._lock)


def _file(folder: Path, run: int) -> Path:
    return folder / f"edgetop-{run}.prom"


def _lock_of(folder: Path, run: int) -> Path:
    return folder / f".edgetop-{run}.lock"


def _locked(folder: Path, run: int) -> int | None:
    """The lock of that number; None: another run has it. Raises OSError."""
    path = _lock_of(folder, run)
    fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), path.stat()):  # not one that its holder removed just now
            return fd
    except BlockingIOError:
        pass
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _remove(folder: Path, run: int, lock: int) -> None:
    for path in (_file(folder, run), _lock_of(folder, run)):
        with contextlib.suppress(OSError):
            path.unlink()
    os.close(lock)
