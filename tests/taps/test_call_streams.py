"""Calls become inferences: their phases are recognised, and they come in the order in which they began."""

import numpy as np
import pytest

from edgetop.probe import edgetop_probe as layout
from edgetop.session.records import FIRST, MEASURE, WARMUP
from edgetop.taps.call_streams import Streams
from edgetop.taps.ring import NO_CALLS, CallName

MS = 1_000_000


class OneRing:
    number = 1

    def name(self, number):
        return CallName("onnxruntime", "1.2", ("CPU",), f"model-{number}")


RING = OneRing()


def calls(*latencies_ms, start_ms=1_000, name=0, thread=1, first=True, kind=layout.CALL):
    made = np.zeros(len(latencies_ms), NO_CALLS.dtype)
    made["end_ns"] = start_ms * MS + np.cumsum(latencies_ms) * MS
    made["start_ns"] = made["end_ns"] - np.array(latencies_ms) * MS
    made["name"], made["thread"], made["kind"], made["ok"] = name, thread, kind, 1
    made["flags"][0] = layout.FIRST if first else 0
    return made


def test_first_and_warm_up_calls_are_recognised():
    streams = Streams()
    streams.add(RING, calls(90, 30, 20, *[10] * 9))
    phases = streams.release(2_000 * MS)["phase"].tolist()
    assert phases == [FIRST, WARMUP, WARMUP, *[MEASURE] * 9]
    streams.add(RING, calls(50, 10, start_ms=3_000, first=False))
    assert streams.release(4_000 * MS)["phase"].tolist() == [MEASURE, MEASURE]  # later slow calls are no warm-up


def test_a_few_calls_are_waited_for_but_not_for_ever():
    streams = Streams()
    streams.add(RING, calls(30, 10))
    assert not len(streams.release(1_100 * MS))
    assert len(streams.release(3_100 * MS)) == 2


def test_at_the_end_everything_is_released():
    streams = Streams()
    streams.add(RING, calls(30, 10))
    assert len(streams.release(1_100 * MS, is_over=True)) == 2


def test_streams_have_the_names_of_their_models():
    streams = Streams()
    streams.add(RING, calls(*[10] * 12))
    streams.add(RING, calls(*[10] * 12, name=1))
    released = streams.release(9_000 * MS)
    assert [name.model for name in streams.names] == ["model-0", "model-1"]
    assert set(released["stream"].tolist()) == {0, 1}


def test_how_long_loading_took_is_no_inference():
    streams = Streams()
    streams.add(RING, calls(250, kind=layout.LOAD))
    assert not len(streams.release(9_000 * MS))
    assert streams.load_ns == 250 * MS


def test_loading_before_watching_has_no_known_time():
    streams = Streams()
    streams.add(RING, calls(30, 10))
    streams.release(9_000 * MS)
    assert streams.load_ns is None


@pytest.mark.parametrize("seed", range(5))
def test_calls_of_many_threads_come_in_order(seed):
    random, streams, now_ms, got = np.random.default_rng(seed), Streams(), 1_000.0, []
    each = [calls(*random.uniform(1, 60, 200), name=i, thread=i) for i in range(4)]
    while now_ms < 20_000:
        now_ms += float(random.uniform(50, 500))
        for ring_calls in each:
            due = (ring_calls["end_ns"] <= now_ms * MS) & (ring_calls["end_ns"] > 0)
            streams.add(RING, ring_calls[due])
            ring_calls["end_ns"][due] = -1
        got.append(streams.release(int(now_ms * MS), is_over=now_ms >= 20_000))
    whole = np.concatenate(got)
    assert len(whole) == 800
    assert (np.diff(whole["t_ns"]) >= 0).all()


def sampled(took_ms, cpu_ms, waited_ms=None, threads=1):
    """Samples of what calls of one session say of their thread's time."""
    streams = Streams()
    load = calls(100, kind=layout.LOAD)
    load["number"] = threads + 1
    streams.add(RING, load)
    made = calls(*took_ms)
    made["cpu_us"] = np.array(cpu_ms) * 1_000
    if waited_ms is not None:
        made["flags"] |= ((np.array(waited_ms) * 1_000 + 1).astype(np.uint32) << layout.WAITED_SHIFT).astype(np.uint32)
    streams.add(RING, made)
    return {name: each[0][1] for name, each in streams.take_samples().items()}


def test_waits_for_a_cpu_are_apart_from_other_waits():
    assert sampled([10, 20, 30], [5, 0, 15], [2, 0, 8]) == {
        "call/0-cpu": 10.0, "call/0-off-cpu": 10.0, "call/0-run-queue-wait": 5.0, "rate/call-run-queue-wait": 250.0,
    }  # fmt: skip
    assert sampled([10], [4]) == {"call/0-cpu": 4.0, "call/0-off-cpu": 6.0}  # where the kernel does not tell


def test_the_wait_is_the_mean_of_five_seconds():
    """A call waits for a turn of another process or not at all: of one call alone it would be 0 or nearly all."""
    streams, reported = Streams(), []
    load = calls(100, kind=layout.LOAD)
    load["number"] = 2
    streams.add(RING, load)
    for start_ms, waited_ms in ((1_000, 0), (2_000, 10), (4_000, 0), (6_500, 0), (8_000, 0)):
        made = calls(20, start_ms=start_ms)
        made["cpu_us"] = 5_000
        made["flags"] |= np.uint32((waited_ms * 1_000 + 1) << layout.WAITED_SHIFT)
        streams.add(RING, made)
        reported += [value for _, value in streams.take_samples()["rate/call-run-queue-wait"]]
    assert reported == pytest.approx([0, 250, 500 / 3, 500 / 3, 0])


def test_waits_are_not_reported_for_sessions_of_many_threads():
    assert "rate/call-run-queue-wait" not in sampled([10], [4], [2], threads=4)


def test_the_size_of_inputs_is_told_at_each_change_and_as_a_mean():
    streams = Streams()
    made = calls(5, 5, 5)
    sizes = made[[0, 2]]
    sizes["kind"], sizes["number"] = layout.SIZE, (3_000, 9_000)
    streams.add(RING, np.concatenate([sizes[:1], made[:2]]))
    streams.add(RING, np.concatenate([sizes[1:], made[2:]]))
    starts = made["start_ns"].tolist()
    samples = streams.take_samples()
    assert samples["input/0-elements"] == [(starts[0], 3_000.0), (starts[2], 9_000.0)]
    assert samples["input/0-mean"] == [(starts[1], 3_000.0), (starts[2], 9_000.0)]
    later = calls(5, 5, start_ms=2_000)
    change = later[1:].copy()
    change["kind"], change["number"] = layout.SIZE, 1_000
    streams.add(RING, np.concatenate([later[:1], change, later[1:]]))
    assert streams.take_samples()["input/0-mean"] == [(int(later["start_ns"][1]), 5_000.0)]
