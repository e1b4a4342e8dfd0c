"""The folder in which the processes of a watched application create their rings (files of calls), and these rings.

An application may start any number of processes one after another. So a ring is read to its end, and its file is
removed, as soon as no process can write to it any more. The folder is locked (flock(2)) while its edgetop lives, so
another edgetop can find abandoned folders. Process numbers cannot show that, because another PID namespace may share
/dev/shm.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from edgetop.engines.engine_protocol import LogLine, Message
from edgetop.paths import has_room
from edgetop.probe import edgetop_probe as layout
from edgetop.taps.ring import Calls, Ring

RING_BYTES = layout.HEADER_BYTES + layout.SLOTS * layout.SLOT.size
ROOM_BYTES = 32 * 2**20  # free space required in shared memory: about twenty rings
MAX_RINGS = 512  # most open rings; a process has one or two, and each takes a descriptor here
MOST_TRIES = 100  # most attempts to open a file that is not a ring yet
MOST_WARNINGS = 10
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  a mapped file on a disk stalls its writer under write-back
PREFIX, LOCK, SUFFIX = "edgetop-tap-", ".lock", ".tap"
ROOM_EVERY_NS = 5_000_000_000


class Rings:
    def __init__(self) -> None:
        self.folder: Path | None = None  # None before `open`
        self.sources: set[str] = set()  # ways by which calls were seen, over all rings so far
        self._costs: dict[int, int] = {}  # last cost of a call in ns that its process measured, by ring
        self._made: os.stat_result | None = None  # the folder as it was made
        self._lock = -1
        self._open: dict[str, Ring] = {}  # open rings by file name
        self._tries: dict[str, int] = {}  # attempts to open files that are not rings yet
        self._lost_before = 0  # number of lost calls in closed rings
        self._told: set[str] = set()  # warnings that were reported, because each is reported once
        self._news: list[Message] = []
        self._has_too_many = False
        self._room_due_ns = 0

    def open(self, shared: Path = SHARED_MEMORY) -> Path:
        """Create the folder of the rings, and return its path.

        It is created in the folder `shared`, or in the system's temporary folder if `shared` lacks room. Also removes
        folders that killed edgetop processes left.
        """
        home = shared if has_room(shared, ROOM_BYTES) else Path(tempfile.gettempdir())
        _remove_left_behind(home)
        while self.folder is None:
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=home))
            with contextlib.suppress(FileNotFoundError):  # another edgetop took the folder for an abandoned one
                self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                if (folder / LOCK).stat().st_ino == os.fstat(self._lock).st_ino:
                    self.folder, self._made = folder, folder.lstat()
        return self.folder

    @property
    def cost_ns(self) -> int:
        """How many ns it takes to time one call: the median of what the processes measured, or 0 if unknown."""
        return sorted(self._costs.values())[len(self._costs) // 2] if self._costs else 0

    @property
    def lost(self) -> int:
        """How many calls were overwritten before they were read."""
        return self._lost_before + sum(ring.lost for ring in self._open.values())

    def read(self, *, is_over: bool) -> Iterator[tuple[list[tuple[Ring, Calls]], list[Ring]]]:
        """Read all rings, in groups of at most MAX_RINGS. Yield a pair of two lists for each group.

        The first list has (ring, new calls) for each ring, the oldest ring first. The second list has the rings to
        which no process can write any more. These are removed before further rings are opened. `is_over` says that no
        process writes any more.
        """
        for _ in self._batches():
            rings = sorted(self._open.values(), key=lambda ring: ring.created_ns)
            ended = [ring for ring in rings if is_over or ring.is_abandoned()]  # check before reading its calls
            for ring in rings:
                if ring not in ended:
                    ring.find_whole()
            read = [(ring, ring.read_to_end() if ring in ended else ring.read()) for ring in rings]
            self.sources.update(ring.source for ring in rings if ring.source)
            self._costs.update({ring.number: cost for ring in rings if (cost := ring.cost_ns)})
            self._costs = dict(list(self._costs.items())[-MAX_RINGS:])
            yield read, ended
            for ring in rings:
                self._judge(ring)
            for ring in ended:
                self._remove(ring)

    def _batches(self) -> Iterator[None]:
        """Open new rings until MAX_RINGS are open. Then yield None, so that the caller can read and remove rings.

        This is repeated until no new ring is left, or until MAX_RINGS rings are still open after a yield.
        """
        assert self.folder
        names: list[str] = []
        with contextlib.suppress(OSError):  # the folder was removed, which `news` reports
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(SUFFIX))  # noqa: PTH208  by far the fastest
        self._tries = {name: self._tries[name] for name in names if name in self._tries}
        new = [name for name in names if name not in self._open and self._tries.get(name, 0) < MOST_TRIES]
        while True:
            for name in new[: MAX_RINGS - len(self._open)]:
                self._tries[name] = self._tries.get(name, 0) + 1
                with contextlib.suppress(ValueError, OSError):  # not complete yet; try again at the next read
                    self._open[name] = Ring(self.folder / name)
                    del self._tries[name]
            new = [name for name in new if name not in self._open and name not in self._tries]
            yield
            if not new or len(self._open) >= MAX_RINGS:
                self._has_too_many = bool(new)
                return

    def _remove(self, ring: Ring) -> None:
        """Close a ring that was read to its end, and remove its file."""
        self._lost_before += ring.lost
        self._open.pop(ring.path.name, None)
        ring.close()
        with contextlib.suppress(OSError):
            ring.path.unlink()

    def _judge(self, ring: Ring) -> None:
        if ring.is_cut:
            self._warn("calls-unseen", f"the ring of process {ring.pid} was cut: its later calls are not seen")
        if ring.is_damaged:
            text = f"the ring of process {ring.pid} has impossible sequence numbers: some calls may be missing"
            self._warn("calls-unseen", text)

    def news(self, now_ns: int) -> list[Message]:
        """Return new warnings about calls that cannot be read. `now_ns` is the present time in ns."""
        assert self.folder
        if self._has_too_many:
            text = f"more than {MAX_RINGS} processes report at once: further ones are read when some have ended"
            self._warn("rings-full", text)
        if now_ns >= self._room_due_ns:
            self._room_due_ns = now_ns + ROOM_EVERY_NS
            if not self._is_there():
                self._warn(
                    "calls-unseen",
                    f"{self.folder} was removed or replaced: processes that start from now on are not seen",
                )
            elif not has_room(self.folder, RING_BYTES):
                self._warn("calls-unseen", f"{self.folder.parent} is full: processes that start now are not seen")
        news, self._news = self._news, []
        return news

    def _is_there(self) -> bool:
        """Whether the folder is still the one that edgetop made. The program may have removed or replaced it."""
        with contextlib.suppress(OSError):
            return bool(self.folder and self._made and os.path.samestat(self.folder.lstat(), self._made))
        return False

    def _warn(self, kind: str, text: str) -> None:
        if len(self._told) < MOST_WARNINGS and text not in self._told:
            self._told.add(text)
            self._news.append(LogLine("warning", "edgetop", text, kind))

    def close(self) -> None:
        for ring in self._open.values():
            ring.close()
        self._open = {}
        if self.folder:
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(self.folder.lstat().st_mode):
                    shutil.rmtree(self.folder, ignore_errors=True)
                else:  # the program has put it there; rmtree would wait for the writer of a FIFO
                    self.folder.unlink()
            self.folder = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _remove_left_behind(home: Path) -> None:
    """Remove this user's folders of rings in the folder `home` that no edgetop has locked."""
    owners = {os.getuid(), int(os.environ.get("SUDO_UID") or os.getuid())}
    for folder in home.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid in owners and _is_left_behind(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left_behind(folder: Path) -> bool:
    """Return True if no edgetop has locked the folder.

    Raises OSError if it is locked, or if it has no lock file yet.
    """
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(lock)
    return True
