"""What the reader of uprobes says is foreign: it runs as the owner of the watched process, who may trace or stop it."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from edgetop.engines.engine_protocol import LogLine, Started
from edgetop.errors import InputError
from edgetop.taps import taps, watched_process
from edgetop.taps.watched_process import MOST_NEWS, ProcessSpec, WatchedProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
READY = (
    "import os, sys, time\nsay = lambda *all: [os.write(0, one + b'\\n') for one in all]\nsay(b'{\"ready\": true}')\n"
)


@pytest.fixture
def watched(monkeypatch):
    """Starts watching a process that sleeps, with a reader that runs a script."""
    sleeper = subprocess.Popen(["sleep", "100"])
    made = []

    def start(script, unit=None):
        monkeypatch.setattr(watched_process, "READER", script)
        made.append(WatchedProcess(ProcessSpec((), sleeper.pid, unit=unit)))
        made[-1].start_helpers()
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.close()
    sleeper.kill()
    sleeper.wait()


def test_any_line_is_taken(watched):
    lines = [
        {"found": "/x\ud800\n\x1b[31m", "functions": 7},
        {"found": {"a": 1}, "functions": {"b": 2}},
        {"found": [[]], "functions": [None, [1], "y" * 5000]},
        {"missing": ["\ud800" * 900]},
        {"unread": 7},
        {"failed": {"x": "\x1b"}},
        {"module": "/a\0b", "interpreter": "python", "sites": [], "sha256": ""},
        {"module": "\ud800", "interpreter": "\ud800", "sites": ["\0"], "sha256": 1},
        {"module": 7, "interpreter": 8, "sites": 9, "sha256": 1},
        {"module": "/x"},
        [1],
        {"missing": "last"},
    ]
    raw = [json.dumps(one).encode() for one in lines]
    one = watched(f"{READY}say(b'[' * 9000, b'\\xff', b'9' * 9000, *{raw!r})\nos.read(0, 1)")
    texts = []
    wait_until(lambda: texts.extend(said(one)) or "last" in texts)
    assert max(map(len, texts)) <= watched_process.MOST_TEXT
    assert all(text.isprintable() for text in texts)
    json.dumps(texts).encode("ascii")
    " ".join(texts).encode("utf-8")


def test_endless_news_fill_no_recording(watched):
    one = watched(f'{READY}while True: say(*2000 * [b\'{{"missing": "x"}}\'])')
    texts, until = [], time.monotonic() + 1
    wait_until(lambda: texts.extend(said(one)) or time.monotonic() > until)
    assert len(texts) == MOST_NEWS


def test_an_endless_first_line_is_refused(watched):
    with pytest.raises(InputError, match="the uprobes could not be set"):
        watched("import os\nwhile True: os.write(0, b'x' * 9999)")


def test_a_reader_that_is_stopped_is_left_by_nobody(watched, monkeypatch):
    monkeypatch.setattr(watched_process, "END_S", 0.2)
    one = watched(f'{READY}say(b\'{{"missing": "%d"}}\' % os.getpid())\nos.kill(os.getpid(), 19)')
    texts = []
    wait_until(lambda: texts.extend(said(one)) or texts)
    one.close()
    assert not Path(f"/proc/{texts[0]}").exists()


def test_while_breakpoints_are_set_the_screen_says_so(watched, monkeypatch):
    """A process of many threads takes its time: it has mapped a library, of which nothing is seen yet."""
    monkeypatch.setattr(taps, "QUIET_NS", 0)
    said = json.dumps({"sets": "/x/libonnxruntime.so\x1b", "threads": 1500}).encode()
    one = watched(f"{READY}say({said!r})\nos.read(0, 1)")
    wait_until(lambda: one.poll() and one._setting)
    assert one._why_quiet() == "libonnxruntime.so\\x1b is mapped, and breakpoints are being set in 1500 threads"


def test_a_unit_that_is_asked_about_stops_nothing(watched, monkeypatch, tmp_path):
    """systemctl may take ten seconds and more; the readings of the session come from the same thread."""
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\necho begun > {tmp_path}/begun\ncat {tmp_path}/answer\n")
    (tmp_path / "systemctl").chmod(0o755)
    os.mkfifo(tmp_path / "answer")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    one = watched(f"{READY}os.read(0, 1)", unit="camera.service")
    os.kill(one.spec.pid, signal.SIGKILL)
    messages = []
    wait_until(lambda: messages.extend(one.poll().messages) or (tmp_path / "begun").exists())
    for _ in range(3):
        messages += one.poll().messages
    wait_until(lambda: is_answered(tmp_path / "answer"))
    wait_until(lambda: messages.extend(one.poll().messages) or any(isinstance(each, Started) for each in messages[1:]))
    assert messages[-1] == Started(os.getpid(), "")


def is_answered(path):
    """Whether systemctl still waits for what it is to say, and now says it."""
    with contextlib.suppress(OSError):
        answer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(answer, f"MainPID={os.getpid()}\nActiveState=active\n".encode())
        os.close(answer)
        return True
    return False


def said(one):
    return [each.message for each in one.poll().messages if isinstance(each, LogLine)]
