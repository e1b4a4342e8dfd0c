"""A watched application: all its processes, whoever of them started the other."""

from pathlib import Path

from edgetop.sensors.application import Application, family
from edgetop.sensors.processes import TICK_S
from edgetop.sensors.root import Root


def write(root: Path, pid: int, parent: int, ticks: int, name: str = "app") -> None:
    stat = f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 99"
    for path in (root / f"proc/{pid}/stat", root / f"proc/{pid}/task/{pid}/stat"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stat)


def test_descendants_of_descendants_belong_to_it(tmp_path: Path) -> None:
    for pid, parent in ((7, 1), (9, 7), (8, 9), (5, 1)):
        write(tmp_path, pid, parent, 0)
    assert family(7, Root(tmp_path)) == [7, 8, 9]


def test_cpu_is_that_of_all_processes_and_threads_are_named(tmp_path: Path) -> None:
    now = [0.0]
    write(tmp_path, 7, 1, 100)
    write(tmp_path, 8, 7, 0, "worker")
    application = Application(7, Root(tmp_path), lambda: now[0])
    application.read()
    write(tmp_path, 7, 1, 100 + int(2 / TICK_S))
    write(tmp_path, 8, 7, int(5 / TICK_S), "worker")
    now[0] = 10.0
    assert application.read()[1] == 70.0
    (event,) = application.take_events()
    assert event.message == "CPU by thread, of a core: worker 50 %, app 20 %"
    assert event.data["processes"] == 2
