"""The load of all other processes, and the names of those that take most of it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetop.sensors import process_table
from edgetop.sensors.competitors import AGAIN_S, EVERY_S, HIDDEN, Competitors
from edgetop.sensors.process_table import MOST_OPEN, Everyone, why_unseen
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap, SensorEvent
from edgetop.session.event_kinds import Competing, MemoryTaken
from tests.support.trees import plant

HZ = os.sysconf("SC_CLK_TCK")
ENGINE, OWN, SHELL = 70, 60, 1


class Machine:
    """A /proc whose processes take as much of a core as the test says."""

    def __init__(self, tree: Path, more: Mapping[str, str] | None = None) -> None:
        self._tree = tree
        plant(tree, more or {})
        self.hidden: set[int] = set()  # processes that are not listed
        self.now_s = 100.0
        self.used = {ENGINE: 0.0, OWN: 0.0}
        self.names = {ENGINE: "engine", OWN: "edgetop"}
        self.parents = {ENGINE: OWN, OWN: SHELL}
        self.began: dict[int, int] = {}
        self.pages: dict[int, int] = {}
        self.ended: dict[int, float] = {}  # seconds used by children that have ended
        self.write()
        self.source = Competitors(ENGINE, Root(tree), lambda: self.now_s, own=OWN)

    def start(self, pid: int, name: str, parent: int = SHELL, used_s: float = 0.0) -> None:
        self.used[pid], self.names[pid], self.parents[pid] = used_s, name, parent

    def stop(self, pid: int) -> None:
        del self.used[pid]
        shutil.rmtree(self._tree / f"proc/{pid}")

    def write(self) -> None:
        busy = int((sum(self.used.values()) + sum(self.ended.values())) * HZ)
        files = {
            "proc/stat": f"cpu  {busy} 0 0 900 0 0 0 0 0 0\ncpu0 1 2 3\ncpu1 1 2 3\n",
            "proc/net/x": "no process\n",
        }
        for pid, seconds in self.used.items():
            if pid in self.hidden:
                continue
            ticks = int(seconds * HZ)
            ended = int(self.ended.get(pid, 0.0) * HZ)
            memory = f"9 {self.pages.get(pid, 9)} 7"
            rest = f"1 1 0 -1 4194304 1 0 0 0 {ticks} 0 {ended} 0 20 0 1 0 {self.began.get(pid, 55)} {memory}"
            files[f"proc/{pid}/stat"] = f"{pid} ({self.names[pid]}) R {self.parents[pid]} {rest}\n"
        plant(self._tree, files)

    def run(self, seconds: float = 1.0, **percent: float) -> tuple[float | Gap, list[SensorEvent]]:
        """A second in which each, by its name, took so much of a core; what is read after it."""
        for pid, name in self.names.items():
            if pid in self.used:
                self.used[pid] += seconds * percent.get(name, 0.0) / 100
        self.now_s += seconds
        self.write()
        (value,) = self.source.read()
        return value, list(self.source.take_events())


def test_the_load_of_others_leaves_the_engine_and_edgetop_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start(80, "sshd")
    assert isinstance(machine.run()[0], Gap)
    assert machine.run(engine=100, edgetop=3, sshd=12)[0] == pytest.approx(12, abs=2)


def test_processes_counted_ahead_of_cpus_leave_no_others(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start(80, "sshd", used_s=5)
    machine.run()
    machine.used[80] -= 0.03  # the difference of two counts steps back
    assert machine.run(engine=100)[0] == 0
    assert machine.run(engine=100, sshd=50)[0] == pytest.approx(50, abs=5)


def test_who_takes_much_is_named_the_most_first(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for pid, name in ((80, "stress-ng"), (81, "rsync"), (82, "idle")):
        machine.start(pid, name)
    machine.run()
    _, (news,) = machine.run(**{"stress-ng": 98, "rsync": 40, "idle": 1})
    assert news.message == "other processes took the CPU, of a core: stress-ng 98 %, rsync 40 %"
    assert news.body == Competing("stress-ng", pytest.approx(98, abs=2))


def test_a_process_whose_counter_leaps_is_not_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for pid, name in ((80, "guest"), (81, "rsync")):
        machine.start(pid, name)
    machine.run()
    machine.source.begin_survey()
    machine.used[80] += 1e9
    machine.run(rsync=90)
    assert [name for name, _ in machine.source.survey()] == ["rsync"]


MOUNTS = "22 27 0:21 / {} rw,relatime - proc proc rw{}\n"
NAMESPACES = {
    "all can be seen": (MOUNTS.format("/proc", ""), "pid:[4026531836]", None),
    "hidden, by number": (MOUNTS.format("/proc", ",hidepid=2"), "pid:[4026531836]", "hidepid"),
    "hidden, by name": (MOUNTS.format("/proc", ",gid=3009,hidepid=invisible"), "pid:[4026531836]", "hidepid"),
    "hidepid is off": (MOUNTS.format("/proc", ",hidepid=off"), "pid:[4026531836]", None),
    "hidden elsewhere": (MOUNTS.format("/jail/proc", ",hidepid=2"), "pid:[4026531836]", None),
    "a container": (MOUNTS.format("/proc", ""), "pid:[4026532301]", "container"),
}


@pytest.mark.parametrize("case", NAMESPACES)
def test_why_processes_cannot_be_seen_is_known(tmp_path: Path, case: str) -> None:
    mounts, namespace, why = NAMESPACES[case]
    root = plant(tmp_path, {"proc/self/mountinfo": mounts, "proc/self/ns/x": ""})
    (tmp_path / "proc/self/ns/pid").symlink_to(namespace)
    assert why_unseen(root) == why
    if why == "hidepid":  # a user who may see them, such as root
        plant(tmp_path, {"proc/1/stat": "1 (init) S 0 1 1\n"})
        assert why_unseen(root) is None


def test_what_is_hidden_counts_in_a_survey_under_one_name(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"proc/self/mountinfo": MOUNTS.format("/proc", ",hidepid=2")})
    machine.start(80, "rsync")
    machine.used[99], machine.names[99], machine.parents[99] = 0.0, "of another user", SHELL
    machine.hidden = {99}
    machine.run()
    machine.source.begin_survey()
    machine.run(**{"rsync": 20, "of another user": 60, "engine": 30})
    assert machine.source.unseen == "hidepid"
    assert machine.source.survey() == [(HIDDEN, pytest.approx(60, abs=4)), ("rsync", pytest.approx(20, abs=2))]


def test_several_processes_of_one_name_are_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start(80, "worker")
    machine.start(81, "worker")
    machine.run()
    _, (news,) = machine.run(worker=45)
    assert news.body.cpu_pct == pytest.approx(90, abs=4)


def test_nobody_is_named_while_others_take_little(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start(80, "sshd")
    machine.run()
    assert [machine.run(sshd=20)[1] for _ in range(30)] == [[]] * 30


def test_what_the_engine_and_edgetop_started_are_no_competitors(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start(80, "profiler", parent=ENGINE)
    machine.start(81, "jtop", parent=OWN)
    machine.run()
    assert machine.run(profiler=50, jtop=50)[1] == []


def test_the_load_of_others_leaves_out_what_edgetop_started(tmp_path: Path) -> None:
    """The other model of an A/B session, and the processes that write tables and profile."""
    machine = Machine(tmp_path)
    machine.start(80, "model B", parent=OWN)
    machine.start(81, "sshd")
    machine.run()
    for _ in range(int(EVERY_S) + 1):
        machine.run(engine=10, sshd=12)
    assert machine.run(**{"model B": 90, "sshd": 12})[0] == pytest.approx(12, abs=2)


def test_a_process_that_edgetop_starts_meanwhile_is_no_other_from_its_first_second_on(tmp_path: Path) -> None:
    """Both models of an A/B session are loaded anew again and again."""
    machine = Machine(tmp_path)
    machine.start(81, "sshd")
    machine.run()
    for pid in (90, 91, 92):
        machine.start(pid, "model", parent=OWN)
        seen = [machine.run(model=load, sshd=12)[0] for load in (95, 95, 20, 20)]
        assert seen == [pytest.approx(12, abs=3)] * 4
        ticks = machine.used.pop(pid)
        shutil.rmtree(tmp_path / f"proc/{pid}")
        machine.ended[OWN] = machine.ended.get(OWN, 0.0) + ticks


def test_one_that_began_meanwhile_counts_with_all_it_used(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start(80, "sshd")
    machine.run()
    machine.start(90, "make", used_s=0.9)
    _, (news,) = machine.run()
    assert news.body.name == "make"


def test_a_number_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    """Which has used less than the one before."""
    machine = Machine(tmp_path)
    machine.start(80, "old", used_s=50.0)
    machine.start(81, "sshd", used_s=60.0)
    machine.run()
    machine.start(80, "new", used_s=0.9)
    machine.began[80] = 9_000
    machine.used[81] += 50.0  # so that the machine's own count does not go back
    _, (news,) = machine.run()
    assert "new 90 %" in news.message


def test_the_same_names_are_told_again_only_after_a_while(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start(80, "stress-ng")
    machine.run()
    told = [bool(machine.run(**{"stress-ng": 90})[1]) for _ in range(int(2 * AGAIN_S))]
    assert told[0]
    assert 2 <= sum(told) <= 3


def test_while_it_is_quiet_processes_are_looked_at_now_and_then(tmp_path: Path) -> None:
    """So that what it takes does not depend on how many there are."""
    machine = Machine(tmp_path)
    machine.run()
    looked = 0
    seen = machine.source._seen
    for _ in range(int(4 * EVERY_S)):
        machine.run()
        looked += machine.source._seen is not seen
        seen = machine.source._seen
    assert looked == 4


def test_a_process_that_ends_while_it_is_read_is_passed_over(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start(80, "stress-ng")
    (tmp_path / "proc/81").mkdir()
    plant(tmp_path, {"proc/82/stat": "82 (cut"})
    machine.run()
    assert machine.run(**{"stress-ng": 90})[1]
    machine.stop(80)
    assert machine.run()[1] == []


def test_a_machine_that_does_not_tell_its_load_makes_a_gap(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    plant(tmp_path, {"proc/stat": "intr 1\n"})
    assert isinstance(read_source(machine.source), Gap)


def test_a_survey_gives_averages_since_it_began(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for pid, name in ((80, "stress-ng"), (81, "rsync"), (82, "cron")):
        machine.start(pid, name)
    machine.run()
    machine.run(**{"stress-ng": 100})
    assert machine.source.survey() == []
    machine.source.begin_survey()
    for _ in range(10):
        machine.run(**{"stress-ng": 80, "rsync": 20, "cron": 1}, engine=100)
    for _ in range(10):
        machine.run(rsync=20, engine=100)
    names, percent = zip(*machine.source.survey(), strict=True)
    assert names == ("stress-ng", "rsync")
    assert percent == (pytest.approx(40, abs=2), pytest.approx(20, abs=2))
    for _ in range(20):
        machine.run(engine=100)
    assert machine.source.survey() == [(names[0], pytest.approx(20, abs=1)), (names[1], pytest.approx(10, abs=1))]
    machine.source.begin_survey()
    machine.run(engine=100)
    assert machine.source.survey() == []


def test_a_process_that_began_since_the_last_look_is_reported_as_such(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start(80, "old")
    machine.run()
    machine.run(10.0)
    machine.start(81, "stress-ng")
    _, news = machine.run(**{"stress-ng": 98})
    assert [event.body.began for event in news if isinstance(event.body, Competing)] == [True]
    machine.start(82, "stress-ng")  # another one of the same name
    _, news = machine.run(AGAIN_S, **{"stress-ng": 98})
    assert [event.body.began for event in news if isinstance(event.body, Competing)] == [None]


def test_the_program_whose_memory_rose_most_is_named_once_until_it_rises_on(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    pages = 2**20 // os.sysconf("SC_PAGE_SIZE")  # of a MiB
    for pid, name, mib in ((80, "sshd", 500), (81, "chromium", 200), (82, "chromium", 100), (83, "cron", 10)):
        machine.start(pid, name)
        machine.pages[pid] = mib * pages

    def told() -> list[object]:
        return [news.body for news in machine.run(EVERY_S)[1] if isinstance(news.body, MemoryTaken)]

    machine.pages[ENGINE] = 10
    assert told() == []  # what was held at the beginning was not taken
    machine.pages |= {81: 260 * pages, 83: 60 * pages, ENGINE: 900 * pages}
    assert told() == []  # 60 and 50 MiB: too little
    machine.pages[82] = 200 * pages
    assert told() == [MemoryTaken("chromium", 460.0, 160.0)]
    assert told() == []
    machine.pages[82] = 220 * pages
    assert [told() for _ in range(5)] == [[]] * 5  # an eighth more
    machine.pages[82] = 300 * pages
    assert told() == [MemoryTaken("chromium", 560.0, 260.0)]


def test_the_files_of_processes_stay_open_until_they_end() -> None:
    root = Root()
    everybody = Everyone(root)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    for _ in range(2):
        assert dict(everybody.read_stats())[process.pid].parent == os.getpid()
    assert 0 < root.open_files <= MOST_OPEN
    process.communicate(b"\n")
    assert process.pid not in dict(everybody.read_stats())
    del everybody
    assert root.open_files == 0


def test_several_looks_at_all_processes_leave_descriptors_for_other_sensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a watched program: its family and what competes with it are found by looks of their own."""
    monkeypatch.setattr(process_table, "MOST_OPEN", 2)
    root = Root()
    looks = [Everyone(root) for _ in range(3)]
    for _ in range(2):
        assert all(len(dict(look.read_stats())) > 2 for look in looks)
        assert root.open_files == 2
