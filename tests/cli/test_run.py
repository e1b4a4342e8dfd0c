"""Whole runs, as a user makes them: what is printed, what is recorded, how they end."""

import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from edgetop import demo
from tests.support import onnx_models, tflite_models
from tests.support.commands import edgetop, environment, start_edgetop
from tests.support.processes import engine_of, is_running
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

PACED = ("--headless", "--rate", "200", "--profile-every", "0")  # so that a wait for them costs little
TABLES = ("inferences", "readings", "operators", "events", "seconds")


def recorded(folder, name, query):
    return duckdb.sql(query.format(table=f"'{folder}/{name}.parquet'")).fetchall()


def wait_for_words(process, words):
    """Reads stderr up to the line that holds the words."""
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"never said {words}")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_models.onnx_half_ms())
    return path


def headless(*arguments, home):
    """Without bursts, which take a process of their own, but for those that look at them."""
    return edgetop("run", *arguments, "--headless", "--profile-every", "0", home=home)


@dataclass(frozen=True)
class Done:
    """A run of 700 inferences on a provider that is not there, and where it lies."""

    home: Path
    folder: Path
    ended: subprocess.CompletedProcess

    @property
    def document(self):
        return json.loads(self.ended.stdout)

    @property
    def warnings(self):
        return [warning["code"] for warning in self.document["warnings"]]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    home = tmp_path_factory.mktemp("run")
    (home / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    asked = ("--runs", "700", "--warmup-runs", "20", "--provider", "CUDA", "--json", "-o", "one")
    return Done(home, home / "one.edgetop", headless("model.onnx", *asked, home=home))


def test_json_goes_to_stdout_and_progress_to_stderr(done):
    assert (done.ended.returncode, done.document["session"]["end_reason"]) == (0, "runs")
    assert "p50" in done.ended.stderr


def test_a_report_of_the_recording_says_the_same_as_the_run(done):
    assert json.loads(edgetop("report", "one", "--json", home=done.home).stdout) == done.document


def test_the_recording_holds_each_inference_once(done):
    phases = dict(recorded(done.folder, "inferences", "select phase, count(*) from {table} group by phase"))
    assert phases == {"first": 1, "warmup": 20, "measure": 700}
    assert recorded(done.folder, "inferences", "select count(distinct t_ns) from {table}") == [(721,)]
    assert recorded(done.folder, "seconds", "select sum(count) from {table}") == [(700,)]
    assert done.document["latency"]["count"] == 700


def test_a_recording_is_for_its_owner_alone(done):
    assert stat.S_IMODE(done.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in done.folder.iterdir()} == {0o600}
    assert sorted(path.name for path in done.folder.glob("*.parquet")) == sorted(f"{name}.parquet" for name in TABLES)


def test_a_provider_that_was_dropped_is_told(done):
    if "CUDA" not in done.document["session"]["engine"]["providers"]:
        assert "provider-dropped" in done.warnings


def test_what_was_asked_for_is_in_the_manifest(done):
    assert done.document["session"]["engine"]["asked"] == ["CUDA"]


def test_operators_are_not_profiled_where_that_is_not_wanted(done):
    assert done.document["operators"] is None


def test_a_reader_that_leaves_early_is_no_error(done):
    process = start_edgetop("report", "one", "--json", home=done.home)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(PATIENCE_S) == 0
    process.stderr.close()


def throughput_of_single_inferences(folder):
    """From when the phase began to when the last measured inference ended."""
    began = "select max(t_ns) from {table} where kind = 'phase'"
    ((began_ns,),) = recorded(folder, "events", began)
    query = "select count(*), max(t_ns + latency_ns) from {table} where phase = 'measure' and ok"
    ((count, ended_ns),) = recorded(folder, "inferences", query)
    return count * 1e9 / (ended_ns - began_ns)


@pytest.mark.parametrize(
    "load",
    [
        ("--runs", "100"),
        pytest.param(("--runs", "100", "--streams", "3"), marks=pytest.mark.thorough),
        pytest.param(("--duration", "300ms", "--rate", "150"), marks=pytest.mark.thorough),
    ],
    ids=["back to back", "streams", "paced"],
)
def test_throughput_counts_inferences_not_edgetops_own_work(load, tmp_path):
    """Of a model of some microseconds, a hundred are over sooner than the news of their end is written."""
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_tiny())
    done = headless("model.onnx", *load, "--json", "-o", "one", home=tmp_path)
    expected = pytest.approx(throughput_of_single_inferences(tmp_path / "one.edgetop"), rel=1e-6)
    assert json.loads(done.stdout)["latency"]["throughput_hz"] == expected
    edgetop("export", "one", "--to", "session", "-o", "cut", home=tmp_path)
    cut = json.loads(edgetop("report", "cut", "--json", home=tmp_path).stdout)
    assert cut["latency"]["throughput_hz"] == expected


def test_without_a_model_the_demo_runs_and_says_so(tmp_path):
    done = headless("--runs", "20", "--json", home=tmp_path)
    session = json.loads(done.stdout)["session"]
    assert session["model"]["path"] == str(demo.model_path("onnx"))
    folder = next((tmp_path / "state" / "edgetop").glob("demo-*.edgetop"))
    assert "built-in demo model" in str(recorded(folder, "events", "select message from {table}"))


def test_nothing_is_recorded_where_that_is_asked_for(model, tmp_path):
    done = headless(model, "--runs", "10", "--no-record", home=tmp_path)
    assert done.returncode == 0
    assert not list(tmp_path.rglob("session.json"))


def test_a_model_under_the_wrong_suffix_runs_with_a_warning(tmp_path):
    (tmp_path / "model.onnx").write_bytes(tflite_models.tflite_mobile())
    done = headless("model.onnx", "--runs", "30", "--json", home=tmp_path)
    document = json.loads(done.stdout)
    assert document["session"]["model"]["format"] == "tflite"
    assert "model-misnamed" in [warning["code"] for warning in document["warnings"]]


def test_an_unknown_dimension_is_assumed_and_told(tmp_path):
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_dynamic())
    done = headless("model.onnx", "--runs", "5", "--json", home=tmp_path)
    document = json.loads(done.stdout)
    assert document["session"]["model"]["inputs"][0]["shape"] == [1, 3, 224, 224]
    assert "assumed-shape" in [warning["code"] for warning in document["warnings"]]


@pytest.mark.thorough
def test_an_empty_dimension_runs_where_the_runtime_accepts_it(tmp_path):
    """As a batch without detections is, in deployment."""
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_dynamic())
    given = ("--shape", "x:0,3,8,8", "--runs", "5", "--json")
    done = headless("model.onnx", *given, home=tmp_path)
    document = json.loads(done.stdout)
    assert document["session"]["model"]["inputs"][0]["shape"] == [0, 3, 8, 8]
    assert (document["latency"]["count"], document["latency"]["errors"]) == (5, 0)


def test_a_refused_empty_dimension_is_reported_by_the_runtime(tmp_path):
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_dynamic())
    done = headless("model.onnx", "--shape", "x:1,3,0,8", "--runs", "5", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("edgetop: the first inference failed: ")
    assert done.stderr.splitlines()[-1].endswith("(see --input and --shape)")


def test_a_thread_of_the_app_gives_the_same_document(model, tmp_path):
    done = headless(model, "--runs", "300", "--isolation", "thread", "--json", home=tmp_path)
    document = json.loads(done.stdout)
    assert document["latency"]["count"] == 300
    assert document["session"]["engine"]["isolation"] == "thread"


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [pytest.param(signal.SIGTERM, 0, marks=pytest.mark.thorough), (signal.SIGINT, 130)],
    ids=["TERM", "INT"],
)
def test_a_signal_ends_the_run_with_a_whole_recording(number, exit_code, model, tmp_path):
    process = start_edgetop("run", model, *PACED, "-o", "one", home=tmp_path)
    wait_for_words(process, "p50")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == exit_code
    folder = tmp_path / "one.edgetop"
    assert json.loads((folder / "session.json").read_text())["end_reason"] == "signal"
    assert recorded(folder, "inferences", "select count(*) from {table}")[0][0] > 50


SIGNALLED_AT_ONCE = """
import os, sys
from edgetop.cli import main
from edgetop.cli.running import run_session

class Recorder(run_session.Recorder):
    def __init__(self, *given):
        super().__init__(*given)
        os.kill(os.getpid(), number)

number, run_session.Recorder = int(sys.argv.pop(1)), Recorder
main.main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_right_after_the_recording_began_ends_in_order(number, exit_code, model, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED_AT_ONCE, str(int(number)), "run", str(model), *PACED, "-o", "one"],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == exit_code, done.stderr
    manifest = json.loads((tmp_path / "one.edgetop" / "session.json").read_text())
    assert (manifest["state"], manifest["end_reason"]) == ("finished", "signal")


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(one, marks=pytest.mark.thorough) for one in (signal.SIGHUP, signal.SIGINT))],
)
def test_a_service_killed_as_a_group_leaves_a_finished_recording(number, model, tmp_path):
    process = start_edgetop("run", model, *PACED, "-o", "one", home=tmp_path)
    wait_for_words(process, "p50")
    os.kill(engine_of(process), number)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert json.loads((tmp_path / "one.edgetop" / "session.json").read_text())["end_reason"] == "signal"


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSEGV, marks=pytest.mark.thorough)])
def test_an_engine_that_is_killed_ends_the_run_with_its_cause(number, model, tmp_path):
    name = "one of the many sessions of the last week that this board of ours has run"
    process = start_edgetop("run", model, *PACED, "-o", name, home=tmp_path)
    wait_for_words(process, "p50")
    os.kill(engine_of(process), number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert number.name in err.splitlines()[-1]
    folder = tmp_path / f"{name}.edgetop"
    assert f"recorded in {folder}\n" in out  # on one line, which a script or a shell can read
    assert out.splitlines()[-1].startswith("more: edgetop report '")
    assert json.loads((folder / "session.json").read_text())["end_reason"] == "engine-died"
    assert pq.read_table(folder / "inferences.parquet").num_rows > 50
    assert recorded(folder, "events", "select count(*) from {table} where kind = 'engine-died'") == [(1,)]


def test_an_engine_without_memory_ends_the_run_with_its_cause(model, tmp_path):
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nulimit -v 40000\nexec "{os.environ.get("PYTHON", os.sys.executable)}" "$@"\n')
    wrapper.chmod(0o755)
    done = headless(model, "--engine-python", "./python", home=tmp_path)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("edgetop: the engine died: out of memory: ")
    assert "Traceback" not in done.stderr


def test_an_app_that_is_killed_leaves_no_load_behind(model, tmp_path):
    process = start_edgetop("run", model, *PACED, home=tmp_path)
    wait_for_words(process, "p50")
    engine = engine_of(process)
    process.kill()
    process.communicate()
    wait_until(lambda: not is_running(engine))  # it does not outlive its conductor


def test_inferences_that_raise_are_recorded_and_told(tmp_path):
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_gather())
    folder = tmp_path / "indices"
    folder.mkdir()
    import numpy as np

    for i, index in enumerate((3, 7, 200)):
        shape = (1,)
        np.save(folder / f"{i}.npy", np.full(shape, index, np.int64))
    done = headless(
        "model.onnx", "--runs", "30", "--warmup-runs", "2", "--input", "index=indices",
        "--json", "-o", "one", home=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["latency"]["count"], document["latency"]["errors"]) == (20, 10)
    assert recorded(tmp_path / "one.edgetop", "inferences", "select count(*) from {table} where not ok")[0][0] >= 10


def test_a_text_summary_is_printed_without_json(model, tmp_path):
    done = headless(model, "--runs", "100", home=tmp_path)
    assert done.stdout.startswith("FINISHED")
    assert "p99" in done.stdout
    shown = edgetop("report", next((tmp_path / "state" / "edgetop").glob("*.edgetop")), home=tmp_path)
    assert done.stdout.startswith(shown.stdout.splitlines()[0])


def test_operators_are_profiled(model, tmp_path):
    for duration in ("2s", "10s", "50s"):  # on a busy machine a burst costs more, and is the longer waited for
        run = ("run", model, "--headless", "--threads", "1", "--duration", duration, "-o", f"soak-{duration}")
        edgetop(*run, "--profile-every", "500ms", home=tmp_path)
        said = " ".join(edgetop("report", f"soak-{duration}", home=tmp_path).stdout.split())
        if "those that take the most time" in said:
            break
    assert "partitions 1; those that take the most time" in said
    assert "Relu layer" in said
    report = json.loads(edgetop("report", f"soak-{duration}", "--json", home=tmp_path).stdout)
    assert "layer1/relu" in [operator["name"] for operator in report["operators"]]
    assert report["partitions"] == 1


def test_the_manifest_tells_under_what_it_was_measured(model, tmp_path):
    cpu = min(os.sched_getaffinity(0))
    declared = ("--ambient", "21.5C", "--enclosure", "open", "--note", "on a desk", "--label", "build=17")
    options = (*PACED, "--duration", "2s", "--engine-cpus", str(cpu), "-o", "one", "--json")
    run = edgetop("run", model, *options, *declared, home=tmp_path)
    document = json.loads(run.stdout)
    session, usage = document["session"], document["usage"]
    assert (session["constraints"]["cpus"], session["constraints"]["memory_bytes"]) == (1.0, None)
    assert session["methodology"]["scheduler"] == f"SCHED_OTHER, nice {os.getpriority(os.PRIO_PROCESS, 0)}"
    heat = {sensor["id"] for sensor in session["sensors"] if sensor["id"].startswith("temp/")}
    assert set(session["methodology"]["start_temperatures"]) <= heat
    assert usage["total_time_ms"] == pytest.approx(2_000, rel=0.2)
    assert session["end_reason"] == "duration"
    assert usage["mem_peak_mib"] >= usage["mem_mean_mib"] > 1
    told = " ".join(edgetop("report", "one", home=tmp_path).stdout.split())
    assert "ambient 21.5 °C as declared, enclosure open" in told
    assert "labels build=17; note: on a desk" in told
    assert "engine on 1 of " in told


def test_an_instruments_log_becomes_the_power_of_the_run(model, tmp_path):
    log = tmp_path / "meter.csv"
    log.write_text("time_s,power_w\n" + "".join(f"{i / 20:.2f},{5 + i % 2}\n" for i in range(2_000)))
    options = ("--power-log", log, "--power-log-format", "csv", "--power-log-offset", "-2s", "--hz", "5")
    options += ("--idle-baseline", "7s", "--battery", "3.7V,1000mAh,+500mW", "--rate", "200")
    done = headless(model, "--duration", "7s", "--json", *options, home=tmp_path)
    document = json.loads(done.stdout)
    assert (document["session"]["methodology"]["idle_baseline_s"], document["power"]["idle_w"]) == (7.0, 5.5)
    energy, rate_hz = document["energy"], document["latency"]["throughput_hz"]
    assert energy["gross_mj"] == pytest.approx(5500 / rate_hz, rel=0.01)
    assert energy["ci95_mj"][1] < 1.03 * energy["gross_mj"]  # a log has no gaps
    assert energy["net_mj"] == pytest.approx(0, abs=0.01 * energy["gross_mj"])
    assert energy["hours_per_charge"] == pytest.approx(3.7 / 6.0, rel=0.01)
    (folder,) = (tmp_path / "state").rglob("*.edgetop")
    assert json.loads(edgetop("report", folder, "--json", home=tmp_path).stdout) == document
    power = document["power"]
    assert (power["total_sensor"], power["accuracy"]) == ("power/log", "external-shunt")
    assert power["mean_w"] == pytest.approx(5.5, abs=0.01)
    assert (power["max_w"], power["max_over_s"], power["peak_w"]) == (pytest.approx(5.5, abs=0.01), 0.2, 6.0)
    (info,) = [info for info in document["session"]["sensors"] if info["id"] == "power/log"]
    assert info["note"] == "csv log, its time 0 at session time -2 s, means of 0.2 s"
    rows = recorded(folder, "readings", "select t_ns / 1e9, value from {table} where sensor = 'power/log' order by 1")
    assert len(rows) >= 8
    assert all(value == pytest.approx(5.5, abs=0.01) for _, value in rows)


def test_required_full_delegation_refuses_a_model_on_the_cpu(tmp_path):
    asked = ("--provider", "CUDA", "--require-full-delegation", "--headless", "-o", "kept", "--threads", "1")
    done = edgetop("run", *asked, home=tmp_path)
    assert done.returncode == 2
    assert "--require-full-delegation: " in done.stderr.splitlines()[-1]
    assert not (tmp_path / "kept.edgetop").exists()
    done = edgetop("run", *asked, "--profile-every", "0", home=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--profile-every" in done.stderr


@pytest.mark.thorough
def test_a_dropped_provider_ends_a_run_too_short_for_a_burst(model, tmp_path):
    asked = ("--provider", "CUDA", "--require-full-delegation", "--headless", "--runs", "1", "--warmup-runs", "0")
    done = edgetop("run", model, *asked, home=tmp_path)
    assert done.returncode == 2
    assert "CUDA was left out by the runtime" in done.stderr.splitlines()[-1]


def test_a_failed_gate_sets_the_exit_code_of_run_and_report(model, tmp_path):
    gates = ("--fail-if", "max>1ns", "--fail-if", "errors", "--junit", "gates.xml")
    run = headless(model, "--runs", "50", *gates, "--json", "-o", "one", home=tmp_path)
    document = json.loads(run.stdout)
    assert run.returncode == 1
    assert [(gate["expr"], gate["ok"]) for gate in document["gates"]] == [("max>1ns", False), ("errors", True)]
    assert "edgetop: gate failed: max>1ns: " in run.stderr
    assert (tmp_path / "gates.xml").read_text().count("<testcase") == 2
    report = edgetop("report", "one", "--json", home=tmp_path)
    assert (report.returncode, json.loads(report.stdout)) == (0, document)
    other = edgetop("report", "one", "--fail-if", "max>1h", "--fail-if", "p50<1s", home=tmp_path)
    assert (other.returncode, other.stdout.count("FAILED")) == (2, 0)  # no such unit
    assert edgetop("report", "one", "--fail-if", "p50<1s", home=tmp_path).returncode == 1


def test_a_gate_that_failed_for_sure_ends_the_run_at_once(model, tmp_path):
    gates = ("--fail-if", "max>1ns", "--fail-fast", "--rate", "200")
    run = headless(model, "--duration", "1h", *gates, "--json", home=tmp_path)
    assert (run.returncode, json.loads(run.stdout)["session"]["end_reason"]) == (1, "slo")


def test_a_paced_run_of_streams_reports_response_times(model, tmp_path):
    load = ("--rate", "50", "--streams", "2", "--arrivals", "poisson", "--deadline", "1s", "--runs", "40")
    run = headless(model, *load, "--json", "-o", "one", home=tmp_path)
    document = json.loads(run.stdout)
    latency = document["latency"]
    assert latency["response"]["max_ms"] >= latency["max_ms"]
    assert latency["response"]["asked_hz"] == 100
    assert [stream["count"] for stream in latency["streams"]] == [20, 20]
    assert latency["deadline"]["ms"] == 1000
    assert document["session"]["load"]["mode"] == "poisson"
    report = edgetop("report", "one", "--json", home=tmp_path)
    assert json.loads(report.stdout) == document
    order = recorded(tmp_path / "one.edgetop", "inferences", "select t_ns, wait_ns from {table}")
    assert order == sorted(order)
    assert min(wait for _, wait in order) >= 0


@pytest.mark.thorough
def test_inputs_of_several_shapes_are_compared_at_equal_size(tmp_path):
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_dynamic())
    folder = tmp_path / "inputs"
    folder.mkdir()
    for number, side in enumerate((16, 32, 48)):
        np.save(folder / f"{number}.npy", np.zeros((1, 3, side, side), np.float32))
    done = headless(tmp_path / "model.onnx", "--input", folder, "--runs", "400", "-o", tmp_path / "one", home=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(edgetop("report", tmp_path / "one.edgetop", "--json", home=tmp_path).stdout)
    assert [one["elements"] for one in document["streams"][0]["shapes"]] == [[3 * s * s] * 2 for s in (16, 32, 48)]
    words = edgetop("report", tmp_path / "one.edgetop", home=tmp_path).stdout
    assert "latency by the size of the inputs" in words
    edgetop("report", tmp_path / "one.edgetop", "--html", tmp_path / "page.html", home=tmp_path)
    assert "latency by the size of the inputs" in (tmp_path / "page.html").read_text()
