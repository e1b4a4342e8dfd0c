"""The limits of a container (`--limit` with `--container`): options for its runtime, and whether they are in force.

A runtime may drop a limit that it cannot set, as rootless podman does with cgroups of version 1 (podman-run(1)). So the
files of the container's cgroup are read as soon as it runs.
"""

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from edgetop.runner.cgroup_limits import hardware_disks, refuse_without_io
from edgetop.runner.engine_limit import Limit
from edgetop.sensors.cgroup_location import folders_of
from edgetop.sensors.process_table import HOST
from edgetop.sensors.root import Root


def limit_options(limit: Limit, cpus: AbstractSet[int], root: Root = HOST) -> Iterator[str]:
    """Yield the options of `docker run` and `podman run` that set the limit.

    The program may use the CPUs `cpus`. System files are read below `root`. Raises InputError if disk traffic is to be
    limited, but cannot be limited on this machine.
    """
    if limit.cpus is not None:
        yield f"--cpuset-cpus={','.join(map(str, sorted(cpus)))}"
    if limit.memory_bytes is not None:
        yield f"--memory={limit.memory_bytes}"
        yield f"--memory-swap={limit.memory_bytes + limit.swap_bytes}"
    if limit.quota_us is not None:
        yield f"--cpu-period={limit.period_us}"
        yield f"--cpu-quota={limit.quota_us}"
    if limit.io_bytes_per_s is not None:
        refuse_without_io(root)
        for name, _ in hardware_disks(root):
            yield f"--device-read-bps=/dev/{name.replace('!', '/')}:{limit.io_bytes_per_s}"
            yield f"--device-write-bps=/dev/{name.replace('!', '/')}:{limit.io_bytes_per_s}"


def why_unlimited(limit: Limit, cpus: AbstractSet[int], pid: int, root: Root = HOST) -> str:
    """Return a sentence about the first limit that does not apply to the process `pid`, or "" if all apply.

    Return "" for a process that has ended. `cpus` are the CPUs that the process may use. System files are read below
    `root`.
    """
    sentence = _why_unlimited(limit, cpus, pid, root)
    # The kernel no longer shows the cgroups of a process that has ended.
    state = root.text(f"proc/{pid}/stat").rpartition(")")[2].split()[:1]
    return "" if state in ([], ["Z"], ["X"]) else sentence


def _why_unlimited(limit: Limit, cpus: AbstractSet[int], pid: int, root: Root) -> str:
    if limit.cpus is not None and not _affinity(pid) <= cpus:
        return "it may use more CPUs than --limit cpus allows"
    memberships, mounts = root.text(f"proc/{pid}/cgroup"), root.text("proc/self/mountinfo")
    memory = limit.memory_bytes
    pages = None if memory is None else memory - memory % os.sysconf("SC_PAGE_SIZE")
    # What is limited, the value, the file of the limit in version 2, and the controller and the file in version 1.
    for what, value, newer, controller, older in (
        ("memory", pages, "memory.max", "memory", "memory.limit_in_bytes"),
        ("CPU time", limit.quota_us, "cpu.max", "cpu", "cpu.cfs_quota_us"),
        ("disk traffic", limit.io_bytes_per_s, "io.max", "", "io.max"),
    ):
        places = (*folders_of(memberships, mounts, "")[:1], *folders_of(memberships, mounts, controller)[:1])
        there = next(filter(None, (root.line(f"{folder}/{name}") for folder in places for name in (newer, older))), "")
        if value is not None and str(value) not in there.replace("=", " ").split():
            return f"its {what} is not limited: its cgroup has {there or 'no limit'}"
    return ""


def _affinity(pid: int) -> AbstractSet[int]:
    try:
        return os.sched_getaffinity(pid)
    except OSError:  # it has ended
        return set()
