"""`edgetop compare` on recordings, as a user types it."""

import csv
import io
import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import edgetop
from tests.support.printed import BENCHMARK_MODEL
from tests.support.recordings import record
from tests.support.scripts import measured

pytestmark = pytest.mark.slow

V1 = Path(__file__).parents[1] / "recordings/v1"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Golden recordings, a session of a minute, and one without a single inference."""
    home = tmp_path_factory.mktemp("home")
    for golden in V1.iterdir():
        shutil.copytree(golden, home / golden.name)
    record(home / "minute.edgetop", measured(60).end().batches)
    record(home / "empty.edgetop", measured(0).end().batches)
    return home


@pytest.mark.thorough
def test_every_golden_recording_is_compared(home: Path) -> None:
    done = edgetop("compare", "finished", "first", "killed", "arm64-killed", "minute", "empty", "--json", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    p50 = next(row for row in document["rows"] if row["key"] == "p50_ms")
    assert p50["values"][0] == pytest.approx(40.492373)
    assert p50["values"][-1] is None
    assert len(p50["ratios"]) == 6
    assert {"nothing-measured", "recovered"} <= {one["code"] for one in document["fair"]}


def test_what_another_tool_printed_is_compared(home: Path) -> None:
    (home / "printed.txt").write_text(BENCHMARK_MODEL)
    assert edgetop("import", "printed.txt", "-o", "imported", home=home).returncode == 0
    document = json.loads(edgetop("compare", "minute", "imported", "--json", home=home).stdout)
    p50 = next(row for row in document["rows"] if row["key"] == "p50_ms")
    assert p50["values"][1] == pytest.approx(51.891)
    assert {"tool-summary", "one-session-each"} <= {one["code"] for one in document["fair"]}


def test_outputs_are_judged_by_labels_and_the_users_metric(home: Path) -> None:
    about = {"outputs": [{"name": "scores", "scale": 0.0, "zero_point": 0}], "inputs": [], "seed": 0}
    for name, scores in (("finished", [[0.1, 0.9]]), ("minute", [[0.6, 0.4]])):
        given = {"about": np.array(json.dumps(about)), "inputs": np.array(["a"]), "00000-0": np.array(scores)}
        np.savez(home / f"{name}.edgetop/outputs.npz", **given)
    np.save(home / "labels.npy", np.array([1]))
    (home / "eval.py").write_text("def score(outputs, labels):\n    return outputs['scores'][0][0, labels[0]]\n")
    judged = ("--labels", "labels.npy", "--metric", "eval:score")
    done = edgetop("compare", "finished", "minute", *judged, "--json", home=home)
    rows = {row["key"]: row["values"] for row in json.loads(done.stdout)["rows"]}
    assert rows["output/scores/top-1"] == [1.0, 0.0]
    assert rows["output/scores/same_top"] == [None, 0.0]
    assert rows["metric/eval:score"] == [0.9, 0.4]
    done = edgetop("compare", "finished", "minute", "--metric", "eval:nothing", home=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--metric eval:nothing: cannot be loaded: AttributeError" in done.stderr


def test_a_page_of_text_has_the_words(home: Path) -> None:
    done = edgetop("compare", "finished", "minute", home=home)
    assert done.returncode == 0
    assert "cannot tell: one session each" in done.stdout
    assert "unfair     one session each" in done.stdout


def test_gates_and_csv_and_junit(home: Path) -> None:
    gates = ("--fail-if", "p50>+900%", "--fail-if", "rss>+20MiB", "--junit", "gates.xml")
    done = edgetop("compare", "finished", "finished", *gates, "--csv", "-", home=home)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["session"], row["verdict"]) for row in rows if row["key"] == "p50_ms"][1][1] == "same"
    cases = ET.parse(home / "gates.xml").getroot()[0]
    assert [(case.get("name"), len(case)) for case in cases] == [
        (f"p50>+900% {rows[1]['session']}", 0), (f"rss>+20MiB {rows[1]['session']}", 0)
    ]  # fmt: skip
    assert done.returncode == 0
    strict = edgetop("compare", "minute", "finished", "--fail-if", "p50>+3%", "--strict", home=home)
    assert strict.returncode == 1
    assert "gate failed: p50>+3%" in strict.stderr


@pytest.mark.parametrize(("arguments", "words"), [
    (("finished",), "needs two sessions"),
    (("finished", "nowhere"), "nowhere: no such recording"),
    (("finished", "minute", "--group-by", "colour"), "has no label colour"),
    (("finished", "minute", "--fail-if", "p50>3%"), "write NAME>+LIMIT"),
    (("finished", "minute", "--strict"), "--strict needs --fail-if"),
])  # fmt: skip
def test_what_cannot_be_compared_is_one_line(home: Path, arguments: tuple[str, ...], words: str) -> None:
    done = edgetop("compare", *arguments, home=home)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert words in done.stderr
