"""A survey reads each source once, rates twice, and waits for none without end."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from edgetop.sensors.board_identity import read_board
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, sensor
from edgetop.sensors.survey import Survey, survey_board
from edgetop.session.manifest import Board
from tests.support.trees import plant
from tests.support.waiting import PATIENCE_S, wait_until


class Scripted:
    """A source that gives one answer after the other, the last one for ever."""

    def __init__(self, *answers: object, label: str = "one", sensors: int = 1, cadence_s: float = 1.0) -> None:
        self.name = f"temp/{label}"
        self.sensors = tuple(sensor("temp", f"{label}-{i}", "here") for i in range(sensors))
        self.cadence_s = cadence_s
        self.reads = 0
        self._answers = answers

    def read(self) -> Sequence[float | Gap]:
        answer = self._answers[min(self.reads, len(self._answers) - 1)]
        self.reads += 1
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer()
            return [1.0]
        return answer  # type: ignore[return-value]


def survey_of(*sources: Scripted, **more: object) -> Survey:
    return Survey(Board(), Found(sources, (Missing("power", "no rail", "buy one"),)), **more)  # type: ignore[arg-type]


def values(survey: Survey) -> list[float | Gap]:
    return [row.value for row in survey.rows]


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_sensor_is_read_once_and_a_rate_twice() -> None:
    plain, rate, pauses = Scripted([20.0]), Scripted([Gap("first")], [3.0]), []
    survey = survey_of(plain, rate)
    survey.read_whole(pauses.append)
    assert (plain.reads, rate.reads, pauses) == (1, 2, [1.0])
    assert values(survey) == [20.0, 3.0]


def test_nothing_is_waited_for_where_nothing_is_a_rate() -> None:
    failing = Scripted(OSError(11, "Resource temporarily unavailable"))
    survey = survey_of(Scripted([20.0]), failing)
    survey.read_whole(lambda seconds: pytest.fail(f"paused for {seconds} s"))
    assert failing.reads == 1


def test_a_failure_is_a_gap_in_every_sensor_of_the_source() -> None:
    survey = survey_of(Scripted(OSError(11, "gated"), sensors=2), Scripted(ValueError("garbage")), Scripted(KeyError()))
    survey.read_whole()
    assert values(survey)[:3] == [Gap("gated"), Gap("gated"), Gap("garbage")]
    assert "internal error: KeyError" in str(values(survey)[3])


@pytest.mark.parametrize("answer", [[math.nan], [math.inf], [], [1.0, 2.0]])
def test_what_is_no_value_for_each_sensor_is_a_gap(answer: list[float]) -> None:
    survey = survey_of(Scripted(answer))
    survey.read_whole(lambda _: None)
    assert isinstance(values(survey)[0], Gap)


def test_a_source_that_hangs_costs_only_itself(release: threading.Event) -> None:
    hanging, steady = Scripted(lambda: release.wait(PATIENCE_S)), Scripted([20.0])
    survey = survey_of(hanging, steady, deadline_s=0.02)
    survey.read_whole()
    assert values(survey) == [Gap("did not answer within 0.02 s"), 20.0]
    assert survey.rows[0].read_us is None
    survey.read_due()
    assert hanging.reads == 1


def test_an_answer_that_comes_late_is_taken(release: threading.Event) -> None:
    hanging = Scripted(lambda: release.wait(PATIENCE_S), cadence_s=0.0)
    survey = survey_of(hanging, deadline_s=0.02)
    survey.read_due()
    release.set()
    wait_until(lambda: survey.read_due() or values(survey) == [1.0])
    assert hanging.reads == 1


def test_each_source_is_read_at_its_own_pace() -> None:
    now = [0.0]
    fast, slow = Scripted([1.0]), Scripted([1.0], cadence_s=10.0)
    survey = survey_of(fast, slow, now_s=lambda: now[0])
    for now[0] in range(10):
        survey.read_due()
    assert (fast.reads, slow.reads) == (10, 1)


def test_what_a_read_costs_is_measured() -> None:
    slept = threading.Event()
    survey = survey_of(Scripted(lambda: slept.wait(0.02)), Scripted([1.0]))
    survey.read_whole()
    slow, quick = (row.read_us for row in survey.rows)
    assert slow is not None
    assert quick is not None
    assert slow >= 20_000
    assert quick < slow


def test_rates_come_from_what_changed_in_between(tmp_path: Path) -> None:
    root = plant(tmp_path, {"proc/stat": "cpu 0 0 0 0 0 0 0 0\n"})
    survey = Survey(read_board(root), discover_board(root))
    change: Callable[[float], object] = lambda _: plant(tmp_path, {"proc/stat": "cpu 900 0 0 0 0 0 0 0\n"})  # noqa: E731
    survey.read_whole(change)
    row = next(row for row in survey.rows if row.info.id == "load/cpu")
    assert isinstance(row.value, float)
    assert row.value > 0


def test_a_captured_board_has_no_rates(tmp_path: Path) -> None:
    survey = survey_board(plant(tmp_path, {"proc/stat": "cpu 1 2 3 4 5 6 7 8\n"}))
    survey.read_whole(lambda seconds: pytest.fail(f"paused for {seconds} s"))
    (load,) = [row.value for row in survey.rows if row.info.id == "load/cpu"]
    assert isinstance(load, Gap)
