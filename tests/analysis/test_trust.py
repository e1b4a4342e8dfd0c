"""Each doubt about a session's figures: a case in which it holds, and one in which it does not."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetop.analysis.findings import (
    BackgroundLoad,
    ClockLimitMoved,
    Doubt,
    ModeUnsustainable,
    NotSustained,
    SettingDiffers,
    SustainedShort,
)
from edgetop.analysis.notices import notices
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Board
from edgetop.session.seconds import NS
from tests.support.sessions import MS, ended_event, folded, make_inferences, make_manifest, phase_event, seconds_of
from tests.support.slow_sessions import readings_of, sensor, stretch

pytestmark = pytest.mark.slow

RATE = 20


def notices_of(
    length_s: int = 400,
    sensors: Mapping[str, Sequence[float]] | None = None,
    *events: Event,
    latency_ms: Sequence[float] | NDArray[np.float64] | None = None,
    is_over: bool = True,
    **manifest: object,
) -> dict[str, Doubt]:
    """Of a session that measured for so long from 0, by their codes; `latency_ms`: of each second, or inference."""
    sensors = sensors or {}
    latency = np.full(length_s, 10.0) if latency_ms is None else np.asarray(latency_ms, np.float64)
    each = latency if len(latency) == RATE * length_s else np.repeat(latency, RATE)
    start_ns = np.arange(len(each)) * (NS // RATE)
    inferences = make_inferences(start_ns, (each * MS).astype(np.int64))
    end_ns = length_s * NS
    ended = (ended_event(end_ns, "duration", last_end_ns=end_ns, warmup_runs=50),) if is_over else ()
    batch = Batch(
        end_ns,
        inferences,
        seconds_of(inferences),
        readings=readings_of(sensors),
        events=(phase_event(0, "measure"), *events, *ended),
        manifest=make_manifest(*map(sensor, sensors), **manifest),
        restart=True,
    )
    found = notices(folded([batch]))
    assert len({notice.code for notice in found}) == len(found)
    return {finding.code: finding for finding in found}


def test_a_long_even_session_on_a_quiet_board_leaves_no_doubt() -> None:
    quiet = {
        "temp/cpu-thermal": [60.0] * 400, "freqcap/cpu0": [1800.0] * 400, "load/others": [2.0] * 400,
        "load/steal": [0.0] * 400, "load/edgetop": [1.2] * 400, "power/total": [5.0] * 400,
    }  # fmt: skip
    assert notices_of(400, quiet, load=Load(input="random:16")) == {}


def test_halves_of_which_the_p99_differs() -> None:
    random = np.random.default_rng(1)
    first, second = random.lognormal(2, 0.05, 4_000), random.lognormal(2, 0.15, 4_000)
    halves = notices_of(latency_ms=np.concatenate([first, second]))["p99-differs"]
    assert halves.second_ns > 1.1 * halves.first_ns
    assert "p99-differs" not in notices_of(latency_ms=np.concatenate([first, first[::-1]]))
    short = np.concatenate([first[:600], second[:600]])  # too few in each half for a p99
    assert "p99-differs" not in notices_of(60, latency_ms=short)


def test_a_clock_limit_that_moved() -> None:
    moved = {"freqcap/cpu0": stretch((200, 1800.0), (200, 1200.0)), "freqcap/gpu": [1000.0] * 400}
    assert notices_of(400, moved)["clock-limit-changed"] == ClockLimitMoved("freqcap/cpu0", 1200.0, 1800.0, 1)
    assert "clock-limit-changed" not in notices_of(400, {"freqcap/cpu0": stretch((200, 1800.0), (200, 1795.0))})


@pytest.mark.parametrize(
    "kind", ["governor-changed", "power-mode-changed", "cpus-changed", "clock-source", "data-dependent"]
)
def test_what_happened_to_the_board_or_follows_from_the_model(kind: str) -> None:
    event = read_event(5 * NS, kind, "warning", "sensor settings", "it is another now")
    for is_over in (True, False):
        assert notices_of(60, {}, event, is_over=is_over)[kind].lasting.first.message == "it is another now"
    assert kind not in notices_of(60)


@pytest.mark.parametrize(
    ("label", "declared", "board", "setting"),
    [
        ("governor", "performance", Board(governor="powersave"), "governor"),
        ("power-mode", "15W", Board(power_mode="MODE_30W"), "power-mode"),
        ("power_mode", "15W", Board(power_mode="MODE_30W"), "power-mode"),
    ],
)
def test_a_board_that_is_not_set_as_a_label_declares(label: str, declared: str, board: Board, setting: str) -> None:
    same, code = board.governor or board.power_mode or "", f"{setting}-differs"
    assert notices_of(board=board, labels={label: declared})[code] == SettingDiffers(setting, declared, same)
    assert code not in notices_of(board=board, labels={label: same.lower()})
    assert code not in notices_of(board=Board(), labels={label: declared})
    assert code not in notices_of(board=board)


@pytest.mark.parametrize("mode", ["MAXN", "MAXN_SUPER", "MODE_MAXN"])
def test_a_power_mode_that_cannot_be_sustained(mode: str) -> None:
    found = notices_of(board=Board(power_mode=mode), is_over=False)
    assert found["unsustainable-mode"] == ModeUnsustainable(mode)
    assert "unsustainable-mode" not in notices_of(board=Board(power_mode="15W"))


def test_a_speed_that_was_not_held() -> None:
    assert notices_of(latency_ms=stretch((100, 10.0), (300, 12.5)))["not-sustained"] == NotSustained(1.25)
    assert "not-sustained" not in notices_of(latency_ms=stretch((100, 10.0), (300, 10.5)))
    assert "not-sustained" not in notices_of(latency_ms=stretch((100, 10.0), (300, 12.5)), is_over=False)


def test_sustained_figures_from_under_five_minutes() -> None:
    assert notices_of(299)["short-sustained"] == SustainedShort(299 * NS)
    assert "short-sustained" not in notices_of(300)
    assert "short-sustained" not in notices_of(299, is_over=False)
    assert "short-sustained" not in notices_of(4)  # there are no such figures


def test_power_of_under_five_minutes() -> None:
    assert "short-power" in notices_of(299, {"power/total": [5.0] * 299})
    assert "short-power" not in notices_of(300, {"power/total": [5.0] * 300})
    assert "short-power" not in notices_of(299)


def test_background_load_names_who_it_was() -> None:
    events = [
        read_event(t * NS, "competing", "info", "sensor other processes", "x", {"name": name, "cpu_pct": percent})
        for t, name, percent in ((50, "rsync", 30.0), (60, "stress-ng", 98.0))
    ]
    found = notices_of(100, {"load/others": [34.0] * 100}, *events)
    assert found["background-load"] == BackgroundLoad(34.0, ("stress-ng", "rsync"))
    assert "background-load" not in notices_of(100, {"load/others": [9.0] * 100}, *events)


@pytest.mark.parametrize(("readings", "is_told"), [(29, False), (30, True)])
def test_a_mean_needs_thirty_readings(readings: int, is_told: bool) -> None:
    course = [34.0] * readings + [float("nan")] * (100 - readings)
    found = notices_of(100, {"load/others": course, "load/steal": course})
    assert (found.keys() == {"background-load", "steal", "short-sustained"}) is is_told


@pytest.mark.parametrize(
    ("sensor_id", "code", "least"),
    [("others", "background-load", 10), ("steal", "steal", 1), ("edgetop", "monitor-cost", 2)],
)
def test_the_least_share_of_a_core_that_is_told(sensor_id: str, code: str, least: float) -> None:
    for share, is_told in ((0.9, False), (1.1, True)):
        assert (code in notices_of(100, {f"load/{sensor_id}": [share * least] * 100})) is is_told


def test_time_that_a_hypervisor_took() -> None:
    assert notices_of(100, {"load/steal": [2.0] * 100})["steal"].mean_pct == 2.0
    assert "steal" not in notices_of(100, {"load/steal": [0.5] * 100})


def test_a_monitor_that_costs_too_much() -> None:
    assert notices_of(100, {"load/edgetop": [2.5] * 100})["monitor-cost"].mean_pct == 2.5
    assert "monitor-cost" not in notices_of(100, {"load/edgetop": [1.9] * 100})
    assert "monitor-cost" not in notices_of(20, {"load/edgetop": [2.5] * 20})


@pytest.mark.parametrize(("more", "is_told"), [(1.085, False), (1.115, True)])
def test_a_p99_differs_by_ten_percent(more: float, is_told: bool) -> None:
    half = np.where(np.arange(4_000) % 40, 10.0, 20.0)  # one in forty is slow, and so is the p99
    latency = np.concatenate([half, np.where(half > 15, half * more, half)])
    assert ("p99-differs" in notices_of(latency_ms=latency)) is is_told


@pytest.mark.parametrize(("ratio", "is_told"), [(1.075, False), (1.085, True)])
def test_what_would_be_a_slowdown_was_not_held(ratio: float, is_told: bool) -> None:
    assert ("not-sustained" in notices_of(latency_ms=stretch((100, 10.0), (300, 10.0 * ratio)))) is is_told


def rising(to: float, length_s: int = 400) -> list[float]:
    return [40 + (to - 40) * second / length_s for second in range(length_s)]


def test_a_temperature_that_still_rises_at_the_end() -> None:
    warming = notices_of(400, {"temp/cpu-thermal": rising(60), "temp/soc": [30.0] * 400})["still-warming"]
    assert (warming.sensor, warming.rose_c) == ("temp/cpu-thermal", pytest.approx(4.5, abs=0.05))
    assert "still-warming" not in notices_of(400, {"temp/cpu-thermal": rising(60)}, is_over=False)
    settled = [*rising(60, 200), *[60.0] * 200]
    assert "still-warming" not in notices_of(400, {"temp/cpu-thermal": settled})
    assert "still-warming" not in notices_of(400, {"temp/cpu-thermal": rising(38)})
    assert "still-warming" not in notices_of(60, {"temp/cpu-thermal": rising(60, 60)})


@pytest.mark.thorough
def test_a_temperature_that_only_scatters_does_not_rise() -> None:
    random = np.random.default_rng(3)
    found = [
        "still-warming" in notices_of(150, {"temp/cpu-thermal": (60 + random.normal(0, 3, 150)).tolist()})
        for _ in range(20)
    ]
    assert sum(found) <= 1


def test_odd_names_of_processes_are_no_error() -> None:
    odd = read_event(NS, "competing", "info", "x", "y", {"name": None, "cpu_pct": "much"})
    assert "background-load" in notices_of(100, {"load/others": [34.0] * 100}, odd)


@pytest.mark.parametrize(("to", "rose_c"), [(44.0, None), (44.9, 1.1), (60.0, 4.5)])
def test_a_board_still_warms_by_a_degree_in_two_minutes(to: float, rose_c: float | None) -> None:
    """From the first half minute of them to the last: in a minute and a half."""
    warming = notices_of(400, {"temp/cpu-thermal": rising(to)}).get("still-warming")
    assert (warming and warming.rose_c) == (rose_c and pytest.approx(rose_c, abs=0.01))


@pytest.mark.parametrize(("scatter_c", "is_told"), [(2.4, True), (2.75, False)])
def test_a_rise_is_three_standard_errors_of_it(scatter_c: float, is_told: bool) -> None:
    heat = [(42.0 if second > 340 else 40.0) + scatter_c * (-1) ** second for second in range(400)]
    assert ("still-warming" in notices_of(400, {"temp/cpu-thermal": heat})) is is_told


@pytest.mark.parametrize(("readings", "is_told"), [(4, False), (5, True)])
def test_a_rise_needs_five_readings_at_its_begin(readings: int, is_told: bool) -> None:
    heat = [40.0] * (280 + readings) + [float("nan")] * (60 - readings) + [50.0] * 60
    assert ("still-warming" in notices_of(400, {"temp/cpu-thermal": heat})) is is_told


@pytest.mark.parametrize("source", ["random", "zeros", "random:1", "a=random, b=zeros"])
def test_a_long_run_with_one_input_says_so(source: str) -> None:
    assert "one-input" in notices_of(300, load=Load(input=source))
    assert "one-input" not in notices_of(299, load=Load(input=source))
    assert "one-input" not in notices_of(300, load=Load(input=source), is_over=False)


@pytest.mark.parametrize("source", ["random:16", "pictures/", "a=random, b=samples.npz"])
def test_several_inputs_are_no_doubt(source: str) -> None:
    assert "one-input" not in notices_of(300, load=Load(input=source))


@pytest.mark.parametrize(("arrays", "is_told"), [(1, True), (2, False)])
def test_a_recorded_number_of_arrays_decides(arrays: int, is_told: bool) -> None:
    """A file is one array, and a folder may have a single file."""
    for source in ("photo.npy", "pictures/", "sr=16000"):
        assert ("one-input" in notices_of(300, load=Load(input=source, arrays=arrays))) is is_told
