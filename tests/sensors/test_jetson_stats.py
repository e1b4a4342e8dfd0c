"""jetson-stats: its real client asks a service that speaks its protocol; what fails costs these sensors alone."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import jetson_stats
from edgetop.sensors.jetson_stats import (
    LEAST_RETRY_S,
    MOST_RETRY_S,
    PROGRAM,
    SILENT_TIMEOUT_S,
    START_TIMEOUT_S,
    JetsonStats,
    accelerator_mib,
    memory_mhz,
)
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import Sampler
from edgetop.sensors.sensor_protocol import Gap
from edgetop.session.clock import SystemClock
from tests.support.environments import environment, find_interpreter
from tests.support.processes import is_running
from tests.support.trees import plant
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

VERSION = "7.2.2"
SERVICE = Path(__file__).parents[1] / "support/jetson_service.py"
PID = 4711

# The client's path of the socket is a constant of its module.
AT_SOCKET = (
    "import runpy, sys, jtop.service as s; s.JTOP_PIPE = sys.argv[1]; runpy.run_path(sys.argv[2], None, '__main__')"
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="module")
def client() -> Path:
    """An interpreter with the real client."""
    return environment(Path(sys.executable), f"jetson-stats=={VERSION}", "distro", "nvidia-ml-py", "smbus2")


@contextmanager
def service(folder: Path, manner: str = "steady", version: str = VERSION) -> Iterator[subprocess.Popen[str]]:
    socket = folder / "jtop.sock"
    socket.unlink(missing_ok=True)
    command = [sys.executable, str(SERVICE), str(socket), version, manner]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def asking(client: Path, folder: Path) -> list[str]:
    return [str(client), "-E", "-c", AT_SOCKET, str(folder / "jtop.sock"), str(PROGRAM)]


@contextmanager
def source(command: list[str], now: Clock | None = None, pid: int = PID) -> Iterator[JetsonStats]:
    made = JetsonStats(command, pid, now or Clock())
    try:
        yield made
    finally:
        made.close()


def read(made: JetsonStats) -> float | Gap:
    (value,) = made.read()
    return value


def wait_for_value(made: JetsonStats) -> float:
    (value,) = wait_until(lambda: [value for value in made.read() if isinstance(value, float)])
    return value


def wait_for_gap(made: JetsonStats, part: str) -> str:
    def told() -> str | None:
        value = read(made)
        return value.reason if isinstance(value, Gap) and part in value.reason else None

    return str(wait_until(told))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# The real client, and a service as its own.


def test_the_program_is_part_of_the_package() -> None:
    assert PROGRAM.is_file()


def test_the_engines_part_of_the_gpus_memory_is_read(client: Path, tmp_path: Path) -> None:
    with service(tmp_path), source(asking(client, tmp_path)) as made:
        assert read(made) == Gap("jetson-stats is starting")
        assert wait_for_value(made) == 741.0
        assert wait_for_value(made) == 741.0


def test_the_clock_of_the_memory_is_read(client: Path, tmp_path: Path) -> None:
    with service(tmp_path):
        made = JetsonStats(asking(client, tmp_path), PID, Clock(), has_memory_clock=True)
        try:
            assert [info.id for info in made.sensors] == ["mem/accelerator", "freq/memory"]
            assert made.read() == [Gap("jetson-stats is starting")] * 2
            assert wait_until(lambda: [value for value in made.read() if isinstance(value, float)]) == [741.0, 2133.0]
        finally:
            made.close()


@pytest.mark.parametrize("khz", [None, 1, 0, True, "2133000", -5, 1e12])
def test_a_clock_that_jetson_stats_cannot_read_is_a_gap(khz: object) -> None:
    assert memory_mhz({"emc_khz": khz}) == Gap("jetson-stats reports no clock of the memory")


@pytest.mark.parametrize(("readable", "has_clock"), [(True, 1), (False, 2)])
def test_the_clock_is_asked_for_only_where_the_kernels_files_hide_it(
    readable: bool, has_clock: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"proc/device-tree/compatible": "nvidia,p3768-0000+p3767-0000\0nvidia,tegra234\0"}
    if readable:
        files["sys/kernel/debug/bpmp/debug/clk/emc/rate"] = "2133000000\n"
    plant(tmp_path, files)
    root = Root(tmp_path)
    monkeypatch.setattr(root, "is_host", True)
    monkeypatch.setattr(jetson_stats, "interpreter", lambda: sys.executable)
    monkeypatch.setattr(jetson_stats, "SOCKET", tmp_path)
    (made,) = jetson_stats.discover_engine(PID, root).sources
    assert len(made.sensors) == has_clock


def test_a_process_that_uses_no_gpu_holds_none_of_it(client: Path, tmp_path: Path) -> None:
    with service(tmp_path), source(asking(client, tmp_path), pid=5) as made:
        assert wait_for_value(made) == 0.0


def test_a_service_that_knows_no_process_tells_nothing(client: Path, tmp_path: Path) -> None:
    with service(tmp_path, "empty"), source(asking(client, tmp_path)) as made:
        wait_for_gap(made, "reports no process's part")


def test_data_that_repeats_are_a_gap(client: Path, tmp_path: Path) -> None:
    with service(tmp_path, "stale"), source(asking(client, tmp_path)) as made:
        assert wait_for_value(made) == 741.0
        wait_for_gap(made, "repeats what it said before")


def test_a_missing_service_is_reported_in_the_clients_words(client: Path, tmp_path: Path) -> None:
    with source(asking(client, tmp_path)) as made:
        assert "jtop.service is not active" in wait_for_gap(made, "jetson-stats: ")


def test_a_service_of_another_version_is_told(client: Path, tmp_path: Path) -> None:
    with service(tmp_path, version="4.3.2"), source(asking(client, tmp_path)) as made:
        assert "4.3.2" in wait_for_gap(made, "Mismatch version")


def test_a_service_that_never_answers_is_killed(client: Path, tmp_path: Path) -> None:
    now = Clock()
    with service(tmp_path, "mute"), source(asking(client, tmp_path), now) as made:
        read(made)
        pid = made.pid
        assert pid
        now.now_s += START_TIMEOUT_S + 1
        assert read(made) == Gap(f"jetson-stats: it said nothing for {START_TIMEOUT_S + 1:.0f} s")
        assert not is_alive(pid)


def test_a_service_that_dies_and_comes_back_is_asked_again(client: Path, tmp_path: Path) -> None:
    now = Clock()
    with source(asking(client, tmp_path), now) as made:
        with service(tmp_path):
            wait_for_value(made)
        wait_for_gap(made, "jetson-stats: ")
        assert made.pid is None
        with service(tmp_path):
            assert isinstance(read(made), Gap)
            assert made.pid is None
            now.now_s += LEAST_RETRY_S
            assert wait_for_value(made) == 741.0


def test_it_is_never_imported_here() -> None:
    ask = "import sys, edgetop.cli.running.run_session, edgetop.sensors.jetson_stats; print('jtop' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("python", sorted({sys.executable, str(find_interpreter("3.8") or sys.executable)}))
def test_its_program_tells_what_it_lacks(python: str) -> None:
    with source([python, "-E", "-S", str(PROGRAM)]) as made:
        assert wait_for_gap(made, "jetson-stats: ") == "jetson-stats: No module named 'jtop'"


def test_an_interpreter_that_is_too_old_is_told_what_is_needed() -> None:
    """Python 3.6, JetPack 4's, does not compile the program: it ends before its first line."""
    with source([sys.executable, "-c", "from __future__ import braces"]) as made:
        assert "it needs Python 3.8 or later" in wait_for_gap(made, "jetson-stats: ")


# A program of the test's own in its place.


def python(code: str) -> list[str]:
    return [sys.executable, "-c", f"import json, os, sys, time\n{code}"]


def saying(*answers: object) -> list[str]:
    """Says these, and waits until it is told to end."""
    return python(f"print({chr(10).join(map(json.dumps, answers))!r}, flush=True)\nsys.stdin.read()")


def test_of_several_answers_the_newest_counts() -> None:
    answers = [{"uptime_s": n, "gpu_kib": {str(PID): 1024 * n}} for n in (1, 2, 3)]
    with source(saying(*answers)) as made:
        assert wait_for_value(made) == 3.0
        assert read(made) == Gap("jetson-stats has no news")


def test_one_that_falls_silent_is_killed_and_tried_again() -> None:
    now = Clock()
    with source(saying({"uptime_s": 1, "gpu_kib": {"1": 1}}), now) as made:
        wait_for_value(made)
        first = made.pid
        assert first
        now.now_s += SILENT_TIMEOUT_S + 1
        assert "said nothing" in str(read(made))
        assert not is_alive(first)
        now.now_s += LEAST_RETRY_S
        made.read()
        assert made.pid not in (None, first)


def test_the_pause_before_an_attempt_doubles_up_to_a_limit(tmp_path: Path) -> None:
    now, pauses, end = Clock(), [], tmp_path / "end"
    os.mkfifo(end)
    with source(python(f"open({str(end)!r}).read(); sys.exit(3)"), now) as made:
        made.read()
        for _ in range(9):
            end.open("w").close()
            wait_for_gap(made, "ended without a word")
            gave_up_s = now.now_s
            while made.pid is None:
                now.now_s += 5.0
                made.read()
            pauses.append(now.now_s - gave_up_s)
    assert pauses == [min(LEAST_RETRY_S * 2**n, MOST_RETRY_S) for n in range(9)]


@pytest.mark.parametrize("line", ["nonsense", "[1]", "7", "null", "\x00", '{"error": "no\\nway"}'])
def test_one_that_says_nonsense_or_an_error_is_given_up(line: str) -> None:
    with source(python(f"print({line!r}, flush=True); sys.stdin.read()")) as made:
        reason = wait_for_gap(made, "jetson-stats: ")
        assert reason in ("jetson-stats: it does not speak as its program here does", "jetson-stats: no way")
        assert made.pid is None


def test_one_that_talks_without_end_is_given_up() -> None:
    with source(python("while True: os.write(1, b'x' * 4096)")) as made:
        wait_for_gap(made, "ended without a word")


def test_a_closed_helper_is_gone_with_all_it_started() -> None:
    code = """
import subprocess
print(json.dumps({"uptime_s": 1, "started": subprocess.Popen(["sleep", "600"]).pid}), flush=True)
time.sleep(600)
"""
    made = JetsonStats(python(code), PID, Clock())
    answer = wait_until(lambda: found if isinstance(found := made._news(), dict) else None)
    pid = made.pid
    assert pid
    made.close()
    assert not is_alive(pid)
    wait_until(lambda: not is_running(answer["started"]))
    assert read(made) == Gap("the session is over")
    assert made.pid is None


def test_a_sampler_that_stops_closes_it() -> None:
    clock = SystemClock()
    made = JetsonStats(python("sys.stdin.read()"), PID)
    sampler = Sampler([made], clock, clock.monotonic_ns())
    sampler.start()
    pid = wait_until(lambda: made.pid)
    sampler.stop()
    assert not is_alive(pid)


def test_no_program_outlives_an_edgetop_that_was_killed(client: Path, tmp_path: Path) -> None:
    """Its standard input is closed then, even where it waits for a service that never answers."""
    start = (
        "import sys; from edgetop.sensors.jetson_stats import JetsonStats\n"
        "made = JetsonStats(sys.argv[1:], 1); made.read(); print(made.pid, flush=True); sys.stdin.read()"
    )
    with service(tmp_path, "mute"):
        command = [sys.executable, "-c", start, *asking(client, tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as edgetop:
            assert edgetop.stdout
            pid = int(edgetop.stdout.readline())
            edgetop.send_signal(signal.SIGKILL)
        wait_until(lambda: not is_running(pid))


# What answers stand for.

ANSWERS = st.dictionaries(
    st.sampled_from(("uptime_s", "gpu_kib", "error_")),
    st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.sampled_from((str(PID), "1")), st.none() | st.booleans() | st.floats() | st.integers()),
)  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(ANSWERS)
def test_no_answer_makes_up_a_value(answer: dict[str, object]) -> None:
    value = accelerator_mib(answer, PID)
    table = answer.get("gpu_kib")
    assert isinstance(value, Gap) or (
        isinstance(table, dict) and table and value == (table.get(str(PID), 0)) / 1024 >= 0
    )


# Where it is looked for.


@pytest.mark.parametrize(
    ("first_line", "found"),
    [
        ("#!/usr/bin/python3", "/usr/bin/python3"),
        ("#! /opt/jtop/bin/python3.10 ", "/opt/jtop/bin/python3.10"),
        ("#!/bin/sh", None),
        ("\x7fELF", None),
    ],
)
def test_the_interpreter_is_that_of_its_command(tmp_path: Path, first_line: str, found: str | None) -> None:
    plant(tmp_path, {"jtop": f"{first_line}\nimport jtop\n"})
    (tmp_path / "jtop").chmod(0o755)
    assert jetson_stats.interpreter(str(tmp_path)) == found


def test_a_captured_board_has_no_service_to_ask(tmp_path: Path) -> None:
    root = plant(tmp_path, {"proc/device-tree/compatible": "nvidia,tegra234\0"})
    assert jetson_stats.discover_engine(os.getpid(), root).sources == ()
    assert jetson_stats.discover_engine(os.getpid(), root).missing == ()


def test_a_machine_that_is_no_jetson_misses_nothing() -> None:
    assert jetson_stats.discover_engine(os.getpid(), Root()).missing == ()


def test_what_would_tell_it_is_told() -> None:
    assert jetson_stats._missing(None).fix == "sudo pip3 install jetson-stats"
    assert "systemctl" in str(jetson_stats._missing("/usr/bin/python3").fix)
