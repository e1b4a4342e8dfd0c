"""Which inferences are told of as delayed by Python's garbage collector."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.probe import edgetop_probe as layout
from edgetop.taps.garbage_collections import MOST_KEPT, WINDOW_NS, GarbageCollections
from edgetop.taps.ring import NO_CALLS

MS = 1_000_000


class OneRing:
    def __init__(self, pid=1):
        self.pid = pid


RING = OneRing()


def reports(*spans_ms, kind=layout.CALL, name=0, ok=1, generation=0, base_ms=1_000):
    """Reports of one kind, each from its begin to its end in ms."""
    made = np.zeros(len(spans_ms), NO_CALLS.dtype)
    for row, (begin_ms, end_ms) in zip(made, spans_ms, strict=True):
        row["start_ns"], row["end_ns"] = int((base_ms + begin_ms) * MS), int((base_ms + end_ms) * MS)
    made["kind"], made["name"], made["ok"], made["number"] = kind, name, ok, generation
    return made


def collected(*spans_ms, **more):
    return reports(*spans_ms, kind=layout.COLLECT, **more)


def told(*reported, collections=None):
    collections = collections or GarbageCollections()
    return [
        ((one.monotonic_ns / MS - 1_000), one.latency_ns / MS, one.took_ns / MS, one.after_ns / MS, one.generation)
        for one in collections.inferences(reported)
    ]


def both(*parts):
    return RING, np.concatenate(parts)


def test_what_a_collection_took_of_an_inference_is_told():
    assert told(both(reports((0, 50)), collected((10, 22), generation=2))) == [(0, 50, 12, 10, 2)]
    # Only the part within it counts, and several collections are added up.
    within = collected((-5, 5), (20, 30), (48, 60))
    assert told(both(reports((0, 50)), within)) == [(0, 50, 17, 0, 0)]


def test_an_inference_beside_a_collection_is_not_told_of():
    assert told(both(reports((0, 50)), collected((-20, 0), (50, 70)))) == []
    assert told(both(reports((0, 50)))) == []
    assert told(both(reports((0, 50), ok=0), collected((10, 22)))) == []


def test_a_collection_that_is_no_tenth_of_the_rest_is_left_out():
    assert told(both(reports((0, 55)), collected((10, 15)))) != []
    assert told(both(reports((0, 55)), collected((10, 14.9)))) == []


def test_of_a_window_only_the_slowest_inference_is_told_of():
    base_ms = WINDOW_NS // MS * 8
    calls = reports((0, 10), (20, 45), (60, 80), (250, 260), base_ms=base_ms)
    garbage = collected((5, 9), (21, 29), (61, 69), (255, 259), base_ms=base_ms)
    found = list(GarbageCollections().inferences([(RING, np.concatenate([calls, garbage]))]))
    assert [(one.monotonic_ns // MS - base_ms, one.latency_ns // MS) for one in found] == [(20, 25), (250, 10)]


def test_models_are_told_of_apart():
    calls = np.concatenate([reports((0, 40)), reports((2, 50), name=1)])
    assert [row[:2] for row in told(both(calls, collected((10, 30))))] == [(0, 40), (2, 48)]


def test_a_collection_that_was_read_before_its_inference_counts():
    collections = GarbageCollections()
    assert told((RING, collected((10, 22))), collections=collections) == []
    assert told((RING, reports((0, 50))), collections=collections) == [(0, 50, 12, 10, 0)]


def test_a_collection_in_another_file_of_the_process_counts_and_of_another_process_does_not():
    garbage = collected((10, 22))
    assert told((OneRing(7), garbage), (OneRing(7), reports((0, 50)))) == [(0, 50, 12, 10, 0)]
    assert told((OneRing(8), garbage), (OneRing(7), reports((0, 50)))) == []


def test_the_collections_of_an_ended_process_are_forgotten():
    collections = GarbageCollections()
    told((RING, collected((10, 22))), collections=collections)
    collections.end(RING)
    assert told((RING, reports((0, 50))), collections=collections) == []


def test_only_the_latest_collections_are_kept():
    collections = GarbageCollections()
    for _ in range(3):
        told((RING, collected(*[(n, n + 0.5) for n in range(3_000)])), collections=collections)
    assert len(collections._kept[RING.pid]) == MOST_KEPT


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=20), st.integers(0, 400), st.integers(1, 200))
def test_the_time_of_collections_is_that_of_counting_each_ms(gaps, begin, length):
    """Against a count of the milliseconds of the inference in which a collection ran."""
    spans, at = [], 0
    for number, gap in enumerate(gaps):
        if number % 2:
            spans.append((at, at + gap))
        at += gap
    took = sum(any(a <= ms < b for a, b in spans) for ms in range(begin, begin + length))
    found = told(both(reports((begin, begin + length)), collected(*spans)))
    assert [row[2] for row in found] == ([took] if took and took >= length / 11 else [])
