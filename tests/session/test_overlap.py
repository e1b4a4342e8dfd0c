"""How many inferences are in progress at once, in whatever pieces they come."""

import numpy as np
import pytest

from edgetop.session.overlap import Overlap
from edgetop.session.records import INFERENCE


def made(*pairs):
    inferences = np.zeros(len(pairs), INFERENCE)
    inferences["t_ns"], inferences["latency_ns"] = zip(*pairs, strict=True)
    return inferences


def test_calls_that_overlap():
    overlap = Overlap()
    overlap.add(made((0, 10), (5, 10), (20, 5), (22, 1), (23, 4)))
    assert (overlap.most, overlap.mean, overlap.outside) == (2, 30 / 22, pytest.approx(5 / 27))


def test_in_pieces_it_is_the_same():
    random = np.random.default_rng(1)
    begins = np.cumsum(random.integers(1, 20, 500))
    whole = made(*zip(begins.tolist(), random.integers(1, 60, 500).tolist(), strict=True))
    one, many = Overlap(), Overlap()
    one.add(whole)
    for piece in np.array_split(whole, 37):
        many.add(piece)
    assert (one.most, one.mean, one.outside) == (many.most, many.mean, many.outside)
    ends = whole["t_ns"] + whole["latency_ns"]
    assert one.most == max(int(((whole["t_ns"] <= t) & (ends > t)).sum()) for t in whole["t_ns"])


def test_nothing_is_not_known():
    assert (Overlap().mean, Overlap().outside) == (None, None)
