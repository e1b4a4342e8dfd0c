"""What the measured phase took of the board: loads and rates over it, and no longer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.usage import OwnLoad
from edgetop.session.batch import Batch
from edgetop.session.event_kinds import ProgramEnded
from edgetop.session.events import Event
from edgetop.session.manifest import Watched
from edgetop.session.records import NO_INFERENCES
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.sessions import (
    MadeSession,
    ended_event,
    folded,
    make_inferences,
    make_manifest,
    make_readings,
    make_sensor,
    phase_event,
)

IDS = ("load/engine", "mem/rss", "net/rx", "net/tx", "disk/engine-read", "disk/engine-write")
SENSORS = tuple(map(make_sensor, IDS))


def session(sensors=SENSORS, began_s: int = 20, end_s: int = 60) -> MadeSession:
    """Busy with the network and the disk before it measures; the load is 50 % and then 150 % of a core."""
    rows = [
        (second * NS, place, value)
        for second in range(1, end_s + 3)
        for place, value in enumerate(
            (
                50.0 if second <= 40 else 150.0,
                100.0 + second,
                *((9e6,) * 4 if second <= began_s else (1e3, 2e3, 3e3, 0.0)),
            )
        )
        if place < len(sensors)
    ]
    starts = np.arange(began_s * 10, end_s * 10) * NS // 10
    return MadeSession(
        manifests=((0, make_manifest(*sensors)),),
        inferences=make_inferences(starts, NS // 20),
        readings=make_readings(*rows),
        events=(phase_event(began_s * NS, "measure"), ended_event(end_s * NS, last_end_ns=end_s * NS)),
        end_ns=(end_s + 1) * NS,
    )


def usage_of(made: MadeSession, cuts=(), *, single: bool = False) -> dict:
    return report_document(folded(made.batches(cuts, single=single)))["usage"]


def test_only_the_measured_phase_counts() -> None:
    usage = usage_of(session())
    assert usage["cpu_mean_pct"] == pytest.approx(100.0)
    assert usage["cpu_peak_pct"] == 150.0
    assert (usage["mem_mean_mib"], usage["mem_peak_mib"]) == (pytest.approx(140.0), 160.0)
    assert [usage[f"{name}_bytes"] for name in ("net_rx", "net_tx", "block_read", "block_write")] == [
        40_000, 80_000, 120_000, 0,
    ]  # fmt: skip
    assert usage["total_time_ms"] == 40_000.0


def test_bytes_are_those_that_were_counted() -> None:
    """Two seconds at the end of the phase were not read."""
    made = session()
    rows = made.readings[made.readings["t_ns"] <= 58 * NS]
    usage = usage_of(replace(made, readings=rows))
    assert [usage[f"net_{way}_bytes"] for way in ("rx", "tx")] == [38_000, 76_000]
    late = made.readings[made.readings["t_ns"] >= 50 * NS]
    assert usage_of(replace(made, readings=late))["net_rx_bytes"] is None


def test_the_peak_of_memory_is_the_kernels() -> None:
    made = session((*SENSORS[:2], make_sensor("mem/rss-peak")))
    peaks = make_readings(*((second * NS, 2, 358.5) for second in range(1, 62)))
    both = np.concatenate([made.readings[made.readings["sensor"] < 2], peaks])
    usage = usage_of(replace(made, readings=both[np.argsort(both["t_ns"], kind="stable")]))
    assert (usage["mem_mean_mib"], usage["mem_peak_mib"]) == (pytest.approx(140.0), 358.5)


def test_what_the_board_does_not_tell_is_none() -> None:
    usage = usage_of(session(SENSORS[:1]))
    assert {key for key, value in usage.items() if value is not None} == {
        "cpu_mean_pct", "cpu_peak_pct", "total_time_ms",
    }  # fmt: skip
    assert report_document(folded([Batch(manifest=make_manifest(*SENSORS))]))["usage"] is None


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(0, 61 * NS), max_size=8), st.booleans())
def test_however_a_session_is_batched_its_usage_is_the_same(cuts: list[int], single: bool) -> None:
    assert usage_of(session(), cuts, single=single) == usage_of(session())


# What edgetop itself costs.

MANIFEST = make_manifest(make_sensor("temp/cpu"), make_sensor("load/edgetop"), make_sensor("mem/edgetop"))


def overhead(*batches: Batch) -> dict[str, float | None]:
    document: dict[str, float | None] = report_document(folded([Batch(manifest=MANIFEST), *batches]))["overhead"]
    return document


def loads(*values: tuple[float, float]) -> Batch:
    """Each is (second, percent)."""
    return Batch(readings=make_readings(*((int(second * NS), 1, percent) for second, percent in values)))


def measuring(second: float) -> Batch:
    return Batch(events=(phase_event(int(second * NS), "measure"),))


def test_load_is_the_mean_over_the_measured_phase() -> None:
    assert overhead(loads((1, 90.0)), measuring(1.5), loads((2, 60.0), (2.5, 1.0), (3.5, 2.0)))["cpu_pct"] == 1.5


def test_load_of_start_up_alone_is_not_known() -> None:
    assert overhead(loads((1, 90.0)))["cpu_pct"] is None
    assert overhead(loads((1, 90.0)), measuring(1.5), loads((2, 60.0)))["cpu_pct"] is None


def test_memory_is_the_peak_of_the_whole_session() -> None:
    rows = ((NS, 2, 80.0), (2 * NS, 2, 60.0))
    assert overhead(Batch(readings=make_readings(*rows)), measuring(3))["rss_mib"] == 80.0


def test_a_board_that_does_not_tell_has_no_cost() -> None:
    document = report_document(folded([Batch(manifest=make_manifest())]))
    assert document["overhead"] == {"cpu_pct": None, "rss_mib": None}


@pytest.mark.parametrize(("from_s", "is_told"), [(40, True), (41, False)])
def test_readings_cover_half_of_the_measurement_for_a_count_of_bytes(from_s: int, is_told: bool) -> None:
    made = session()
    late = replace(made, readings=made.readings[made.readings["t_ns"] >= from_s * NS])
    assert (usage_of(late)["net_rx_bytes"] is not None) is is_told


PROGRAM = (
    "load/application",
    "mem/application",
    "mem/rss",
    "mem/rss-peak",
    "net/rx",
    "disk/engine-read",
    "load/engine",
)


def program(*events: Event, ids=PROGRAM, end_s: int = 30, workers: int = 1) -> MadeSession:
    """A program without inferences: half a core, 100 MiB in each worker, and 1 kB a second from disk and network."""
    values = {"load/application": 50.0, "mem/application": 100.0 * workers, "mem/rss": 100.0, "mem/rss-peak": 120.0}
    rows = [
        (second * NS, place, values.get(name, 1e3)) for second in range(1, end_s + 1) for place, name in enumerate(ids)
    ]
    manifest = replace(make_manifest(*map(make_sensor, ids)), watched=Watched(("train.py",)))
    over = ended_event(end_s * NS, last_end_ns=end_s * NS)
    return MadeSession(
        manifests=((0, manifest),),
        inferences=NO_INFERENCES,
        readings=make_readings(*rows),
        events=(phase_event(0, "program"), *events, over),
        end_ns=end_s * NS,
    )


def test_a_program_without_inferences_has_a_usage() -> None:
    usage = usage_of(program())
    assert (usage["cpu_mean_pct"], usage["cpu_peak_pct"]) == (pytest.approx(50.0), 50.0)
    assert (usage["mem_mean_mib"], usage["mem_peak_mib"]) == (pytest.approx(100.0), 120.0)
    assert usage["block_read_bytes"] == pytest.approx(30_000, rel=0.05)
    assert usage["total_time_ms"] == 30_000.0
    assert "mem_limit_mib" not in usage


def counted(**changes: object) -> Event:
    body = ProgramEnded(int(29.5 * NS), int(20 * NS), 131.25, None, None, 140.5, 4096, 8192)
    return Event(30 * NS, replace(body, **changes), "info", "program", "ended")


def test_what_the_kernel_counted_counts() -> None:
    usage = usage_of(program(counted(), ids=(*PROGRAM, "mem/cgroup-limit")))
    assert usage["cpu_mean_pct"] == pytest.approx(100 * 20 / 29.5, rel=1e-4)
    assert usage["mem_peak_mib"] == 131.25
    assert (usage["cgroup_peak_mib"], usage["mem_limit_mib"]) == (140.5, 1e3)
    assert (usage["block_read_bytes"], usage["block_write_bytes"]) == (4096, 8192)
    assert usage["total_time_ms"] == 29_500.0


def test_several_processes_together_are_the_peak() -> None:
    assert usage_of(program(counted(), workers=4))["mem_peak_mib"] == 400.0
    shared = usage_of(program(counted(pss_peak_mib=250.0, pss_mean_mib=201.0), workers=4))
    assert (shared["mem_mean_mib"], shared["mem_peak_mib"]) == (201.0, 250.0)
    assert usage_of(program(counted(pss_peak_mib=132.0), workers=4))["mem_peak_mib"] == 131.25


def test_the_usage_of_a_program_covers_the_time_before_its_first_inference() -> None:
    made = program(phase_event(20 * NS, "measure"))
    starts = np.arange(200, 300) * NS // 10
    usage = usage_of(replace(made, inferences=make_inferences(starts, NS // 20)))
    assert usage["total_time_ms"] == 30_000.0
    assert usage["block_read_bytes"] == pytest.approx(30_000, rel=0.05)


def test_the_energy_of_a_whole_program_is_that_of_the_total_rail() -> None:
    made = program(ids=(*PROGRAM, "power/VDD_IN"))
    (_, manifest), *_ = made.manifests
    sensors = (*manifest.sensors[:-1], replace(manifest.sensors[-1], role="total"))
    made = replace(made, manifests=((0, replace(manifest, sensors=sensors)),))
    energy = report_document(folded(made.batches()))["energy"]
    assert energy["run_j"] == pytest.approx(1e3 * 30)
    assert energy["gross_mj"] is None


@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(0, 30), max_size=5))
def test_however_a_program_is_batched_its_usage_is_the_same(cuts: list[int]) -> None:
    assert usage_of(program(counted()), [cut * NS for cut in cuts]) == usage_of(program(counted()))


@pytest.mark.parametrize("news_s", [0, 8])
def test_the_cost_of_edgetop_counts_from_the_beginning_however_late_that_is_known(news_s: int) -> None:
    """The first inferences of a watched program are held back, and with them the news that measuring has begun."""
    own = OwnLoad()
    for second in range(1, 11):
        manifest = make_manifest(make_sensor("load/edgetop")) if second == 1 else None
        reading = make_readings((second * NS, 0, 90.0 if second < 4 else 2.0 if second < 8 else 4.0))
        own.fold(Batch(second * NS, readings=reading, manifest=manifest), 3 * NS if second > news_s else None)
    assert own.count == 7
    assert own.mean == pytest.approx((4 * 2.0 + 3 * 4.0) / 7)
