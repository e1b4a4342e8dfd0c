"""`edgetop demo` as a user runs it: a real engine on the virtual board, and what is recorded of it."""

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pytest

from edgetop.simulation.board_physics import HARDWARE
from edgetop.simulation.scenarios import SCENARIOS
from edgetop.simulation.virtual_board import PREFIX
from tests.support.commands import edgetop, environment, start_edgetop
from tests.support.waiting import PATIENCE_S, scaled, wait_until

pytestmark = pytest.mark.slow

# What each scenario is an example of, in the words of the report's `slowdowns`.
CAUSES = {
    "thermal": "thermal",
    "power-cap": "power-cap",
    "under-voltage": "under-voltage",
    "contention": "contention",
}
CLOCKS = HARDWARE["jetson"].clocks_mhz
NS = 1e9


def check_cause(document, scenario):
    """The place of the cause: where the report tells slowdowns, there are those of the scenario and no others."""
    if document["slowdowns"] is not None:
        assert {slowdown["cause"] for slowdown in document["slowdowns"]} == {CAUSES[scenario]}


@dataclass(frozen=True)
class Recorded:
    folder: Path

    def rows(self, query):
        return duckdb.sql(query.replace("FOLDER", str(self.folder))).fetchall()

    def readings(self, sensor):
        """Seconds and values."""
        query = f"select t_ns, value from 'FOLDER/readings.parquet' where sensor = '{sensor}' order by t_ns"
        rows = np.array(self.rows(query))
        return rows[:, 0] / NS, rows[:, 1]

    def quantile_ms(self, share, from_s, to_s):
        """Of the latency of inferences that lie within."""
        ((value,),) = self.rows(
            f"select quantile_cont(latency_ns, {share}) / 1e6 from 'FOLDER/inferences.parquet' "
            f"where t_ns >= {from_s * NS} and t_ns + latency_ns <= {to_s * NS} and phase = 'measure'"
        )
        return value

    def told(self):
        """What happened to the board: second -> words."""
        query = "select t_ns, message from 'FOLDER/events.parquet' where kind = 'virtual-board' order by t_ns"
        return [(t_ns / NS, words) for t_ns, words in self.rows(query)]


@dataclass
class Demo:
    """One that runs until the test has seen what it waits for on the virtual board."""

    home: Path
    process: object
    clocks: list = field(default_factory=list)  # [from, to, MHz], on the monotonic clock in ns

    def read(self, name):
        found = next(self.home.glob(f"{PREFIX}*/tree/{name}"), None)
        return found.read_text().strip() if found else None

    def wait_for(self, name, value):
        def has_come():
            self._watch_clock()
            return self.process.poll() is not None or re.fullmatch(value, self.read(name) or "")

        wait_until(has_come, scaled(100))
        assert self.process.poll() is None, self.process.communicate()

    def _watch_clock(self):
        before_ns, mhz, after_ns = time.monotonic_ns(), int(self.read(CLOCK) or 0) / 1000, time.monotonic_ns()
        if self.clocks and self.clocks[-1][2] == mhz and after_ns - self.clocks[-1][1] < 0.15 * NS:
            self.clocks[-1][1] = before_ns
        else:
            self.clocks.append([after_ns, before_ns, mhz])

    def end(self):
        self.process.terminate()
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, err
        return json.loads(out)


@pytest.fixture
def start(tmp_path):
    started = []

    def start(*arguments):
        process = start_edgetop(
            "demo", "--headless", "-o", "one", *arguments, home=tmp_path, XDG_RUNTIME_DIR=str(tmp_path)
        )
        started.append(process)
        return Demo(tmp_path, process)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


CLOCK = "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq"
COOLING = "sys/class/thermal/cooling_device0/cur_state"
FAN = "sys/class/hwmon/hwmon0/fan1_input"


def stretches(demo, recorded, origin_ns):
    """Of each span with one clock: its median over the fastest inference of all, and what that should be at least.

    Whatever else this machine does, it makes no inference faster than it can be. The median, for the engine is told
    of a change a moment before the file shows it: the last of a span may belong to the next.
    """
    fastest_ms = recorded.quantile_ms(0, 0, 1e6)
    spans = [
        ((begin - origin_ns) / NS, (end - origin_ns) / NS, CLOCKS[-1] / mhz) for begin, end, mhz in demo.clocks if mhz
    ]
    return [
        (median_ms / fastest_ms, factor)
        for from_s, to_s, factor in spans
        if to_s - from_s > 0.1 and (median_ms := recorded.quantile_ms(0.5, from_s, to_s))
    ]


def test_heat_throttles_the_engine_and_the_fan_lifts_it(start, tmp_path):
    demo = start("--speed", "300x", "--json", "--ambient", "50C")  # warm: others may have much of this machine's CPU
    demo.wait_for(COOLING, "[1-9].*")
    demo.wait_for(FAN, "[1-9].*")
    demo.wait_for(FAN, "0")  # it is stuck again: the board was well for ten simulated minutes
    document = demo.end()
    session, recorded = document["session"], Recorded(tmp_path / "one.edgetop")

    assert document["throttled"] is True
    (_, stuck), (freed_s, freed), (again_s, stuck_again) = recorded.told()
    assert (stuck, freed, stuck_again) == tuple(
        getattr(SCENARIOS["thermal"], which) for which in ("begins", "ends", "begins")
    )
    seconds, flags = recorded.readings("throttle/thermal")
    assert flags[0] == 0
    assert any(flags[seconds < freed_s])
    meanwhile = flags[(seconds > freed_s) & (seconds < again_s)]
    assert not meanwhile[-1]
    assert not any(np.diff(meanwhile) > 0)
    assert 80 < recorded.readings("temp/cpu-thermal")[1].max() < 110

    origin_ns = session["clock"]["origin_monotonic_ns"]
    factors = stretches(demo, recorded, origin_ns)
    assert all(measured > 0.95 * factor for measured, factor in factors)
    assert max(factor for _, factor in factors) > 1.1
    assert CLOCKS[-1] in {mhz for _, end, mhz in demo.clocks if end > origin_ns + freed_s * NS}

    # It is marked, and so are its sensors.
    assert session["board"]["simulated"] is True
    assert session["labels"] == {"scenario": "thermal", "speed": "300x"}
    assert (session["methodology"]["ambient_c"], session["methodology"]["enclosure"]) == (50.0, "a closed box")
    simulated = {sensor["id"]: sensor["simulated"] for sensor in session["sensors"]}
    assert (simulated["throttle/thermal"], simulated["load/engine"], simulated["mem/rss"]) == (True, False, False)
    report = edgetop("report", "one", home=tmp_path).stdout
    assert report.startswith("SIMULATED  STOPPED: by a signal\n")
    assert not list(tmp_path.glob(f"{PREFIX}*"))


@pytest.mark.thorough
def test_an_engine_that_crashes_ends_the_session_with_its_cause(start, tmp_path):
    demo = start("--scenario", "crash", "--speed", "1000x")
    out, err = demo.process.communicate(timeout=PATIENCE_S)
    assert demo.process.returncode == 3
    assert "SIGSEGV" in err.splitlines()[-1]
    assert out.startswith("SIMULATED  ENGINE DIED")
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_the_folder_of_a_killed_demo_is_removed_by_the_next(start, tmp_path):
    demo = start("--scenario", "healthy")
    demo.wait_for(COOLING, "0")
    demo.process.kill()
    demo.process.communicate()
    (left,) = tmp_path.glob(f"{PREFIX}*")
    again = edgetop("demo", "--headless", "--runs", "5", "--no-record", home=tmp_path, XDG_RUNTIME_DIR=str(tmp_path))
    assert again.returncode == 0
    assert not left.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario", "termal"], "'termal': did you mean thermal?"),
        (["--scenario", "zzz"], "'zzz': known: healthy, thermal, power-cap"),
        (["--speed", "fast"], "'fast' is not a speed; write 20x, from 0.1x to 1000x"),
        (["--speed", "0x"], "'0x' is not a speed"),
        (["--speed", "1e9"], "'1e9' is not a speed"),
        (["--isolation", "thread"], "--isolation thread: the virtual board can slow"),
        (["--sysroot", "/tmp"], "no such option: --sysroot (see edgetop demo --help)"),
        (["model.onnx"], "model.onnx: no such file"),
    ],
)
def test_what_it_cannot_do_it_says_in_one_line(arguments, words, tmp_path):
    done = edgetop("demo", *arguments, "--headless", home=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_a_board_that_finds_no_place_is_told_in_one_line(tmp_path):
    script = f'ulimit -f 0; "{sys.executable}" -m edgetop demo --headless --no-record'  # no file may hold a byte
    done = subprocess.run(  # noqa: PLW1510  the exit status is what is asserted
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        env=environment(tmp_path, XDG_RUNTIME_DIR=str(tmp_path)),
    )
    assert done.returncode == 2
    words = "edgetop: the virtual board cannot be created: File too large (its files go into $XDG_RUNTIME_DIR)\n"
    assert done.stderr == words
    assert not list(tmp_path.glob(f"{PREFIX}*"))


def test_help_and_the_topic_name_every_scenario(tmp_path):
    told = edgetop("demo", "--help", home=tmp_path).stdout
    topic = edgetop("help", "demo", home=tmp_path).stdout
    for name in SCENARIOS:
        assert name in told
        assert f"| {name} |" in topic


# Each scenario at a pace at which it can be judged, on an otherwise idle machine.

FLAGS = {
    "thermal": "throttle/thermal",
    "power-cap": "throttle/over-current",
    "under-voltage": "throttle/under-voltage",
}
FACTORS = {"power-cap": 1 / 0.7, "under-voltage": 1.6, "contention": 1.5}


@pytest.mark.benchmark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", CAUSES)
def test_a_scenario_slows_the_engine_by_what_it_says_and_lets_go(scenario, start, tmp_path):
    document = _whole(start, "--scenario", scenario, "--speed", "40x", "--duration", "40s")
    recorded = Recorded(tmp_path / "one.edgetop")
    times = dict(reversed([(words, second) for second, words in recorded.told()]))  # the first time of each
    begins_s, ends_s = times[SCENARIOS[scenario].begins], times[SCENARIOS[scenario].ends]
    if scenario in FLAGS:
        seconds, flags = recorded.readings(FLAGS[scenario])
        up_s = seconds[flags == 1]
        cut_s = up_s[0] if scenario == "thermal" else begins_s
        assert up_s[0] - cut_s < 5
        assert not any(flags[(seconds > ends_s + 5) & (seconds < ends_s + 12)])
        assert all(flags[(seconds > up_s[0]) & (seconds < ends_s)])
    else:
        cut_s = begins_s
    before = recorded.quantile_ms(0.5, cut_s - 5, cut_s - 1)
    slowed = recorded.quantile_ms(0.5, ends_s - 5, ends_s)
    after = recorded.quantile_ms(0.5, ends_s + 4, ends_s + 10)
    clock_s, mhz = recorded.readings("freq/cpu0")
    factor = FACTORS.get(scenario) or 1728 / np.median(mhz[(clock_s > ends_s - 5) & (clock_s < ends_s)])
    print(f"\n{scenario}: p50 {before:.2f} ms, then {slowed:.2f}, then {after:.2f}; its clock says {factor:.2f} times")
    if scenario == "contention":
        assert slowed > factor * before
    else:
        assert slowed / before == pytest.approx(factor, rel=0.1)
    assert after == pytest.approx(before, rel=0.1)
    check_cause(document, scenario)


def _whole(start, *arguments):
    demo = start("--json", *arguments)
    out, err = demo.process.communicate(timeout=scaled(200))
    assert demo.process.returncode == 0, err
    return json.loads(out)


@pytest.mark.benchmark
@pytest.mark.timeout(300)
def test_a_healthy_board_is_never_slowed(start, tmp_path):
    document = _whole(start, "--scenario", "healthy", "--speed", "100x", "--duration", "40s")
    assert document["throttled"] is False
    assert document["temperature"]["temp/cpu-thermal"]["max"] > 60
    recorded = Recorded(tmp_path / "one.edgetop")
    early, late = recorded.quantile_ms(0.5, 2, 15), recorded.quantile_ms(0.5, 25, 38)
    print(f"\nhealthy: p50 {early:.2f} ms, then {late:.2f}")
    assert late == pytest.approx(early, rel=0.1)
    assert not document["slowdowns"]


@pytest.mark.benchmark
@pytest.mark.timeout(300)
def test_a_leak_is_as_large_as_it_says(start, tmp_path):
    document = _whole(start, "--scenario", "leak", "--duration", "40s")
    seconds, mib = Recorded(tmp_path / "one.edgetop").readings("mem/rss")
    well = (seconds > 10) & (seconds < 38)
    grown_kib = (mib[well][-1] - mib[well][0]) * 1024
    count = document["latency"]["throughput_hz"] * (seconds[well][-1] - seconds[well][0])
    print(f"\nleak: {grown_kib / count:.2f} KiB an inference, {grown_kib / 1024:.1f} MiB in all")
    assert grown_kib / count == pytest.approx(1.0, rel=0.2)
