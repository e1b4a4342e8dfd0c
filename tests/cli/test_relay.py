"""`edgetop relay`: frames on stdout and nothing else, and an end when its viewer goes."""

import fcntl
import math
import subprocess
import sys

import pytest

from edgetop.cli import terminal
from edgetop.cli.watching import relay
from edgetop.errors import EdgetopError
from edgetop.recording.session_folder import LOCK, open_folder
from edgetop.relay import relay_frames
from edgetop.relay.relay_frames import FrameParser
from tests.support.commands import environment
from tests.support.relays import LiveRecording
from tests.support.scripts import Script
from tests.support.terminal import Terminal
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path):
    (tmp_path / "state/edgetop").mkdir(parents=True)
    return tmp_path


class Relayed:
    """A relay whose viewer stays until it has seen enough, for the relay waits for none that has gone.

    That it is still at work is said at any time, and tells nothing here.
    """

    def __init__(self, home, *arguments: str):
        argv, pipe = [sys.executable, "-m", "edgetop", "relay", *arguments], subprocess.PIPE
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=environment(home))
        self.process.stdin.write(relay_frames.hello())
        self.frames: list[relay_frames.Frame] = []

    def read(self, at_most: float = math.inf) -> list[relay_frames.Frame]:
        parser = FrameParser()
        while len(self.frames) < at_most and (said := self.process.stdout.read(65_536)):
            self.frames += (frame for frame in parser.feed(said) if frame.kind != relay_frames.ALIVE)
        return self.frames

    def close(self) -> tuple[int, bytes]:
        """The exit code, and what it said to a person."""
        errors = self.process.communicate(timeout=PATIENCE_S)[1]
        return self.process.returncode, errors


def test_it_streams_the_newest_session_and_ends_with_its_input(home):
    script = Script(step_s=0.5).load().warm_up().begin().measure(2)
    live = LiveRecording(home / "state/edgetop/soak.edgetop", script.batches)
    relay = Relayed(home)
    frames = relay.read(at_most=3)
    assert [frame.kind for frame in frames[:3]] == [relay_frames.HELLO, relay_frames.BEGIN, relay_frames.BATCH]
    assert frames[1].text("session") == str(live.folder)
    assert relay.close() == (0, b"")


@pytest.mark.parametrize(
    "name", ["soak", *(pytest.param(other, marks=pytest.mark.thorough) for other in ("soak.edgetop", "0b9c8f7e"))]
)
def test_a_named_finished_session_is_streamed_to_its_end(home, name):
    script = Script(step_s=0.5).load().warm_up().begin().measure(2).end()
    LiveRecording(home / "state/edgetop/soak.edgetop").finish(*script.batches)
    relay = Relayed(home, "--", name)
    assert relay.read()[-1].kind == relay_frames.END
    assert relay.close() == (0, b"")


def test_a_failure_is_a_message_to_the_viewer_alone(home):
    relay = Relayed(home, "--", "--soak")
    assert relay.read()[-1].text("message").startswith("--soak: no such recording")
    assert relay.close() == (0, b"")


def test_to_a_person_it_says_what_it_is(home):
    terminal = Terminal(["relay"], 120, 24, environment(home), template="commands")
    assert terminal.wait_for_exit() == 2
    terminal.close()
    assert "relay talks to another edgetop, not to a person (edgetop attach ssh:HOST starts it)" in terminal.text


def test_it_ends_with_its_viewer_whatever_it_is_busy_with(home):
    """Here it waits for another process that completes the session, and will not end."""
    folder = home / "state/edgetop/soak.edgetop"
    live = LiveRecording(folder, Script(step_s=0.5).load().warm_up().begin().measure(2).batches)
    live.die()
    with (folder / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        lock.write("\n")
        lock.flush()
        argv = [sys.executable, "-m", "edgetop", "relay", "--", "soak"]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, bufsize=0, env=environment(home)) as relay:
            assert FrameParser().feed(relay.stdout.read(65_536))
            relay.stdin.write(relay_frames.hello())
            relay.stdin.close()
            assert relay.wait(PATIENCE_S) == 0


def past_of(folder):
    held_folder = open_folder(folder)  # its path leads nowhere once it is let go
    return list(relay._read_past(held_folder))


def test_signs_of_life_are_sent_while_the_past_is_read(home, monkeypatch):
    script = Script(step_s=0.5).load().warm_up().begin().measure(2)
    live = LiveRecording(home / "soak.edgetop", script.batches)
    monkeypatch.setattr(relay, "ALIVE_EVERY_S", 0.001)
    kinds = [frame.kind for frame in past_of(live.folder)]
    assert kinds[0] == relay_frames.ALIVE
    assert [kind for kind in kinds if kind != relay_frames.ALIVE][:2] == [relay_frames.PLACE, relay_frames.BATCH]


def test_a_past_that_cannot_be_read_is_an_error(home, monkeypatch):
    (home / "soak.edgetop").mkdir()
    assert "not a recorded session" in past_of(home / "soak.edgetop")[-1].text("message")
    (home / "fails.py").write_text("import sys; sys.exit(3)")
    monkeypatch.setattr(terminal, "_PROGRAM", str(home / "fails.py"))
    with pytest.raises(EdgetopError, match="exit code 3"):
        past_of(home / "soak.edgetop")
