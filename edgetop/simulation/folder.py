"""The virtual board's folder: private, in memory where there is such a place, and gone when the board is.

It holds the board's files (`tree/`), its page for the engine, and a lock that its process
holds as long as it lives: a folder whose lock nobody holds was left by a process that was
killed, and the next board removes it.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = Path(__file__).with_name("competitor.py")
PATIENCE_S = 2.0


class Rival:
    """A competing process, at rest until `compete(True)`."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._is_busy = False
        self._process = subprocess.Popen(  # noqa: S603  our own program in our own interpreter
            [sys.executable, "-I", "-S", str(PROGRAM), ",".join(map(str, cpus))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def compete(self, is_busy: bool) -> None:
        if is_busy == self._is_busy:
            return
        self._is_busy = is_busy
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # somebody ended it: then there is nobody to compete
            self._process.stdin.write(b"+" if is_busy else b"-")
            self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


PREFIX = "edgetop-board-"
LOCK = "lock"


def home() -> Path:
    """Return the folder for boards, in memory where possible: five writes a second would wear an SD card."""
    places = (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm")  # noqa: S108  the folder itself is private
    usable = (place for place in places if place and Path(place).is_dir() and os.access(place, os.W_OK | os.X_OK))
    return Path(next(usable, None) or tempfile.gettempdir())


class BoardFolder:
    """Files are replaced as a whole, so that a reader has the old one or the new one."""

    def __init__(self, place: Path) -> None:
        """Raises OSError where nothing can be written at `place`."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))  # mode 0700
        self.tree = self.path / "tree"
        self._written: dict[str, bytes] = {}
        self._lock_fd = _open_lock(self.path, os.O_CREAT)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write the files whose content has changed."""
        for name, text in files.items():
            content = text.encode() if isinstance(text, str) else text
            if self._written.get(name) != content:
                self._replace(self.tree / name, content)
                self._written[name] = content

    def _replace(self, path: Path, content: bytes) -> None:
        new = self.path / "new"  # not beside it, where a reader might list it
        new.write_bytes(content)
        try:
            new.replace(path)
        except FileNotFoundError:
            path.parent.mkdir(parents=True)
            new.replace(path)

    def link(self, links: Mapping[str, str]) -> None:
        for name, target in links.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock_fd)


def remove_abandoned(place: Path) -> None:
    """Folders of boards whose process is gone."""
    for path in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or one that is just being removed
            if path.lstat().st_uid != os.getuid():
                continue
            fd = _open_lock(path, 0)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(fd)


def _open_lock(path: Path, flags: int) -> int:
    return os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
