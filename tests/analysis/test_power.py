"""Power: which reading is the total, what the others are, and the phase they are told of."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.energy import PowerRails, PowerView
from edgetop.analysis.timeline import Axis
from edgetop.analysis.tracks import Tracks
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.manifest import SensorInfo
from edgetop.session.seconds import NS
from tests.support.sessions import (
    differences,
    ended_event,
    folded,
    make_manifest,
    make_readings,
    make_sensor,
    make_session,
    phase_event,
)

AXIS = Axis(0, 60)


def view(sensors: Sequence[SensorInfo], *rows: Sequence[float | None], lost: Sequence[str] = ()) -> PowerView:
    """After one reading of each sensor a second, from the begin of the phase; None: not read."""
    tracks, rails = Tracks(), PowerRails()
    readings = [
        (second * NS, place, value)
        for second, row in enumerate(rows)
        for place, value in enumerate(row)
        if value is not None
    ]
    events = tuple(read_event(0, "sensor-lost", "warning", f"sensor {name}", "gone") for name in lost)
    batch = Batch(manifest=make_manifest(*sensors), readings=make_readings(*readings), events=events)
    rails.began(0)
    tracks.fold(batch)
    rails.fold(batch)
    return rails.view(tracks, AXIS, 60 * NS)


def rail(label: str, role: str = "part", accuracy: str | None = "on-board-monitor") -> SensorInfo:
    return make_sensor(f"power/{label}", role=role, accuracy=accuracy)


def test_the_total_is_known_by_its_role_and_never_a_sum() -> None:
    power = view([rail("CPU"), rail("VDD_IN", "total"), rail("GPU")], (2.0, 5.0, 1.0), (2.0, 7.0, 1.0))
    assert power.total is not None
    assert power.total.track.info.label == "VDD_IN"
    assert (power.total.mean_w, power.total.max_w, power.total.energy_j) == (6.0, 7.0, 6.0)
    assert [of.track.info.label for of in power.rails] == ["CPU", "GPU"]
    assert power.leading is power.total
    assert power.points is not None
    assert np.nanmax(power.points.middle) == 7.0


def test_without_a_total_parts_are_parts_and_the_greatest_leads() -> None:
    power = view([rail("CPU"), rail("GPU"), make_sensor("temp/x")], (2.0, 3.0, 90.0), (2.0, 3.0, 90.0))
    assert power.total is None
    assert [of.track.info.label for of in power.rails] == ["CPU", "GPU"]
    assert power.leading is power.rails[1]


def test_of_several_totals_the_best_instrument_counts() -> None:
    totals = [
        rail("psys", "total", "firmware-estimate"), rail("VDD_IN", "total"), rail("5V", "total", "external-shunt"),
        rail("other", "total", None),
    ]  # fmt: skip
    power = view(totals, (9.0, 8.0, 7.0, 6.0), (9.0, 8.0, 7.0, 6.0))
    assert power.total is not None
    assert power.total.track.info.label == "5V"
    assert [of.track.info.label for of in power.rails] == ["psys", "VDD_IN", "other"]


def test_a_total_that_was_never_read_does_not_replace_a_read_one() -> None:
    totals = [rail("VDD_IN", "total"), rail("5V", "total", "external-shunt")]
    power = view(totals, (8.0, None), (8.0, None))
    assert power.total is not None
    assert power.total.track.info.label == "VDD_IN"


def test_a_peak_is_no_rail_but_the_highest_value_of_one() -> None:
    sensors = [rail("log", "total"), rail("log-peak", "peak"), rail("CPU")]
    power = view(sensors, (1.0, 10.0, 0.5), (1.04, 6.0, 0.5))
    assert power.total is not None
    assert (power.total.max_w, power.total.peak_w) == (1.04, 10.0)
    assert [(of.track.info.label, of.peak_w) for of in power.rails] == [("CPU", None)]
    without = view([rail("log-peak", "peak")], (10.0,))
    assert (without.total, without.rails, without.leading) == (None, (), None)


def test_without_sensors_there_is_nothing() -> None:
    power = view([make_sensor("temp/cpu")], (50.0,))
    assert (power.total, power.rails, power.leading, power.points) == (None, (), None, None)


def test_a_rail_that_is_lost_keeps_what_it_has_told() -> None:
    power = view([rail("VDD_IN", "total")], (5.0,), (5.0,), lost=["power/VDD_IN"])
    assert power.total is not None
    assert power.total.track.is_lost
    assert power.total.mean_w == 5.0


def test_the_phase_of_the_session_bounds_the_energy() -> None:
    manifest = make_manifest(rail("VDD_IN", "total"))
    readings = make_readings(*((i * NS, 0, 100.0 if i < 5 or i > 15 else 4.0) for i in range(20)))
    events = (phase_event(5 * NS, "measure"), ended_event(19 * NS, last_end_ns=15 * NS))
    power = folded([Batch(20 * NS, manifest=manifest, readings=readings, events=events)]).power_view()
    assert power.total is not None
    assert (power.total.mean_w, power.total.max_w, power.total.covered_s) == (4.0, 4.0, 10.0)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 20 * NS), max_size=8))
def test_however_a_session_is_batched_its_power_is_the_same(seed: int, cuts: list[int]) -> None:
    session = make_session(seed, sensors=[rail("VDD_IN", "total"), rail("CPU"), make_sensor("temp/cpu")])
    whole, parts = (folded(session.batches(at)).power_view(AXIS) for at in ((), cuts))
    assert differences(whole, parts) == []
