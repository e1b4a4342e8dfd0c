"""What edgetop itself costs on a terminal, beside other monitors of the same terminal, in one run.

A refresh a second, all panes, a board of 17 sensors, recording. Peers are measured where they are installed: s-tui and
glances (`pip install s-tui glances`), btop and htop. The engine's process is not counted. Each peer runs alone, and
beside a plain loop of the same model: on a busy machine a monitor finds its code and data in no cache.
"""

import contextlib
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetop.engines.programs import bare_loop
from tests.support import onnx_models
from tests.support.terminal import Terminal
from tests.support.watched import Cost, cost_of, end

pytestmark = pytest.mark.benchmark

SECONDS, WARM_S = 60.0, 12.0
REFRESH_S = 1.0
BOARD = Path(__file__).parents[2] / "boards/raspberry-pi-4/tree"
RUN = [sys.executable, "-m", "edgetop", "run", "--sysroot", str(BOARD)]
BARE_LOOP = Path(bare_loop.__file__)
PEERS = {
    "s-tui": ["s-tui", "-r", "1"],
    "glances": ["glances", "-t", "1"],
    "btop": ["btop", "--utf-force"],
    "htop": ["htop", "-d", "10"],
}
STEADY_KB = {(80, 24): 2.0, (160, 50): 6.0}
RSS_MIB = 80.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", STEADY_KB, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_steady_session(size, table, tmp_path):
    cost = _edgetop(size, tmp_path / "steady")
    sent, shown = cost.sent_kb(REFRESH_S), f"{size[0]}x{size[1]}"
    most = STEADY_KB[size]
    budget = f"at most {most:g} KB"
    table.row(f"{shown}: sent to the terminal, per refresh", f"{sent:.1f} KB", budget, is_met=sent <= most)
    table.row(f"{shown}: edgetop's CPU, of one core", f"{cost.cpu_percent:.1f} %")
    is_met = cost.rss_mib <= RSS_MIB
    table.row(f"{shown}: edgetop's memory (RSS)", f"{cost.rss_mib:.0f} MiB", f"at most {RSS_MIB:g} MiB", is_met=is_met)
    assert sent <= most
    assert cost.rss_mib <= RSS_MIB


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", STEADY_KB, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_session_in_which_everything_changes(size, table, tmp_path):
    """A virtual board that heats up fast, throttles and cools down."""
    command = [sys.executable, "-m", "edgetop", "demo", "--speed", "60x", "-o", str(tmp_path / "changing")]
    cost = _cost(command, size, {})
    table.row(f"{size[0]}x{size[1]}: the same while all changes", f"{cost.sent_kb(REFRESH_S):.1f} KB")


@pytest.mark.timeout(2400)
def test_no_dearer_than_its_peers(table, tmp_path):
    """In turns, so that the machine's own course falls on all of them."""
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_models.onnx_ten_ms())
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    (tmp_path / "btop").mkdir()
    (tmp_path / "btop/btop.conf").write_text("update_ms = 1000\n")
    programs = {name: command for name, command in PEERS.items() if shutil.which(command[0])}
    alone: dict[str, list[Cost]] = {name: [] for name in programs}
    beside: dict[str, list[Cost]] = {name: [] for name in ("edgetop", *programs)}
    for turn in range(2):
        beside["edgetop"].append(_edgetop((160, 50), tmp_path / f"turn{turn}", str(model)))
        for name, command in programs.items():
            alone[name].append(_cost(command, (160, 50), environment))
            with _loop(model):
                beside[name].append(_cost(command, (160, 50), environment))
    cpu = {name: statistics.mean(cost.cpu_percent for cost in found) for name, found in beside.items()}
    for name, found in beside.items():
        is_judged = name == "edgetop" and "s-tui" in cpu
        measured = f"{cpu[name]:.1f} %, {found[-1].rss_mib:.0f} MiB, {found[-1].sent_kb(REFRESH_S):.1f} KB"
        if name in alone:
            measured += f"; alone {statistics.mean(cost.cpu_percent for cost in alone[name]):.1f} %"
        is_met = not is_judged or cpu["edgetop"] <= cpu["s-tui"]
        budget = "CPU no more than s-tui's" if is_judged else ""
        row = f"160x50, beside the model, CPU, RSS, sent per refresh: {name}"
        table.row(row, measured, budget, is_met=is_met)
    assert cpu["edgetop"] <= cpu.get("s-tui", 100)


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


def _edgetop(size: tuple[int, int], folder: Path, *model: str) -> Cost:
    return _cost([*RUN, *model, "-o", str(folder)], size, {})


def _cost(command: list[str], size: tuple[int, int], environment: dict[str, str]) -> Cost:
    terminal = Terminal(command, *size, environment)
    try:
        terminal.read_for(WARM_S)
        assert terminal.output, command
        return cost_of(terminal, SECONDS)
    finally:
        end(terminal)
