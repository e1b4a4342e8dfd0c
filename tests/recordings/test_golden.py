"""Sessions of format 1, as they were once written: they open for ever, with the same content.

`first` lacks the columns that came later; `finished` has them. `killed` is what a writer of the same session left
when it was killed after six seconds: some rows in tables, the rest in the journal. `arm64` and `arm64-killed` were
written on that instruction set (under emulation, .ci/arm64), where this test reads the others in turn.

`foreign-tables` and `foreign-journal` are what development versions left, whose journals and unpublished tables no
version reads: these are not part of format 1 (`edgetop help format`). Nothing of them may be thrown away.
"""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.recording.reader import Recording
from edgetop.session.batch import merge
from edgetop.session.records import INFERENCE
from edgetop.wording.report_document import report_document
from tests.support.recordings import content

V1 = Path(__file__).parent / "v1"
FIRST_COLUMNS = np.dtype([(name, INFERENCE[name]) for name in INFERENCE.names if name != "variant"])
# Of each: state, inferences, readings, events, seconds, and a digest of every inference.
HOLDS = {
    "first": ("finished", 200, 54, 17, 10, "2e320a54c5aa10ee"),
    "finished": ("finished", 200, 54, 17, 10, "2e320a54c5aa10ee"),
    "killed": ("recovered", 124, 33, 11, 6, "2558b836db336fdc"),
    "arm64": ("finished", 65, 2269, 101, 73, "bdc6b1d3a4e1b2be"),
    "arm64-killed": ("recovered", 175, 709, 36, 24, "b82fc7cb26c1c026"),
}

FIGURES = ("count", "min_ms", "p50_ms", "p99_ms", "max_ms", "mean_ms")
# Of each: its identity, the inferences of its warm-up, and FIGURES.
WHOLE = ("0b5f6f3e-8f0e-4c57-9f3c-6f5a4f1f2a31", 19, (180, 40.023446, 40.492373, 42.02496, 42.248391, 40.577744))
REPORTS = {
    "first": WHOLE,
    "finished": WHOLE,
    "killed": (*WHOLE[:2], (104, 40.023446, 40.515907, 41.73824, 42.135943, 40.570224)),
    "arm64": (
        "902beb0a-8d33-4de4-b001-ea31f40759cd", 50,
        (14, 744.006044, 892.163413, 1399.84896, 1402.639496, 907.910655),
    ),
    "arm64-killed": (
        "d7bdaf83-34ce-470b-83c9-8319c8b9edc0", 50,
        (124, 1.538609, 1.658149, 9.80992, 12.50022, 2.278055),
    ),
}  # fmt: skip


@pytest.fixture(params=HOLDS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return shutil.copytree(V1 / f"{request.param}.edgetop", tmp_path / f"{request.param}.edgetop")


@pytest.mark.parametrize("name", ["killed", "arm64-killed", "foreign-tables", "foreign-journal"])
def test_a_killed_one_is_still_what_its_writer_left(name: str) -> None:
    """A look at the original instead of a copy completes it, and it is golden no more."""
    names = {path.name for path in (V1 / f"{name}.edgetop").iterdir()}
    assert names == {"session.json", "journal"}


def test_it_holds_what_it_held(golden: Path) -> None:
    recording = Recording(golden)
    batch = merge(list(recording.play(inferences=True)))
    assert recording.problems == []
    inferences = np.empty(len(batch.inferences), FIRST_COLUMNS)
    for name in FIRST_COLUMNS.names:
        inferences[name] = batch.inferences[name]
    digest = hashlib.sha256(inferences.tobytes()).hexdigest()[:16]
    assert not batch.inferences["variant"].any()
    counts = (len(batch.inferences), len(batch.readings), len(batch.events), len(batch.seconds))
    assert (recording.manifest.state, *counts, digest) == HOLDS[golden.stem]


def test_it_reports_what_it_reported(golden: Path) -> None:
    analysis = Analysis()
    for batch in Recording(golden).play():
        analysis.fold(batch)
    document = report_document(analysis)
    figures = tuple(document["latency"][name] for name in FIGURES)
    identity, warmup, expected = REPORTS[golden.stem]
    assert figures == pytest.approx(expected, rel=1e-9)
    assert document["phases"]["warmup"]["runs"] == warmup
    assert document["session"]["id"] == identity


def test_once_opened_it_stays_as_it_is(golden: Path) -> None:
    Recording(golden)
    before = content(golden)
    Recording(golden)
    assert content(golden) == before


def test_a_foreign_journal_costs_no_byte_of_it(tmp_path: Path) -> None:
    folder = shutil.copytree(V1 / "foreign-journal.edgetop", tmp_path / "foreign-journal.edgetop")
    segments = {path.name: path.read_bytes() for path in folder.glob("journal/*.journal")}
    lost = Recording(folder).manifest.lost
    assert lost
    assert lost.inferences is None
    assert {path.name: path.read_bytes() for path in folder.glob("*.damaged")} == {
        f"{name}.damaged": data for name, data in segments.items()
    }


def test_foreign_tables_without_footer_are_left_alone(tmp_path: Path) -> None:
    folder = shutil.copytree(V1 / "foreign-tables.edgetop", tmp_path / "foreign-tables.edgetop")
    before = content(folder)
    recording = Recording(folder)
    list(recording.play(inferences=True))
    assert any("inferences-0000.partial: is damaged" in problem for problem in recording.problems)
    assert {name: data for name, data in content(folder).items() if name in before} == before
