"""The first minute, where something is missing: each leads on in one line."""

import sys
from pathlib import Path

import pytest

from edgetop.installation import extra_command
from tests.support import onnx_models
from tests.support.commands import edgetop, environment
from tests.support.screens import opened
from tests.support.scripts import measured
from tests.support.terminal import ALTERNATE_SCREEN, Terminal

pytestmark = pytest.mark.slow

WITHOUT_RUNTIMES = """
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name in ("onnxruntime", "ai_edge_litert", "tflite_runtime")
        return None if hidden else super().find_spec(name, path, target)

sys.meta_path = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
from edgetop.cli.main import main
main()
"""


def said_on_terminal(home: Path, *argv: str, **more: str) -> str:
    terminal = Terminal([sys.executable, *argv], 100, 30, {**environment(home), **more})
    try:
        assert terminal.wait_for_exit() == 2
        return terminal.output.decode()
    finally:
        terminal.close()


def test_without_a_terminal_the_first_command_leads_to_lines(tmp_path: Path) -> None:
    done = edgetop(home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "edgetop run --headless" in done.stderr


@pytest.mark.parametrize(
    "command", [(), *(pytest.param(other, marks=pytest.mark.thorough) for other in (("demo",), ("run",)))]
)
def test_a_terminal_that_cannot_draw_gets_a_line_and_no_escapes(command: tuple[str, ...], tmp_path: Path) -> None:
    said = said_on_terminal(tmp_path, "-m", "edgetop", *command, TERM="dumb")
    told = "run" if not command else command[0]
    assert said.startswith(f"edgetop: TERM=dumb: this terminal cannot show a screen (edgetop {told} --headless")
    assert "\x1b" not in said
    assert said.count("\n") == 1


def test_without_a_runtime_the_error_says_what_to_install(tmp_path: Path) -> None:
    said = said_on_terminal(tmp_path, "-c", WITHOUT_RUNTIMES)
    hint = f"{extra_command('onnx')}, or {extra_command('tflite')}"
    assert " ".join(said.split()) == f"edgetop: no inference runtime is installed ({hint})"
    assert ALTERNATE_SCREEN not in said


def test_without_a_sensor_a_run_says_so_and_where_to_look(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    (tmp_path / "board").mkdir()
    options = ("--sysroot", "board", "--headless", "--runs", "5", "--no-record", "--profile-every", "0")
    done = edgetop("run", "model.onnx", *options, home=tmp_path)
    assert done.returncode == 0
    assert "no temperature, clock or power sensor can be read" in done.stdout
    assert "edgetop sensors says what is missing" in done.stdout
    assert "MISSING" in edgetop("sensors", "--sysroot", "board", home=tmp_path).stdout


@pytest.mark.parametrize("size", [(40, 6), (20, 4), (8, 2)])
async def test_a_window_too_small_shows_the_verdict(size: tuple[int, int]) -> None:
    async with opened(measured(5), size) as screen:
        assert screen.rows[0].strip().startswith("MEASUR")
