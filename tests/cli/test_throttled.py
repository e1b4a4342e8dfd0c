"""A board that says it is throttled, under a real engine: readings, report, events and hook tell the same spans."""

import json
import sys

import duckdb
import pytest

from tests.support.commands import edgetop, start_edgetop
from tests.support.waiting import scaled

pytestmark = pytest.mark.slow

NS = 1e9
WRITE = "import sys; open('heard', 'a').write(sys.stdin.read())"


def rows(folder, query):
    return duckdb.sql(query.replace("FOLDER", str(folder))).fetchall()


def spans_of(folder, flag):
    """First and last reading of each time in which a flag was up, in seconds."""
    readings = rows(
        folder, f"select t_ns, value from 'FOLDER/readings.parquet' where sensor = 'throttle/{flag}' order by t_ns"
    )
    spans, was_up = [], False
    for t_ns, value in readings:
        if value and not was_up:
            spans.append([t_ns / NS, t_ns / NS])
        elif value:
            spans[-1][1] = t_ns / NS
        was_up = bool(value)
    return spans


@pytest.mark.parametrize(
    ("scenario", "speed", "flag", "engine"),
    [("under-voltage", "120x", "under-voltage", "onnxruntime"), ("power-cap", "60x", "over-current", "litert")],
)
def test_every_span_of_a_flag_is_told(scenario, speed, flag, engine, tmp_path):
    hook = f'throttled={sys.executable} -S -c "{WRITE}"'
    process = start_edgetop(
        "demo", "--headless", "--json", "-o", "one", "--scenario", scenario, "--speed", speed, "--engine", engine,
        "--duration", "14s", "--fail-if", "throttled", "--on-event", hook, home=tmp_path, XDG_RUNTIME_DIR=str(tmp_path),
    )  # fmt: skip
    out, err = process.communicate(timeout=scaled(100))
    assert process.returncode == 1, err
    assert "gate failed: throttled" in err
    document, folder = json.loads(out), tmp_path / "one.edgetop"
    up = spans_of(folder, flag)
    assert up
    listed = [(span["start_s"], span["end_s"]) for span in document["throttles"]]
    for first_s, last_s in up:
        assert any(begin <= first_s + 0.001 and last_s <= end + 1 for begin, end in listed), (first_s, last_s, listed)
    assert {span["cause"] for span in document["throttles"]} == {scenario}
    again = json.loads(edgetop("report", folder, "--json", home=tmp_path).stdout)
    assert (again["throttles"], again["throttled"]) == (document["throttles"], True)
    assert again["verdict"] == document["verdict"]
    times = "once" if len(listed) == 1 else f"{len(listed)} times"
    assert any(past.startswith(f"was throttled {times}") for past in document["verdict"]["past"])
    events = rows(folder, "select t_ns, kind, data from 'FOLDER/events.parquet' where kind like 'throttle-%'")
    begun = sorted(t_ns / NS for t_ns, kind, _ in events if kind == "throttle-begin")
    assert begun == pytest.approx([begin for begin, _ in listed], abs=1)
    assert all(json.loads(data)["cause"] == scenario for *_, data in events)
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    assert sum(1 + told["skipped"] for told in heard) == len(listed)
    assert heard[0]["event"] == "throttled"
    assert heard[0]["begin_s"] == pytest.approx(listed[0][0], abs=1)
