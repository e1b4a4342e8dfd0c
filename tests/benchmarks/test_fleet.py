"""What many boards cost: fifty on one screen here, and one relay with summaries on its board."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from edgetop.relay import relay_frames
from edgetop.session.batch import Batch
from edgetop.wording.board_summary import Summaries
from tests.benchmarks.test_relay import Received, board, memory_mib, started, written_in_time
from tests.support.commands import environment
from tests.support.processes import cpu_seconds
from tests.support.relays import LiveRecording, plant_program
from tests.support.scripts import Script, hot
from tests.support.terminal import Terminal

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

BOARDS, WATCHED_S = 50, 30
MOST_CPU, MOST_MIB, MOST_BYTES_S = 0.15, 250, 500
MOST_BOARD_CPU, MOST_BOARD_MIB = 0.02, 60

# Says the summaries of a real session, a second each, over and over, as a relay does; and nothing of edgetop's.
PLAYER = """
import os, select, sys, time
frames = open(sys.argv[1], "rb").read().split(b"--frame--")
os.write(1, frames[0])
os.read(0, 4096)
os.write(1, frames[1])
due, place = time.monotonic() + hash(os.getpid()) % 100 / 100, int(sys.argv[2])
while True:
    os.write(1, frames[2 + place % (len(frames) - 2)])
    place, due = place + 1, due + 1
    if select.select([0], [], [], max(0, due - time.monotonic()))[0] and not os.read(0, 4096):
        break  # nobody watches any more
"""


def summaries_of_a_session() -> list[bytes]:
    """Ninety seconds of a board that begins to throttle."""
    script = Script(weather=hot).load().warm_up().begin().measure(40).measure(50, median_ms=8.0)
    summaries, frames = Summaries(["p99>33ms", "throttled"]), []
    for batch in script.batches:
        summaries.fold(batch)
        frames.append(relay_frames.pack_message(relay_frames.SUMMARY, **summaries.message()))
    return frames


@pytest.fixture
def home(tmp_path) -> Path:
    (tmp_path / "state/edgetop").mkdir(parents=True)
    frames = [
        relay_frames.hello(),
        relay_frames.pack_message(relay_frames.BEGIN, session="/x"),
        *summaries_of_a_session(),
    ]
    (tmp_path / "frames").write_bytes(b"--frame--".join(frames))
    (tmp_path / "player.py").write_text(PLAYER)
    line = f"exec {sys.executable} -S -E {tmp_path}/player.py {tmp_path}/frames $(($$ % 90))"
    plant_program(tmp_path / "bin", "ssh", f"#!/bin/sh\nfor last; do :; done\n{line}\n")
    return tmp_path


def test_fifty_boards_at_1_hz_cost_little(home, say):
    targets = [f"ssh:pi@board-{i}" for i in range(BOARDS)]
    env = {**environment(home), "PATH": f"{home}/bin:{os.environ['PATH']}"}
    terminal = Terminal([sys.executable, "-m", "edgetop", "fleet", *targets], 160, 50, env)
    try:
        terminal.wait_for(f"{BOARDS} boards", "board-49")
        terminal.read_for(8)
        began_cpu, began, drawn = cpu_seconds(terminal.pid), time.monotonic(), len(terminal.output)
        terminal.read_for(WATCHED_S)
        lasted = time.monotonic() - began
        cpu = (cpu_seconds(terminal.pid) - began_cpu) / lasted
        memory, shown = memory_mib(terminal.pid), (len(terminal.output) - drawn) / lasted
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
    finally:
        terminal.close()
    say(f"{BOARDS} boards, 160x50: {cpu:.1%} of a core, {memory}, {shown / 1e3:.1f} kB/s to the terminal")
    assert cpu <= MOST_CPU
    assert memory["VmRSS"] <= MOST_MIB


@pytest.mark.parametrize("sensors", [12, 40])
def test_a_board_sends_little_and_pays_little(sensors, home, say):
    recording = LiveRecording(home / "state/edgetop/soak.edgetop", [Batch(0, manifest=board(sensors))])
    enough = threading.Event()
    writer = threading.Thread(target=written_in_time, args=(recording, 10e6, sensors, enough))
    writer.start()
    time.sleep(5)
    relay = started(home, summaries={"gates": ["p99>33ms"]})
    received = Received(relay)
    time.sleep(12)
    start_cpu, start_bytes, began = cpu_seconds(relay.pid), received.bytes, time.monotonic()
    time.sleep(WATCHED_S)
    lasted = time.monotonic() - began
    cpu, rate = (cpu_seconds(relay.pid) - start_cpu) / lasted, (received.bytes - start_bytes) / lasted
    memory = memory_mib(relay.pid)
    relay.stdin.close()
    assert relay.wait(20) == 0
    relay.stdout.close()
    enough.set()
    writer.join()
    recording.die()
    say(f"{sensors} sensors: {rate:.0f} bytes/s, {cpu:.2%} of a core of the board, {memory}")
    assert rate <= MOST_BYTES_S
    assert cpu <= MOST_BOARD_CPU
    assert memory["RssAnon"] <= MOST_BOARD_MIB
