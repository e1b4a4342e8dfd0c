"""The usage of a program as docker stats, pidstat, GNU time and Auptimizer's Profiler write it."""

import json
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.imports.measured import SensorLog
from edgetop.imports.read import Options, read

PROFILER = """Profiling script: test_perf.py

NAME  AVG CPU %  AVG MEM USAGE / LIMIT  NET I/O  BLOCK I/O  TIMESTAMP
test_container  91.25%  37.5MiB / 156MiB  2.33kB / 0B  3.79MB / 0B      1600000000000
test_container  98.75%  39.5MiB / 156MiB  2.33kB / 0B  3.79MB / 8.19kB  1600000002200
test_container  0.00%   0B / 0B           0B / 0B      0B / 0B          1600000004400
FINISHED
*********************************************************

Usage Stats:
NAME            AVG CPU %    PEAK CPU  AVG MEM USAGE / LIMIT    PEAK MEM    NET I/O         BLOCK I/O    TOTAL TIME (ms)
--------------  ---------  ----------  -----------------------  ----------  --------------  --------------  ------------
test_container  95.0%           98.75  38.5 MiB / 156.0 MiB     39.5 MiB    2.3 kB / 0.0 B  3.6 MiB / 4 kB          2200
Refer to the documentation on how to interpret the results.
"""
STATS = {"BlockIO": "1.5MB / 8.19kB", "CPUPerc": "50.00%", "Container": "ab", "MemUsage": "30MiB / 100MiB",
         "Name": "cam", "NetIO": "1.2kB / 10B"}  # fmt: skip
TIME = """\tCommand being timed: "python3 train.py --n 3"
\tUser time (seconds): 1.50
\tSystem time (seconds): 0.50
\tPercent of CPU this job got: 80%
\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:02.50
\tMaximum resident set size (kbytes): 20480
\tFile system inputs: 8
\tFile system outputs: 16
\tExit status: 0
"""
PIDSTAT = """Linux 6.1.0 (vm) \t11/28/26 \t_x86_64_\t(2 CPU)

11:59:58 PM   UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command
11:59:59 PM     0      1234   50.00    1.00    0.00    0.00   51.00     0  python3
11:59:59 PM     0      1235   10.00    0.00    0.00    0.00   10.00     1  python3

11:59:58 PM   UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command
11:59:59 PM     0      1234      1.00      0.00   99999   10240   0.10  python3

11:59:59 PM   UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command
12:00:00 AM     0      1234   52.00    1.00    0.00    0.00   53.00     0  python3

11:59:59 PM   UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command
12:00:00 AM     0      1234      1.00      0.00   99999   20480   0.10  python3
Average:        0      1234      1.00      0.00   99999   15360   0.10  python3
"""


def log_of(folder: Path, text: str, options: Options | None = None) -> tuple[SensorLog, tuple[str, ...]]:
    path = folder / "told"
    path.write_text(text)
    reading = read(path, options or Options())
    (found,) = reading.found
    assert isinstance(found, SensorLog)
    assert found.used
    return found, reading.notes


def values(log: SensorLog) -> dict[str, list[float]]:
    return {info.id: list(column) for info, column in zip(log.sensors, log.values, strict=True)}


def test_docker_stats(tmp_path: Path) -> None:
    lines = [STATS, {**STATS, "CPUPerc": "--", "MemUsage": "-- / --"}, {**STATS, "CPUPerc": "70.00%"}]
    log, _ = log_of(tmp_path, "\n".join(map(json.dumps, lines)), Options(interval_ns=2_000_000_000))
    assert values(log) == {"load/application": [50, 70], "mem/application": [30, 30], "mem/cgroup-limit": [100, 100]}
    assert log.command == ("cam",)
    assert log.used
    assert (log.used.read_bytes, log.used.write_bytes, log.used.net_rx_bytes, log.used.net_tx_bytes) == (
        1_500_000, 8_190, 1_200, 10
    )  # fmt: skip
    assert list(log.times_ns[0]) == [4_000_000_000, 8_000_000_000]


def test_the_samples_of_the_profiler_give_its_own_figures(tmp_path: Path) -> None:
    log, notes = log_of(tmp_path, PROFILER)
    assert not [note for note in notes if "not understood" in note]
    assert values(log)["load/application"] == [91.25, 98.75]
    assert log.used
    assert log.used.total_ns == 2_200_000_000
    assert log.used.cpu_ns == pytest.approx(0.95 * 2.2e9)
    assert log.used.read_bytes == 3_790_000


def test_gnu_time(tmp_path: Path) -> None:
    log, _ = log_of(tmp_path, TIME)
    assert log.command == ("python3", "train.py", "--n", "3")
    assert log.used
    assert (log.used.total_ns, log.used.cpu_ns) == (62_500_000_000, 2_000_000_000)
    assert (log.used.rss_peak_mib, log.used.read_bytes, log.used.write_bytes) == (20.0, 4096, 8192)


def test_pidstat_over_midnight(tmp_path: Path) -> None:
    log, _ = log_of(tmp_path, PIDSTAT)
    assert values(log) == {"load/application": [61, 53], "mem/application": [10, 20]}
    assert log.used
    assert log.used.total_ns == 2_000_000_000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\n".join(json.dumps({**STATS, "Name": name}) for name in "ab"), "samples of 2 programs"),
        (json.dumps(STATS).replace("30MiB", "30 parsecs") + "\n" + json.dumps(STATS), "is no size"),
        (TIME + TIME, "it has 2 programs"),
        (TIME.replace("User time", "Time"), "it has no line"),
        (json.dumps({**STATS, "CPUPerc": "--"}) * 1, "it has no sample"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        log_of(tmp_path, text)
