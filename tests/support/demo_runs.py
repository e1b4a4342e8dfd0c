"""A demo under a real engine, and whether all that tells of its throttling agrees with what its sensors read."""

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from tests.support.commands import edgetop, start_edgetop
from tests.support.waiting import scaled

NS = 1e9
WRITE = "import sys; open('heard', 'a').write(sys.stdin.read())"
BURN = "while True: pass"
READ = (
    "select distinct t_ns from 'FOLDER/readings.parquet' where sensor like 'throttle/%' and sensor not like '%-sticky'"
)
LATE_S = 5.0  # a flag is read every two seconds, and a line is of what came before it


class Burners:
    """Programs that ask for every core, until they are left."""

    def __init__(self, count: int) -> None:
        self._count, self._all = count, ExitStack()

    def __enter__(self) -> None:
        for _ in range(self._count):
            burner = self._all.enter_context(subprocess.Popen([sys.executable, "-S", "-c", BURN]))
            self._all.callback(burner.kill)

    def __exit__(self, *_: object) -> None:
        self._all.close()


def rows(folder, query):
    return duckdb.sql(query.replace("FOLDER", str(folder))).fetchall()


def spans_up(folder: Path) -> list[tuple[str, float, float]]:
    """Each time in which a flag that is not sticky was up: which, its first and its last such reading, in seconds."""
    spans: list[tuple[str, float, float]] = []
    last = ("", 0.0)
    query = (
        "select sensor, t_ns, value from 'FOLDER/readings.parquet'"
        " where sensor like 'throttle/%' and sensor not like '%-sticky' order by sensor, t_ns"
    )
    for sensor, t_ns, value in rows(folder, query):
        if value and last == (sensor, 1.0):
            spans[-1] = (*spans[-1][:2], t_ns / NS)
        elif value:
            spans.append((sensor, t_ns / NS, t_ns / NS))
        last = (sensor, value)
    return spans


def demo(home: Path, *options: str) -> tuple[dict, list[str], int]:
    """Its report, the lines it said meanwhile, and how it ended. It is recorded as `one`, and a hook writes `heard`."""
    hook = f'throttled={sys.executable} -S -c "{WRITE}"'
    process = start_edgetop(
        "demo", "--headless", "--live", "--json", "-o", "one", "--fail-if", "throttled", "--on-event", hook, *options,
        home=home, XDG_RUNTIME_DIR=str(home),
    )  # fmt: skip
    out, err = process.communicate(timeout=scaled(1_500))
    assert out, err
    return json.loads(out), err.splitlines(), process.returncode


def check_told(home: Path, said: tuple[dict, list[str], int]) -> list[tuple[str, float, float]]:
    """Verdict, events, report, JSON, gate and hook against `readings.parquet`; gives the spans that it has."""
    document, lines, code = said
    folder = home / "one.edgetop"
    up, told = spans_up(folder), document["throttles"]
    session_end_s = max(t_ns for (t_ns,) in rows(folder, "select t_ns from 'FOLDER/events.parquet'")) / NS
    listed = [(span["start_s"], span["end_s"] or session_end_s) for span in told]
    assert bool(listed) == bool(up)
    for flag, first_s, read_s in up:
        last_s = min(read_s, max(end for _, end in listed))  # sensors are read until the engine is gone
        assert any(begin <= first_s + 0.001 and last_s <= end + 0.001 for begin, end in listed), (flag, first_s, told)
    for begin, end in listed:
        assert any(begin - 1 <= first_s and last_s <= end + 1 for _, first_s, last_s in up), (begin, end, up)
    _check_report(home, document)
    _check_events(folder, told)
    _check_lines(lines, listed, [t_ns / NS for (t_ns,) in rows(folder, READ)])
    measured_s = min((t_ns for (t_ns,) in rows(folder, "select t_ns from 'FOLDER/seconds.parquet'")), default=0) / NS
    is_throttled = any(end > measured_s + 1 for _, end in listed)
    assert is_throttled <= document["throttled"] <= bool(listed)
    if document["session"]["end_reason"] == "duration":
        assert code == int(document["throttled"])
        assert any("gate failed: throttled" in line for line in lines) == document["throttled"]
    heard = [json.loads(line) for line in (home / "heard").read_text().splitlines()] if listed else []
    assert sum(1 + event["skipped"] for event in heard) == len(listed)
    if heard:
        assert heard[0]["event"] == "throttled"
        assert heard[0]["begin_s"] == pytest.approx(listed[0][0], abs=1)
    return up


def _check_report(home: Path, document: dict) -> None:
    again = json.loads(edgetop("report", home / "one.edgetop", "--json", home=home).stdout)
    for key in ("throttles", "throttled", "throttled_share", "verdict", "slowdowns"):
        assert again[key] == document[key], key
    count = len(document["throttles"])
    times = "once" if count == 1 else f"{count} times"
    past = [words for words in document["verdict"]["past"] if words.startswith("was throttled")]
    assert len(past) == bool(count)
    if count:
        assert past[0].startswith(f"was throttled {times}")
        text = edgetop("report", home / "one.edgetop", home=home).stdout
        assert f"throttles  {times}," in text
    for slowdown in document["slowdowns"] or []:  # one beginning: a flag's, where a flag is its cause
        mine = [span for span in document["throttles"] if span["cause"] == slowdown["cause"]]
        starts_s = [span["start_s"] for span in mine if span["start_s"] < (slowdown["end_s"] or 1e9)]
        assert not starts_s or slowdown["from_start"] or min(abs(s - slowdown["start_s"]) for s in starts_s) <= 3


def _check_events(folder: Path, told: list[dict]) -> None:
    events = rows(folder, "select t_ns, kind, data from 'FOLDER/events.parquet' where kind like 'throttle-%'")
    begun = sorted(t_ns / NS for t_ns, kind, _ in events if kind == "throttle-begin")
    over = sorted(t_ns / NS for t_ns, kind, _ in events if kind == "throttle-end")
    assert begun == pytest.approx([span["start_s"] for span in told], abs=0.01)
    ends = sorted(span["end_s"] for span in told if span["end_s"] is not None)
    assert over == pytest.approx(ends[: len(over)], abs=0.01)
    assert len(ends) - len(over) <= 1  # that which the end of the session cut
    assert {json.loads(data)["cause"] for *_, data in events} == {span["cause"] for span in told}


def _check_lines(lines: list[str], listed: list[tuple[float, float]], read_s: list[float]) -> None:
    """What is said meanwhile: the word of the present while a flag is up, and not when it is over.

    Where edgetop itself was kept from reading its sensors, it cannot say either.
    """
    for line in lines:
        found = re.match(r"(?:(\d+) hours?,? )?(?:(\d+) minutes?,? )?(?:(\d+) seconds?)?\. Simulated", line)
        if not found or "Finished" in line or "Gate failed" in line:
            continue
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        now_s = hours * 3600 + minutes * 60 + seconds
        says_so = re.search(r"\b[Tt]hrottl(ing|ed from the start)\b", line) is not None
        if not any(now_s - LATE_S < second < now_s - 1 for second in read_s):
            continue
        if any(begin + LATE_S < now_s < end - 1 for begin, end in listed):
            assert says_so or "Loading" in line or "Warming" in line, line
        elif not any(begin - 1 < now_s < end + LATE_S + 2 for begin, end in listed):
            assert not says_so, line
