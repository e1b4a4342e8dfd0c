"""What edgetop costs is told of the measured phase alone."""

from edgetop.analysis.report import report_document
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from tests.support.sessions import folded, make_manifest, make_readings, make_sensor, phase_event

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
