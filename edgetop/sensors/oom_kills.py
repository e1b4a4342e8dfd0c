"""Processes that the kernel's OOM killer has killed in a cgroup with a memory limit, with their names and sizes.

The count of kills is in a file of the cgroup. Names and sizes are in the kernel's log, which only root may read on many
systems (`kernel.dmesg_restrict`). Each kill has two records there, printed by dump_header and __oom_kill_process of
mm/oom_kill.c:

    oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/a/b,task_memcg=/a/b,task=python3,pid=4711,uid=0
    Memory cgroup out of memory: Killed process 4711 (python3) total-vm:..kB, anon-rss:..kB, file-rss:..kB, shmem-rss:..
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from edgetop.frozen import frozen
from edgetop.sensors.memory_sensors import resident_bytes
from edgetop.sensors.process_table import parse_counters, parse_stat

KMSG = Path("/dev/kmsg")  # Documentation/ABI/testing/dev-kmsg: each read returns one record
RECORD_BYTES = 8192  # longest record (CONSOLE_EXT_LOG_MAX, kernel/printk/printk.c)
MOST_RECORDS = 100_000  # most records that are read at once
MOST_MEMBERS = 256  # most processes of the cgroup whose names are kept
_GROUP = re.compile(r"oom-kill:.*\boom_memcg=(?P<group>/[^,]*),.*\bpid=(?P<pid>[0-9]{1,10})\b")
_KILLED = re.compile(
    r"Killed process (?P<pid>[0-9]{1,10}) \((?P<name>.*)\) total-vm:[0-9]+kB, "
    r"anon-rss:(?P<anon>[0-9]{1,15})kB, file-rss:(?P<file>[0-9]{1,15})kB, shmem-rss:(?P<shmem>[0-9]{1,15})kB"
)


@frozen
class OomKill:
    """One process that the kernel's OOM killer has killed. What is unknown is None."""

    pid: int | None
    name: str | None
    resident_bytes: int | None  # its resident memory when it was killed; `is_exact` says whether that is known exactly
    is_exact: bool = True


class OomKills:
    """Watches one cgroup, and finds the processes that the kernel's OOM killer kills there."""

    def __init__(self, folder: Path, counts: str, kmsg: Path = KMSG, proc: Path = Path("/proc")) -> None:
        """Begin to watch the cgroup whose folder is `folder`.

        `counts` is the name of the file in `folder` that has a line `oom_kill N`. `kmsg` is the kernel's log, and
        `proc` the folder of processes.
        """
        self._folder, self._proc = folder, proc
        self._counts = folder / counts
        self._known = self._count()
        self._members: dict[int, tuple[str, int]] = {}  # name and resident bytes of each process, as last seen
        self._log = -1
        with contextlib.suppress(OSError):
            self._log = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)

    def new(self) -> list[OomKill]:
        """Return the processes that were killed since the last call.

        If some could not be identified, one entry stands for all of them, with None in its fields.
        """
        count, before, members = self._count(), self._known, self._members
        self._members = self._living()
        if count is None or before is None or count <= before:
            return []
        self._known = count
        found = list(self._logged())
        if len(found) < count - before:  # the log may not be read, or has lost records
            named = {kill.pid for kill in found}
            gone = [(pid, *one) for pid, one in members.items() if pid not in self._members and pid not in named]
            gone.sort(key=lambda one: -one[2])  # the largest process is killed first
            found += [OomKill(*one, is_exact=False) for one in gone[: count - before - len(found)]]
        unknown = count - before - len(found)
        return found + [OomKill(None, None, None, is_exact=False)] * min(max(0, unknown), 1)

    def close(self) -> None:
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def _count(self) -> int | None:
        try:
            return parse_counters(self._counts.read_text()).get("oom_kill")
        except OSError:
            return None

    def _living(self) -> dict[int, tuple[str, int]]:
        """Return `(name, resident memory in bytes)` of each process in the cgroup, by process id."""
        found = {}
        with contextlib.suppress(OSError, ValueError):
            pids = [int(line) for line in (self._folder / "cgroup.procs").read_text().split()[:MOST_MEMBERS]]
            for pid in pids:
                with contextlib.suppress(OSError, ValueError):
                    stat = parse_stat((self._proc / str(pid) / "stat").read_text("utf-8", "replace"))
                    found[pid] = stat.name, resident_bytes(pid)
        return found

    def _logged(self) -> Iterator[OomKill]:
        """Yield the kills in this cgroup that the kernel has logged since the last call."""
        ours: set[str] = set()
        for text in self._records():
            if match := _GROUP.search(text):
                group = match["group"].rstrip("/")
                # The log has the path in the whole hierarchy, of which this process may see only a part.
                if group.rpartition("/")[2] == self._folder.name:
                    ours.add(match["pid"])
            elif (match := _KILLED.search(text)) and match["pid"] in ours:
                kib = sum(int(match[part]) for part in ("anon", "file", "shmem"))
                yield OomKill(int(match["pid"]), match["name"], kib * 1024)

    def _records(self) -> Iterator[str]:
        for _ in range(MOST_RECORDS if self._log >= 0 else 0):
            try:
                record = os.read(self._log, RECORD_BYTES)
            except BrokenPipeError:  # records were overwritten; the next read goes on with the oldest one
                continue
            except OSError:  # EAGAIN: there is no more
                return
            if not record:
                return
            # A line of the dictionary of a record begins with a space.
            lines = record.decode("utf-8", "replace").splitlines()
            yield from (line.partition(";")[2] for line in lines if ";" in line and not line.startswith(" "))
