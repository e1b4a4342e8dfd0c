"""The resources that a container used, from the counters of its cgroup and of its network, and its OOM kills.

A container's first process is no child of edgetop, so wait4(2) says nothing about it. Its cgroup counts the CPU time,
the peak of the memory and the disk traffic of everything in the container. Docker or Podman removes the cgroup a few
milliseconds after the end, so the counters are read at the moment at which the first process ends (pidfd_open(2)).
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edgetop.engines.child.descriptors import until_readable
from edgetop.engines.engine_protocol import Noted
from edgetop.sensors.cgroup_location import CPU_STAT, Group, folders_of, locate
from edgetop.sensors.memory_sensors import MIB, parse_kib_fields
from edgetop.sensors.oom_kills import OomKill, OomKills
from edgetop.sensors.process_table import HOST, TICK_S, parse_counters, parse_stat
from edgetop.sensors.root import Root
from edgetop.sensors.traffic import parse_net_dev
from edgetop.session.event_kinds import ProgramEnded
from edgetop.taps.process_accounts import ResidentMemory, ended, noted

READ_S = 0.25  # least interval between two reads
LOOK_S = 0.05  # interval of reads of the files that are gone when the first process has ended, which take 50 us
USED, PEAK, READ, WRITTEN, RECEIVED, SENT = "cpu_ns", "memory", "read", "written", "received", "sent"


class ContainerAccounts:
    """The CPU time, memory and traffic that a container has used."""

    def __init__(
        self,
        pid: int,
        container: str,
        memory_limit: int | None = None,
        *,
        has_begun_before: bool = False,
        root: Root = HOST,
    ) -> None:
        """Begin to count what a container uses.

        `pid` is the id of its first process, and `container` the container's own id. `memory_limit` is the limit of the
        container's memory in bytes, or None. `has_begun_before` says that the container already ran when watching
        began: CPU time and traffic from before this call do not count, but the kernel's peaks of its memory do. `root`
        is where the kernel's files, such as /proc, are found.
        """
        self._pid, self._limit, self._root = pid, memory_limit, root
        now_ns = time.monotonic_ns()
        self.began_ns = now_ns if has_begun_before else _began_ns(pid, root) or now_ns
        self.ended_ns = 0  # when its first process ended, on CLOCK_MONOTONIC; 0 while it runs
        self._has_begun_before = has_begun_before
        self._resident = ResidentMemory(pid)
        self._read_s = float("-inf")
        self._lock = threading.Lock()
        memberships, mounts = root.text(f"proc/{pid}/cgroup"), root.text("proc/self/mountinfo")
        # A container that shares the cgroup of others, as with `--cgroups=disabled`, has no counters of its own.
        is_own = bool(container) and container in memberships
        self._cpu, self._io = _counters(root, memberships, mounts) if is_own else (_unknown, _unknown_traffic)
        group = locate(root, memberships, mounts) if is_own else None
        self._memory = group if isinstance(group, Group) else None
        self._kills = self._memory and OomKills(Path("/", self._memory.folders[0]), self._memory.files.events)
        self._killed: list[OomKill] = []
        own_net, theirs = root.link("proc/self/ns/net"), root.link(f"proc/{pid}/ns/net")
        self._has_network = bool(theirs) and own_net != theirs
        self._counts: dict[str, int] = {}  # the last counts
        self.seen = (0, 0)  # bytes at the last look: peak of the first process, peak of the cgroup
        self._count()
        self._before = dict(self._counts) if has_begun_before else {}
        threading.Thread(target=self._wait, name="container-end", daemon=True).start()

    def _wait(self) -> None:
        """Wait for the end of the container's first process, and read the counters once more."""
        try:
            end = os.pidfd_open(self._pid)
        except OSError:  # it has ended, or the kernel is too old
            while self._root.text(f"proc/{self._pid}/stat").rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"]):
                time.sleep(LOOK_S)
        else:
            with contextlib.suppress(OSError):
                while not until_readable(end, LOOK_S):
                    self._look()
            os.close(end)
        now_ns = time.monotonic_ns()
        self._count()
        self.ended_ns = now_ns

    def _look(self) -> None:
        """Read the disk traffic and the memory peak of the first process. The kernel drops both when it ends."""
        self._count_traffic()
        own = parse_kib_fields(self._root.text(f"proc/{self._pid}/status")).get("VmHWM", 0) * 1024
        if own:
            self.seen = own, self._cgroup_peak() or 0

    def _cgroup_peak(self) -> int | None:
        """Return the peak of the cgroup's memory in bytes, or None if it is unknown or the cgroup is gone."""
        return self._root.number(f"{self._memory.folders[0]}/{self._memory.files.peak}") if self._memory else None

    def _own_peak_mib(self) -> float | None:
        """Return the peak of the first process's resident memory in MiB, or None if it is unknown.

        The kernel drops this peak when the process ends, so the last reading is used. Memory that grew after it is
        estimated by the growth of the cgroup's peak, which can still be read after the end.
        """
        own, before = self.seen
        grown = max(0, self._counts.get(PEAK, 0) - before) if before else 0
        return max(self._resident.peak_mib or 0.0, round((own + grown) / MIB, 3)) or None

    def _count(self) -> None:
        """Read all counters. A counter keeps its last value if its file cannot be read any more."""
        self._count_traffic()
        with self._lock:
            counts: dict[str, int | None] = {USED: self._cpu()}
            counts[PEAK] = self._cgroup_peak()
            if self._kills:
                self._killed += self._kills.new()
            if self._has_network:
                with contextlib.suppress(ValueError):
                    of = parse_net_dev(self._root.text(f"proc/{self._pid}/net/dev"))
                    both = [amounts for name, amounts in of.items() if name != "lo"]
                    if of:
                        counts |= {RECEIVED: sum(one for one, _ in both), SENT: sum(one for _, one in both)}
            self._keep(counts)

    def _keep(self, counts: Mapping[str, int | None]) -> None:
        known = {name: count for name, count in counts.items() if count is not None}
        self._counts |= {name: max(count, self._counts.get(name, 0)) for name, count in known.items()}

    def _count_traffic(self) -> None:
        """Read how many bytes were read from and written to disks, from the first of two sources that is readable.

        One source is the first process's file `io` (proc_pid_io(5)). It includes descendants that have ended, and
        counts a write when it is made. The other source is the cgroup. It includes descendants that still run, and
        counts a write when the page cache is written back. The cgroup comes first if the container ran before watching
        began.
        """
        fields = parse_counters(self._root.text(f"proc/{self._pid}/io").replace(":", ""))
        own, group = (fields.get("read_bytes"), fields.get("write_bytes")), self._io()
        first, second = (group, own) if self._has_begun_before else (own, group)
        self._keep(dict(zip((READ, WRITTEN), second if first[0] is None else first, strict=True)))

    def read(self) -> list[Noted]:
        """Read the counters.

        Return an event for each process that was killed for lack of memory since the last call.
        """
        now_s = time.monotonic()
        if not self.ended_ns and now_s - self._read_s >= READ_S:
            self._read_s = now_s
            self._resident.read(now_s)
            self._count()
        with self._lock:
            killed, self._killed = self._killed, []
        return [noted(kill, self._limit) for kill in killed]

    def total(self, until_ns: int = 0) -> Noted | None:
        """Return an event with what the container used, up to its end.

        If the container still runs, the event counts up to `until_ns`, the present time in ns of CLOCK_MONOTONIC. If
        `until_ns` is 0 and the container still runs, None is returned.
        """
        end_ns = self.ended_ns or until_ns
        if not end_ns:
            return None
        resident, peak = self._resident, self._counts.get(PEAK)
        body = ProgramEnded(
            total_ns=end_ns - self.began_ns,
            cpu_ns=self._used(USED),
            rss_peak_mib=self._own_peak_mib(),
            pss_peak_mib=resident.together_peak_mib,
            pss_mean_mib=resident.together_mean_mib,
            cgroup_peak_mib=peak and round(peak / MIB, 3),
            read_bytes=self._used(READ),
            write_bytes=self._used(WRITTEN),
            net_rx_bytes=self._used(RECEIVED),
            net_tx_bytes=self._used(SENT),
        )
        return ended(body)

    def _used(self, name: str) -> int | None:
        """Return by how much the counter `name` has grown since the beginning, or None if that is unknown."""
        count = self._counts.get(name)
        return None if count is None else count - self._before.get(name, 0)

    def close(self) -> None:
        if self._kills:
            self._kills.close()


def _began_ns(pid: int, root: Root) -> int | None:
    """Return when the process `pid` began, in ns of CLOCK_MONOTONIC, or None if that is unknown.

    The kernel gives the start in ticks of 10 ms of CLOCK_BOOTTIME. `root` is where the kernel's files are found.
    """
    try:
        ticks = int(parse_stat(root.read_text(f"proc/{pid}/stat")).began)
    except (OSError, ValueError):
        return None
    asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return int(ticks * TICK_S * 1e9) - asleep_ns


def _unknown() -> None:
    return None


def _unknown_traffic() -> tuple[None, None]:
    return None, None


def _counters(
    root: Root, memberships: str, mounts: str
) -> tuple[Callable[[], int | None], Callable[[], tuple[int | None, int | None]]]:
    """Return two functions for a cgroup: one returns its CPU time in ns, the other its (bytes read, bytes written).

    Both functions return None for an unknown number. `root` is where the kernel's files are found. `memberships` is the
    text of /proc/PID/cgroup, and `mounts` the text of /proc/self/mountinfo.
    """
    newer = next(iter(folders_of(memberships, mounts, "")), "")
    used, blocks = (next(iter(folders_of(memberships, mounts, name)), "") for name in ("cpuacct", "blkio"))

    def cpu() -> int | None:
        if used and (nanoseconds := root.number(f"{used}/cpuacct.usage")) is not None:
            return nanoseconds
        microseconds = parse_counters(root.text(f"{newer}/{CPU_STAT}")).get("usage_usec") if newer else None
        return None if microseconds is None else microseconds * 1000

    def traffic() -> tuple[int | None, int | None]:
        if newer and (text := root.text(f"{newer}/io.stat")):
            words = [word.partition("=")[::2] for word in text.split()]
            return _sum(words, "rbytes"), _sum(words, "wbytes")
        # Linux 6.10 and later count here only for disks with a limit (blk_throtl_init in block/blk-throttle.c).
        lines = root.text(f"{blocks}/blkio.throttle.io_service_bytes").splitlines() if blocks else []
        fields = [line.split() for line in lines]
        pairs = [(words[1], words[2]) for words in fields if len(words) == 3]  # device, way, bytes
        return (_sum(pairs, "Read"), _sum(pairs, "Write")) if pairs else (None, None)

    return cpu, traffic


def _sum(pairs: "list[tuple[str, str]]", name: str) -> int:
    return sum(int(value) for key, value in pairs if key == name and value.isdecimal())
