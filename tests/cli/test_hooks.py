"""Commands that are run at events: what they are given, how often, for how long, and what becomes of their failures."""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetop.cli.event_hooks import OUTPUT_CHARS, EventHooks, Hook
from edgetop.session.event_kinds import HookDone
from tests.support.clocks import ManualClock
from tests.support.waiting import PATIENCE_S, wait_until


class Told:
    """What hooks say of themselves."""

    def __init__(self) -> None:
        self.events: list[tuple[HookDone, str]] = []

    def __call__(self, body: HookDone, severity: str, source: str, message: str) -> None:
        assert (severity, source) == ("info" if body.kind == "hook-ran" else "warning", "hook")
        self.events.append((body, message))

    def next(self) -> tuple[HookDone, str]:
        wait_until(lambda: self.events)
        return self.events.pop(0)


@pytest.fixture
def told() -> Told:
    return Told()


def program(source: str) -> tuple[str, ...]:
    return sys.executable, "-S", "-c", source


def hooks(
    told: Told, *sources: str, event: str = "throttled", timeout_s: float = 30.0
) -> tuple[EventHooks, ManualClock]:
    clock = ManualClock()
    made = [Hook(event, program(source)) for source in sources]
    state = SimpleNamespace(has_ended=False, add_event=told)
    return EventHooks(made, state, clock, dict, timeout_s=timeout_s), clock


def test_a_hook_reads_the_event_as_json(told: Told, tmp_path: Path) -> None:
    file = tmp_path / "given"
    run, _ = hooks(told, f"import sys; open({str(file)!r}, 'w').write(sys.stdin.read()); print('done')")
    run.offer("throttled", {"event": "throttled", "message": "hot\n"})
    done, message = told.next()
    assert (done.kind, message.partition(" ran")[2], done.exit_code) == ("hook-ran", ": done", 0)
    assert json.loads(file.read_text()) == {"event": "throttled", "message": "hot\n", "skipped": 0}
    run.finish()


def test_only_hooks_of_that_event_and_of_any_run(told: Told) -> None:
    run, _ = hooks(told, "print('mine')")
    run.offer("slowed", {"event": "slowed"})
    run.finish()
    assert told.events == []
    run, _ = hooks(told, "print('all')", event="any")
    run.offer("slowed", {"event": "slowed"})
    assert told.next()[0].kind == "hook-ran"
    run.finish()


@pytest.mark.slow
def test_it_runs_once_a_minute_and_hears_how_many_it_missed(told: Told) -> None:
    run, clock = hooks(told, "import json, sys; print(json.load(sys.stdin)['skipped'])")
    for seconds in (0, 30, 29, 2):
        clock.advance(seconds)
        run.offer("throttled", {"event": "throttled"})
    assert [told.next()[1].rpartition(" ")[2] for _ in range(2)] == ["0", "2"]
    run.finish()


@pytest.mark.slow
def test_what_came_too_soon_after_another_is_told_at_the_end(told: Told) -> None:
    run, clock = hooks(told, "import json, sys; d = json.load(sys.stdin); print(d['number'], d['skipped'])")
    for number in range(3):
        run.offer("throttled", {"event": "throttled", "number": number})
        clock.advance(5)
    run.finish()
    assert [told.next()[1].partition(": ")[2] for _ in range(2)] == ["0 0", "2 1"]


def test_what_fails_is_told_with_the_end_of_what_it_said(told: Told) -> None:
    run, _ = hooks(told, "import sys; print('x' * 100_000, flush=True); sys.exit('no such\\x1b[2J host')")
    run.offer("throttled", {"event": "throttled"})
    done, message = told.next()
    assert (done.kind, done.exit_code) == ("hook-failed", 1)
    assert "exit code 1" in message
    assert done.output
    assert done.output.endswith("no such\x1b[2J host")
    assert len(done.output) <= OUTPUT_CHARS
    run.finish()


def test_a_signal_is_told_by_its_name(told: Told) -> None:
    run, _ = hooks(told, "import os, signal; os.kill(os.getpid(), signal.SIGUSR1)")
    run.offer("throttled", {"event": "throttled"})
    assert "ended by SIGUSR1" in told.next()[1]
    run.finish()


def test_a_program_that_is_gone_is_a_failure(told: Told, tmp_path: Path) -> None:
    state = SimpleNamespace(has_ended=False, add_event=told)
    run = EventHooks([Hook("throttled", (str(tmp_path / "gone"),))], state, ManualClock(), dict)
    run.offer("throttled", {"event": "throttled"})
    assert "could not be started: No such file" in told.next()[1]
    run.finish()


FORKS = """
import os, sys, time
if not os.fork():
    time.sleep(600)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_one_that_hangs_is_killed_with_what_it_started(told: Told) -> None:
    for timeout_s in (1.0, 5.0, 25.0):  # on a busy machine, a start of Python may take longer than a second
        run, _ = hooks(told, FORKS, timeout_s=timeout_s)
        run.offer("throttled", {"event": "throttled"})
        done, message = told.next()
        run.finish()
        if done.output:
            break
    assert (done.kind, done.exit_code) == ("hook-failed", None)
    assert "was killed after" in message
    group = int(done.output or "")
    wait_until(lambda: not is_alive(group))


@pytest.mark.slow
def test_the_end_of_the_session_waits_for_it_but_not_for_long(told: Told) -> None:
    for grace_s in (1.0, 5.0, 25.0):  # on a busy machine, a start of Python may take longer than a second
        told.events.clear()
        run, _ = hooks(told, "import sys; sys.stdin.read(); print('done')", "import time; time.sleep(600)")
        run.offer("throttled", {"event": "throttled"})
        run.finish(grace_s=grace_s)
        if any(done.kind == "hook-ran" for done, _ in told.events):
            break
    assert sorted(done.kind for done, _ in told.events) == ["hook-failed", "hook-ran"]


def test_an_offer_does_not_wait_for_hooks_that_hang(told: Told) -> None:
    run, clock = hooks(told, "import time; time.sleep(600)")
    done = threading.Event()

    def offer() -> None:
        for _ in range(5):
            clock.advance(61)
            run.offer("throttled", {"event": "throttled"})
        done.set()

    threading.Thread(target=offer, daemon=True).start()
    assert done.wait(PATIENCE_S)
    run.finish(grace_s=0.0)


def test_one_that_leaves_a_process_behind_is_not_waited_for(told: Told) -> None:
    run, _ = hooks(
        told,
        "import os, time; os.fork() and (print(os.getpid(), flush=True), os._exit(0)); time.sleep(600)",
        timeout_s=10 * PATIENCE_S,
    )
    run.offer("throttled", {"event": "throttled"})
    done, _ = told.next()
    os.killpg(int(done.output or ""), signal.SIGKILL)
    assert done.kind == "hook-ran"
    run.finish()
