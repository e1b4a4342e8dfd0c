"""The virtual board as a session has it, on a clock of the test's own and beside processes that are real."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgetop.engines.child.board_page import CRASH, LEAK_BYTES, LEAK_LIMIT, SLOWDOWN, Page
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.root import Root
from edgetop.simulation.scenarios import SCENARIOS
from edgetop.simulation.virtual_board import LEAK_AT_MOST, PREFIX, VirtualBoard
from tests.support.clocks import ManualClock
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

CPU = max(os.sched_getaffinity(0))
SPEED = 100.0


class Stage:
    """A board that goes on when the test says so, and what it told."""

    def __init__(self, board: VirtualBoard, clock: ManualClock) -> None:
        self.board, self.clock = board, clock
        self.told: list[str] = []
        board._report = self.told.append  # without its thread
        self.page = Page(board.page_path)

    def advance(self, simulated_s: float) -> None:
        for _ in range(round(simulated_s / SPEED / 0.1)):
            self.clock.advance(0.1)
            self.board.step()

    def file(self, name: str) -> str:
        return self.board.root.read_text(name)


Open = Callable[[str], Stage]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Open]:
    boards: list[VirtualBoard] = []

    def start(name: str) -> Stage:
        clock = ManualClock()
        board = VirtualBoard(SCENARIOS[name], SPEED, cpus=[CPU], place=tmp_path, clock=clock)
        boards.append(board.__enter__())
        return Stage(board, clock)

    yield start
    for board in boards:
        board.__exit__(None, None, None)


def test_trouble_reaches_the_engine_the_files_and_the_report(stage: Open) -> None:
    pi = stage("under-voltage")
    assert (pi.page.doubles[SLOWDOWN], pi.file("commands/vcgencmd_get_throttled")) == (0.0, "throttled=0x0")
    pi.advance(500)
    assert pi.page.doubles[SLOWDOWN] == pytest.approx(2400 / 1500 - 1)
    assert pi.file("commands/vcgencmd_get_throttled") == "throttled=0x50005"
    pi.advance(600)
    assert (pi.page.doubles[SLOWDOWN], pi.file("commands/vcgencmd_get_throttled")) == (0.0, "throttled=0x50000")
    scenario = SCENARIOS["under-voltage"]
    assert pi.told == [scenario.begins, scenario.ends]


def test_a_leak_is_asked_of_the_engine_within_bounds(stage: Open) -> None:
    leaking = stage("leak")
    assert leaking.page.integers[LEAK_BYTES] == 0
    leaking.advance(20)
    assert leaking.page.integers[LEAK_BYTES] == 1024
    assert 0 < leaking.page.integers[LEAK_LIMIT] <= LEAK_AT_MOST
    assert leaking.page.doubles[SLOWDOWN] == 0.0


def test_a_crash_is_asked_of_the_engine_when_its_time_has_come(stage: Open) -> None:
    crashing = stage("crash")
    crashing.advance(300)
    assert crashing.page.integers[CRASH] == 0
    crashing.advance(200)
    assert crashing.page.integers[CRASH] == 1


def test_a_rival_competes_while_the_trouble_lasts(stage: Open) -> None:
    contended = stage("contention")
    asked: list[bool] = []
    rival = contended.board._rival
    assert rival
    rival.compete = asked.append  # type: ignore[method-assign, assignment]
    contended.advance(1100)
    assert [asked[0], True in asked, asked[-1]] == [False, True, False]


def test_the_engine_s_real_cpu_time_heats_it(stage: Open) -> None:
    warm, cold = stage("thermal"), stage("thermal")
    warm.board.engine_started(os.getpid())
    for _ in range(3):
        spent = sum(i * i for i in range(2_000_000))  # CPU time of this process
        for board in (warm, cold):
            board.advance(10)
    assert spent
    assert warm.board.machine.celsius > cold.board.machine.celsius + 1


def test_an_engine_that_is_gone_heats_nothing(stage: Open) -> None:
    board = stage("healthy")
    board.board.engine_started(2**22 + 1)  # beyond every pid (proc(5), pid_max)
    board.advance(100)
    assert board.board.machine.busy == 0.0


def test_a_computer_that_slept_does_not_boil_the_board(stage: Open) -> None:
    board = stage("thermal")
    board.clock.advance(8 * 3600)
    board.board.step()
    assert board.board.machine.timetable.felt_s < 200


def test_it_is_marked_wherever_it_shows_and_what_is_real_is_not(stage: Open) -> None:
    board = stage("thermal").board
    identity, computer = board.identity(), read_board(Root())
    assert (identity.simulated, identity.cpu, identity.memory_bytes) == (True, computer.cpu, computer.memory_bytes)
    assert identity.model == "Virtual board, after a Jetson Orin Nano"
    assert (identity.power_mode, identity.governor) == ("MAXN_SUPER", "schedutil")
    sensors = {info.id: info.simulated for source in board.discover().sources for info in source.sensors}
    assert sensors["temp/cpu-thermal"]
    assert sensors["power/VDD_IN"]
    real = {name for name, is_simulated in sensors.items() if not is_simulated}
    assert "mem/system-available" in real
    assert "load/cpu" in real
    assert not any(name.startswith(("temp/", "freq", "power/", "throttle/", "fan/", "cooling/")) for name in real)


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    with VirtualBoard(SCENARIOS["contention"], 20.0, cpus=[CPU], place=tmp_path) as board:
        board.start(print)
        assert board._rival
        pid = board._rival.pid
        assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 1
    assert list(tmp_path.iterdir()) == []
    assert not Path(f"/proc/{pid}").exists()
    assert not board._thread.is_alive()


def test_a_board_that_cannot_write_says_so_and_stands_still(tmp_path: Path) -> None:
    told: list[str] = []
    with VirtualBoard(SCENARIOS["thermal"], 20.0, place=tmp_path) as board:
        shutil.rmtree(tmp_path)
        board.start(told.append)
        wait_until(lambda: not board._thread.is_alive())
    assert told[-1] == "the virtual board has stopped, because its files cannot be written (No such file or directory)"


def test_one_that_cannot_be_opened_leaves_nothing_behind(tmp_path: Path) -> None:
    board = VirtualBoard(SCENARIOS["contention"], 20.0, cpus=["\0"], place=tmp_path)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="null byte"):
        board.__enter__()
    assert list(tmp_path.iterdir()) == []


def test_it_starts_as_warm_as_left_less_what_it_cooled(tmp_path: Path) -> None:
    clock, kept = ManualClock(), tmp_path / "board.json"

    def board() -> VirtualBoard:
        return VirtualBoard(SCENARIOS["healthy"], 20.0, place=tmp_path, clock=clock, state_file=kept)

    with board() as first:
        at_rest = first.machine.celsius
        first.machine = first.machine.after(30.0, 20.0, busy=1.0)
        hot = first.machine.celsius
    assert hot > at_rest + 5
    with board() as soon:
        assert soon.machine.celsius == pytest.approx(hot)
    clock.advance(20.0)
    with board() as later:
        assert at_rest < later.machine.celsius < hot - 1
    kept.write_text("{")
    with board() as anew:
        assert anew.machine.celsius == pytest.approx(at_rest)
