"""Real runs that are killed at some moment, and what can be said of what they leave."""

import signal
import time
from dataclasses import dataclass
from pathlib import Path

from edgetop.recording.reader import Recording
from edgetop.session.batch import merge
from edgetop.session.seconds import NS
from tests.support.commands import start_edgetop
from tests.support.recordings import content
from tests.support.waiting import wait_until

LOADING_NS = 3 * NS  # until then the engine may not have run anything


@dataclass(frozen=True)
class Killed:
    folder: Path
    killed_ns: int  # on the session's clock's scale: CLOCK_MONOTONIC


def killed_run(model: Path, home: Path, name: str, after_s: float, *options: str) -> Killed:
    """Start a run, and kill it so long after its session has begun."""
    process = start_edgetop("run", model, "--headless", "-o", name, *options, home=home)
    folder = home / f"{name}.edgetop"
    wait_until((folder / "session.json").exists)
    time.sleep(after_s)
    killed_ns = time.monotonic_ns()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return Killed(folder, killed_ns)


def check(killed: Killed) -> float:
    """It opens with a second's loss at most, and a second time as it is. The loss in seconds."""
    recording = Recording(killed.folder)
    manifest = recording.manifest
    assert (manifest.state, manifest.end_reason) == ("recovered", "writer-killed")
    batch = merge(list(recording.play(inferences=True)))
    assert recording.problems == []
    (event,) = [event for event in batch.events if event.kind == "recovered"]
    assert event == batch.events[-1]
    if len(batch.inferences):
        last = batch.inferences[-1]
        until_ns = int(last["t_ns"] + last["latency_ns"])
        assert int(batch.seconds.rows["count"].sum()) == int((batch.inferences["phase"] == 2).sum())
    else:
        until_ns = killed.killed_ns - manifest.clock.origin_monotonic_ns
        assert until_ns < LOADING_NS, "nothing at all was recorded"
    before = content(killed.folder)
    assert merge(list(Recording(killed.folder).play(inferences=True))).events == batch.events
    assert content(killed.folder) == before
    return (killed.killed_ns - manifest.clock.origin_monotonic_ns - until_ns) / NS
