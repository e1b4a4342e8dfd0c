"""The engine's process: whatever becomes of it, its conductor hears why, keeps what ran, and is left with nothing."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from edgetop.engines.engine_protocol import Died, Ended, Failed, LogLine, PhaseBegan, RecordsLost
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spawn import Child
from edgetop.errors import InputError
from tests.support import onnx_models
from tests.support.descriptors import open_files
from tests.support.engine_runs import Heard, hear_out, hear_until_measuring, run_whole, spec_for
from tests.support.interpreters import REPOSITORY, fake_runtime, script, shell, talker, with_runtime
from tests.support.processes import is_running
from tests.support.thorough import mostly_thorough
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

F_SETPIPE_SZ = 1031  # fcntl has the name from Python 3.10 on, on Linux only


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.onnx"
    path.write_bytes(onnx_models.onnx_tiny())
    return path


@contextlib.contextmanager
def started(model: Path, python: str | None = None, **options: Any) -> Iterator[ProcessEngine]:
    """An engine that runs until it is stopped."""
    engine = ProcessEngine(spec_for(model, **{"runs": None, **options}), python, close_timeout_s=0.5)
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


def heard_from(model: Path, python: str, **options: Any) -> Heard:
    return run_whole(ProcessEngine(spec_for(model, **options), python, close_timeout_s=0.5))


def lines(heard: Heard, source: str) -> list[str]:
    return [line.message for line in heard.all(LogLine) if line.source == source]


# How it may die.


def test_an_engine_uses_a_child_that_waits_already(model: Path) -> None:
    child = Child()
    engine = ProcessEngine(spec_for(model, runs=10), child=child)
    assert any(isinstance(message, Ended) for message in run_whole(engine).messages)
    assert child.process.returncode == 0
    child.discard()


def test_a_child_that_no_engine_uses_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/nobody")
    before = open_files()
    child = Child()
    assert "NOTIFY_SOCKET" not in psutil.Process(child.process.pid).environ()
    child.discard()
    assert child.process.returncode == -signal.SIGKILL
    assert open_files() == before


@pytest.mark.parametrize(
    "number", mostly_thorough([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGXCPU], signal.SIGSEGV)
)
def test_a_killed_engine_is_told_by_the_signal(number: signal.Signals, model: Path) -> None:
    with started(model) as engine:
        heard = hear_until_measuring(engine)
        assert engine.pid is not None
        os.kill(engine.pid, number)
        hear_out(engine, heard)
    died = heard.one(Died)
    assert died.cause.startswith(f"killed by {number.name}")
    assert not died.loading
    assert heard.messages[-1] == died


@pytest.mark.parametrize("number", mostly_thorough([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], signal.SIGTERM))
def test_signals_of_a_service_manager_end_no_engine(number: signal.Signals, model: Path) -> None:
    with started(model) as engine:
        heard = hear_until_measuring(engine)
        assert engine.pid is not None
        os.kill(engine.pid, number)
        before = len(heard.in_phase("measure"))
        wait_until(lambda: heard.listen(engine) or len(heard.in_phase("measure")) > before + 100)
        engine.stop()
        hear_out(engine, heard)
    assert heard.all(Died) == []


def test_a_native_crash_leaves_its_python_stack_in_the_log(model: Path) -> None:
    with started(model) as engine:
        heard = hear_until_measuring(engine)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGSEGV)
        hear_out(engine, heard)
    said = "\n".join(lines(heard, "engine stderr"))
    assert "Fatal Python error: Segmentation fault" in said
    assert "loop.py" in said
    assert heard.one(Died).last_words == "Fatal Python error: Segmentation fault"


def test_records_of_a_killed_engine_are_all_there(model: Path) -> None:
    """All but those of the last 20 ms, which never left it: back to back, without a gap."""
    with started(model, warmup_runs=0) as engine:
        heard = hear_until_measuring(engine)
        wait_until(lambda: heard.listen(engine) or len(heard.records) > 2000)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        hear_out(engine, heard)
    records = heard.records
    assert heard.all(RecordsLost) == []
    gaps = records["t_ns"][1:] - (records["t_ns"] + records["latency_ns"])[:-1]
    assert (gaps >= 0).all()
    assert np.median(gaps) < 1_000_000


@pytest.mark.parametrize(
    ("where", "loading"), [({"on_load": "os._exit(7)"}, True), ({"on_run": "os._exit(7)"}, False)], ids=["load", "run"]
)
def test_an_engine_that_exits_is_reported_with_its_status(
    where: dict[str, str], loading: bool, model: Path, tmp_path: Path
) -> None:
    died = heard_from(model, with_runtime(tmp_path, **where)).one(Died)
    assert (died.cause, died.loading) == ("it ended by itself with exit status 7", loading)


def test_a_runtime_that_calls_exit_is_told(model: Path, tmp_path: Path) -> None:
    failed = heard_from(model, with_runtime(tmp_path, on_load="sys.exit(4)")).one(Failed)
    assert (failed.message, failed.is_input_error) == ("SystemExit: 4", False)


def test_the_last_words_need_no_line_break(model: Path, tmp_path: Path) -> None:
    python = with_runtime(tmp_path, on_run="os.write(2, b'first\\nwhat(): no luck'); os._exit(1)")
    assert heard_from(model, python).one(Died).last_words == "what(): no luck"


def test_a_program_that_never_says_it_is_an_engine_is_given_up(model: Path, tmp_path: Path) -> None:
    python = shell(tmp_path / "python", "exec sleep 1000")
    engine = ProcessEngine(spec_for(model), python, hello_timeout_s=0.05)
    try:
        engine.start()
        pid = engine.pid
        failed = hear_out(engine).one(Failed)
    finally:
        engine.close()
    assert (failed.stage, failed.message) == ("start", f"{python} cannot run the engine: it said nothing for 0.05 s")
    assert failed.is_input_error
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize(("busy_polls", "timeouts"), [(0, 1), (2, 3), (100, 5)])
def test_an_engine_that_uses_the_cpu_may_take_longer_to_start(
    busy_polls: int, timeouts: int, model: Path, tmp_path: Path
) -> None:
    """A small CPU quota makes an engine slow to start. A program that never says that it is an engine is given up."""
    used = itertools.chain(itertools.accumulate([10**9] * busy_polls), itertools.repeat(busy_polls * 10**9))
    python = shell(tmp_path / "python", "exec sleep 1000")
    engine = ProcessEngine(spec_for(model), python, hello_timeout_s=0.05, cpu_ns=lambda _: next(used))
    try:
        engine.start()
        failed = hear_out(engine).one(Failed)
    finally:
        engine.close()
    assert failed.message == f"{python} cannot run the engine: it said nothing for {0.05 * timeouts:g} s"


@pytest.mark.parametrize("kib", [20_000, 40_000])
def test_too_little_memory_to_begin_with_is_a_dead_engine(kib: int, model: Path, tmp_path: Path) -> None:
    """More of it, up to 100 MiB, and numpy 2.2's OpenBLAS waits for memory without end."""
    failed = heard_from(model, shell(tmp_path / "python", f'ulimit -v {kib}; exec "$PYTHON" "$@"')).one(Failed)
    assert (failed.stage, failed.is_input_error) == ("engine", False)
    assert failed.message.startswith("out of memory: ")


def test_a_memory_limit_reached_later_is_a_dead_engine_too(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runtime"
    folder.mkdir()
    fake_runtime(folder, on_run="self.kept = [*getattr(self, 'kept', ()), bytearray(50 << 20)]")
    limited = f'ulimit -v 600000; PYTHONPATH=\'{folder}\' exec "$PYTHON" "$@"'
    failed = heard_from(model, shell(tmp_path / "python", limited), runs=50).one(Failed)
    assert failed.stage == "engine"
    assert failed.message.startswith("out of memory: ")


@pytest.mark.parametrize("where", mostly_thorough(["on_import", "on_load", "on_run"], "on_load"))
def test_out_of_memory_is_a_dead_engine_at_any_stage(where: str, model: Path, tmp_path: Path) -> None:
    failed = heard_from(model, with_runtime(tmp_path, **{where: "raise RuntimeError('std::bad_alloc')"})).one(Failed)
    assert failed.stage == "engine"
    assert failed.message.startswith("out of memory: ")


def test_an_inference_that_asks_for_too_much_memory_is_told(model: Path, tmp_path: Path) -> None:
    failed = heard_from(model, with_runtime(tmp_path, on_run="bytearray(1 << 60)")).one(Failed)
    assert (failed.stage, failed.message) == ("engine", "out of memory: the first inference failed: MemoryError")


def gone_but_unread(engine: ProcessEngine) -> None:
    """Wait for the end of the engine's process, and leave all that it sent in the pipes."""
    assert engine.pid is not None
    os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("last_word", ["say(frames.ENDED, reason='runs', t_ns=1)", "os._exit(3)"])
def test_what_an_engine_sent_before_it_went_is_read(last_word: str, model: Path, tmp_path: Path) -> None:
    """As much as a pipe holds, in one poll: another would find it over."""
    body = f"""
        fcntl.fcntl(data, {F_SETPIPE_SZ}, 1 << 20)
        hello()
        for batch in range(9):
            os.write(data, pack(*range(batch * 4000, (batch + 1) * 4000)))
        os.write(2, b"last words")
        {last_word}
    """
    python = talker(tmp_path / "python", body)
    with started(model, python) as engine:
        gone_but_unread(engine)
        heard = Heard()
        assert heard.listen(engine)
        assert engine.poll().messages == ()
    assert heard.records["t_ns"].tolist() == list(range(36_000))
    assert lines(heard, "engine stderr") == ["last words"]
    assert isinstance(heard.messages[-1], Ended if "say" in last_word else Died)


# What it may be.


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: str(folder / "none"), "No such file"),
        (str, "Permission denied"),
        (lambda folder: _written(folder / "text", "hello"), "Permission denied"),
        (lambda folder: script(folder / "lost", "/no/such/python", ""), "No such file"),
    ],
    ids=["missing", "a folder", "not executable", "its own interpreter is missing"],
)
def test_an_interpreter_that_cannot_be_run_is_refused(
    make: Callable[[Path], str], said: str, model: Path, tmp_path: Path
) -> None:
    python = make(tmp_path)
    before = open_files()
    engine = ProcessEngine(spec_for(model), python)
    with pytest.raises(InputError) as raised:
        engine.start()
    engine.close()
    assert f"--engine-python {python}" in str(raised.value)
    assert said in str(raised.value)
    assert open_files() == before


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: "/bin/true", "exit status 0"),
        (lambda _: "/bin/false", "exit status 1"),
        (lambda _: "/bin/cat", "/bin/cat"),
        (lambda folder: shell(folder / "python", 'exec "$PYTHON" -I -S "$@"'), "numpy"),
        (lambda folder: shell(folder / "python", "echo 'SyntaxError: invalid syntax' >&2; exit 1"), "SyntaxError"),
    ],
    ids=["true", "false", "cat", "no numpy", "too old"],
)
def test_a_program_that_is_no_python_is_the_users_mistake(
    make: Callable[[Path], str], said: str, model: Path, tmp_path: Path
) -> None:
    python = make(tmp_path)
    failed = heard_from(model, python).one(Failed)
    assert failed.is_input_error
    assert python in failed.message
    assert said in failed.message
    assert "numpy" in failed.advice


def test_a_runtime_that_cannot_be_imported_is_the_users_mistake(model: Path, tmp_path: Path) -> None:
    python = with_runtime(tmp_path, on_import="raise ImportError('libcudnn.so.9: cannot open shared object file')")
    failed = heard_from(model, python).one(Failed)
    assert failed.stage == "runtime"
    assert "onnxruntime" in failed.message
    assert "libcudnn.so.9" in failed.message


def test_invalid_output_stops_the_program_after_valid_output(model: Path, tmp_path: Path) -> None:
    body = "hello(); os.write(data, pack(1, 2) + b'Hello, I am not a frame'); time.sleep(1000)"
    with started(model, talker(tmp_path / "python", body)) as engine:
        heard = hear_out(engine)
        pid = engine.pid
        assert pid is not None
        wait_until(lambda: not is_running(pid))
    assert heard.records["t_ns"].tolist() == [1, 2]
    failed = heard.one(Failed)
    assert "invalid data" in failed.message
    assert not failed.is_input_error


# What it may print.


def test_output_becomes_lines_and_never_reaches_our_streams(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    python = with_runtime(
        tmp_path,
        on_import="warnings.warn('this build is old')",
        on_load="os.write(1, b'native out\\n'); os.write(2, b'native err\\n')",
        on_run="print('printed', number); print('told', number, file=sys.stderr)",
    )
    heard = heard_from(model, python, warmup_runs=0, runs=1)
    heard.one(Ended)
    assert lines(heard, "engine stdout") == ["native out", "printed 0", "printed 1"]
    said = lines(heard, "engine stderr")
    assert said[-3:] == ["native err", "told 0", "told 1"]
    assert any("UserWarning: this build is old" in line for line in said)
    assert capfd.readouterr() == ("", "")


def test_what_it_prints_before_it_can_talk_comes_too(model: Path, tmp_path: Path) -> None:
    python = shell(tmp_path / "python", 'echo welcome; echo \'bash: warning: locale\' >&2; exec "$PYTHON" "$@"')
    heard = heard_from(model, python)
    heard.one(Ended)
    assert lines(heard, "engine stdout") == ["welcome"]
    assert [(line.message, line.severity) for line in heard.all(LogLine)][-1] == ("bash: warning: locale", "warning")


def test_a_flood_of_lines_runs_to_its_end(model: Path, tmp_path: Path) -> None:
    python = with_runtime(tmp_path, on_run="os.write(1 + number % 2, b'the quick brown fox\\n' * 10_000)")
    heard = heard_from(model, python, warmup_runs=0, runs=50)
    heard.one(Ended)
    assert len(heard.in_phase("measure")) == 50


def test_a_runtime_that_prints_much_does_not_wait_for_polls(model: Path, tmp_path: Path) -> None:
    """The screen polls four times a second: what is printed meanwhile must have room."""
    marker = tmp_path / "printed"
    body = f"""
        os.write(1, b"x" * 900_000)
        os.write(2, b"x" * 900_000)
        open({str(marker)!r}, "w").close()
        time.sleep(1000)
    """
    with started(model, talker(tmp_path / "python", body)):
        wait_until(marker.exists)


# What it leaves behind.


@pytest.mark.parametrize("end", mostly_thorough(["ended", "killed", "still running", "still loading"], "ended"))
def test_nothing_is_left_of_it(end: str, model: Path) -> None:
    before = open_files()
    engine = ProcessEngine(spec_for(model, runs=5 if end == "ended" else None))
    engine.start()
    pid = engine.pid
    assert pid is not None
    if end == "ended":
        hear_out(engine)
    elif end != "still loading":
        hear_until_measuring(engine)
    if end == "killed":
        os.kill(pid, signal.SIGKILL)
        hear_out(engine)
    engine.close()
    engine.close()
    assert not psutil.pid_exists(pid)
    assert open_files() == before


def test_a_closed_engine_says_nothing_and_takes_no_harm(model: Path) -> None:
    with started(model) as engine:
        hear_until_measuring(engine)
        engine.close()
        assert engine.poll().messages == ()
        assert len(engine.poll().records) == 0
        engine.stop()


def test_an_engine_that_was_never_started_can_be_closed(model: Path) -> None:
    before = open_files()
    engine = ProcessEngine(spec_for(model))
    assert engine.pid is None
    engine.stop()
    assert engine.poll().messages == ()
    engine.close()
    assert open_files() == before


def test_a_child_that_obeys_nobody_is_killed_with_all_it_started(model: Path, tmp_path: Path) -> None:
    """A wrapper around the interpreter may be there still when its child hangs in a driver."""
    pids = tmp_path / "pids"
    body = f"sleep 1000 & echo $! >'{pids}.new'; echo $$ >>'{pids}.new'; mv '{pids}.new' '{pids}'; wait"
    with started(model, shell(tmp_path / "python", body)):
        wait_until(pids.exists)
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 2
    wait_until(lambda: not any(map(is_running, left)))


def test_a_suspended_engine_is_killed_when_it_is_closed(model: Path) -> None:
    with started(model) as engine:
        hear_until_measuring(engine)
        pid = engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
    assert not psutil.pid_exists(pid)


CONDUCTOR = """
import sys, time
from pathlib import Path
from edgetop.engines.process_engine import ProcessEngine
from tests.support.engine_runs import hear_until_measuring, spec_for, Heard
from edgetop.engines.engine_protocol import PhaseBegan

engine = ProcessEngine(spec_for(Path(sys.argv[1]), runs=None), sys.argv[2])
engine.start()
heard = Heard()
while not heard.all(PhaseBegan):
    heard.listen(engine)
print(engine.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("on_run", ["pass", "time.sleep(1000)"], ids=["many inferences", "one that never ends"])
def test_the_engine_ends_with_its_conductor(on_run: str, model: Path, tmp_path: Path) -> None:
    conductor = subprocess.Popen(
        [sys.executable, "-c", CONDUCTOR, str(model), with_runtime(tmp_path, on_run=on_run)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    with conductor:
        assert conductor.stdout
        pid = int(conductor.stdout.readline())
        assert is_running(pid)
        conductor.kill()
    wait_until(lambda: not is_running(pid))


WITHOUT_STREAMS = """
import os, sys
from pathlib import Path
from edgetop.engines.process_engine import ProcessEngine
from tests.support.engine_runs import run_whole, spec_for

os.closerange(0, 3)
last = run_whole(ProcessEngine(spec_for(Path(sys.argv[1])))).messages[-1]
Path(sys.argv[2]).write_text(type(last).__name__)
"""


def test_it_runs_without_standard_streams(model: Path, tmp_path: Path) -> None:
    """As a service manager may; the pipes then get the numbers that streams have."""
    said = tmp_path / "said"
    subprocess.run(
        [sys.executable, "-c", WITHOUT_STREAMS, str(model), str(said)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert said.read_text() == "Ended"


# Where it runs.


def test_the_terminals_signals_do_not_reach_it(model: Path) -> None:
    with started(model) as engine:
        assert engine.pid is not None
        assert os.getsid(engine.pid) == engine.pid != os.getsid(0)


def test_it_runs_on_the_cpus_it_was_given(model: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    with started(model, cpus=(cpu,)) as engine:
        hear_until_measuring(engine)
        assert engine.pid is not None
        assert os.sched_getaffinity(engine.pid) == {cpu}


def test_the_kernel_would_rather_take_it_than_its_conductor(model: Path) -> None:
    with started(model) as engine:
        hear_until_measuring(engine)
        ours, its = (int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in ("self", engine.pid))
    assert its > ours


def test_no_file_of_ours_shadows_a_module_of_the_runtime(model: Path, tmp_path: Path) -> None:
    python = with_runtime(tmp_path, on_import="assert not any('engines/child' in e for e in sys.path), sys.path")
    heard_from(model, python).one(Ended)


def test_phases_are_told_with_the_clock_of_the_records(model: Path) -> None:
    heard = run_whole(ProcessEngine(spec_for(model)))
    began = {message.phase: message.monotonic_ns for message in heard.all(PhaseBegan)}
    for phase, start in began.items():
        assert 0 <= heard.in_phase(phase)["t_ns"][0] - start < PATIENCE_S * 1e9
