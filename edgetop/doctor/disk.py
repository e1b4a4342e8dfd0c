"""Where recordings go: how long a flush takes, and how much room there is.

The probe has no name where the file system allows that (open(2), O_TMPFILE), so that nothing
is left behind whatever happens; else it is removed at once.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetop.doctor.check import Check, ok, problem, warning
from edgetop.doctor.facts import Facts
from edgetop.formatting import clean, size

NAME = "disk"
BLOCK = bytes(64 * 1024)  # about what the journal writes at a time
FLUSHES = 10
BUDGET_S = 2.0
SLOW_S, VERY_SLOW_S = 0.1, 1.0
LITTLE_BYTES, TOO_LITTLE_BYTES = 1 << 30, 100 << 20
PASSING = {"tmpfs", "ramfs"}
REMOTE = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"}


@dataclass(frozen=True, slots=True)
class Disk:
    folder: Path  # that of the recordings, or the nearest above it that exists
    file_system: str | None
    free_bytes: int
    flush_s: tuple[float, ...]  # each of 64 KiB, written and flushed


def check(facts: Facts) -> list[Check]:
    folder = _existing(facts.recordings)
    try:
        return [judge(measure(folder, file_system(folder, facts.root.read_text("proc/self/mountinfo"))))]
    except OSError as error:
        told = f"{clean(str(folder))} cannot be written: {error.strerror or error}"
        return [problem(NAME, told, "record elsewhere with -o PATH", "export XDG_STATE_HOME=PATH")]


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.is_dir())


def file_system(folder: Path, mountinfo: str) -> str | None:
    """The type of the mount that holds the folder (proc_pid_mountinfo(5)); the last of the longest."""
    best: tuple[int, str | None] = (-1, None)
    real = folder.resolve()
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.partition(" ")[0]
        if len(fields) > 4 and kind:
            mount = Path(fields[4].replace("\\040", " "))
            if real.is_relative_to(mount) and len(mount.parts) >= best[0]:
                best = (len(mount.parts), kind)
    return best[1]


def measure(folder: Path, kind: str | None, now_s: Callable[[], float] = time.monotonic) -> Disk:
    """Writes at most 640 KiB, for at most two seconds and one flush. Raises OSError."""
    flushes: list[float] = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
        begin = before = now_s()
        while len(flushes) < FLUSHES and before - begin < BUDGET_S:
            probe.write(BLOCK)
            os.fsync(probe.fileno())
            after = now_s()
            flushes.append(after - before)
            before = after
    status = os.statvfs(folder)
    return Disk(folder, kind, status.f_bavail * status.f_frsize, tuple(flushes))


def judge(disk: Disk) -> Check:
    median, longest = statistics.median(disk.flush_s), max(disk.flush_s)
    kind = clean(disk.file_system or "file system unknown")
    told = (
        f"{clean(str(disk.folder))} ({kind}), {size(disk.free_bytes)} free, "
        f"a flush takes {median * 1e3:.1f} ms, {longest * 1e3:.1f} at most"
    )
    troubles = (
        (disk.free_bytes < TOO_LITTLE_BYTES, problem, "a recording would end early: make room, or record elsewhere"),
        (median > VERY_SLOW_S, problem, "the recording would fall behind, and disturb a model that reads this disk"),
        (disk.file_system in PASSING, warning, "recordings are in memory: gone at the next boot, taken from the model"),
        (disk.free_bytes < LITTLE_BYTES, warning, "little for hours at high rates: --no-raw, or record elsewhere"),
        (median > SLOW_S, warning, "a slow card: record elsewhere if the model reads from it as it runs"),
        (disk.file_system in REMOTE, warning, "recordings cross the network: a local disk disturbs less"),
    )
    worst = next(((status, advice) for holds, status, advice in troubles if holds), None)
    if worst is None:
        return ok(NAME, told)
    status, advice = worst
    return status(NAME, told, f"{advice} (-o PATH for one run)", "export XDG_STATE_HOME=PATH")
