"""Keeping the sessions of a folder within a total size (`--sessions-quota`).

Only files that edgetop recorded count, and only those are removed, beginning with the session that ran first. The wall
clock alone does not give this order, since the clock of a board without a battery starts in 1970. Sessions that cannot
be removed, because they are damaged or have an immutable file, are reported and do not count.
"""

import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

from edgetop import formatting
from edgetop.errors import InputError, RecordingError
from edgetop.files import open_regular
from edgetop.frozen import frozen
from edgetop.recording.removal import PUSHED, SessionFiles, remove_session
from edgetop.recording.session_folder import MANIFEST, SUFFIX, is_live, is_real_folder, read_manifest
from edgetop.session.clock import boot_id
from edgetop.session.manifest import Manifest

Report = Callable[[Literal["session-removed", "session-not-counted"], str], None]  # of an event, and its text
EARLIEST_US = 1_704_067_200_000_000  # 2024; edgetop is younger, so an earlier time comes from a clock that was not set
DAY_US = 86_400_000_000
MAX_MARKER_BYTES = 65_536
_NEVER_US = 2**62
_MOST_NAMED = 5


@frozen
class Now:
    """What the clocks of this machine show now."""

    boot: str | None
    monotonic_ns: int
    utc_us: int  # since 1970, by a clock that may not have been set

    @classmethod
    def read(cls) -> "Now":
        return cls(boot_id(), time.monotonic_ns(), time.time_ns() // 1000)

    @property
    def is_set(self) -> bool:
        return self.utc_us >= EARLIEST_US

    @property
    def boot_us(self) -> int:
        """The time of this boot in microseconds since 1970, or _NEVER_US if the wall clock has not been set yet."""
        return self.utc_us - self.monotonic_ns // 1000 if self.is_set else _NEVER_US

    def is_plausible(self, utc_us: int) -> bool:
        return EARLIEST_US <= utc_us <= (self.utc_us + DAY_US if self.is_set else _NEVER_US)


class Quota:
    """A limit on the total size of all sessions in a folder."""

    def __init__(self, quota_bytes: int, report: Report, now: Callable[[], Now] = Now.read) -> None:
        self._quota_bytes = quota_bytes
        self._report = report
        self._now = now
        self._told: set[Path] = set()

    def enforce(self, home: Path, spared: Collection[Path] = ()) -> None:
        """Remove sessions in the folder `home` until the rest fits into the quota, or until no more can be removed.

        Sessions with a copy in a lake (`edgetop push`) are removed first, and older sessions before newer ones. A
        session that is being written stays. So do the sessions in `spared`, and the earlier session that a spared
        session continues.
        """
        sizes: dict[Path, int] = {}
        sessions: dict[Path, Manifest] = {}
        outside: dict[Path, tuple[int, str]] = {}  # by folder, the size of what does not count, and why
        for folder in sorted(path for path in home.glob(f"*{SUFFIX}") if is_real_folder(path)):
            try:
                if _was_completed(folder):
                    continue
                sessions[folder] = read_manifest(folder)
                sizes[folder], others = _sizes(folder)
            except (InputError, OSError) as error:
                sessions.pop(folder, None)
                outside[folder] = _all_bytes(folder), f"do not count, because it cannot be read: {error}"
                continue
            if others:
                outside[folder] = others, "of other files in it do not count"
        left = sum(sizes.values())
        if left > self._quota_bytes:
            left = self._make_room(sessions, sizes, spared)
        if left + sum(size for size, _ in outside.values()) > self._quota_bytes:
            for folder, (size, why) in outside.items():
                self._tell(folder, f"{formatting.size(size)} {why}")

    def _make_room(self, sessions: Mapping[Path, Manifest], sizes: Mapping[Path, int], spared: Collection[Path]) -> int:
        """Remove sessions until the rest fits into the quota. Return the size in bytes of the remaining sessions.

        `sizes` are in bytes, by folder. Sessions in `spared` are never removed.
        """
        left = sum(sizes.values())
        excluded = _with_predecessors(sessions, {os.path.realpath(folder) for folder in spared})
        for folder in removal_order(sessions, self._now()):
            if left <= self._quota_bytes:
                break
            if folder in excluded or is_live(folder):
                continue
            which = "pushed" if is_pushed(folder, sessions[folder].id) else "oldest"
            try:
                removed = remove_session(folder)
            except RecordingError:  # a process writes it
                continue
            except OSError as error:
                size = formatting.size(sizes[folder])
                self._tell(folder, f"{size} do not count, because it cannot be removed: {error.strerror}")
            else:
                named = [*removed.left[:_MOST_NAMED], *(["..."] if len(removed.left) > _MOST_NAMED else [])]
                stays = f"; left in it, as edgetop did not write it: {', '.join(named)}" if removed.left else ""
                self._report(
                    "session-removed",
                    f"removed {folder.name}, the {which} one, {formatting.size(removed.freed_bytes)}: "
                    f"the sessions took more than --sessions-quota{stays}",
                )
            left -= sizes[folder]
        return left

    def _tell(self, folder: Path, why: str) -> None:
        if folder not in self._told:
            self._told.add(folder)
            self._report("session-not-counted", f"--sessions-quota: {folder.name}: {why}")


def _was_completed(folder: Path) -> bool:
    """Finish removing the session in `folder` if an earlier removal was interrupted. Return whether there was one.

    Raises OSError if a file cannot be removed.
    """
    with closing(SessionFiles(folder)) as files:
        if not files.is_half_removed:
            return False
    with suppress(RecordingError):
        remove_session(folder)
    return True


def _sizes(folder: Path) -> tuple[int, int]:
    """Return the sizes in bytes of a session's own files and of all other files in its folder. Raises OSError."""
    with closing(SessionFiles(folder)) as files:
        return files.own_bytes, sum(files.others.values())


def _all_bytes(folder: Path) -> int:
    with suppress(OSError):
        return sum(_sizes(folder))
    return 0


def _with_predecessors(sessions: Mapping[Path, Manifest], spared: Collection[str]) -> set[Path]:
    """Return the folders in `spared`, and the folder of the earlier session that each of these sessions continues.

    `spared` are real paths, without symbolic links.
    """
    found = {folder for folder in sessions if os.path.realpath(folder) in spared}
    ids = {sessions[folder].id for folder in found}
    return found | {folder for folder, manifest in sessions.items() if manifest.followed_by in ids}


def is_pushed(folder: Path, session_id: str) -> bool:
    """Whether `edgetop push` noted in the folder that a lake has a copy of this session."""
    try:
        with os.fdopen(open_regular(folder / PUSHED), "rb") as file:
            marker = json.loads(file.read(MAX_MARKER_BYTES))
        return bool(marker["session"] == session_id)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return False


def removal_order(sessions: Mapping[Path, Manifest], now: Now) -> Sequence[Path]:
    """Return the folders in the order in which they are to be removed. `sessions` has the manifest of each folder.

    Sessions with a copy in a lake come first, and older sessions before newer ones.
    """
    began = _beginnings(sessions, now)
    return sorted(
        sessions,
        key=lambda folder: (not is_pushed(folder, sessions[folder].id), began[folder], sessions[folder].created_utc),
    )


def _beginnings(sessions: Mapping[Path, Manifest], now: Now) -> dict[Path, int]:
    """Return when each session began, in microseconds since 1970, as well as the clocks can tell.

    - If at least one session of a boot has a plausible wall time, the monotonic clock gives the times of all sessions
      of that boot.
    - Otherwise the session's own wall time counts, or else the time of its manifest file.
    - If these times are implausible, the session counts as the last one before this boot. So a wrong clock does not
      remove a session too early.
    """
    origins: dict[str, tuple[int, int]] = {}  # by boot: the last session with a plausible time, and when the boot began
    for manifest in sessions.values():
        wall, clock = manifest.wall_time(), manifest.clock
        if clock.boot_id and wall and now.is_plausible(wall.origin_us):
            known = clock.origin_monotonic_ns, wall.origin_us - clock.origin_monotonic_ns // 1000
            origins[clock.boot_id] = max(origins.get(clock.boot_id, known), known)
    if now.boot:
        origins[now.boot] = now.monotonic_ns, now.boot_us
    return {folder: _beginning(folder, manifest, origins, now) for folder, manifest in sessions.items()}


def _beginning(folder: Path, manifest: Manifest, origins: Mapping[str, tuple[int, int]], now: Now) -> int:
    clock, wall = manifest.clock, manifest.wall_time()
    if clock.boot_id and clock.boot_id in origins:
        return origins[clock.boot_id][1] + clock.origin_monotonic_ns // 1000
    if wall and now.is_plausible(wall.origin_us):
        return wall.origin_us
    with suppress(OSError):
        changed_us = (folder / MANIFEST).stat().st_mtime_ns // 1000
        if now.is_plausible(changed_us):
            return changed_us - (manifest.duration_ns or 0) // 1000
    return now.boot_us - 1
