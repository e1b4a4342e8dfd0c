"""What a session was measured under: heat as it began, who else ran, the engine's scheduler and CPUs."""

import os
from collections.abc import Sequence

from edgetop.runner.surroundings import LATE_NS, Surroundings
from edgetop.sensors.sensor_protocol import Gap
from edgetop.session.manifest import BackgroundProcess, Constraints, Methodology, SensorInfo
from edgetop.session.seconds import NS
from tests.support.sessions import make_readings, make_sensor

SENSORS = (make_sensor("temp/cpu"), make_sensor("load/cpu"), make_sensor("temp/gpu"), make_sensor("temp/late"))


class Neighbours:
    """A source that knows who else runs."""

    name, cadence_s = "others", 1.0
    sensors: tuple[SensorInfo, ...] = ()

    def __init__(self, *surveys: Sequence[tuple[str, float]], unseen: str | None = None) -> None:
        self.surveys = list(surveys)
        self.unseen = unseen

    def read(self) -> Sequence[float | Gap]:
        return []

    def begin_survey(self) -> None:
        self.surveys.pop(0)

    def survey(self) -> Sequence[tuple[str, float]]:
        return self.surveys.pop(0)


def test_start_temperatures_are_the_last_before_or_first_after() -> None:
    around = Surroundings()
    around.take_readings(make_readings((1 * NS, 0, 40.0), (1 * NS, 1, 90.0), (2 * NS, 2, 50.0)), SENSORS)
    assert around.methodology(Methodology()) == Methodology()
    around.take_readings(make_readings((9 * NS, 0, 44.0)), SENSORS)
    around.began(10 * NS)
    around.take_readings(make_readings((11 * NS, 0, 80.0), (12 * NS, 3, 30.0), (13 * NS, 3, 33.0)), SENSORS)
    expected = {"temp/cpu": 44.0, "temp/gpu": 50.0, "temp/late": 30.0}
    assert around.methodology(Methodology()).start_temperatures == expected


def test_only_a_change_of_the_conditions_is_a_change() -> None:
    around = Surroundings()
    around.take_readings(make_readings((1 * NS, 1, 90.0)), SENSORS)
    assert not around.take_change()
    around.take_readings(make_readings((1 * NS, 0, 40.0)), SENSORS)
    assert (around.take_change(), around.take_change()) == (True, False)
    around.began(2 * NS)
    assert (around.take_change(), around.take_change()) == (True, False)
    around.take_readings(make_readings((9 * NS, 0, 60.0)), SENSORS)
    assert not around.take_change()
    around.take_readings(make_readings((60 * NS, 0, 60.0)), SENSORS)  # a survey of other processes is due
    assert around.take_change()
    assert around.follow().take_change()


def test_the_room_is_as_warm_as_its_sensor_reads_and_is_no_start_temperature() -> None:
    sensors = (make_sensor("temp/cpu"), make_sensor("ambient/bme280"))
    around = Surroundings()
    around.take_readings(make_readings((1 * NS, 0, 40.0), (1 * NS, 1, 22.5)), sensors)
    around.began(2 * NS)
    asked = around.methodology(Methodology(ambient_sensor="ambient/bme280"))
    assert (asked.ambient_c, asked.start_temperatures) == (22.5, {"temp/cpu": 40.0})
    assert around.methodology(Methodology(ambient_c=35.0)).ambient_c == 35.0
    assert around.methodology(Methodology()).ambient_c is None
    following = around.follow()
    assert following.methodology(Methodology(ambient_sensor="ambient/bme280")).ambient_c == 22.5


def test_a_late_first_reading_is_no_start_temperature() -> None:
    around = Surroundings()
    around.began(0)
    around.take_readings(make_readings((LATE_NS + 1, 0, 80.0)), SENSORS)
    assert around.methodology(Methodology()).start_temperatures == {}


def test_only_who_ran_while_it_was_measured_is_told() -> None:
    around = Surroundings()
    around.watch_engine(os.getpid(), [Neighbours([("apt", 90.0)], [("rsync", 41.26), ("sshd", 6.0)])])
    assert around.background() == ()
    around.began(0)
    assert around.background() == (BackgroundProcess("rsync", 41.3), BackgroundProcess("sshd", 6.0))


def test_why_processes_cannot_be_seen_is_told() -> None:
    around = Surroundings()
    around.watch_engine(os.getpid(), [Neighbours([], unseen="hidepid")])
    around.began(0)
    assert around.methodology(Methodology()).background_unseen == "hidepid"


def test_other_processes_are_measured_before_a_kill() -> None:
    around = Surroundings()
    around.watch_engine(
        os.getpid(), [Neighbours([], [("a", 10.0)], [("b", 20.0)], [("c", 30.0)], [("d", 40.0)], [("e", 50.0)])]
    )
    around.began(100 * NS)
    known = []
    for second in (105, 110, 119, 120, 139, 140, 900, 1499, 1500):
        around.take_readings(make_readings((second * NS, 0, 40.0)), SENSORS)
        known.append("".join(process.name for process in around.methodology(Methodology()).background))
    assert known == ["", "a", "a", "b", "b", "c", "d", "d", "e"]


def test_scheduler_and_cpus_are_the_engines() -> None:
    around = Surroundings()
    around.watch_engine(os.getpid(), ())
    assert around.constraints(Constraints(memory_bytes=7)) == Constraints(memory_bytes=7)
    around.began(0)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    assert around.methodology(Methodology(notes=("kept",))) == Methodology(
        notes=("kept",), scheduler=f"SCHED_OTHER, nice {nice}"
    )
    assert around.constraints(Constraints(memory_bytes=7)) == Constraints(len(os.sched_getaffinity(0)), 7)


def test_a_runtime_that_pins_its_thread_while_it_loads_takes_no_cpus_away() -> None:
    cpus = os.sched_getaffinity(0)
    around = Surroundings()
    around.watch_engine(os.getpid(), ())
    try:
        os.sched_setaffinity(0, {min(cpus)})
        around.began(0)
    finally:
        os.sched_setaffinity(0, cpus)
    assert around.constraints(Constraints()).cpus == len(cpus)


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    around = Surroundings()
    around.watch_engine(2**22 + 1, ())  # beyond the highest number that a kernel gives
    around.began(0)
    assert around.methodology(Methodology()).scheduler is None
    assert around.constraints(Constraints()) == Constraints()
