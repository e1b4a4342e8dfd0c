"""What edgetop itself costs on a terminal, beside other monitors of the same terminal, in about four minutes.

All panes, a board of 17 sensors, recording, the demo model on all cores without a pause. edgetop refreshes every two
seconds, with its clock every second; once, it draws everything every second. Peers are measured where they are
installed, beside a plain loop of the same kind: btop, and s-tui (`pip install s-tui`) at both rates, of which two
seconds are its default. edgetop may take as much CPU as s-tui takes at the same rate. The engine's process is not
counted.
"""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetop.engines.programs import bare_loop
from tests.support import onnx_models
from tests.support.terminal import Terminal
from tests.support.watched import Cost, cost_of, end

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(400)]

SECONDS, WARM_S, PEER_WARM_S = 16.0, 8.0, 3.0
BOARD = Path(__file__).parents[2] / "boards/raspberry-pi-4/tree"
EDGETOP = [sys.executable, "-m", "edgetop"]
RUN = [*EDGETOP, "run", "--sysroot", str(BOARD)]
BARE_LOOP = Path(bare_loop.__file__)
PEERS = {
    "s-tui every 2 s": ["s-tui", "-r", "2"],
    "s-tui every 1 s": ["s-tui", "-r", "1"],
    "btop every 2 s": ["btop", "--utf-force"],
}
SAME_RATE = {(): "s-tui every 2 s", ("--refresh", "1s"): "s-tui every 1 s"}  # by option of edgetop
STEADY_KB = {(80, 24): 2.0, (120, 40): 6.0, (160, 50): 6.0}  # a second
RUNS = [*((size, ()) for size in STEADY_KB), ((160, 50), ("--refresh", "1s"))]
LARGEST_KB = 12.0
CPU_PERCENT, HEADLESS_PERCENT = 1.0, 0.77
RSS_MIB, HEADLESS_MIB = 75.0, 51.0


def test_the_screen_beside_its_peers(table, tmp_path):
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_models.onnx_ten_ms())
    peers: dict[str, Cost] = {}
    with _loop(model):
        for name, command in PEERS.items():
            if shutil.which(command[0]):
                peers[name] = _cost(command, (160, 50), _settings(tmp_path), PEER_WARM_S)
    missed = []
    for number, (size, options) in enumerate(RUNS):
        cost, most_kb = _cost([*RUN, *options, "-o", str(tmp_path / f"run{number}")], size, {}, WARM_S), STEADY_KB[size]
        peer = peers.get(SAME_RATE[options])
        most = min(CPU_PERCENT, peer.cpu_percent if peer else CPU_PERCENT)
        is_met = _is_within(cost, most, RSS_MIB) and _sent_kb(cost) <= most_kb and _largest_kb(cost) <= LARGEST_KB
        budget = f"{most:.2f} %, {RSS_MIB:g} MiB, {most_kb:g} KB, {LARGEST_KB:g} KB"
        table.row(
            f"{size[0]}x{size[1]}: edgetop {' '.join(options)}: CPU, RSS, sent a second, largest refresh",
            _told(cost),
            budget,
            is_met=is_met,
        )
        missed += [] if is_met else [(size, *options)]
    for name, cost in peers.items():
        table.row(f"160x50: {name}: the same", _told(cost))
    assert not missed


def test_the_largest_refresh(table, tmp_path):
    changing = [*EDGETOP, "demo", "--speed", "60x", "-o", str(tmp_path / "changing")]
    cost = _cost(changing, (160, 50), {}, WARM_S)
    is_met = _largest_kb(cost) <= LARGEST_KB
    table.row("160x50: edgetop while all changes (60 times as fast)", _told(cost), f"{LARGEST_KB:g} KB", is_met=is_met)
    assert is_met


def test_without_a_screen(table, tmp_path):
    cost = _cost([*RUN, "--headless", "-o", str(tmp_path / "headless")], (160, 50), {}, WARM_S)
    is_light = _is_within(cost, HEADLESS_PERCENT, HEADLESS_MIB)
    table.row("edgetop --headless", _told(cost), f"{HEADLESS_PERCENT:g} %, {HEADLESS_MIB:g} MiB", is_met=is_light)
    assert is_light


def _is_within(cost: Cost, most_percent: float, most_mib: float) -> bool:
    return cost.cpu_percent <= most_percent and cost.rss_mib <= most_mib


def _sent_kb(cost: Cost) -> float:
    return cost.sent_kb(1.0)


def _largest_kb(cost: Cost) -> float:
    return cost.largest_bytes / 1000


def _told(cost: Cost) -> str:
    sent = f"{_sent_kb(cost):.1f} KB, {_largest_kb(cost):.1f} KB"
    return f"{cost.cpu_percent:.2f} %, {cost.rss_mib:.0f} MiB, {sent}"


def _settings(folder: Path) -> dict[str, str]:
    """The environment of a peer: btop reads there that it refreshes every two seconds, as edgetop does."""
    (folder / "btop").mkdir(exist_ok=True)
    (folder / "btop/btop.conf").write_text("update_ms = 2000\n")
    return {"XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}


@contextlib.contextmanager
def _loop(model: Path) -> Iterator[None]:
    """The same load without edgetop: the model on all cores, without a pause."""
    command = [sys.executable, str(BARE_LOOP), str(model), "600", "0", str(model.with_suffix(".npy"))]
    loop = subprocess.Popen(command)
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def _cost(command: list[str], size: tuple[int, int], environment: dict[str, str], warm_s: float) -> Cost:
    terminal = Terminal(command, *size, environment)
    try:
        terminal.read_for(warm_s)
        assert terminal.output, command
        return cost_of(terminal, SECONDS)
    finally:
        end(terminal)
