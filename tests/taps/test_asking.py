"""What a program answers is taken without waiting, and neither its silence nor its talk has no end."""

from pathlib import Path

import pytest

from edgetop.taps import asking
from edgetop.taps.asking import Asked
from tests.support.waiting import scaled, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def asked():
    made = []

    def ask(script, within_s=30):
        made.append(Asked(["sh", "-c", script], scaled(within_s)))
        return made[-1]

    yield ask
    for one in made:
        one.close()


def test_the_answer_comes_whole_with_its_exit_status(asked):
    assert asked("echo one; sleep 0.1; echo two; exit 3").wait() == (3, b"one\ntwo\n")


def test_nobody_waits_for_it(asked, tmp_path):
    one = asked(f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo done")
    assert one.poll() is None
    (tmp_path / "go").touch()
    answers = []
    wait_until(lambda: answers.append(one.poll()) or answers[-1])
    assert answers[-1] == (0, b"begun\ndone\n")


def test_endless_talk_is_cut_off(asked):
    one = asked("exec yes")
    with pytest.raises(TimeoutError):
        one.wait()
    assert len(one._said) <= asking.MOST_SAID + 4096


def test_silence_ends(asked):
    with pytest.raises(TimeoutError):
        asked("exec sleep 100", within_s=0.05).wait()


def test_an_output_that_is_closed_early_is_no_answer_yet(asked):
    with pytest.raises(TimeoutError):
        asked("exec >&-; exec sleep 100", within_s=0.05).wait()


def test_what_it_started_ends_with_it(asked, tmp_path):
    one = asked(f"sleep 100 & echo $! > {tmp_path}/child; wait")
    wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
    child = int((tmp_path / "child").read_text())
    one.close()
    wait_until(lambda: not is_alive(child))


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
