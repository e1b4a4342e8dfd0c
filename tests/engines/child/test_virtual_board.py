"""What an engine does on a virtual board: it takes longer, keeps memory, and is left alone without one."""

import stat
import time
from pathlib import Path

import numpy as np
import pytest

from edgetop.engines.child import board_page, message_frames
from edgetop.engines.child.board_page import CRASH, LEAK_BYTES, LEAK_LIMIT, SLOWDOWN, VERSION_WORD, Page
from edgetop.engines.child.loop import Control, Loop
from edgetop.engines.child.record_outlet import Outlet
from edgetop.engines.engine_protocol import Died
from edgetop.engines.process_engine import ProcessEngine
from edgetop.session.records import INFERENCE
from tests.support import onnx_models
from tests.support.engine_runs import hear_out, hear_until_measuring, spec_for
from tests.support.waiting import wait_until

MS = 1_000_000
LOOK_NS = 1_000


class Clock:
    """Goes on by a microsecond with every look, and by what an inference takes."""

    def __init__(self) -> None:
        self.now = 10**15

    def __call__(self) -> int:
        self.now += LOOK_NS
        return self.now

    def infer(self) -> str:
        self.now += 2 * MS
        return "outputs"

    def fail(self) -> None:
        self.now += 2 * MS
        raise RuntimeError("no luck")


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return board_page.create(str(tmp_path / "page"))


def bind(feeds: object) -> board_page.Call:
    return lambda: feeds


def test_without_a_virtual_board_the_runtimes_call_is_used() -> None:
    assert board_page.on_board(bind, None) is bind


def test_an_engine_on_one_gives_the_outputs_of_the_runtime(page: Page, tmp_path: Path) -> None:
    page.doubles[SLOWDOWN] = 0.01
    assert board_page.on_board(bind, str(tmp_path / "page"))("outputs")() == "outputs"


def test_the_page_is_for_its_owner_alone(page: Page, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "page").stat().st_mode) == 0o600


@pytest.mark.parametrize(("slowdown", "expected_ms"), [(0.0, 2.0), (0.25, 2.5), (1.4, 4.8)])
def test_a_lower_clock_stretches_what_the_loop_times(slowdown: float, expected_ms: float, page: Page) -> None:
    clock, outlet = Clock(), Outlet()
    page.doubles[SLOWDOWN] = slowdown
    call = board_page.VirtualBoard(page, clock).running(clock.infer)
    Loop(call, outlet, Control(), clock=clock).repeat(message_frames.PHASE_MEASURE, runs=3)
    records = np.concatenate(
        [np.frombuffer(payload, INFERENCE) for kind, payload in outlet.take() if kind == message_frames.RECORDS]
    )
    assert records["latency_ns"] / MS == pytest.approx([expected_ms] * 3, abs=10 * LOOK_NS / MS)


def test_a_change_of_the_clock_is_felt_by_the_next_inference(page: Page, tmp_path: Path) -> None:
    clock, board = Clock(), Page(str(tmp_path / "page"))
    call = board_page.VirtualBoard(page, clock).running(clock.infer)

    def took() -> float:
        begin = clock.now
        call()
        return (clock.now - begin) / MS

    assert took() == pytest.approx(2.0, abs=0.01)
    board.doubles[SLOWDOWN] = 1.0
    assert took() == pytest.approx(4.0, abs=0.01)


def test_an_inference_that_raises_raises_at_once(page: Page) -> None:
    clock = Clock()
    page.doubles[SLOWDOWN] = 1.0
    begin = clock.now
    with pytest.raises(RuntimeError, match="no luck"):
        board_page.VirtualBoard(page, clock).running(clock.fail)()
    assert clock.now - begin < 2.1 * MS


def test_a_leak_keeps_so_much_an_inference_and_ends_at_its_limit(page: Page) -> None:
    clock, board = Clock(), board_page.VirtualBoard(page)
    call = board.running(clock.infer)
    call()
    assert board._leaked == []
    page.integers[LEAK_BYTES], page.integers[LEAK_LIMIT] = 1000, 2500
    kept = []
    for _ in range(4):
        call()
        kept.append(sum(map(len, board._leaked)))
    assert kept == [1000, 2000, 2000, 2000]


def test_leaks_of_calls_of_several_inputs_add_up(page: Page) -> None:
    page.integers[LEAK_BYTES], page.integers[LEAK_LIMIT] = 1000, 10_000
    board = board_page.VirtualBoard(page)
    for feeds in range(20):
        board.running(bind(feeds))()
    assert sum(map(len, board._leaked)) == 10_000


def test_a_page_of_another_version_is_refused(page: Page, tmp_path: Path) -> None:
    page.integers[VERSION_WORD] = 2
    with pytest.raises(ValueError, match="version 2, this engine knows 1"):
        board_page.on_board(bind, str(tmp_path / "page"))


@pytest.mark.slow
def test_a_real_engine_takes_as_much_longer_as_the_clock_says(page: Page, tmp_path: Path) -> None:
    """Fast and slow in turn, and the fastest of each: whatever else this machine does only adds to a time."""
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_models.onnx_half_ms())
    engine = ProcessEngine(spec_for(model, runs=None, threads=1, virtual_board=str(tmp_path / "page")))
    latencies_ns: dict[float, list[int]] = {0.0: [], 1.5: []}
    try:
        engine.start()
        heard = hear_until_measuring(engine)
        for slowdown in [0.0, 1.5] * 5:
            page.doubles[SLOWDOWN] = slowdown
            changed_ns = time.monotonic_ns()
            wait_until(lambda now_ns=changed_ns: heard.listen(engine) or (heard.records["t_ns"] > now_ns).sum() > 60)
            records = heard.records
            latencies_ns[slowdown] += list(records["latency_ns"][records["t_ns"] > changed_ns])
    finally:
        engine.close()
    assert min(latencies_ns[1.5]) / min(latencies_ns[0.0]) == pytest.approx(2.5, rel=0.25)


@pytest.mark.slow
def test_a_real_engine_really_crashes(page: Page, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_models.onnx_half_ms())
    engine = ProcessEngine(spec_for(model, runs=None, threads=1, virtual_board=str(tmp_path / "page")))
    try:
        engine.start()
        heard = hear_until_measuring(engine)
        page.integers[CRASH] = 1
        died = hear_out(engine, heard).one(Died)
    finally:
        engine.close()
    assert "SIGSEGV" in died.cause
    assert not list(tmp_path.glob("core*"))
