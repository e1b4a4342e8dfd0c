"""The two variants of an A/B session as columns: what their turns tell, and nothing that is not of one alone."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.comparison.comparison_gates import judge_gates, parse_relative_gate
from edgetop.comparison.device_fit import fit
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import grouped, variants
from edgetop.errors import InputError
from tests.analysis.test_ab import TURNS, analysed, batches_of, run_of
from tests.support.compared import made


def test_the_ratio_is_that_of_the_turns() -> None:
    whole = analysed()
    inferences = run_of(TURNS, 1.05)
    both = variants(whole, batches_of(TURNS, inferences))
    found = compare(grouped(both, None))
    view = whole.ab_view()
    p50 = found.row("p50_ms")
    assert view
    assert p50
    assert (p50.values[0], p50.values[1]) == tuple(variant.p50_ms for variant in view.variants)
    assert p50.ratios[1].ci95 == pytest.approx(view.ratios["p50"].ci95, abs=1e-6)
    assert (p50.ratios[1].value, p50.ratios[1].verdict) == (pytest.approx(view.ratios["p50"].value, abs=1e-6), "slower")
    in_turns = inferences["t_ns"] >= TURNS.quads_ns
    counts = tuple(int(np.count_nonzero(in_turns & (inferences["variant"] == side))) for side in (0, 1))
    assert found.row("count").values == counts
    assert found.row("model").values == ("one.onnx", "other.onnx")
    assert [rank.sessions for rank in found.ranking] == [(both[0].session.name,), (both[1].session.name,)]
    assert "one-session-each" not in [one.code for one in found.fair]
    assert found.row("rss_peak_mib").values == (None, None)
    (gate,) = judge_gates([parse_relative_gate("p50>+2%")], found, strict=False)
    assert not gate.ok


def test_before_enough_quads_there_are_no_variants() -> None:
    whole = analysed()
    whole.manifest = None
    assert variants(whole, []) == []


def test_a_variant_stands_for_no_model_in_a_fit() -> None:
    both = variants(analysed(), batches_of(TURNS, run_of(TURNS, 1.05)))
    with pytest.raises(InputError, match="an A/B session"):
        fit(both, both, "p50_ms")


def test_neighbours_count_beside_another_run_but_not_in_turns() -> None:
    both = [replace(one, others_pct=150.0) for one in variants(analysed(), batches_of(TURNS, run_of(TURNS, 1.05)))]
    codes = [
        {one.code for one in compare(grouped([both[0], other], None)).fair}
        for other in (both[1], replace(made(1, seconds=5), in_turns=None))
    ]
    assert ["background-load" in found for found in codes] == [False, True]


def test_a_load_below_zero_is_no_crowding() -> None:
    assert replace(made(1, seconds=5), others_pct=-1e6, steal_pct=-3.0).crowding == 0
