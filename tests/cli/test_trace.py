"""`edgetop trace`: the log of a fast power meter beside a recorded session."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetop.session.event_codec import read_event
from edgetop.session.operators import Operator, burst_of
from tests.support.commands import edgetop
from tests.support.power_traces import Traced
from tests.support.recordings import record
from tests.support.sessions import Batch, MadeSession, ended_event, make_inferences, make_manifest, phase_event
from tests.support.thorough import mostly_thorough

NS = 10**9
SESSION = Traced(31, count=1500, offset=1.75)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    end_ns = int(SESSION.starts[-1] + SESSION.lengths[-1]) + NS
    mark = read_event(int(SESSION.starts[700]), "mark", "info", "user", "here", {})
    made = MadeSession(
        manifests=((0, make_manifest()),),
        inferences=make_inferences(SESSION.starts, SESSION.lengths),
        readings=Batch().readings,
        events=(phase_event(int(SESSION.starts[0]), "measure"), mark, ended_event(end_ns, last_end_ns=end_ns)),
        end_ns=end_ns,
    )
    operators = tuple(
        Operator(name, "Conv", "CPU", 1, round(1e6 * share))
        for name, share in zip(("conv1", "conv2", "head"), SESSION.shares, strict=True)
    )
    told = read_event(NS, "profile-burst", "info", "engine", "", {"burst": 0, "runs": 1, "run_ns": 10**6})
    batches = list(made.batches())
    batches.insert(
        0, Batch(NS // 2, manifest=batches[0].manifest, events=(told,), bursts=(burst_of(NS, 0, operators),))
    )
    record(folder / "soak.edgetop", batches)
    t_s, watts = (np.concatenate(of) for of in zip(*SESSION.pieces(), strict=True))
    marked = (SESSION.offset + t_s >= SESSION.starts_s[700]).astype(int)
    rows = zip((t_s * 1e3).tolist(), (watts / 5 * 1e6).tolist(), marked.tolist(), strict=True)
    lines = "".join(f"{ms:.2f},{microamperes:.1f},{mark}\n" for ms, microamperes, mark in rows)
    (folder / "ppk2.csv").write_text("Timestamp(ms),Current(uA),D0\n" + lines)
    return folder


def traced(home: Path, *more: object) -> dict[str, object]:
    done = edgetop(
        "trace",
        "soak.edgetop",
        home / "ppk2.csv",
        "--format",
        "ppk2",
        "--power-volts",
        "5V",
        "--json",
        *more,
        home=home,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_log_is_aligned_and_cut(home: Path) -> None:
    found = traced(home)
    assert found["alignment"]["how"] == "pattern"  # type: ignore[index]
    assert found["alignment"]["offset_s"] == pytest.approx(SESSION.offset, abs=5e-4)  # type: ignore[index]
    assert found["alignment"]["confidence"] >= 0.9  # type: ignore[index]
    assert found["energy_mj"] == pytest.approx(SESSION.true_mj, rel=0.01)
    assert found["inferences"] >= 1490  # type: ignore[operator]
    assert [one["name"] for one in found["operators"]] == ["conv1", "conv2", "head"]  # type: ignore[attr-defined]
    assert len(found["waveform"]["mean_w"]) == 200  # type: ignore[index]
    assert found["unknown"] is None


@pytest.mark.parametrize(("more", "how"), [(("--offset", "1.75s"), "offset"), (("--marker", "D0"), "marker")])
def test_an_offset_or_a_marker_replaces_the_search(home: Path, more: tuple[str, ...], how: str) -> None:
    found = traced(home, *more)
    assert found["alignment"]["how"] == how  # type: ignore[index]
    assert found["alignment"]["offset_s"] == pytest.approx(SESSION.offset, abs=2e-4)  # type: ignore[index]
    assert found["alignment"]["confidence"] is None  # type: ignore[index]
    assert found["alignment"]["pattern"] is None  # type: ignore[index]
    assert found["energy_mj"] == pytest.approx(SESSION.true_mj, rel=0.01)


def test_an_offset_that_the_pattern_of_inferences_contradicts_is_told_as_such(home: Path) -> None:
    found = traced(home, "--offset", "1.754s")
    assert found["alignment"]["offset_s"] == 1.754  # type: ignore[index]
    assert found["alignment"]["pattern"]["offset_s"] == pytest.approx(SESSION.offset, abs=5e-4)  # type: ignore[index]
    assert found["alignment"]["pattern"]["confidence"] >= 0.9  # type: ignore[index]
    log = (home / "ppk2.csv", "--format", "ppk2", "--power-volts", "5V", "--offset", "1.754s")
    done = edgetop("trace", "soak.edgetop", *log, home=home)
    assert "it contradicts the inferences; by the pattern of inferences: log time 0 is at 1.75" in done.stdout


def test_as_text_and_as_a_page(home: Path) -> None:
    log = ("trace", "soak.edgetop", home / "ppk2.csv", "--format", "ppk2", "--power-volts", "5V")
    lines = edgetop(*log, home=home).stdout.splitlines()
    assert lines[0].startswith("aligned    by the pattern of inferences")
    assert any(line.startswith("energy     6") and "mJ an inference" in line for line in lines)
    assert any(line.split()[-1:] == ["conv2"] for line in lines)
    done = edgetop(*log, "--html", home / "page.html", home=home)
    assert done.stdout.strip() == str(home / "page.html")
    page = (home / "page.html").read_text()
    assert "mean power over an inference" in page
    assert "mJ an inference" in page


@pytest.mark.parametrize(
    ("log", "more", "why"),
    [
        ("none.csv", (), "No such file"),
        ("ppk2.csv", ("--format", "monsoon"), "no column main(ma)"),
        ("ppk2.csv", ("--marker", "D9"), "no column D9"),
    ],
)
def test_what_cannot_be_read_is_one_line(home: Path, log: str, more: tuple[str, ...], why: str) -> None:
    done = edgetop("trace", "soak.edgetop", home / log, "--format", "ppk2", "--power-volts", "5V", *more, home=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


# By format: the lines above the rows, a row, and the option that reverses its sign.
REVERSED = {
    "ppk2": ("Timestamp(ms),Current(uA)", "{ms:.2f},{ua:.1f}", "--current-column 2:-1e-06"),
    "monsoon": ("Time(ms),Main(mA),Main Voltage(V),", "{s:.5f},{ma:.3f},5.0,", "--current-column 2:-0.001"),
    "joulescope": ("#time,current,voltage,power", "{s:.5f},{a:.5f},5.0,{w:.5f}", "--power-column 4:-1"),
    "otii": ("Timestamp (s);Main current (mA);Main voltage (V)", "{s:.5f};{ma:.3f};5.0", "--current-column 2:-0.001"),
    "oscilloscope": ("Model,DS\nTime,CH1,CH2\ns,V,V", "{s:.5f},{a:.6f},5.0", "--current-column 2:-1"),
    "csv": ("time_ms,current_ma,voltage_mv", "{ms:.2f},{ma:.3f},5000", "--current-column 2:-0.001"),
}
MORE = {
    "ppk2": ("--power-volts", "5V"),
    "oscilloscope": ("--current-column", "CH1", "--voltage-column", "CH2"),
}


@pytest.mark.parametrize("log_format", mostly_thorough(list(REVERSED), "monsoon"))
def test_a_reversed_probe_is_told_with_the_option_that_reverses_it(home: Path, tmp_path: Path, log_format: str) -> None:
    """Inferences without a pause fit no reversed power, but the reason is the probe and not the alignment."""
    header, row, option = REVERSED[log_format]
    t_s, watts = (np.concatenate(of) for of in zip(*SESSION.pieces(), strict=True))
    rows = (
        row.format(s=s, ms=s * 1e3, w=-w, a=-w / 5, ma=-w / 5 * 1e3, ua=-w / 5 * 1e6)
        for s, w in zip(t_s.tolist(), watts.tolist(), strict=True)
    )
    log = tmp_path / "log"
    log.write_text("\n".join([header, *rows, ""]))
    command = ("trace", "soak.edgetop", log, "--format", log_format, *MORE.get(log_format, ()))
    done = edgetop(*command, home=home)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith("energy     not known: its power is negative on average, so the probe is reversed")
    assert f"edgetop trace {option} reads this log" in line
    found = json.loads(edgetop(*command, *option.split(), "--json", home=home).stdout)
    assert found["energy_mj"] == pytest.approx(SESSION.true_mj, rel=0.01)
    assert found["alignment"]["offset_s"] == pytest.approx(SESSION.offset, abs=5e-4)


def test_samples_below_zero_at_rest_count_as_they_are(home: Path, tmp_path: Path) -> None:
    resting = replace(SESSION, idle=-0.5, rest=3.0)
    t_s, watts = (np.concatenate(of) for of in zip(*resting.pieces(), strict=True))
    log = tmp_path / "log"
    offset_s = float(SESSION.starts_s[0] - resting.starts_s[0]) + SESSION.offset
    rows = zip(t_s.tolist(), watts.tolist(), strict=True)
    log.write_text("time_s,power_w\n" + "".join(f"{t:.5f},{w:.4f}\n" for t, w in rows))
    found = json.loads(edgetop("trace", "soak.edgetop", log, "--format", "csv", "--json", home=home).stdout)
    assert found["alignment"]["offset_s"] == pytest.approx(offset_s, abs=5e-4)
    assert found["energy_mj"] == pytest.approx(SESSION.true_mj, rel=0.01)
