"""The table of models: what a group's file and its sessions give, by figures that can be checked by hand."""

from dataclasses import replace

from edgetop.comparison.model_table import ModelRow, model_rows
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import Group, ModelWork, Sample, p99_spread
from tests.support.compared import made

WORK = ModelWork(parameters=1_000, macs=500, flops=2_000_000_000, depth=3, weight_bits=8.0)


def measured(seed: int, *, watts: float | None, hz: float, mj: float | None, batch: int | None = None) -> Sample:
    one = made(seed, seconds=10)
    report = replace(
        one.report,
        power=replace(one.report.power, mean_w=watts),
        latency=replace(one.report.latency, throughput_hz=hz),
        energy=replace(one.report.energy, gross_mj=mj),
        session=replace(
            one.session,
            model=replace(one.session.model, size_bytes=4096),
            load=replace(one.session.load, batch=batch),
        ),
    )
    return replace(one, report=report, work=WORK)


def test_the_work_of_a_watt_and_the_energy_of_an_item_are_medians() -> None:
    sessions = [measured(seed, watts=watts, hz=10.0, mj=7200.0, batch=2) for seed, watts in enumerate((4.0, 5.0, 8.0))]
    (row,) = model_rows([Group("a", tuple(sessions))])
    assert row == ModelRow("a", (4096, 1_000, 2_000_000_000, 3, 8.0, 4.0, 1.0))
    assert row.to_json()["gflops_per_w"] == 4.0


def test_without_watts_only_the_file_is_known() -> None:
    changed = replace(measured(0, watts=None, hz=10.0, mj=None), work=ModelWork())
    (row,) = model_rows([Group("a", (changed, measured(1, watts=None, hz=10.0, mj=None)))])
    assert row.values == (4096, 1_000, 2_000_000_000, 3, 8.0, None, None)


def test_the_size_is_that_of_all_files_of_a_model() -> None:
    one = measured(0, watts=None, hz=10.0, mj=None)
    pair = replace(one.session, model=replace(one.session.model, beside_bytes=10_000))
    (row,) = model_rows([Group("a", (replace(one, report=replace(one.report, session=pair)),))])
    assert row.values[0] == 14_096
    external = replace(one, work=replace(WORK, external_bytes=2_000))
    (row,) = model_rows([Group("a", (replace(one, work=ModelWork()), external))])
    assert row.values[0] == 6_096


def test_a_group_of_which_nothing_is_known_has_no_row() -> None:
    one = made(0, seconds=10)
    bare = replace(one.report, session=replace(one.session, model=replace(one.session.model, size_bytes=None)))
    nothing = replace(one, report=replace(bare, energy=replace(bare.energy, gross_mj=None)))
    assert model_rows([Group("a", (nothing,))]) == ()


def test_the_spread_of_p99_is_a_share_of_its_mean() -> None:
    """10, 12 and 14 ms: a standard deviation of 2 ms around 12 ms."""
    sessions = [
        replace(one, report=replace(one.report, latency=replace(one.report.latency, p99_ms=p99_ms)))
        for seed, p99_ms in enumerate((10.0, 12.0, 14.0))
        for one in [made(seed, seconds=10)]
    ]
    assert p99_spread(sessions) == 0.166667
    assert p99_spread(sessions[:1]) is None
    row = compare([Group("a", tuple(sessions)), Group("b", tuple(sessions[:1]))]).row("p99_spread")
    assert row
    assert row.values == (0.166667, None)
    assert compare([Group("a", tuple(sessions[:1])), Group("b", tuple(sessions[1:2]))]).row("p99_spread") is None
