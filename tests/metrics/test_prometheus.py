"""The families of a session in both text formats, as Prometheus' own parsers read them, and its textfiles."""

import os
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from edgetop.analysis.faults import occurred
from edgetop.errors import InputError
from edgetop.metrics.grafana_dashboard import RECORDED, dashboard
from edgetop.metrics.metric_families import BOUNDS_NS, MOST, SENSOR_METRICS, Distribution, Family, Sample, families
from edgetop.metrics.metric_outlet import Outlet
from edgetop.metrics.prometheus import Textfile, rendered
from edgetop.sensors.sensor_protocol import UNIT_OF_KIND
from edgetop.session import histogram
from edgetop.session.load_settings import Load
from tests.support.prometheus_queries import queries
from tests.support.scripts import HOSTILE, POWER_SENSORS, SENSORS, Script, leaking, manifest, measured, powered, sensor
from tests.support.sessions import folded
from tests.support.waiting import PATIENCE_S, wait_until

DEADLINE_NS = 6_000_000


@pytest.fixture(scope="module")
def analysis():
    """A board that tells its power and throttles, and a load with a rate and a deadline."""
    sensors = (*SENSORS, *POWER_SENSORS, sensor("throttle/thermal"), sensor("fan/cpu"))
    load = Load(mode="fixed", rate_hz=100.0, deadline_ns=DEADLINE_NS)
    whole = manifest(sensors=sensors, load=load, labels={"enclosure": 'a "closed"\nbox', "én": "1"})
    script = Script(whole, lambda second: powered(second) | {"throttle/thermal": float(second > 20), "fan/cpu": 3000.0})
    return folded(script.load().warm_up().begin().measure(30, wait_ms=1.0).lose("power/VDD_SOC").batches)


def scraped(analysis):
    """Every sample as OpenMetrics' parser reads it: {name: [(labels, value)]}."""
    text = rendered(families(analysis), openmetrics=True).decode()
    found = {}
    for family in openmetrics_parser.text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_what_is_told_is_what_the_report_says(analysis) -> None:
    found, latency = scraped(analysis), analysis.statistics()
    assert found["edgetop_inference_duration_seconds_count"] == [({}, latency.count)]
    assert found["edgetop_inference_duration_seconds_sum"][0][1] == pytest.approx(latency.mean_ns * latency.count / 1e9)
    assert found["edgetop_deadline_misses_total"] == [({}, latency.misses)]
    assert found["edgetop_deadline_seconds"] == [({}, 0.006)]
    response = found["edgetop_response_duration_seconds_sum"][0][1]
    assert response > found["edgetop_inference_duration_seconds_sum"][0][1] + 2.9e-3 * latency.count
    power = {labels["rail"]: (labels["role"], value) for labels, value in found["edgetop_power_watts"]}
    assert power["VDD_IN"][0] == "total"
    assert "VDD_SOC" not in power, "a sensor that is lost has no value"
    energy = {labels["rail"]: value for labels, value in found["edgetop_energy_joules_total"]}
    assert energy["VDD_IN"] == pytest.approx(analysis.power_view().total.energy_j)
    throttled = {labels["cause"]: value for labels, value in found["edgetop_throttled"]}
    assert throttled == {"thermal": 1.0, "under-voltage": 0.0, "power-cap": 0.0, "unknown": 0.0}
    [(info, _)] = found["edgetop_session_info"]
    assert (info["model"], info["runtime"], info["simulated"]) == ("mobilenet_v2.onnx", "onnxruntime", "false")
    assert info["label_enclosure"] == 'a "closed"\\nbox', "what acts is shown as an escape"
    assert info["label__n"] == "1"


def test_p99_of_the_buckets_is_that_of_the_report(analysis) -> None:
    """As PromQL's histogram_quantile finds the bucket: the first with 99 % at or below its bound."""
    buckets = [(float(of["le"]), value) for of, value in scraped(analysis)["edgetop_inference_duration_seconds_bucket"]]
    place = next(i for i, (_, upto) in enumerate(buckets) if upto >= 0.99 * buckets[-1][1])
    assert buckets[place - 1][0] < analysis.statistics().percentile_ns(0.99) / 1e9 <= buckets[place][0]


@settings(max_examples=15)
@given(arrays.arrays(np.int64, st.integers(1, 60), elements=st.integers(0, 10**11)))
def test_buckets_count_what_is_at_or_below_them(latency_ns) -> None:
    near = np.concatenate([latency_ns, BOUNDS_NS[latency_ns % len(BOUNDS_NS)] + latency_ns % 3 - 1])
    of = Distribution(histogram.count_buckets(near), 0.0, 0.0, 0.0)
    assert of.cumulative() == [((b - 1) / 1e9, int((near < b).sum())) for b in BOUNDS_NS.tolist()]


def test_the_format_of_the_textfile_collector(analysis) -> None:
    """The older one: no units, types of plain names, a label that tells runs apart, and no timestamps."""
    text = rendered(families(analysis), openmetrics=False, labels=(("run", "1"),)).decode()
    read = {family.name: family for family in text_string_to_metric_families(text)}
    assert read["edgetop_inference_duration_seconds"].type == "histogram"
    assert read["edgetop_energy_joules"].type == "counter"
    samples = [sample for family in read.values() for sample in family.samples]
    assert {sample.labels["run"] for sample in samples} == {"1"}
    assert {sample.timestamp for sample in samples} == {None}
    assert "# EOF" not in text


@pytest.mark.parametrize("text", HOSTILE)
def test_strangers_names_break_nothing(text: str, analysis) -> None:
    script = Script(
        manifest(name=text, labels={text: text}, sensors=(sensor(f"temp/{text}"),)), lambda _: {f"temp/{text}": 40.0}
    )
    script.load().begin().measure(2)
    found = scraped(folded(script.batches))
    assert found["edgetop_temperature_celsius"][0][1] == 40.0
    assert all(len(value) <= 120 for labels, _ in found["edgetop_session_info"] for value in labels.values())


def test_the_number_of_series_is_bounded() -> None:
    sensors = tuple(sensor(f"temp/zone{i}") for i in range(500))
    script = Script(manifest(sensors=sensors), lambda _: {info.id: 40.0 for info in sensors}).load().begin().measure(2)
    found = scraped(folded(script.batches))
    assert len(found["edgetop_temperature_celsius"]) == MOST


def test_two_samples_of_one_name_are_one() -> None:
    long = "x" * 200
    sensors = (sensor(f"temp/{long}a"), sensor(f"temp/{long}b"))
    script = Script(manifest(sensors=sensors), lambda _: {info.id: 40.0 for info in sensors}).load().begin().measure(2)
    assert len(scraped(folded(script.batches))["edgetop_temperature_celsius"]) == 1


def test_nothing_is_told_that_is_not_known() -> None:
    assert families(folded([])) == []
    found = scraped(folded(Script(manifest(sensors=())).batches))
    assert "edgetop_throttled" not in found
    assert "edgetop_inference_duration_seconds_count" not in found
    assert found["edgetop_verdict"] == [({"verdict": "LOADING"}, 1.0)]


def test_a_battery_has_no_counter_of_energy() -> None:
    """It charges at times, and a counter that falls is one that began anew."""
    whole = manifest(sensors=(sensor("power/battery", role="part"),))
    script = Script(whole, lambda second: {"power/battery": 3.0 - second % 5}).load().begin().measure(20)
    found = scraped(folded(script.batches))
    assert "edgetop_power_watts" in found
    assert "edgetop_energy_joules_total" not in found


@pytest.mark.slow
def test_dashboard_and_alerts_name_what_is_there(analysis) -> None:
    """Every metric, and every label by which a query selects or groups, is in a scrape."""
    broken = folded(measured(3).batches)
    broken.faults.add("power", ValueError("broken"), ())
    scrape = scraped(folded(leaking().batches)) | scraped(broken) | scraped(analysis)
    occurred.clear()
    labels = {name: {label for of, _ in samples for label in of} for name, samples in scrape.items()}
    added = {"job", "instance", "run"}  # by Prometheus, and by the textfile
    recorded = {name for name, _ in RECORDED}
    for query in queries():
        assert set(re.findall(r"edgetop:\w+", query)) <= recorded, query
        named = set(re.findall(r"edgetop_\w+", query))
        assert named <= set(scrape), query
        wanted = set(re.findall(r"(\w+)=", query)) | set(
            re.split(r"\W+", ",".join(re.findall(r"by \(([^)]*)\)", query)))
        )
        assert wanted - {""} <= added | set().union(*(labels[name] for name in named)), query
    document = dashboard()
    legends = re.findall(r"{{(\w+)}}", str([panel.get("targets") for panel in document["panels"]]))
    assert set(legends) <= added | set().union(*labels.values())
    assert len({panel["id"] for panel in document["panels"]}) == len(document["panels"])
    areas = [panel["gridPos"] for panel in document["panels"]]
    cells = [
        (x, y) for of in areas for x in range(of["x"], of["x"] + of["w"]) for y in range(of["y"], of["y"] + of["h"])
    ]
    assert len(cells) == len(set(cells)), "panels lie over one another"


@pytest.mark.parametrize(
    ("reason", "running", "failed"),
    [("duration", 0, 0), ("user", 0, 0), ("signal", 0, 0), ("rotated", 1, 0), ("engine-died", 0, 1), ("slo", 0, 1),
     ("exit-status-1", 0, 1), ("input-error", 0, 1)],
)  # fmt: skip
def test_how_a_session_ended(reason, running, failed) -> None:
    """A reason that is no failure is the end of a run on purpose."""
    found = scraped(folded(measured(3).end(reason).batches))
    assert (found["edgetop_session_running"], found["edgetop_session_failed"]) == ([({}, running)], [({}, failed)])
    assert "edgetop_stalled" not in found


def test_a_session_that_stands_still() -> None:
    script = measured(10)
    found = scraped(folded(script.batches))
    assert (found["edgetop_session_running"], found["edgetop_stalled"]) == ([({}, 1)], [({}, 0)])
    assert found["edgetop_session_duration_seconds"] == [({}, script.now_ns / 1e9)]
    later = scraped(folded(script.wait(20).batches))
    assert later["edgetop_stalled"] == [({}, 1)]
    assert later["edgetop_session_duration_seconds"] == [({}, script.now_ns / 1e9)]


def test_the_duration_is_of_no_clock_that_is_set(monkeypatch) -> None:
    """Alerts rest on it: it moves with each batch, whatever the time is, and with nothing else."""
    script = measured(10)
    for now_s in (0.0, 4e9):
        monkeypatch.setattr("edgetop.metrics.metric_families.time.time", lambda now_s=now_s: now_s)
        found = scraped(folded(script.batches))
        assert found["edgetop_session_duration_seconds"] == [({}, script.now_ns / 1e9)]


def test_values_are_written_with_all_their_digits() -> None:
    family = Family("edgetop_x", "gauge", "X.", (Sample((), 0.1 + 0.2),))
    assert rendered([family], openmetrics=False).splitlines()[-1] == b"edgetop_x 0.30000000000000004"
    assert rendered([replace(family, samples=())], openmetrics=False).count(b"\n") == 2


def runs_in(folder):
    """By the label `run`, what node_exporter would read."""
    texts = [path.read_text() for path in folder.glob("*.prom")]
    samples = [s for text in texts for family in text_string_to_metric_families(text) for s in family.samples]
    return {sample.labels["run"] for sample in samples if sample.name == "edgetop_session_info"}


def test_runs_share_a_folder(tmp_path, analysis) -> None:
    first, second = Textfile(tmp_path), Textfile(tmp_path)
    for file in (first, second):
        assert file.send(families(analysis)) == ""
    assert runs_in(tmp_path) == {"1", "2"}
    assert (tmp_path / "edgetop-1.prom").stat().st_mode & 0o777 == 0o644
    first.close()
    assert runs_in(tmp_path) == {"2"}
    third = Textfile(tmp_path)
    third.send(families(analysis))
    assert runs_in(tmp_path) == {"1", "2"}
    second.close()
    third.close()
    assert list(tmp_path.iterdir()) == []


def test_a_textfile_that_nobody_has_read_owes_nobody_an_end(tmp_path, analysis) -> None:
    file, over = Textfile(tmp_path), families(folded(measured(3).end().batches))
    path = tmp_path / "edgetop-1.prom"
    for found in (families(analysis), over, over):
        assert file.send(found) == ""
        assert file.owed_s() == 0
    path.read_text()
    assert file.send(families(analysis)) == ""
    assert file.owed_s() == 0, "it still runs"
    assert file.send(over) == ""
    assert file.owed_s() > 0
    begun = threading.Event()

    def read() -> None:
        begun.set()
        path.read_text()

    reader = threading.Timer(0.1, read)
    reader.start()
    file.hand_over()
    assert begun.is_set(), "it returned before anybody had read the file"
    reader.join()
    file.close()


def test_where_readers_cannot_be_seen_nobody_is_owed(tmp_path, analysis, monkeypatch) -> None:
    """The user may have no more inotify instances."""
    monkeypatch.setattr("edgetop.metrics.prometheus._IN_CLOSE_NOWRITE", 0)  # the kernel refuses that
    file = Textfile(tmp_path)
    for found in (families(analysis), families(folded(measured(3).end().batches))):
        assert file.send(found) == ""
        (tmp_path / "edgetop-1.prom").read_text()
    assert file.owed_s() == 0
    file.hand_over()
    file.close()


def test_what_a_killed_run_left_goes_with_the_next(tmp_path, analysis) -> None:
    alive, killed, also_killed = (Textfile(tmp_path) for _ in range(3))
    for file in (alive, killed, also_killed):
        file.send(families(analysis))
    for file in (killed, also_killed):
        os.close(file._lock)  # as the kernel does
    new = Textfile(tmp_path)
    assert runs_in(tmp_path) == {"1", "2"}, "the file of run 2 is the new one's now, and 3 is gone"
    new.close()
    alive.close()


def test_a_failed_run_leaves_its_file_until_the_next(tmp_path) -> None:
    """It says that the session failed, and tells no values that would be taken for those of now."""
    died = Textfile(tmp_path)
    died.send(families(folded(measured(3).end("engine-died").batches)))
    died.close()
    text = (tmp_path / "edgetop-1.prom").read_text()
    found = {family.name: family.samples[0].value for family in text_string_to_metric_families(text)}
    assert found.keys() == {
        "edgetop_session_info", "edgetop_session_running", "edgetop_session_duration_seconds", "edgetop_session_failed",
    }  # fmt: skip
    assert (found["edgetop_session_running"], found["edgetop_session_failed"]) == (0, 1)
    new = Textfile(tmp_path)
    new.send(families(folded(measured(3).batches)))
    assert 'edgetop_session_failed{run="1"} 0.0' in (tmp_path / "edgetop-1.prom").read_text()
    new.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be(tmp_path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        Textfile(tmp_path / "none")
    file = Textfile(tmp_path)
    file._folder = tmp_path / "gone"
    assert "No such file" in file.send([])
    file.close()


def test_a_disk_that_hangs_holds_nobody_up_and_is_told_once(analysis) -> None:
    """What comes meanwhile is skipped; trouble is told when it begins, and when it is over."""
    said, answers, given = [], ["full", "full", "", "", ""], []

    def send(found):
        given.append(found)
        return answers[len(given) - 1]

    outlet = Outlet(0.0, send, said.append)
    for number in range(1, 5):
        outlet.observe(analysis)
        wait_until(lambda number=number: len(given) == number and outlet._waiting.empty())
    outlet.close()
    assert said == ["full", ""]


def test_what_hangs_at_the_end_is_given_up(analysis, monkeypatch) -> None:
    monkeypatch.setattr("edgetop.metrics.metric_outlet.FAREWELL_S", 0.05)
    said, released = [], threading.Event()
    outlet = Outlet(0.0, lambda _: "" if released.wait(PATIENCE_S) else "late", said.append)
    outlet.observe(analysis)
    outlet.close()
    assert said == ["the last metrics were not accepted within 0 s"]
    released.set()
    outlet._waiting.put(None)
    outlet._thread.join(PATIENCE_S)
    assert not outlet._thread.is_alive()


def test_each_kind_of_sensor_has_a_metric_or_a_reason_to_have_none() -> None:
    """A kind without one would be in the recording and not on the dashboard, and nobody would notice."""
    of_single_calls = {"call", "input"}  # a sample of a program's calls, whose latencies have a histogram
    of_single_frames = {"drop"}  # frames dropped before one frame; only their sum, in the report, says anything
    assert UNIT_OF_KIND.keys() - SENSOR_METRICS.keys() == of_single_calls | of_single_frames
    assert SENSOR_METRICS.keys() - UNIT_OF_KIND.keys() == set()


def test_times_of_threads_are_no_events_per_second() -> None:
    """The kernel counts them in ms per second; metrics have base units."""
    ids = ("rate/run-queue-wait", "rate/task-clock", "rate/cpu-throttled", "rate/major-faults")
    whole = manifest(sensors=tuple(map(sensor, ids)))
    script = Script(whole, lambda _: dict(zip(ids, (478.0, 250.0, 30.0, 7.0), strict=True)))
    found = scraped(folded(script.load().warm_up().begin().measure(5).batches))
    assert found["edgetop_event_rate_per_second"] == [({"event": "major-faults"}, 7.0)]
    times = {labels["kind"]: value for labels, value in found["edgetop_thread_time_ratio"]}
    assert times == pytest.approx({"run-queue-wait": 0.478, "task-clock": 0.25, "cpu-throttled": 0.03})
