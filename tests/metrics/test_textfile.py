import os
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from edgetop.errors import InputError
from edgetop.metrics.families import families
from edgetop.metrics.outlet import Outlet
from edgetop.metrics.textfile import Textfile
from tests.support.scripts import measured
from tests.support.sessions import folded
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def analysis():
    return folded(measured(3).batches)


def runs_in(folder):
    """By the label `run`, what node_exporter would read."""
    texts = [path.read_text() for path in folder.glob("*.prom")]
    samples = [s for text in texts for family in text_string_to_metric_families(text) for s in family.samples]
    return {sample.labels["run"] for sample in samples if sample.name == "edgetop_session_info"}


def test_runs_share_a_folder(tmp_path, analysis) -> None:
    first, second = Textfile(tmp_path), Textfile(tmp_path)
    for file in (first, second):
        assert file.write(families(analysis)) == ""
    assert runs_in(tmp_path) == {"1", "2"}
    assert (tmp_path / "edgetop-1.prom").stat().st_mode & 0o777 == 0o644
    first.remove()
    assert runs_in(tmp_path) == {"2"}
    third = Textfile(tmp_path)
    third.write(families(analysis))
    assert runs_in(tmp_path) == {"1", "2"}
    second.remove()
    third.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_goes_with_the_next(tmp_path, analysis) -> None:
    alive, killed, also_killed = (Textfile(tmp_path) for _ in range(3))
    for file in (alive, killed, also_killed):
        file.write(families(analysis))
    for file in (killed, also_killed):
        os.close(file._lock)  # as the kernel does
    new = Textfile(tmp_path)
    assert runs_in(tmp_path) == {"1", "2"}, "the file of run 2 is the new one's now, and 3 is gone"
    new.remove()
    alive.remove()


def test_a_folder_that_cannot_be(tmp_path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        Textfile(tmp_path / "none")
    file = Textfile(tmp_path)
    file._folder = tmp_path / "gone"
    assert "No such file" in file.write([])
    file.remove()


def test_a_disk_that_hangs_holds_nobody_up_and_is_told_once(analysis) -> None:
    """What comes meanwhile is skipped; trouble is told when it begins, and when it is over."""
    said, answers, given = [], ["full", "full", "", ""], []

    def send(found):
        given.append(found)
        return answers[len(given) - 1]

    outlet = Outlet(0.0, send, said.append)
    for number in range(1, 5):
        outlet.observe(analysis)
        wait_until(lambda number=number: len(given) == number and outlet._waiting.empty())
    outlet.close(last=False)
    assert said == ["full", ""]


def test_what_hangs_at_the_end_is_given_up(analysis, monkeypatch) -> None:
    monkeypatch.setattr("edgetop.metrics.outlet.FAREWELL_S", 0.05)
    said, released = [], threading.Event()
    outlet = Outlet(0.0, lambda _: "" if released.wait(20) else "late", said.append)
    outlet.observe(analysis)
    outlet.close(last=True)
    assert said == ["nobody has taken the last ones within 0 s"]
    released.set()
    outlet._waiting.put(None)
    outlet._thread.join(20)
    assert not outlet._thread.is_alive()
