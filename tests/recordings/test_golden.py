"""Sessions of format 1, as they were once written: they open for ever, with the same content.

`first` is from before there was a journal, `finished` from after; `killed` is what a writer left
that was killed after six seconds.
"""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.report import report_document
from edgetop.recording.reader import Recording
from edgetop.recording.schema import SECONDS
from edgetop.session.batch import merge
from edgetop.session.records import INFERENCE
from tests.support.recordings import content

V1 = Path(__file__).parent / "v1"
FIRST_COLUMNS = np.dtype([(name, INFERENCE[name]) for name in INFERENCE.names if name != "variant"])
# Of each: state, inferences, readings, events, seconds, and a digest of every inference.
HOLDS = {
    "first": ("finished", 200, 54, 17, 10, "2e320a54c5aa10ee"),
    "finished": ("finished", 200, 54, 17, 10, "2e320a54c5aa10ee"),
    "killed": ("recovered", 124, 33, 11, 6, "2558b836db336fdc"),
}


FIGURES = ("count", "min_ms", "p50_ms", "p99_ms", "max_ms", "mean_ms")
WHOLE = (180, 40.023446, 40.492373, 42.02496, 42.248391, 40.577744)
KILLED = (104, 40.023446, 40.515907, 41.73824, 42.135943, 40.570224)


@pytest.fixture(params=HOLDS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return shutil.copytree(V1 / f"{request.param}.edgetop", tmp_path / f"{request.param}.edgetop")


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
    assert figures == pytest.approx(KILLED if golden.stem == "killed" else WHOLE, rel=1e-9)
    assert document["phases"]["warmup"]["runs"] == 19
    assert document["session"]["id"] == "0b5f6f3e-8f0e-4c57-9f3c-6f5a4f1f2a31"


def test_once_opened_it_stays_as_it_is(golden: Path) -> None:
    Recording(golden)
    before = content(golden)
    Recording(golden)
    assert content(golden) == before


def test_what_an_earlier_version_left_is_published_with_every_column_of_today(tmp_path: Path) -> None:
    folder = shutil.copytree(V1 / "killed.edgetop", tmp_path / "killed.edgetop")
    Recording(folder)
    assert pq.read_schema(folder / "seconds.parquet").names == SECONDS.names
