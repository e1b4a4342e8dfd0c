"""The accounts of a watched program: what counts from its first instruction on, and which cgroup is its own."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetop.sensors.root import Root
from edgetop.session.event_kinds import ProgramEnded
from edgetop.taps import process_accounts, program_accounts
from edgetop.taps.program_accounts import ProgramAccounts

PID = 2**22 + 1  # larger than any process id of Linux (PID_MAX_LIMIT)
MOUNTS = "".join(
    f"{number} 20 0:{number} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
    for number, name in ((31, "cpuacct"), (32, "memory"))
)
OWN = "2:memory:/desk\n1:cpuacct:/\n"
ENTERED = "2:memory:/desk/edgetop-1-1\n1:cpuacct:/edgetop-1-0\n"
ENDED = "2:memory:/\n1:cpuacct:/\n"


class Machine:
    """Made-up files of a machine on which a program has entered its cgroups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_s = 0
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


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    clock = SimpleNamespace(monotonic=lambda: float(made.now_s), monotonic_ns=lambda: made.now_s * 10**9)
    monkeypatch.setattr(program_accounts, "HOST", Root(tmp_path))
    monkeypatch.setattr(program_accounts, "time", clock)
    of_thread = SimpleNamespace(monotonic_ns=time.monotonic_ns, thread_time=lambda: made.cpu_s)
    monkeypatch.setattr(process_accounts, "time", of_thread)
    return made


def total(accounts: ProgramAccounts) -> ProgramEnded:
    accounts.read()
    accounts.exit_status()
    ended = accounts.total()
    accounts.close()
    assert ended
    assert isinstance(ended.body, ProgramEnded)
    return ended.body


def end(accounts: ProgramAccounts, maxrss_kib: int) -> None:
    """Stand for wait4(2): the program has ended and has used this much."""
    accounts._exit.used = SimpleNamespace(  # type: ignore[assignment]
        ru_maxrss=maxrss_kib, ru_utime=1.0, ru_stime=0.5, ru_inblock=2, ru_oublock=1
    )
    accounts._exit._status, accounts._exit._noted_ns = 0, 5_000_000_000


def test_the_memory_is_that_of_its_own_cgroup(machine: Machine) -> None:
    machine.put(f"proc/{PID}/cgroup", ENTERED)
    assert total(ProgramAccounts(PID, 40 * 2**20)).cgroup_peak_mib == 40


def test_a_program_in_no_cgroup_of_its_own_has_no_peak_of_one(machine: Machine) -> None:
    machine.put(f"proc/{PID}/cgroup", ENDED)
    assert total(ProgramAccounts(PID, 40 * 2**20)).cgroup_peak_mib is None


def test_cpu_time_of_its_own_cgroup_counts_from_the_first_instruction_on(machine: Machine) -> None:
    machine.put(f"proc/{PID}/cgroup", ENTERED)
    machine.put("sys/fs/cgroup/cpuacct/cpuacct.usage", "9000000000\n")
    machine.put("sys/fs/cgroup/cpuacct/edgetop-1-0/cpuacct.usage", "30000000\n")
    accounts = ProgramAccounts(PID, 40 * 2**20)
    machine.put("sys/fs/cgroup/cpuacct/edgetop-1-0/cpuacct.usage", "2030000000\n")
    assert total(accounts).cpu_ns == 2_000_000_000


def test_the_cpu_time_of_a_program_that_has_left_its_cgroup_counts(machine: Machine) -> None:
    machine.put(f"proc/{PID}/cgroup", ENTERED)
    machine.put("sys/fs/cgroup/cpuacct/edgetop-1-0/cpuacct.usage", "30000000\n")
    accounts = ProgramAccounts(PID, 40 * 2**20)
    end(accounts, 0)
    assert total(accounts).cpu_ns == 1_500_000_000


@pytest.mark.parametrize(
    ("seen_mib", "waited_mib", "peak_mib"),
    [
        (50.2, 50.0, 50.0),
        (50.0, 60.0, 60.0),
        (80.0, 50.0, 80.0),
        (2.0, 8.2, 2.0),
        (None, 30.0, 30.0),
        (None, 9.5, None),
    ],
)
def test_the_peak_is_that_of_the_largest_process(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, seen_mib: float | None, waited_mib: float, peak_mib: float | None
) -> None:
    """A process that nobody waits for is only seen while it runs, and the starter has 8 MiB."""
    machine.put(f"proc/{PID}/status", "VmHWM: 8192 kB\n")
    accounts = ProgramAccounts(PID)
    end(accounts, int(waited_mib * 1024))
    accounts._resident.peak_kib = int((seen_mib or 0.0) * 1024)
    machine.put(f"proc/{PID}/status", "")
    ended = total(accounts)
    assert ended.rss_peak_mib == (None if peak_mib is None else pytest.approx(peak_mib, abs=0.01))
    assert (ended.cpu_ns, ended.read_bytes, ended.write_bytes) == (1_500_000_000, 1024, 512)


def test_what_starting_the_program_used_is_not_the_programs(machine: Machine) -> None:
    machine.put(f"proc/{PID}/schedstat", "200000000 5 3\n")
    machine.put(f"proc/{PID}/io", "rchar: 9\nread_bytes: 512\nwrite_bytes: 512\n")
    accounts = ProgramAccounts(PID)
    end(accounts, 0)
    ended = total(accounts)
    assert (ended.cpu_ns, ended.read_bytes, ended.write_bytes) == (1_300_000_000, 512, 0)


@pytest.mark.parametrize(("cpu_s", "readings"), [(0.0, 2), (0.1, 1)])
def test_memory_is_added_up_again_after_a_second_unless_that_cost_much_cpu_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, cpu_s: float, readings: int
) -> None:
    """Three seconds without a CPU in the first reading cost nothing."""
    asked = []

    def stats(_: object) -> dict[int, object]:
        asked.append(machine.now_s)
        machine.now_s += 3
        machine.cpu_s += cpu_s
        return {}

    monkeypatch.setattr(process_accounts.Family, "stats", stats)
    accounts = ProgramAccounts(PID)
    machine.now_s = 10
    accounts.read()
    machine.now_s = 14
    accounts.read()
    accounts.close()
    assert len(asked) == readings
