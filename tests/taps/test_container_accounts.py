"""The peak of a container's memory, of which the kernel forgets a part when the first process ends."""

import subprocess
from pathlib import Path

import pytest

from edgetop.sensors.root import Root
from edgetop.session.event_kinds import ProgramEnded
from edgetop.taps.container_accounts import ContainerAccounts
from tests.support.waiting import wait_until

CONTAINER = "c0ffee"
MIB, KIB = 2**20, 2**10
V1 = ("memory", "cgroup cgroup rw,memory", "memory.max_usage_in_bytes", "memory.usage_in_bytes")
V2 = ("", "cgroup2 cgroup2 rw", "memory.peak", "memory.current")


class Machine:
    """Made-up files of a machine whose container's first process is a real process that waits."""

    def __init__(self, folder: Path, version: tuple[str, str, str, str]) -> None:
        controller, kind, self.peak_name, current = version
        self.folder = folder
        self.process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.group = f"sys/fs/cgroup/{CONTAINER}"
        self.put(f"proc/{self.process.pid}/cgroup", f"{1 if controller else 0}:{controller}:/{CONTAINER}\n")
        self.put("proc/self/mountinfo", f"31 20 0:31 / /sys/fs/cgroup rw - {kind}\n")
        self.put(f"{self.group}/{current}", "0\n")
        self.peaks(1, 1)

    def put(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".new")
        partial.write_text(text)
        partial.replace(file)

    def peaks(self, own_mib: int | None, group_mib: int) -> None:
        """Set the peak of the process (None: it has ended), and then that of its cgroup."""
        text = "State: Z\n" if own_mib is None else f"VmHWM:\t{own_mib * KIB} kB\n"
        self.put(f"proc/{self.process.pid}/status", text)
        self.put(f"{self.group}/{self.peak_name}", f"{group_mib * MIB}\n")

    def accounts(self) -> ContainerAccounts:
        return ContainerAccounts(self.process.pid, CONTAINER, root=Root(self.folder))

    def end(self, accounts: ContainerAccounts) -> ProgramEnded:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        noted = wait_until(accounts.total)
        accounts.close()
        assert noted
        assert isinstance(noted.body, ProgramEnded)
        return noted.body


@pytest.mark.parametrize("version", [V1, V2])
def test_what_a_process_allocates_last_is_in_its_peak(tmp_path: Path, version: tuple[str, str, str, str]) -> None:
    machine = Machine(tmp_path, version)
    accounts = machine.accounts()
    machine.peaks(200, 220)  # 20 MiB of the cgroup are files that it has read
    wait_until(lambda: accounts.seen == (200 * MIB, 220 * MIB))
    machine.peaks(None, 320)
    ended = machine.end(accounts)
    assert (ended.rss_peak_mib, ended.cgroup_peak_mib) == (300, 320)


def test_without_a_cgroup_of_its_own_the_last_look_counts(tmp_path: Path) -> None:
    machine = Machine(tmp_path, V1)
    machine.put(f"proc/{machine.process.pid}/cgroup", "1:memory:/shared\n")
    accounts = machine.accounts()
    machine.peaks(200, 900)
    wait_until(lambda: accounts.seen == (200 * MIB, 0))
    machine.peaks(None, 5000)
    ended = machine.end(accounts)
    assert (ended.rss_peak_mib, ended.cgroup_peak_mib) == (200, None)
