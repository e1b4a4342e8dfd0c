"""The text formats of Prometheus, and a file for node_exporter's textfile collector (`--prom-textfile`).

The formats are version 0.0.4, which the textfile collector reads
(https://prometheus.io/docs/instrumenting/exposition_formats/), and OpenMetrics 1.0
(https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md).

Several runs can write into one folder. Each run takes the lowest free number, which becomes the label `run` of its
series, so a run continues the series of an earlier one. A run keeps its number by a lock, which the kernel releases
however the run ends. The next run removes the file of a killed or failed run.
"""

import contextlib
import ctypes
import fcntl
import os
import select
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from edgetop.errors import InputError
from edgetop.files import open_regular, remove_partials, replacing
from edgetop.metrics.metric_families import DURATION, FAILED, PREFIX, RUNNING, Distribution, Family, Labels, Sample

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

_SUFFIX = {"counter": "_total", "info": "_info", "gauge": "", "histogram": ""}
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})

EVERY_S = 10.0  # shorter than the usual interval of scrapes, 15 s
MOST_RUNS = 64
_FILE_MODE = 0o644  # node_exporter runs as another user
LONGEST_INTERVAL_S = 60.0  # between two scrapes; Prometheus' default
_IN_CLOSE_NOWRITE = 0x10  # inotify(7)
_EVENT_BYTES = 64 * 1024  # of inotify, read at once
_OF_A_FAILED_RUN = {
    f"{PREFIX}{name}" for name in ("session", RUNNING, DURATION, FAILED)
}  # families that stay in its file


def rendered(families: Iterable[Family], *, openmetrics: bool, labels: Labels = ()) -> bytes:
    """Return the metrics as UTF-8 text, with `labels` before the labels of each sample.

    `openmetrics` selects the OpenMetrics format instead of the older format of Prometheus.
    """
    lines = [line for family in families for line in _lines(family, labels, openmetrics=openmetrics)]
    return "".join(f"{line}\n" for line in (*lines, *(["# EOF"] if openmetrics else []))).encode()


def _lines(family: Family, labels: Labels, *, openmetrics: bool) -> Iterator[str]:
    name = family.name if openmetrics else family.name + _SUFFIX[family.kind]
    yield f"# HELP {name} {family.about}"
    yield f"# TYPE {name} {'gauge' if family.kind == 'info' and not openmetrics else family.kind}"
    if family.unit and openmetrics:
        yield f"# UNIT {name} {family.unit}"
    for sample in family.samples:
        for suffix, more, value in _values(family, sample):
            yield f"{family.name}{suffix}{_labelled((*labels, *sample.labels, *more))} {value!r}"


def _values(family: Family, sample: Sample) -> Iterator[tuple[str, Labels, float]]:
    if not isinstance(sample.value, Distribution):
        yield _SUFFIX[family.kind], (), float(sample.value)
        return
    for bound_s, upto in sample.value.cumulative():
        yield "_bucket", (("le", repr(bound_s)),), upto
    yield "_bucket", (("le", "+Inf"),), sample.value.count
    yield "_sum", (), sample.value.sum_s
    yield "_count", (), sample.value.count


def _labelled(labels: Labels) -> str:
    """Return labels in the text format of Prometheus, or "" if there are none.

    >>> _labelled((("sensor", 'a"b'), ("n", "1")))
    '{sensor="a\\\\"b",n="1"}'
    """
    named = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels)
    return f"{{{named}}}" if named else ""


class _Reads:
    """Says which files in a folder were read. Uses inotify(7), because many boards do not store access times."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd >= 0 and libc.inotify_add_watch(self._fd, os.fsencode(folder), _IN_CLOSE_NOWRITE) < 0:
            self.close()  # then no reader is known

    def take(self, name: str) -> bool:
        """Whether the file `name` was read since the last call. A call forgets the earlier reads of all files."""
        was_read = False
        with contextlib.suppress(OSError):  # BlockingIOError: no more; EBADF: not watched
            while self._fd >= 0 and (events := os.read(self._fd, _EVENT_BYTES)):
                was_read = was_read or name.encode() + b"\0" in events
        return was_read

    def wait(self, seconds: float) -> None:
        """Wait until another process reads one of the files with metrics, for at most `seconds`."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.poll(seconds * 1000)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class Textfile:
    def __init__(self, folder: Path) -> None:
        """Take the lowest free number of a run in `folder`.

        Raises InputError if the folder is missing, cannot be written, or has no free number.
        """
        if not folder.is_dir():
            advice = "give the folder of node_exporter's --collector.textfile.directory"
            raise InputError(f"--prom-textfile {folder}: no such folder", advice)
        self._folder, self._run, self._has_failed = folder, 0, False
        try:
            for run in range(1, MOST_RUNS + 1):
                if self._run and not _paths(folder, run)[1].exists():
                    continue
                if (lock := _locked(folder, run)) is not None and not self._run:
                    self._run, self._lock = run, lock
                    remove_partials(_paths(folder, run)[0])
                elif lock is not None:  # left by a run that was killed
                    _remove(folder, run, lock)
        except OSError as error:
            raise InputError(f"--prom-textfile {folder}: cannot be written: {error.strerror}") from None
        if not self._run:
            raise InputError(f"--prom-textfile {folder}: {MOST_RUNS} runs already write there", "give another folder")
        self._reads, self._has_reader, self._is_over = _Reads(folder), False, False

    def send(self, found: Sequence[Family]) -> str:
        """Replace the file with the metrics. Return the error as text, or "" if all is well."""
        self._has_failed = any(family.name == PREFIX + FAILED and family.samples[0].value for family in found)
        self._is_over = any(family.name == PREFIX + RUNNING and not family.samples[0].value for family in found)
        if self._has_failed:  # other values would be taken for current ones
            found = [family for family in found if family.name in _OF_A_FAILED_RUN]
        try:
            with replacing(_paths(self._folder, self._run)[0], _FILE_MODE, durable=False) as file:
                os.fchmod(file.fileno(), _FILE_MODE)  # independent of the umask
                file.write(rendered(found, openmetrics=False, labels=(("run", str(self._run)),)))
            self._has_reader |= self._was_read()  # whether somebody read the file that this one replaces
        except OSError as error:
            return f"{self._folder}: {error.strerror}"
        return ""

    def owed_s(self) -> float:
        """Return how many seconds it takes at most until the reader of the file has read the end of the session.

        The result is 0 if nobody reads the file, if the session has not ended, or after a failed run, whose file stays.
        """
        return LONGEST_INTERVAL_S if self._is_over and self._has_reader and not self._has_failed else 0.0

    def hand_over(self) -> None:
        """Wait until the file with the end of the session has been read, for at most `owed_s` seconds."""
        until_s = time.monotonic() + self.owed_s()
        while not self._was_read() and (left_s := until_s - time.monotonic()) > 0:
            self._reads.wait(left_s)

    def _was_read(self) -> bool:
        return self._reads.take(_paths(self._folder, self._run)[0].name)

    def close(self) -> None:
        """Remove the metrics file. The file of a failed run stays, and reports the failure until the next run."""
        self._reads.close()
        if self._has_failed:
            os.close(self._lock)
        else:
            _remove(self._folder, self._run, self._lock)


def _paths(folder: Path, run: int) -> tuple[Path, Path]:
    """Return the paths of the metrics file and of the lock file of the run number `run`."""
    return folder / f"edgetop-{run}.prom", folder / f".edgetop-{run}.lock"


def _locked(folder: Path, run: int) -> int | None:
    """Lock the run's number. Return the file descriptor of the lock, or None if another run holds the lock.

    Raises OSError if the lock file cannot be used.
    """
    _, path = _paths(folder, run)
    fd = open_regular(path, os.O_RDONLY | os.O_CREAT, _FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), path.lstat()):  # else its holder has just removed it
            return fd
    except BlockingIOError:
        pass
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _remove(folder: Path, run: int, lock: int) -> None:
    for path in _paths(folder, run):
        with contextlib.suppress(OSError):
            path.unlink()
    os.close(lock)
