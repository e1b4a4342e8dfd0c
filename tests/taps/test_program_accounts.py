"""The accounts of a watched program that enters cgroups of version 1: one for each controller, one after the other."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetop.sensors.root import Root
from edgetop.taps import process_accounts, program_accounts
from edgetop.taps.program_accounts import ProgramAccounts

PID = 2**22 + 1  # larger than any process id of Linux (PID_MAX_LIMIT)
PREFIX = ("/bin/sh", "-c", "enter", "sh", "2", "/cpu/edgetop-1-0", "/memory/edgetop-1-1")
MOUNTS = "".join(
    f"{number} 20 0:{number} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
    for number, name in ((31, "cpu"), (32, "memory"))
)
OWN = "2:memory:/desk\n1:cpu:/\n"
HALF = "2:memory:/desk\n1:cpu:/edgetop-1-0\n"
ENTERED = "2:memory:/desk/edgetop-1-1\n1:cpu:/edgetop-1-0\n"
ENDED = "2:memory:/\n1:cpu:/\n"


class Machine:
    """Made-up files of a machine on which a program enters its cgroups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pauses = 0  # how often the accounts waited; the clock shows it in seconds
        self.cpu_s = 0.0  # CPU time of the thread that reads
        self.put("proc/self/cgroup", OWN)
        for pid in ("self", str(PID)):
            self.put(f"proc/{pid}/mountinfo", MOUNTS)
        for path, peak in (("", 900), ("/desk", 300), ("/desk/edgetop-1-1", 40)):
            self.put(f"sys/fs/cgroup/memory{path}/memory.usage_in_bytes", "0\n")
            self.put(f"sys/fs/cgroup/memory{path}/memory.max_usage_in_bytes", f"{peak * 2**20}\n")
            self.put(f"sys/fs/cgroup/memory{path}/memory.oom_control", "oom_kill 0\n")

    def put(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def program(self, memberships: str, *command: str) -> None:
        self.put(f"proc/{PID}/cgroup", memberships)
        self.put(f"proc/{PID}/cmdline", "".join(f"{word}\0" for word in command))

    def pause(self, _: float) -> None:
        """Stand for the wait of the accounts: the program goes one step on."""
        self.pauses += 1
        if self.pauses == 1:
            self.program(ENTERED, *PREFIX, "train")
        else:
            self.program(ENTERED, "train")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    clock = SimpleNamespace(
        monotonic=lambda: float(made.pauses), monotonic_ns=lambda: made.pauses, sleep=made.pause,
        thread_time=lambda: made.cpu_s,
    )  # fmt: skip
    monkeypatch.setattr(program_accounts, "HOST", Root(tmp_path))
    monkeypatch.setattr(program_accounts, "time", clock)
    of_thread = SimpleNamespace(monotonic_ns=time.monotonic_ns, thread_time=lambda: made.cpu_s)
    monkeypatch.setattr(process_accounts, "time", of_thread)
    return made


def cgroup_peak_mib(accounts: ProgramAccounts) -> float | None:
    accounts.read()
    accounts.exit_status()
    ended = accounts.total()
    accounts.close()
    assert ended
    return ended.body.cgroup_peak_mib


def test_the_memory_is_that_of_its_own_cgroup_although_it_enters_another_one_first(machine: Machine) -> None:
    machine.program(HALF, *PREFIX, "train")
    assert cgroup_peak_mib(ProgramAccounts(PID, 0, 40 * 2**20, PREFIX)) == 40
    assert machine.pauses == 2


def test_a_program_that_has_ended_is_in_no_cgroup_of_its_own(machine: Machine) -> None:
    machine.program(ENDED)
    assert cgroup_peak_mib(ProgramAccounts(PID, 0, 40 * 2**20, PREFIX)) is None


@pytest.mark.parametrize(("cpu_s", "readings"), [(0.0, 2), (0.1, 1)])
def test_memory_is_added_up_again_after_a_second_unless_that_cost_much_cpu_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, cpu_s: float, readings: int
) -> None:
    """Three seconds without a CPU in the first reading cost nothing."""
    asked = []

    def stats(_: object) -> dict[int, object]:
        asked.append(machine.pauses)
        machine.pauses += 3
        machine.cpu_s += cpu_s
        return {}

    monkeypatch.setattr(process_accounts.Family, "stats", stats)
    accounts = ProgramAccounts(PID, 0)
    machine.pauses = 10
    accounts.read()
    machine.pauses = 14
    accounts.read()
    accounts.close()
    assert len(asked) == readings
