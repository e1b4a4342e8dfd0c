"""A watched application: all its processes, whoever of them started the other."""

import shutil
from pathlib import Path

import pytest

from edgetop.sensors.competitors import Competitors, application
from edgetop.sensors.process_table import SEARCH_S, TICK_S, Family
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant


def write(root: Path, pid: int, parent: int, ticks: int, name: str = "app", ended: int = 0) -> None:
    stat = f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 {ended} 0 20 0 1 0 99"
    for path in (root / f"proc/{pid}/stat", root / f"proc/{pid}/task/{pid}/stat"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stat)


def test_descendants_of_descendants_belong_to_it(tmp_path: Path) -> None:
    for pid, parent in ((7, 1), (9, 7), (8, 9), (5, 1)):
        write(tmp_path, pid, parent, 0)
    assert sorted(Family(7, Root(tmp_path)).stats()) == [7, 8, 9]


def test_cpu_is_that_of_all_processes_and_threads_are_named(tmp_path: Path) -> None:
    now = [0.0]
    write(tmp_path, 7, 1, 100)
    write(tmp_path, 8, 7, 0, "worker")
    source = application(7, Root(tmp_path), lambda: now[0])
    source.read()
    write(tmp_path, 7, 1, 100 + int(2 / TICK_S))
    write(tmp_path, 8, 7, int(5 / TICK_S), "worker")
    now[0] = 10.0
    assert source.read()[1] == 70.0
    (event,) = source.take_events()
    assert event.message == "CPU by thread, of a core: worker 50 %, app 20 %"
    assert event.body.processes == 2
    for seconds, count in ((69.0, 0), (70.0, 1)):
        write(tmp_path, 8, 7, int(seconds / TICK_S), "worker")
        now[0] = seconds
        source.read()
        assert len(source.take_events()) == count


def test_an_ended_application_that_nobody_has_waited_for_has_no_memory_instead_of_zero(tmp_path: Path) -> None:
    pid = 2**22 + 1  # larger than any process id, so that its memory cannot be read
    write(tmp_path, pid, 1, 100)
    assert isinstance(application(pid, Root(tmp_path)).read()[0], Gap)


def test_a_new_child_is_found_at_the_next_read_by_the_kernels_list(tmp_path: Path) -> None:
    now = [0.0]
    write(tmp_path, 7, 1, 100)
    source = application(7, Root(tmp_path), lambda: now[0])
    source.read()
    for pid, parent in ((8, 7), (9, 8)):
        write(tmp_path, pid, parent, int(0.3 / TICK_S))
        (tmp_path / f"proc/{parent}/task/{parent}/children").write_text(f"{pid} ")
    now[0] = 1.0  # long before the next search
    assert source.read()[1] == pytest.approx(60.0)


def test_a_childs_use_counts_after_its_and_its_parents_end(tmp_path: Path) -> None:
    now = [0.0]
    for pid, parent in ((7, 1), (8, 7), (9, 8)):
        write(tmp_path, pid, parent, 100)
    family = Family(7, Root(tmp_path), lambda: now[0])
    assert family.used_ticks() == 300
    shutil.rmtree(tmp_path / "proc/8")
    write(tmp_path, 9, 1, 150)  # its parent has ended
    write(tmp_path, 7, 1, 100, ended=100)
    now[0] = 2 * SEARCH_S
    assert (sorted(family.stats()), family.used_ticks()) == ([7, 9], 350)
    shutil.rmtree(tmp_path / "proc/9")  # and nobody of the family waits for it
    assert family.used_ticks() == 350


def test_its_processes_are_no_competitors(tmp_path: Path) -> None:
    """By their load as by their names."""
    now = [0.0]

    def read(busy: int, used: int) -> object:
        plant(tmp_path, {"proc/stat": f"cpu  {busy} 0 0 900 0 0 0 0 0 0\n"})
        write(tmp_path, 8, 7, used, "worker")
        write(tmp_path, 9, 8, used, "worker")
        now[0] += 1.0
        return source.read()[0]

    for pid, parent in ((7, 1), (60, 1)):
        write(tmp_path, pid, parent, 0)
    root = Root(tmp_path)
    source = Competitors(7, root, lambda: now[0], own=60, family=Family(7, root, lambda: now[0]))
    read(0, 0)
    second = int(1 / TICK_S)
    assert read(second, int(0.45 * second)) == pytest.approx(10)
    assert not source.take_events()
