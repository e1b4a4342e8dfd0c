"""`edgetop watch` with real programs: what it counts is what they count, and they do not notice it."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from statistics import median_low

import numpy as np
import onnxruntime
import pyarrow.parquet as pq
import pytest

from edgetop import demo
from edgetop.probe import edgetop_probe
from edgetop.taps.rings import PREFIX, SHARED_MEMORY
from tests.support import onnx_models, tflite_models
from tests.support.commands import edgetop, start_edgetop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
LIBRARY = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so*"))


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_models.onnx_half_ms())
    return path


def watched(tmp_path, *command, options=(), output=("--no-record",)):
    done = edgetop("watch", "--headless", "--json", *output, *options, "--", *command, home=tmp_path)
    assert done.stdout, done.stderr
    return done, json.loads(done.stdout)


def counted(document):
    """All inferences, whatever their phase."""
    streams = document["session"]["watched"]["streams"]
    return document["latency"]["count"] + document["session"]["methodology"]["warmup_runs"] + len(streams)


def own(done):
    line = next(line for line in done.stderr.splitlines() if line.startswith("own "))
    return [int(number) for number in line.split()[1:]]


def test_two_sessions_in_threads_are_two_streams(model, tmp_path):
    done, document = watched(tmp_path, sys.executable, PROGRAMS / "two_sessions.py", model, 300)
    (*counts, first_least, first_high, second_least, second_high) = own(done)
    assert counted(document) == sum(counts) == 600
    seen = document["session"]["watched"]
    assert seen["sources"] == ["hook"]
    p50_ns = {stream["name"]: stream["p50_ns"] for stream in seen["streams"]}
    assert p50_ns.keys() == {str(model), f"{model}#2"}
    # The program's own times hold waits for the GIL after a call. On a busy machine most of these waits are longer than
    # the call, so only the shortest time is a lower bound.
    assert 0.9 * first_least <= p50_ns[str(model)] <= 1.05 * first_high
    assert 0.9 * second_least <= p50_ns[f"{model}#2"] <= 1.05 * second_high
    assert document["session"]["engine"]["runtime"] == "onnxruntime"
    assert document["verdict"]["words"].startswith("FINISHED")


def test_the_model_of_a_program_is_known_by_its_hash(model, tmp_path):
    for _ in range(5):  # it is read at the lowest priority and waited for so long: a busy machine may leave it unread
        _, document = watched(tmp_path, sys.executable, PROGRAMS / "two_sessions.py", model, 20)
        if found := document["session"]["model"]["sha256"]:
            break
    assert found == hashlib.sha256(model.read_bytes()).hexdigest()


@pytest.mark.thorough
def test_worker_processes_are_counted_and_a_program_that_execs(model, tmp_path):
    done, document = watched(tmp_path, sys.executable, PROGRAMS / "pool.py", model)
    assert own(done) == [160]
    assert counted(document) == 160


def test_litert_and_the_programs_own_probe_are_seen(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(tflite_models.tflite_half_ms())
    done, document = watched(tmp_path, sys.executable, PROGRAMS / "probed.py", path)
    seen = document["session"]["watched"]
    assert [Path(stream["name"]).name for stream in seen["streams"]] == ["model.tflite", "detector"]
    assert document["latency"]["errors"] == 1
    assert counted(document) + 1 + document["latency"]["errors"] == 60  # a signature's runner has a first call as well
    assert "left behind [] None here None" in done.stderr
    frames = document["frames"]
    assert (frames["total"]["count"], frames["dropped"], frames["deadline_ms"], frames["misses"]) == (20, 1, 1000, 0)
    assert [stage["name"] for stage in frames["stages"]] == ["capture", "inference", "between stages"]
    assert frames["total"]["mean_ms"] >= 3


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The C program, linked with the runtime and loading it."""
    folder = tmp_path_factory.mktemp("programs")
    compiler = shutil.which("cc")
    assert compiler, "these tests need a C compiler"
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (folder / name).symlink_to(LIBRARY)
    linked = ("-DLINKED", f"-L{folder}", "-lonnxruntime", f"-Wl,-rpath,{folder}")
    for name, more in (("loads", ()), ("linked", linked)):
        order = [compiler, "-O2", "-o", folder / name, PROGRAMS / "ort_loop.c", *more, "-ldl", "-lpthread"]
        subprocess.run(order, check=True)
    return folder


@pytest.mark.parametrize(("program", "way"), [("loads", "run"), ("loads", "async"), ("linked", "binding")])
def test_c_programs_are_seen_without_a_change(programs, tmp_path, program, way):
    command = (programs / program, LIBRARY, demo.model_path("onnx"), 40, way)
    done, document = watched(tmp_path, *command, output=("-o", "seen"))
    seen = document["session"]["watched"]
    assert (len(own(done)), counted(document), seen["sources"]) == (40, 40, ["preload"])
    assert Path(seen["streams"][0]["name"]) == demo.model_path("onnx")
    assert 0 < seen["cost_ns"] < 20_000
    if way != "async":  # whose callback comes on another thread
        calls = pq.read_table(tmp_path / "seen.edgetop" / "inferences.parquet").to_pydict()
        more_ns = np.subtract(own(done), calls["latency_ns"])  # what the program's own clock saw around edgetop's
        # Other load may come between the two clocks at some calls, but not at most of them.
        assert min(more_ns) >= 0
        assert np.median(more_ns) < 100_000
        measured = [ns for ns, phase in zip(calls["latency_ns"], calls["phase"], strict=True) if phase == "measure"]
        assert seen["streams"][0]["p50_ns"] == pytest.approx(median_low(measured), rel=0.02)


def test_frames_of_several_threads_of_a_cpp_program_are_seen(tmp_path):
    program, header = tmp_path / "probed", Path(edgetop_probe.__file__).parent
    order = [
        "c++",
        "-std=c++11",
        "-Wall",
        "-Werror",
        f"-I{header}",
        "-o",
        program,
        PROGRAMS / "probed.cpp",
        "-lpthread",
    ]
    subprocess.run(order, check=True)
    _, document = watched(tmp_path, program, 20)
    frames = document["frames"]
    assert (frames["total"]["count"], frames["dropped"], frames["deadline_ms"]) == (20, 1, 1000)
    assert [stage["name"] for stage in frames["stages"]] == [
        "capture", "inference", "between stages", "waiting for a thread",
    ]  # fmt: skip
    assert counted(document) == 21


@pytest.mark.parametrize("is_linked", [True, False])
def test_c_programs_of_tensorflow_lite_are_seen(tmp_path, is_linked):
    library, program, model = tmp_path / "liblite.so", tmp_path / "lite", demo.model_path("tflite")
    link = ("-DLINKED", library, f"-Wl,-rpath,{tmp_path}") if is_linked else ()
    for options in (("-DLIBRARY", "-shared", "-fPIC", "-o", library), ("-o", program, *link)):
        subprocess.run(["cc", PROGRAMS / "lite_loop.c", *options, "-ldl"], check=True)
    done, document = watched(tmp_path, program, model, library)
    assert done.returncode == 0
    assert (counted(document), document["latency"]["errors"]) == (24, 1)
    (stream,) = document["session"]["watched"]["streams"]
    assert (Path(stream["name"]), document["session"]["engine"]["runtime"]) == (model, "tflite")


def test_the_exit_status_of_the_program_is_handed_on(model, tmp_path):
    done, document = watched(tmp_path, sys.executable, PROGRAMS / "two_sessions.py", model, 20, 7)
    assert done.returncode == 7
    assert document["session"]["end_reason"] == "exit-status-7"
    assert "the program ended with exit status 7" in document["verdict"]["words"]


def test_a_crash_ends_the_session_with_its_calls_recorded(model, tmp_path):
    done, document = watched(tmp_path, sys.executable, PROGRAMS / "two_sessions.py", model, 50, "crash")
    assert done.returncode == 128 + signal.SIGSEGV
    assert counted(document) == 100
    assert document["verdict"]["words"].startswith("PROGRAM DIED: ")
    assert " was killed by SIGSEGV" in document["verdict"]["words"]


def test_remaining_processes_and_missing_calls_are_reported(tmp_path):
    done, document = watched(tmp_path, "sh", "-c", "sleep 5 > /dev/null 2>&1 & echo $!")
    said = {warning["code"]: warning["message"] for warning in document["warnings"]}
    assert said["left-behind"].endswith(f"children continue unwatched: process {done.stderr.splitlines()[0]}")
    assert said["no-inference"] == "the program ended, and no inference was seen"


def test_what_ends_with_its_program_is_not_left_behind(tmp_path):
    """As the fork server of `multiprocessing` does, which notices the end a moment later."""
    _, document = watched(tmp_path, "sh", "-c", "tail --pid=$$ -s 0.01 -f /dev/null > /dev/null 2>&1 &")
    assert [warning for warning in document["warnings"] if warning["code"] == "left-behind"] == []


@pytest.mark.parametrize(("program", "named"), [("no-such-program", "no-such-program"), ("", "''")])
def test_a_program_that_cannot_be_started_is_refused(program, named, tmp_path):
    done = edgetop("watch", "--headless", "--", program, home=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"edgetop: {named}: cannot be started: ")
    assert not list(tmp_path.rglob("*.edgetop"))


def test_the_program_does_not_notice_that_edgetop_is_killed(model, tmp_path):
    end, output = tmp_path / "ended", tmp_path / "out.txt"
    command = (sys.executable, PROGRAMS / "two_sessions.py", model, 50, end)
    process = start_edgetop("watch", "--headless", "-o", "kept", "--app-output", output, "--", *command, home=tmp_path)
    wait_until(lambda: output.exists() and "own " in output.read_text())
    left = list(SHARED_MEMORY.glob(f"{PREFIX}{process.pid}-*"))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    end.touch()
    wait_until(lambda: "went on to the end" in output.read_text())
    assert left
    edgetop("watch", "--headless", "--no-record", "--", "true", home=tmp_path)
    assert not any(path.exists() for path in left)  # the next one tidies up


def test_a_program_without_a_model_has_a_usage_and_is_not_loading(tmp_path):
    code = "import time; x = bytearray(120 * 2**20); end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
    done, document = watched(tmp_path, sys.executable, "-c", code)
    usage = document["usage"]
    assert document["verdict"]["words"] == "FINISHED: the program ended; no inference was seen"
    assert document["latency"]["count"] == 0
    assert usage["total_time_ms"] > 1_500
    assert 0 < usage["cpu_mean_pct"] <= 105
    assert usage["mem_peak_mib"] > 120
    assert (usage["block_read_bytes"], usage["block_write_bytes"]) != (None, None)
    assert "LOADING" not in done.stderr
    assert "STALLED" not in done.stderr


def test_the_duration_of_a_program_without_a_runtime_counts_from_its_start(tmp_path):
    _, document = watched(tmp_path, "sleep", "60", options=("--duration", "1s"))
    assert document["session"]["end_reason"] == "duration"
    assert 1_000 < document["usage"]["total_time_ms"] < 30_000


@pytest.mark.thorough
def test_the_usage_of_programs_is_a_table_in_csv_compare_and_page(tmp_path):
    for name, mib in (("small", 80), ("large", 160)):
        code = f"x = bytearray({mib} * 2**20); x[::4096] = b'1' * len(x[::4096]); import time; time.sleep(1.2)"
        words = ("watch", "--headless", "-o", name, "--", sys.executable, "-c", code)
        assert edgetop(*words, home=tmp_path).returncode == 0
    head, row = edgetop("report", "large.edgetop", "--csv", "-", home=tmp_path).stdout.splitlines()
    usage = dict(zip(head.split(","), row.split(","), strict=True))
    assert usage["name"] == "large"
    assert float(usage["mem_peak_mib"]) > 160
    compared = edgetop("compare", "small.edgetop", "large.edgetop", "--json", home=tmp_path)
    small, large = json.loads(compared.stdout)["usage"]
    assert (small["name"], large["name"]) == ("small", "large")
    assert 1.2 < large["mem_peak_mib"] / small["mem_peak_mib"] < 2.2
    lines = edgetop("compare", "small.edgetop", "large.edgetop", home=tmp_path).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("usage "))
    assert [line.split()[0] for line in lines[at + 1 : at + 3]] == ["small", "large"]
    assert edgetop("report", "large.edgetop", "--html", "page.html", home=tmp_path).returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "CPU" in page
    assert "load/application" in page
    assert "mem/application" in page


def test_a_probe_that_reports_stages_alone_makes_no_program_wait_for_an_inference(tmp_path):
    code = (
        "import time\nfrom edgetop.probe import probe\n"
        "while True:\n    with probe.stage('epoch'):\n        time.sleep(0.05)\n"
    )
    _, document = watched(tmp_path, sys.executable, "-c", code, options=("--duration", "2s"))
    assert document["session"]["end_reason"] == "duration"
    assert [stage["name"] for stage in document["frames"]["stages"]][:1] == ["epoch"]


def test_memory_that_processes_share_counts_once(tmp_path):
    code = (
        "import os, time\nx = bytearray(100 * 2**20); x[::4096] = b'1' * len(x[::4096])\n"
        "child = os.fork()\ntime.sleep(2.5)\nif child: os.wait()\n"
    )
    _, document = watched(tmp_path, sys.executable, "-W", "ignore", "-c", code)
    usage = document["usage"]
    assert 100 < usage["mem_peak_mib"] < 150
    assert usage["mem_mean_mib"] <= usage["mem_peak_mib"]
