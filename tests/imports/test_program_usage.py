"""The usage of a program as docker stats, pidstat, GNU time and Auptimizer's Profiler write it."""

import json
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.imports.measured import SensorLog
from edgetop.imports.read import Options, read
from tests.imports.samples import PIDSTAT, PIDSTAT_H, PIDSTAT_T, PROFILER, PROFILER_TABLE, STATS, TIME


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


def test_the_profilers_table_alone_has_the_totals(tmp_path: Path) -> None:
    log, notes = log_of(tmp_path, PROFILER_TABLE)
    assert log.used
    assert (log.used.total_ns, log.used.cpu_ns) == (2_200_000_000, round(0.95 * 2.2e9))
    assert (log.used.rss_peak_mib, log.used.pss_mean_mib, log.used.net_rx_bytes) == (39.5, 38.5, 2300)
    assert (log.used.read_bytes, log.used.write_bytes) == (round(3.6 * 2**20), 4000)
    assert values(log) == {"mem/cgroup-limit": [156]}
    assert notes == ("its peak CPU of 98.75 % is left out: a single reading of docker stats, without its time",)
    line = next(line for line in PROFILER_TABLE.splitlines() if line.startswith("test_container"))
    with pytest.raises(InputError, match="its table has 2 programs: keep one in a file"):
        log_of(tmp_path, PROFILER_TABLE + line.replace("test_", "other_") + "\n")


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


def test_pidstat_of_threads_counts_each_process_once(tmp_path: Path) -> None:
    log, notes = log_of(tmp_path, PIDSTAT_T)
    assert values(log) == {"load/application": [19, 39]}
    assert notes == ('4 of 10 columns not read, the first: "%usr"',)


def test_pidstat_in_one_table_has_cpu_and_memory(tmp_path: Path) -> None:
    log, _ = log_of(tmp_path, PIDSTAT_H.replace("17.00", "17,00").replace("19.00", "19,00"))
    assert values(log) == {"load/application": [19, 36], "mem/application": [13396 / 1024] * 2}


def test_samples_without_values_are_counted(tmp_path: Path) -> None:
    empty = {**STATS, "CPUPerc": "--", "MemUsage": "-- / --"}
    _, notes = log_of(tmp_path, "\n".join(map(json.dumps, [empty, STATS])))
    assert notes == ('1 of 2 samples have no values, as the container did not run, the first: "-- -- / --"',)


def test_a_programs_own_lines_are_none_of_gnu_times(tmp_path: Path) -> None:
    own = "User time (seconds): 99.00\nElapsed: 5\nCommand exited with non-zero status 3\n"
    log, notes = log_of(tmp_path, own + TIME)
    assert log.used
    assert log.used.cpu_ns == 2_000_000_000
    assert notes == ('2 of 15 lines not understood, the first: "User time (seconds): 99.00"',)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\n".join(json.dumps({**STATS, "Name": name}) for name in "ab"), "samples of 2 programs"),
        (json.dumps(STATS).replace("30MiB", "30 parsecs") + "\n" + json.dumps(STATS), "is no size"),
        (PIDSTAT_H.replace("%CPU", "%XPU").replace("RSS", "XSS"), "neither %CPU nor RSS: run pidstat with -u or -r"),
        (TIME + TIME, "it has 2 programs"),
        (TIME.replace("User time", "Time"), "it has no line"),
        (json.dumps({**STATS, "CPUPerc": "--"}) * 1, "it has no sample"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        log_of(tmp_path, text)
