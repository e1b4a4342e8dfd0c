"""`edgetop import`, as it is typed."""

import json
import subprocess
import sys

import pytest

from tests.support import printed, trtexec
from tests.support.commands import edgetop, environment

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path):
    (tmp_path / "times.json").write_text(trtexec.times(2000))
    (tmp_path / "layers.json").write_text(trtexec.profile())
    return tmp_path


def test_a_session_of_both_files_is_reported_and_exported(home):
    done = edgetop("import", "times.json", "layers.json", "--model", "r50.onnx", "-o", "trt", home=home)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"wrote {home / 'trt.edgetop'}: 2000 inferences and 3 layers\n"
    report = edgetop("report", "trt", home=home).stdout
    assert report.startswith("FINISHED: ")
    assert "session  trt" in report
    assert "engine   tensorrt (imported from trtexec) on TensorRT" in report
    assert "conv1 + relu1" in report
    exported = edgetop("export", "trt", "--to", "csv", "--table", "operators", "-o", "-", home=home)
    assert len(exported.stdout.splitlines()) == 1 + 5, exported.stderr


def test_without_a_place_it_is_kept_under_the_name_of_its_file(home):
    assert edgetop("import", "layers.json", home=home).returncode == 0
    (found,) = json.loads(edgetop("sessions", "--json", home=home).stdout)
    assert (found["name"], found["state"], found["verdict"]) == ("layers", "finished", "too short to tell")


def test_what_cannot_be_imported_is_one_line_and_leaves_nothing(home):
    (home / "cut.json").write_text(trtexec.times(50)[:-300])
    for files, why in ((["times.json", "cut.json"], "cut.json: not JSON, or cut off"), (["nothing.json"], "No such")):
        done = edgetop("import", *files, "-o", "s", home=home)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr
        assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in home.iterdir()) == ["cut.json", "layers.json", "times.json"]


def test_what_tools_print_and_a_boards_log_are_sessions_too(home):
    (home / "bench.txt").write_text(printed.BENCHMARK_MODEL)
    done = edgetop("import", "bench.txt", home=home)
    assert ": the summary that benchmark_model prints, and no single inference\n" in done.stderr
    assert 'note: 4 of 10 lines not understood, the first: "STARTING!"' in done.stderr
    report = edgetop("report", "bench", home=home).stdout
    assert "as printed by benchmark_model: single inferences are not known" in report
    (home / "board.log").write_text(f"{printed.NANO}\n" * 3)
    done = edgetop("import", "board.log", "--interval", "2s", home=home)
    assert done.stderr.endswith(": 54 readings of 18 sensors\n")
    assert json.loads(edgetop("report", "board", "--json", home=home).stdout)["session"]["duration_ns"] == 4_000_000_000


WITH_LITTLE_MEMORY = """
import re, resource, sys
import edgetop.cli.sessions.import_file, edgetop.imports.read, edgetop.imports.imported_session
from edgetop.cli.main import main
used = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 30 * 2**20,) * 2)
main(["import", *sys.argv[1:]])
"""


def test_an_import_out_of_memory_is_one_line_and_leaves_nothing(tmp_path):
    entry = json.dumps({"startInMs": 1.0, "endInMs": 2.0, "startComputeMs": 2.0, "endComputeMs": 3.0})
    (tmp_path / "times.json").write_text("[" + ", ".join([entry] * 400_000) + "]")
    argv = [sys.executable, "-c", WITH_LITTLE_MEMORY, "times.json", "-o", "one"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, env=environment(tmp_path), check=False)
    assert (done.returncode, done.stderr) == (
        2, "edgetop: times.json: not enough memory here to import it (export a shorter run)\n"
    )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["times.json"]
