"""The logic of `.ci/board` and of what runs on its board, without the board: limits, messages, and what fails."""

import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.waiting import PATIENCE_S

CI = Path(__file__).parents[1] / ".ci"


def loaded(name: str) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader(f"ci_{name.replace('-', '_')}", str(CI / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # dataclasses look there
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


board, jobs = loaded("board"), loaded("board-jobs")


class Clock:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def test_a_second_on_a_slow_board_counts_less() -> None:
    clock, taken = Clock(), [jobs.LOOPS_S]
    pace = jobs.Pace(lambda: taken[0], clock)
    pace.measure()
    clock.s += 10
    assert pace.now() == pytest.approx(10)
    taken[0] = jobs.LOOPS_S * 4
    pace.measure()
    clock.s += 10
    assert (pace.now(), pace.speed) == (pytest.approx(12.5), 0.25)
    taken[0] = jobs.LOOPS_S / 4  # a fast host shortens no limit
    pace.measure()
    clock.s += 10
    assert pace.now() == pytest.approx(22.5)
    taken[0] = 1e6  # nor lengthens a board that hangs one for ever
    pace.measure()
    assert pace.speed == jobs.LEAST_PACE


def test_a_pace_that_is_measured_while_it_is_read_counts_no_second_twice_or_never() -> None:
    """One thread measures, and others read the time. Here the measuring falls between two steps of a reader."""

    class Interrupting(Clock):
        is_armed = False

        def __call__(self) -> float:
            if self.is_armed:
                self.is_armed = False
                pace.measure()
            return self.s

    clock = Interrupting()
    pace = jobs.Pace(lambda: jobs.LOOPS_S * 2, clock)
    clock.s += 100
    clock.is_armed = True
    assert pace.now() == pytest.approx(100)
    clock.s += 10
    clock.is_armed = True
    assert (pace.now(), pace.speed) == (pytest.approx(105), 0.5)


def paced(monkeypatch: pytest.MonkeyPatch, speed: float) -> tuple[object, Clock]:
    """The pace of a board at this speed, and its clock."""
    clock = Clock()
    pace = jobs.Pace(lambda: jobs.LOOPS_S / speed, clock)
    pace.measure()
    monkeypatch.setattr(jobs, "PACE", pace)
    return pace, clock


def test_a_limit_is_reached_later_on_a_slow_board(monkeypatch: pytest.MonkeyPatch) -> None:
    _, clock = paced(monkeypatch, 0.5)
    check_time = jobs.within(400, "--version")
    clock.s += 799
    check_time()
    clock.s += 2
    with pytest.raises(jobs.Failed, match=r"--version: not done after .* s, which are 400 s at full speed"):
        check_time()


class Racing(Clock):
    """A clock that goes on by a minute each time that it is read."""

    def __call__(self) -> float:
        self.s += 60
        return self.s


def racing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PACE", jobs.Pace(lambda: jobs.LOOPS_S, Racing()))
    monkeypatch.setattr(jobs, "POLL_S", 0.01)


def test_a_program_that_does_not_end_is_killed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its child keeps the pipe open, as an engine does whose edgetop was killed."""
    racing(monkeypatch)
    with subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        child = int(run.stdout.readline())
        try:
            with pytest.raises(jobs.Failed, match="the run: not done after"):
                jobs.ended(run, 250, "the run")
            assert run.returncode == -signal.SIGKILL
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'edgetop: no such model' >&2; exit 2", "did not begin to measure: exit code 2: edgetop: no such model"),
        ("echo 00:00:01 LOADING >&2; sleep 1000", "the beginning of a run: not done after"),
        ("echo 00:00:01 MEASURING >&2", "its session is not there"),
    ],
)
def test_a_run_that_does_not_begin_says_why(
    script: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "edgetop"
    program.write_text(f"#!/bin/bash\n{script.replace('sleep', 'exec sleep')}\n")
    program.chmod(0o755)
    monkeypatch.setattr(jobs, "EDGETOP", str(program))
    racing(monkeypatch)
    with pytest.raises(jobs.Failed, match=told):
        jobs.begun(tmp_path / "session")


@pytest.mark.parametrize(("max_ms", "most_s"), [(3100.0, 6.1), (8.0, 3.008), (None, 3.0)])
def test_a_kill_may_cost_the_inference_that_ran(max_ms: float | None, most_s: float) -> None:
    assert jobs.most_lost_s({"latency": {"max_ms": max_ms}}) == pytest.approx(most_s)


def test_a_check_tells_its_time_and_the_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paced(monkeypatch, 0.5)
    monkeypatch.setattr(jobs.time, "monotonic", jobs.PACE._clock)
    monkeypatch.setattr(jobs.os, "sync", lambda: None)

    def function() -> str:
        jobs.PACE._clock.s += 30
        raise jobs.Failed("two\nlines")

    jobs.check("kill", function)
    line = capsys.readouterr().out.rstrip()
    assert line == "=== CHECK kill FAILED 30.0 0.50 two lines"
    assert board.shown(line) == "FAILED kill              30 s  speed 0.50  two lines"
    assert not board.is_ok(line)
    assert board.shown(board.failed("boot", 3, "it hung")) == "FAILED boot               3 s  speed -     it hung"


def booted(script: str, tmp_path: Path, **options: object) -> object:
    """A boot of a board that is a shell script."""
    one = board.Board(board.MACHINES["raspi3b"], Path("k"), Path("d"), Path("i"), Path("c"), tmp_path / "log")
    one._command = ["bash", "-c", script]
    return one.boot("main", **options)


def test_a_board_that_ends_its_job_passes(tmp_path: Path) -> None:
    boot = booted(
        "echo '=== BOOTED 8 Pi'; echo '=== CHECK onnx ok 1.0 1.00 fine'; echo '=== END'; sleep 1000", tmp_path
    )
    assert board.checks_of(boot, "main") == ["=== CHECK onnx ok 1.0 1.00 fine"]


@pytest.mark.parametrize(
    ("script", "limits", "told"),
    [
        ("echo '=== BOOTED 8 Pi'; echo panic", {}, "QEMU ended before the job did; the console's last line: panic"),
        (
            "echo 'Starting kernel'; exec sleep 1000",
            {"BOOT_LIMIT_S": 0.5},
            "did not boot within 0 s and was stopped; the console's last line: Starting kernel",
        ),
        (
            "echo '=== BOOTED 8 Pi'; echo '=== CHECK onnx ok 1.0 1.00 fine'; echo stuck; exec sleep 1000",
            {"CHECK_LIMIT_S": 0.5},
            "did not end a check within 0 s and was stopped; the console's last line: stuck",
        ),
        ("echo 'mmc0: error'; echo '=== END no root file system'", {}, "the board found no root file system"),
    ],
)
def test_a_board_that_does_not_end_its_job_says_why(
    script: str, limits: dict[str, float], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(board, "busy", lambda: 1.0)
    for name, limit_s in limits.items():
        monkeypatch.setattr(board, name, limit_s)
    found = board.checks_of(booted(script, tmp_path), "main")
    assert found[-1].startswith("=== CHECK main FAILED ")
    assert told in found[-1]


def test_each_check_has_its_whole_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A job of many checks may take as long as it needs."""
    monkeypatch.setattr(board, "busy", lambda: 1.0)
    monkeypatch.setattr(board, "CHECK_LIMIT_S", PATIENCE_S)
    now = [0.0]
    lines = ["=== BOOTED 8 Pi", *(f"=== CHECK c{number} ok 1 1.00 fine" for number in range(5)), "=== END"]

    def console(_machine: object, until: Callable[[], float]) -> Iterator[str]:
        for line in lines:
            now[0] += PATIENCE_S * 0.6
            if now[0] < until():
                yield line

    monkeypatch.setattr(board.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(board, "console_lines", console)
    assert len(board.checks_of(booted("true", tmp_path), "main")) == 5


def test_limits_of_the_host_grow_with_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board.os, "cpu_count", lambda: 2)
    for load, times in ((0.5, 1.0), (8.0, 4.0), (80.0, board.MOST_BUSY)):
        monkeypatch.setattr(board.os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert board.busy() == times


class CutBoard:
    """A board whose boots are given."""

    def __init__(self, *boots: object) -> None:
        self.boots = list(boots)

    def boot(self, _job: str, **_options: object) -> object:
        return self.boots.pop(0)

    def check_file_system(self) -> str:
        return ""


REFERENCE = "=== CHECK reference ok 1 1.00 fine"


@pytest.mark.parametrize(
    ("boots", "last"),
    [
        ([board.Boot([REFERENCE, "=== NO RECORDING none"])], "power-cut-1 FAILED 0 - no recording began: none"),
        ([board.Boot(["panic"])], "reference FAILED 0 - QEMU ended before the job did; the console's last line: panic"),
        ([board.Boot([REFERENCE], cut_s=9.0), board.Boot(["=== BOOTED 8 Pi"])], "power-cut-1 FAILED 0 - QEMU ended"),
    ],
)
def test_a_power_cut_that_could_not_be_tried_has_failed(boots: list[object], last: str) -> None:
    found = list(board.power_cuts(CutBoard(*boots), 1))
    assert found[-1].startswith(f"=== CHECK {last}")


def test_names_of_checks_are_those_of_the_programs() -> None:
    known = board.known_checks()
    assert {"onnx", "no-rtc", "kill", "hotplug", "instructions", "power-cut", "isolated", "board-report"} <= known
    assert "install" not in known


def test_an_unknown_check_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(CI / "board"), "--only", "onnx,no-such"],
        env={**os.environ, "EDGETOP_BOARD_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no check is called no-such; there are archive, " in done.stderr
    assert not (tmp_path / "cache").exists()
