"""Output that cannot be written ends in one line and exit code 4; what nobody listens to ends nothing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_main import shell
from tests.support import onnx_models
from tests.support.commands import edgetop, environment, start_edgetop
from tests.support.recordings import back_to_back, record, session
from tests.support.thorough import mostly_thorough
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

PIPE_BYTES = 65_536
FULL = "edgetop: the standard output cannot be written: No space left on device\n"
CLOSED = "edgetop: the standard output is closed (give it a file or a pipe)\n"
READING = (
    "--help",
    "--version",
    "help attach",
    "completion bash",
    "inspect model.onnx --json",
    "sessions",
    "report s --json",
    "export s --to csv --table seconds -o -",
    "export s --to json -o -",
    "export s --to parquet -o -",
    "export s --to perfetto -o -",
    "sensors --sysroot board --watch",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    record(folder / "s.edgetop", list(session(back_to_back(50, 20e6))))
    (folder / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    (folder / "board").mkdir()
    return folder


@pytest.mark.parametrize(
    "command", mostly_thorough(READING, "--help", "report s --json", "export s --to csv --table seconds -o -")
)
def test_a_full_disk_is_one_line_and_exit_code_4(command: str, home: Path) -> None:
    done = shell(f"edgetop {command} > /dev/full", home)
    assert (done.returncode, done.stderr) == (4, FULL)


@pytest.mark.parametrize(
    "command",
    mostly_thorough(["report s --json", "export s --to parquet -o -", "--help", "sessions"], "--help", "sessions"),
)
def test_a_closed_output_is_one_line_and_exit_code_4(command: str, home: Path) -> None:
    done = shell(f"edgetop {command} >&-", home)
    assert (done.returncode, done.stderr) == (4, CLOSED)


@pytest.mark.parametrize("command", ["report s --json", "export s --to json -o -", "sensors --sysroot board --watch"])
def test_a_reader_that_has_left_is_no_news(command: str, home: Path) -> None:
    done = shell(f"edgetop {command} | true; exit ${{PIPESTATUS[0]}}", home)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_completes_a_command_says_that_it_cannot_be_written(home: Path) -> None:
    asked = {"_EDGETOP_COMPLETE": "bash_complete", "COMP_WORDS": "edgetop r", "COMP_CWORD": "1"}
    done = shell("edgetop > /dev/full", home, **asked)
    assert (done.returncode, done.stderr) == (4, FULL)


def test_gates_are_judged_and_written_without_a_reader(home: Path) -> None:
    gates = "edgetop report s --fail-if 'p50>0ms' --junit gates.xml"
    done = shell(f"{gates} | true; exit ${{PIPESTATUS[0]}}", home)
    assert done.returncode == 1
    assert done.stderr.startswith("edgetop: gate failed: p50>0ms")
    (home / "gates.xml").unlink()
    assert shell(f"{gates} > /dev/full", home).returncode == 4
    assert "testsuite" in (home / "gates.xml").read_text()


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("sessions", 2, "cannot be read: File name too long (XDG_STATE_HOME names another place for recordings)"),
        ("report nowhere", 2, "cannot be read: File name too long (XDG_STATE_HOME names another place for recordings)"),
        ("stop nowhere", 2, "cannot be read: File name too long (XDG_STATE_HOME names another place for recordings)"),
        ("run model.onnx --headless --runs 1", 2, "cannot be written: File name too long (name another place with -o"),
        ("watch --headless --no-record -- true", 0, ""),
        ("doctor --sysroot board", 0, ""),
    ],
)
def test_folders_that_may_not_be_looked_at_are_one_line(command: str, code: int, message: str, home: Path) -> None:
    """As those of another user, whose HOME sudo -u keeps. Root may look there, but for no name this long."""
    folder = f"{home}/{'n' * 300}"
    done = edgetop(*command.split(), home=home, XDG_STATE_HOME=folder, XDG_CACHE_HOME=folder, XDG_CONFIG_HOME=folder)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert message in done.stderr


RUN = "edgetop run model.onnx --headless --runs 20 --profile-every 0"


@pytest.mark.thorough
def test_gates_are_reported_where_the_result_is_unwritable(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    done = shell(f"{RUN} -o one --json --fail-if 'p50>0ms' --junit gates.xml > /dev/full", tmp_path)
    assert done.returncode == 4
    *_, gate, unwritten = done.stderr.splitlines(keepends=True)
    assert gate.startswith("edgetop: gate failed: p50>0ms")
    assert unwritten == FULL
    assert "testsuite" in (tmp_path / "gates.xml").read_text()
    assert json.loads((tmp_path / "one.edgetop/session.json").read_text())["state"] == "finished"


@pytest.mark.parametrize(
    "closed", ["2>&-", *(pytest.param(other, marks=pytest.mark.thorough) for other in ("2>/dev/full", "2>&- <&-"))]
)
def test_a_run_without_a_standard_error_goes_on_to_its_end(closed: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    done = shell(f"{RUN} -o one --json {closed}", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["latency"]["count"] == 20


@pytest.mark.thorough
def test_a_run_is_detached_without_any_stream(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    detached = "edgetop run model.onnx --detach --profile-every 0 -o one <&- >&- 2>&-"
    assert shell(detached, tmp_path).returncode == 0
    stopped = edgetop("stop", "one", home=tmp_path)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout.startswith("STOPPED (by the user)")


@pytest.mark.thorough
def test_a_run_whose_standard_error_loses_its_reader_goes_on(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    lines = ("--live", "--refresh", "200ms", "--profile-every", "0", "-o", "one")
    process = start_edgetop("run", "model.onnx", "--headless", *lines, home=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    next(process.stderr)
    process.stderr.close()
    journal = tmp_path / "one.edgetop/journal/00000001.journal"
    wait_until(journal.exists)
    before = journal.stat().st_size
    wait_until(lambda: journal.stat().st_size > before + 5_000)  # some seconds of lines that nobody takes
    process.send_signal(signal.SIGTERM)
    out = process.stdout.read()
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert "recorded in" in out


@pytest.mark.thorough
def test_a_pipe_that_does_not_wait_gets_all_of_it(tmp_path: Path) -> None:
    """Whoever shares a pipe (ssh, node) may have made it non-blocking: it is full at times, and that is no error."""
    record(tmp_path / "s.edgetop", list(session(back_to_back(5_000, 20e6))))
    argv = [sys.executable, "-m", "edgetop", "export", "s", "--to", "json", "-o", "-"]
    whole = subprocess.run(argv, cwd=tmp_path, capture_output=True, env=environment(tmp_path), check=True).stdout
    assert len(whole) > 4 * PIPE_BYTES
    read, write = os.pipe()
    os.set_blocking(write, False)
    with subprocess.Popen(argv, cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, env=environment(tmp_path)) as one:
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            assert pipe.read() == whole
        assert one.communicate() == (None, b"")
    assert one.returncode == 0


@pytest.mark.parametrize("option", mostly_thorough(["--csv", "--trace"], "--csv"))
def test_a_device_is_written_to_and_never_replaced(option: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    os.mkfifo(tmp_path / "pipe")
    process = start_edgetop("ops", "model.onnx", "--runs", "2", "--no-roofline", option, "pipe", home=tmp_path)
    came = (tmp_path / "pipe").read_bytes()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert out
    assert b"op_type" in came
    assert (tmp_path / "pipe").is_fifo()


def test_an_unwritable_file_of_gates_gives_exit_code_4(home: Path) -> None:
    (home / "full.xml").symlink_to("/dev/full")
    done = edgetop("report", "s", "--fail-if", "p50>0ms", "--junit", "full.xml", home=home)
    assert done.returncode == 4
    assert done.stderr.startswith("edgetop: full.xml: cannot be written: No space left on device")
    assert (home / "full.xml").is_char_device()
