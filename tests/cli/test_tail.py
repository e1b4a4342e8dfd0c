"""`edgetop tail` on a recording."""

import json
import shutil
from pathlib import Path

import pytest

from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from tests.analysis.test_ab import TURNS, batches_of, run_of
from tests.support.commands import edgetop
from tests.support.recordings import record
from tests.support.scripts import paced
from tests.support.sessions import ended_event
from tests.support.slow_sessions import session_of, stretch


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tail")
    record(folder / "paced.edgetop", paced(20).end().batches)
    record(folder / "even.edgetop", [session_of(stretch((20, 10.0)), scatter=0.0)])
    return folder


def test_the_tail_of_a_session_is_that_of_its_report(home: Path) -> None:
    done, report = (edgetop(name, "paced.edgetop", "--json", home=home) for name in ("tail", "report"))
    assert (done.returncode, done.stderr) == (0, "")
    found, told = json.loads(done.stdout), json.loads(report.stdout)["tail"]
    assert [one["latency_ms"] for one in found["slowest"]] == [one["latency_ms"] for one in told["slowest"]] != []
    assert sum(one["share"] for one in found["causes"]) + found["unexplained"] == pytest.approx(1, abs=0.01)


def test_as_text_it_lists_as_many_as_asked(home: Path) -> None:
    lines = edgetop("tail", "paced.edgetop", "--top", 1, home=home).stdout.splitlines()
    assert lines.index("   latency  at        cause") == len(lines) - 2


def test_an_even_session_has_none(home: Path) -> None:
    done = edgetop("tail", "even.edgetop", home=home)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no inference stands out" in done.stderr


def test_a_session_of_two_models_is_not_called_even(home: Path) -> None:
    ends = Batch(TURNS.end_ns + NS, events=(ended_event(TURNS.end_ns + NS, "duration"),))
    record(home / "ab.edgetop", [*batches_of(TURNS, run_of(TURNS, 1.0)), ends])
    done = edgetop("tail", "ab.edgetop", home=home)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("an A/B session has no tail")


def test_a_session_whose_figures_are_lost_is_not_called_even(home: Path) -> None:
    folder = Path(shutil.copytree(home / "paced.edgetop", home / "damaged.edgetop"))
    for name in ("seconds", "inferences"):
        (folder / f"{name}.parquet").write_bytes(b"PAR1")
    done = edgetop("tail", "damaged.edgetop", home=home)
    said, damage = done.stderr.splitlines()
    assert (done.returncode, said) == (2, "nothing was measured, or it cannot be read")
    assert "is damaged" in damage
