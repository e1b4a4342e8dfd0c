"""Who watches a session for those who are not at its screen."""

import json
import sys
import time
from pathlib import Path

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.cli.event_hooks import EventHooks, Hook
from edgetop.engines.spec import EngineSpec
from edgetop.runner.session_state import SessionState
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.seconds import NS
from tests.support import onnx_models
from tests.support.clocks import ManualClock
from tests.support.commands import edgetop
from tests.support.scripts import manifest
from tests.support.sessions import ended_event
from tests.support.slow_sessions import session_of
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

RULE = read_event(0, "alert-rule", "info", "user", "alert if max>30ms", {"rule": "max>30ms"})


class Watched:
    def __init__(self, event: str, source: str) -> None:
        clock = ManualClock()
        self.session_state = SessionState(manifest(), EngineSpec("m.onnx", "onnx"), clock)
        hook = Hook(event, (sys.executable, "-S", "-c", source))
        self.hooks = EventHooks((hook,), self.session_state, clock, lambda: {"name": "soak", "id": "5f", "path": None})
        self.analysis = Analysis()

    def fold(self, batch: Batch) -> None:
        self.analysis.fold(batch)
        self.hooks.observe(self.analysis)


def test_a_hook_hears_of_an_alert_of_its_session(tmp_path: Path) -> None:
    file = tmp_path / "given"
    watched = Watched("alert", f"import sys; open({str(file)!r}, 'w').write(sys.stdin.read())")
    watched.fold(Batch(events=(RULE,), restart=True))
    watched.fold(Batch(**_parts(session_of([10.0] * 10 + [40.0] * 10))))
    [event] = wait_until(lambda: [event for event in watched.session_state.take_events() if event.kind == "hook-ran"])
    assert event.body.event == "alert"
    told = json.loads(file.read_text())
    assert (told["event"], told["rule"], told["begin_s"], told["unit"]) == ("alert", "max>30ms", 10.0, "ms")
    assert told["session"] == {"name": "soak", "id": "5f", "path": None}
    assert told["time_utc"].startswith("2026-11-21T")
    watched.hooks.finish()


def _parts(batch: Batch) -> dict[str, object]:
    return {"until_ns": batch.until_ns, "seconds": batch.seconds, "events": batch.events, "manifest": batch.manifest}


def test_the_end_is_told_and_what_fails_then_is_said_on_stderr(capsys: object) -> None:
    watched = Watched("ended", "import sys; sys.exit('no\\x1b[2Jhost')")
    watched.session_state.ended("duration")
    watched.session_state.take_events()
    watched.fold(Batch(5 * NS, events=(ended_event(5 * NS),)))
    watched.hooks.finish()
    assert watched.session_state.take_events() == ()
    said = capsys.readouterr().err  # type: ignore[attr-defined]
    assert said.startswith("edgetop: ended=python")
    assert said.endswith("ended with exit code 1: no\\x1b[2Jhost\n")


def test_a_run_hears_the_whole_way(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    options = ("--headless", "--live", "--runs", "5", "--no-record", "--profile-every", "0")
    hook = "ended=sh -c 'cat > told; echo not on the screen'"
    done = edgetop("run", "model.onnx", *options, "--alert", "max>1ns", "--on-event", hook, home=tmp_path)
    assert done.returncode == 0
    assert "not on the screen" not in done.stdout + done.stderr
    assert "Finished: all runs are done." in done.stderr
    told = json.loads((tmp_path / "told").read_text())
    assert (told["event"], told["session"]["name"], told["session"]["path"]) == ("ended", "model", None)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "--notify", "--headless"), "--notify needs a terminal to ring"),
        (("run", "--live", "--detach"), "--live needs --headless"),
        (("attach", "--live"), "--live needs --headless"),
        (("attach", "ssh:board", "--headless"), "ssh HOST edgetop attach --headless"),
        (("attach", "--headless", "--notify"), "--notify needs a terminal to ring"),
        (("demo", "--on-event", "throtled=true"), "did you mean throttled?"),
        (("run", "--alert", "tmp>80C"), "did you mean temp"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = edgetop(*arguments, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


@pytest.mark.parametrize(
    "source",
    [
        "import os\nwhile True: os.write(1, b'noise ' * 10_000)",
        # Its end leaves another process that prints into the same pipe.
        "import os\nif os.fork(): os._exit(0)\nos.setsid()\nfor _ in range(3_000): os.write(1, b'noise ' * 10_000)",
    ],
    ids=["itself", "a process that it leaves"],
)
def test_a_hook_that_prints_without_end_is_ended(source: str) -> None:
    watched = Watched("ended", source)
    watched.session_state.ended("duration")
    watched.fold(Batch(5 * NS, events=(ended_event(5 * NS),)))
    begin_s = time.monotonic()
    watched.hooks.finish(grace_s=0.5)
    assert time.monotonic() - begin_s < PATIENCE_S


def test_what_a_hook_prints_last_is_kept_however_much_it_is(tmp_path: Path) -> None:
    watched = Watched("alert", "import os\nfor _ in range(30): os.write(1, b'noise ' * 10_000)\nprint('the end')")
    watched.fold(Batch(events=(RULE,), restart=True))
    watched.fold(Batch(**_parts(session_of([10.0] * 10 + [40.0] * 10))))
    [event] = wait_until(lambda: [event for event in watched.session_state.take_events() if event.kind == "hook-ran"])
    assert event.message.endswith("the end")
    watched.hooks.finish()
