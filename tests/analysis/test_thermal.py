"""Heat and clocks: the hottest zone, the margin to the nearest trip, clocks against their caps."""

import numpy as np
import pytest

from edgetop.analysis.heat import LimitView, ThermalView, headroom_c, view_thermal
from edgetop.analysis.slowdowns.throttle_spans import least_in_force
from edgetop.analysis.timeline import Axis
from edgetop.analysis.tracks import Tracks
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.manifest import Board, SensorInfo
from tests.support.sessions import make_manifest, make_readings, make_sensor

AXIS = Axis(0, 60)


def view(sensors: list[SensorInfo], *values: float | None, lost: tuple[str, ...] = (), board: str = "") -> ThermalView:
    """After one reading of each sensor; None: not read."""
    tracks = Tracks()
    rows = [(place, place, value) for place, value in enumerate(values) if value is not None]
    events = tuple(read_event(0, "sensor-lost", "warning", f"sensor {name}", "gone") for name in lost)
    manifest = make_manifest(*sensors, board=Board(model=board))
    tracks.fold(Batch(manifest=manifest, readings=make_readings(*rows), events=events))
    return view_thermal(tracks, AXIS)


def zone(label: str, **trips: float) -> SensorInfo:
    return make_sensor(f"temp/{label}", trips=trips or None)


def labels(thermal: ThermalView) -> list[str]:
    return [track.info.label for track in thermal.zones]


def test_zones_are_hottest_first() -> None:
    thermal = view([zone("a"), zone("b"), zone("c")], 40.0, 60.0, 50.0)
    assert labels(thermal) == ["b", "c", "a"]
    assert thermal.hottest is not None
    assert thermal.hottest.value == 60.0


def test_a_drive_or_mainboard_is_not_the_hottest_beside_a_cpu() -> None:
    known = view([zone("nct6798:AUXTIN0"), zone("k10temp:Tctl"), zone("nvme:Sensor 1")], 92.0, 61.0, 71.0)
    assert known.hottest is known.zone
    assert known.hottest is not None
    assert known.hottest.info.label == "k10temp:Tctl"
    assert labels(known) == ["nct6798:AUXTIN0", "nvme:Sensor 1", "k10temp:Tctl"]
    unknown = view([zone("lm75:temp1"), zone("nvme:Sensor 1")], 42.0, 71.0).hottest
    assert unknown is not None
    assert unknown.info.label == "nvme:Sensor 1"


def test_unreadable_zones_come_last_and_are_never_the_hottest() -> None:
    thermal = view([zone("lost"), zone("cold"), zone("unread")], 99.0, -20.0, None, lost=("temp/lost",))
    assert labels(thermal)[0] == "cold"
    assert thermal.hottest is not None
    assert thermal.hottest.info.label == "cold"


def test_without_a_zone_that_reads_there_is_no_hottest() -> None:
    for thermal in (view([]), view([zone("a")]), view([zone("a")], 50.0, lost=("temp/a",))):
        assert thermal.hottest is thermal.zone is thermal.trip_c is thermal.hottest_points is None


def test_the_leading_zone_is_nearest_to_its_passive_trip() -> None:
    thermal = view([zone("cpu", passive=85.0), zone("gpu", passive=70.0)], 65.0, 60.0)
    assert thermal.zone is not None
    assert (thermal.zone.info.label, thermal.trip_c, headroom_c(thermal.zone)) == ("gpu", 70.0, 10.0)
    assert thermal.hottest is not None
    assert thermal.hottest.info.label == "cpu"


def test_only_a_trip_that_throttles_makes_headroom() -> None:
    thermal = view([zone("a", critical=105.0), zone("b")], 50.0, 60.0)
    assert [headroom_c(each) for each in thermal.zones] == [None, None]
    assert thermal.trip_c is None


def test_headroom_is_negative_above_the_trip() -> None:
    assert headroom_c(view([zone("a", passive=80.0)], 83.5).zones[0]) == -3.5


def test_the_zone_of_a_raspberry_pi_has_the_trip_of_its_firmware() -> None:
    thermal = view([zone("cpu-thermal", critical=110.0), zone("rp1_adc")], 70.0, 71.0, board="Raspberry Pi 5")
    assert [(each.info.label, each.trip_c) for each in thermal.zones] == [("rp1_adc", None), ("cpu-thermal", 80.0)]
    assert headroom_c(thermal.zones[1]) == 10.0


def test_a_lost_zone_has_no_headroom() -> None:
    thermal = view([zone("a", passive=80.0), zone("b", passive=99.0)], 79.0, 50.0, lost=("temp/a",))
    assert thermal.trip_c == 99.0
    assert headroom_c(thermal.zones[-1]) is None


def test_a_clock_has_its_cap_its_best_and_its_maximum() -> None:
    sensors = [make_sensor("freq/cpu0", max=2400.0), make_sensor("freqcap/cpu0"), make_sensor("freqcap/cpu1")]
    (clock,) = view(sensors, 1500.0, 1800.0, 900.0).clocks
    assert (clock.label, clock.cap_mhz, clock.max_mhz, clock.best_mhz) == ("cpu0", 1800.0, 2400.0, 1500.0)
    assert clock.mhz.value == 1500.0


def test_what_a_clock_does_not_tell_is_none() -> None:
    (clock,) = view([make_sensor("freq/gpu")]).clocks
    assert clock.cap_mhz is clock.max_mhz is clock.best_mhz is None


def test_the_chart_shows_the_fastest_clock() -> None:
    sensors = [make_sensor("freq/little", max=1800.0), make_sensor("freq/big", max=2400.0)]
    thermal = view(sensors, 1700.0, 1000.0)
    assert thermal.clock_points is not None
    assert np.nanmax(thermal.clock_points.top) == 1000.0


@pytest.mark.parametrize(("cap_mhz", "shown_mhz"), [(1_755.0, 1000.0), (1_735.0, 700.0)])
def test_the_chart_shows_a_clock_whose_cap_fell_below_97_percent(cap_mhz: float, shown_mhz: float) -> None:
    sensors = [
        make_sensor("freq/little", max=1800.0),
        make_sensor("freq/big", max=2400.0),
        make_sensor("freqcap/little"),
    ]
    thermal = view(sensors, 700.0, 1000.0, cap_mhz)
    assert thermal.clock_points is not None
    assert np.nanmax(thermal.clock_points.top) == shown_mhz


def test_without_a_maximum_the_fastest_clock_so_far_is_shown() -> None:
    thermal = view([make_sensor("freq/a"), make_sensor("freq/b")], 900.0, 1100.0)
    assert thermal.clock_points is not None
    assert np.nanmax(thermal.clock_points.top) == 1100.0


def test_without_clocks_there_is_no_clock_to_show() -> None:
    assert view([zone("a")], 50.0).clock_points is None


def test_the_chart_shows_the_hottest_zone() -> None:
    thermal = view([zone("a"), zone("b")], 40.0, 60.0)
    assert thermal.hottest_points is not None
    assert np.nanmax(thermal.hottest_points.top) == 60.0


def test_many_cpus_of_one_kind_are_one_clock() -> None:
    sensors = [make_sensor(f"{kind}/cpu{n}", max=4200.0) for n in range(4) for kind in ("freq", "freqcap")]
    (clock,) = view(sensors, 800.0, 4200.0, 3100.0, 3200.0, 400.0, 4200.0, 400.0, None).clocks
    assert (clock.label, clock.mhz.value, clock.cap_mhz, clock.best_mhz, clock.max_mhz) == (
        "cpu0-3", 3100.0, 3200.0, 3100.0, 4200.0,
    )  # fmt: skip


def test_few_cpus_and_other_clocks_stand_by_themselves() -> None:
    names = ("cpu0", "cpu1", "cpu2", "gpu", "npu", "memory", "isp")
    sensors = [make_sensor(f"freq/{name}", max=1000.0) for name in names]
    assert [clock.label for clock in view(sensors).clocks] == list(names)


def test_cpus_of_two_kinds_are_two_groups() -> None:
    sensors = [make_sensor(f"freq/cpu{n}", max=4700.0 if n < 4 else 3500.0) for n in range(8)]
    assert [clock.label for clock in view(sensors).clocks] == ["cpu0-3", "cpu4-7"]


def test_the_chart_of_a_group_is_of_the_fastest_cpu_on_average() -> None:
    sensors = [make_sensor(f"freq/cpu{n}", max=4200.0) for n in range(4)]
    thermal = view(sensors, 800.0, 900.0, 3100.0, 700.0)
    assert thermal.clock_points is not None
    assert np.nanmax(thermal.clock_points.top) == 3100.0


FLAGS = [make_sensor("throttle/thermal"), make_sensor("throttle/thermal-sticky"), make_sensor("throttle/power-limit")]


def limits(*seconds: tuple[float | None, ...], lost: tuple[str, ...] = ()) -> list[LimitView]:
    """What is known of FLAGS after they have read this, second by second."""
    tracks = Tracks()
    rows = [(t, i, value) for t, values in enumerate(seconds) for i, value in enumerate(values) if value is not None]
    events = tuple(read_event(0, "sensor-lost", "warning", f"sensor {name}", "gone") for name in lost)
    tracks.fold(Batch(manifest=make_manifest(*FLAGS), readings=make_readings(*rows), events=events))
    return list(view_thermal(tracks, AXIS).limits)


def test_a_limit_is_one_by_its_present_and_its_sticky_flag() -> None:
    assert [limit.label for limit in limits((0.0, 0.0, 0.0))] == ["thermal", "power-limit"]


def test_limits_in_force_before_and_since_boot_are_separate() -> None:
    down, held = (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)
    assert limits(down)[0] == LimitView("thermal", is_in_force=False, was_in_force=False, was_before=False)
    assert limits(down, (1.0, 1.0, 0.0))[0] == LimitView("thermal", True, True, False)
    assert limits(down, held)[0] == LimitView("thermal", False, True, False)
    assert limits(held)[0] == LimitView("thermal", False, False, True)
    assert limits(held, (1.0, 1.0, 0.0), held)[0] == LimitView("thermal", False, True, True)


def test_a_flag_that_is_lost_or_was_never_read_is_not_known() -> None:
    assert limits((0.0, 0.0, 0.0), lost=("throttle/thermal",))[0].is_in_force is None
    assert limits((None, 0.0, 0.0))[0].is_in_force is None


def test_only_throttling_cooling_devices_at_work_are_in_force() -> None:
    sensors = [
        make_sensor("cooling/cpufreq-cpu0", throttles=True),
        make_sensor("cooling/cpufreq-cpu4", throttles=True),
        make_sensor("cooling/devfreq-gpu", throttles=True),
        make_sensor("cooling/pwm-fan", throttles=False),
    ]
    thermal = view(sensors, 3.0, 0.0, 2.0, 4.0, lost=("cooling/devfreq-gpu",))
    assert [device.info.label for device in thermal.cooling] == ["cpufreq-cpu0"]
    assert thermal.reports_limits
    assert not view(sensors[3:], 4.0).reports_limits


def test_flags_and_throttling_cooling_devices_show_limits() -> None:
    sensors = [
        zone("cpu"),
        make_sensor("throttle/thermal"),
        make_sensor("throttle/under-voltage-sticky"),
        make_sensor("cooling/0-cpufreq", throttles=True, max_state=5),
        make_sensor("cooling/1-fan", throttles=False, max_state=4),
    ]
    assert {info.id for info in sensors if least_in_force(info)} == {"throttle/thermal", "cooling/0-cpufreq"}
