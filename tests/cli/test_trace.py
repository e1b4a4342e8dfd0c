"""`edgetop trace`: the log of a fast power meter beside a recorded session."""

import json
from pathlib import Path

import numpy as np
import pytest

from edgetop.session.event_codec import read_event
from edgetop.session.operators import Operator, burst_of
from tests.support.commands import edgetop
from tests.support.power_traces import Traced
from tests.support.recordings import record
from tests.support.sessions import Batch, MadeSession, ended_event, make_inferences, make_manifest, phase_event

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
