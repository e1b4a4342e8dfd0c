"""Engines that are faster than any model: each inference is reported in its order or counted as lost."""

import threading
from pathlib import Path

import numpy as np
import pytest

from edgetop.engines.engine_protocol import Ended, Engine, PhaseBegan, RecordsLost
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.turn_engine import TurnsEngine
from edgetop.session.turns import NS, Planner
from tests.support import fast_engine, onnx_models
from tests.support.engine_runs import Heard, hear_out, hear_until_measuring, spec_for
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.onnx"
    path.write_bytes(onnx_models.onnx_tiny())
    return path


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    folder = tmp_path / "counts"
    folder.mkdir()
    return folder


def engine_at(rate_hz: int, model: Path, counts: Path, **options: object) -> ProcessEngine:
    python = fast_engine.interpreter(model.parent / "fast", rate_hz, counts)
    return ProcessEngine(spec_for(model, **{"runs": None, **options}), python, close_timeout_s=0.5)


def polled_as_asked(engine: Engine) -> Heard:
    """Poll as soon as the engine asks for it, and at least twice a second."""
    heard, pause = Heard(), threading.Event()
    engine.start()
    try:
        while not heard.is_over:
            update = engine.poll()
            heard.messages.extend(update.messages)
            heard.batches.append(update.records)
            pause.wait(min(update.poll_within_s, 0.5))
    finally:
        engine.close()
    return heard


def assert_all_counted(heard: Heard, counts: Path) -> None:
    lost = sum(message.count for message in heard.all(RecordsLost))
    measured = heard.in_phase("measure")
    assert len(measured) + lost == fast_engine.counted(counts)
    assert (np.diff(heard.records["t_ns"]) >= 0).all()


@pytest.mark.parametrize("streams", [1, 4])
def test_each_is_reported_in_its_order(streams: int, model: Path, counts: Path) -> None:
    heard = polled_as_asked(engine_at(400_000 // streams, model, counts, streams=streams, duration_ns=NS))
    assert_all_counted(heard, counts)


@pytest.mark.benchmark
def test_two_in_turns_are_reported_in_their_order(model: Path, counts: Path) -> None:
    """Takes ten seconds; the order alone, without processes, is in test_turns.py."""
    engines = (
        engine_at(400_000, model, counts, in_turns=True),
        engine_at(400_000, model, counts, in_turns=True),
    )
    heard = polled_as_asked(TurnsEngine(engines, Planner(8 * NS, 0)))
    assert_all_counted(heard, counts)
    measured = heard.in_phase("measure")
    assert np.count_nonzero(np.diff(measured["variant"])) > 20


def test_what_found_no_room_while_nobody_read_is_counted(model: Path, counts: Path) -> None:
    engine = engine_at(4_000_000, model, counts, duration_ns=NS)
    engine.start()
    try:
        heard = hear_until_measuring(engine)
        wait_until(lambda: any(file.stat().st_size for file in counts.iterdir()))  # it has ended
        hear_out(engine, heard)
    finally:
        engine.close()
    assert heard.all(RecordsLost)
    assert_all_counted(heard, counts)


def test_an_engine_that_waits_to_send_is_told_from_one_that_stalls(model: Path, counts: Path) -> None:
    engine = engine_at(2_000_000, model, counts, duration_ns=NS)
    engine.start()
    try:
        heard = hear_until_measuring(engine)
        wait_until(lambda: any(file.stat().st_size for file in counts.iterdir()))
        updates = [engine.poll() for _ in range(3)]
        assert all(update.is_behind for update in updates if len(update.records))
        hear_out(engine, heard)
        assert heard.one(Ended)
        assert heard.all(PhaseBegan)
    finally:
        engine.close()
