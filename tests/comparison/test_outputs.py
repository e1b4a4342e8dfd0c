"""How far the outputs of two models agree, by sums that can be checked by hand, and what is refused."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from edgetop.comparison.output_agreement import (
    Agreement,
    Judge,
    compare_outputs,
    fitted,
    lines,
    measured,
    right,
    unpaired_words,
)
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import Group
from edgetop.errors import InputError
from edgetop.session.outputs import Array, KeptOutputs, Output
from tests.support.compared import made


def kept(*inferences: Sequence[Array], outputs: Sequence[Output] = (), inputs: str = "abcdefgh") -> KeptOutputs:
    """`inferences`: of each its outputs."""
    named = tuple(outputs) or tuple(Output(f"out{place}") for place in range(len(inferences[0])))
    return KeptOutputs(named, tuple(inputs[: len(inferences)]), f"x {inputs}", lambda at, place: inferences[at][place])


def agreements(base: KeptOutputs, other: KeptOutputs) -> tuple[Agreement, ...]:
    return tuple(compare_outputs(base, other).by_output.values())


def test_an_output_is_compared_by_element_over_all_inferences() -> None:
    base = kept([np.array([[3.0, 4.0]])], [np.array([[0.0, 5.0]])])
    other = kept([np.array([[3.0, 3.0]])], [np.array([[8.0, 5.0]])])
    (found,) = agreements(base, other)
    assert (found.max_abs, found.mean_abs) == (8.0, 9 / 4)
    assert found.snr_db == pytest.approx(10 * np.log10(50 / 65))
    assert found.cosine == pytest.approx((9 + 12 + 25) / np.sqrt(50 * 107))
    assert found.same_top == 0.0  # 3.0, 3.0: the first is the highest
    assert found.non_finite is None


def test_equal_outputs_have_no_noise() -> None:
    (found,) = agreements(*[kept([np.eye(3)])] * 2)
    assert (found.max_abs, found.cosine, found.snr_db, found.same_top) == (0.0, pytest.approx(1.0), None, 1.0)


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    (found,) = agreements(kept([np.array([1.0, np.nan, 2.0])]), kept([np.array([1.0, 7.0, np.inf])]))
    assert (found.max_abs, found.non_finite) == (0.0, 2)


def test_outputs_that_overflow_on_both_sides_are_seen() -> None:
    """Equal infinities look like a good model in every other row."""
    both = kept([np.array([[np.inf, np.inf, np.nan, 1.0]])])
    (found,) = agreements(both, both)
    assert (found.non_finite, found.non_finite_shares, found.same_top) == (None, (0.75, 0.75), 0.0)
    assert right(both, np.array([0]))[1] == {"top-1": 0.0}
    nothing = kept([np.full((1, 3), np.nan)])
    (row,) = (one for one in lines([nothing, nothing], Judge())[0] if one.key == "output/out0/non_finite_share")
    assert row.values == (1.0, 1.0)


def test_what_is_not_finite_in_both_is_compared_by_kind() -> None:
    base = kept([np.array([np.inf, -np.inf, np.nan, np.inf, 1.0])])
    (found,) = agreements(base, kept([np.array([np.inf, np.inf, np.nan, np.nan, 1.0])]))
    assert (found.unlike, found.non_finite, found.max_abs) == (2, None, 0.0)
    assert agreements(base, base)[0].unlike is None


def test_sums_that_are_too_large_are_unknown() -> None:
    (found,) = agreements(kept([np.array([1.5e308, 1.0])]), kept([np.array([-1.5e308, 1.0])]))
    assert (found.max_abs, found.mean_abs, found.snr_db, found.cosine) == (None, None, None, None)
    large = kept([np.array([1e160, 1e150])])
    assert agreements(large, large)[0].max_abs == 0.0


def test_integers_without_a_scale_are_told_from_real_numbers() -> None:
    real, raw = kept([np.array([[1.0, 5.25]], np.float32)]), kept([np.array([[5, 13]], np.uint8)])
    assert agreements(real, raw)[0].unscaled == (None, "uint8")
    assert agreements(raw, real)[0].unscaled == ("uint8", None)
    scaled = replace(raw, outputs=(Output("out0", 0.5, 3),))
    wide = kept([np.array([[5, 13]], np.int64)])
    for one, other in ((real, scaled), (raw, raw), (real, wide), (wide, raw)):
        assert agreements(one, other)[0].unscaled == (None, None)
    assert agreements(scaled, raw)[0].unscaled == (None, "uint8")


@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (2, 1, 1, 3), (2, 3)])
def test_classes_may_have_axes_of_one_pixel_beside_them(shape: tuple[int, ...]) -> None:
    scores = np.array([[0.0, 1.0, 0.5], [0.9, 0.1, 0.2]])
    assert right(kept([scores.reshape(shape)]), np.array([1, 1]))[1] == {"top-1": 0.5}
    (found,) = agreements(kept([scores.reshape(shape)]), kept([scores[::-1].reshape(shape)]))
    assert found.same_top == 0.0


def test_an_image_has_no_classes() -> None:
    image = kept([np.zeros((1, 3, 4, 4))])
    assert right(image, np.array([0])) is None
    assert agreements(image, image)[0].same_top is None


def test_quantised_outputs_are_dequantised() -> None:
    raw = kept([np.array([[5, 13]], np.int8)], outputs=[Output("y", 0.5, 3)])
    (found,) = agreements(kept([np.array([[1.0, 5.25]])]), raw)
    assert found.max_abs == 0.25


def test_outputs_are_matched_by_name_order_or_shape() -> None:
    one, two = np.zeros((1, 3)), np.ones((1, 4))
    base = kept([one, two], outputs=[Output("a"), Output("b")])
    for other in (
        kept([two, one], outputs=[Output("b"), Output("a")]),
        kept([one, two], outputs=[Output("c"), Output("d")]),
        kept([two, one], outputs=[Output("c"), Output("d")]),
    ):
        assert [each.max_abs for each in agreements(base, other)] == [0.0, 0.0]
    names = [each.other_name for each in agreements(base, other)]
    assert names == ["d", "c"]  # matched by shape
    with pytest.raises(ValueError, match="neither names nor order and shapes match"):
        agreements(base, kept([np.ones((1, 6)), np.ones((1, 5))]))


def of(**outputs: Array) -> KeptOutputs:
    return kept(list(outputs.values()), outputs=[Output(name) for name in outputs])


ROW, IMAGE, SCORES = np.zeros((1, 3)), np.zeros((1, 2, 8, 8)), np.zeros((1, 10))
# Outputs of the baseline and of the other; which are compared, as pairs, and which only one of them has.
UNEQUAL = {
    "an output more": (of(a=ROW, b=SCORES), of(b=SCORES, a=ROW, c=ROW), {"a": "a", "b": "b"}, ((), ("c",))),
    "an output less": (of(a=ROW, b=SCORES), of(b=SCORES), {"b": "b"}, (("a",), ())),
    "other names": (of(a=ROW, b=SCORES), of(x=ROW, y=SCORES, z=ROW), {"a": "x", "b": "y"}, ((), ("z",))),
    "a name and a place": (of(a=ROW, b=SCORES), of(a=ROW, y=SCORES, b2=IMAGE), {"a": "a", "b": "y"}, ((), ("b2",))),
    "another shape of a name": (of(a=ROW, b=SCORES), of(a=ROW, b=IMAGE), {"a": "a"}, (("b",), ("b",))),
    "a name elsewhere": (of(a=ROW, b=ROW), of(b=ROW), {"b": "b"}, (("a",), ())),
}


@pytest.mark.parametrize("case", UNEQUAL)
def test_of_other_outputs_those_that_match_are_compared(case: str) -> None:
    base, other, pairs, unpaired = UNEQUAL[case]
    found = compare_outputs(base, other)
    assert {one.name: one.other_name or one.name for one in found.by_output.values()} == pairs
    assert found.unpaired == unpaired
    with pytest.raises(ValueError, match="other outputs"):
        compare_outputs(of(a=ROW), of(b=SCORES, c=ROW))


def test_a_comparison_has_rows_of_outputs_that_only_some_columns_have() -> None:
    base, less, other = of(a=ROW, b=SCORES), of(b=SCORES + 1), of(a=ROW + 2, b=SCORES)
    rows, refused, partly = lines([base, less, other], Judge())
    values = {row.key: row.values for row in rows if row.key.endswith("max_abs")}
    assert values == {"output/a/max_abs": (None, None, 2.0), "output/b/max_abs": (None, 1.0, 0.0)}
    assert refused == {}
    assert partly == {1: "a, which only the baseline has"}
    groups = [Group(name, (made(seed, seconds=10),)) for seed, name in enumerate("xy")]
    each = zip(groups, (base, less), strict=True)
    found = compare([replace(g, samples=(replace(g.samples[0], outputs=o),)) for g, o in each])
    told = [one.message for one in found.fair if one.code == "outputs-not-compared"]
    assert told == ["y: not compared: output a, which only the baseline has"]
    assert unpaired_words(compare_outputs(base, base), "A", "B") == ""


def test_an_output_whose_shape_differs_later_leaves_the_others_compared() -> None:
    boxes = [Output("logits"), Output("boxes")]
    base = kept([ROW, np.ones((2, 4))], [ROW, np.ones((2, 4))], outputs=boxes)
    other = kept([ROW, np.ones((2, 4))], [ROW, np.ones((5, 4))], outputs=boxes)
    found = compare_outputs(base, other)
    assert [one.name for one in found.by_output.values()] == ["logits"]
    assert (found.unpaired, found.differing) == (((), ()), ("boxes",))
    assert unpaired_words(found, "A", "B") == "boxes, whose shapes differ in some inferences"
    alone = [kept([np.ones((2, 4))], [np.ones((rows, 4))]) for rows in (2, 5)]
    with pytest.raises(ValueError, match="out0 differs in shape for inference 2"):
        compare_outputs(*alone)


def test_layouts_are_turned() -> None:
    image = np.arange(24.0).reshape(1, 2, 3, 4)
    last = image.transpose(0, 2, 3, 1)
    assert np.array_equal(fitted(last, image.shape), image)
    assert np.array_equal(fitted(image, last.shape), last)
    assert fitted(np.zeros((1, 7, 1, 1)), (1, 7)).shape == (1, 7)
    assert fitted(np.zeros((1, 7)), (1, 8)) is None


def test_other_inputs_are_refused_and_fewer_compared() -> None:
    base = kept([np.zeros(2)], [np.zeros(2)])
    with pytest.raises(ValueError, match="other inputs"):
        agreements(base, kept([np.zeros(2)], inputs="xyz"))
    assert agreements(base, kept([np.ones(2)]))[0].mean_abs == 1.0


def test_an_output_that_changes_its_shape_is_refused() -> None:
    base = kept([np.zeros(2)], [np.zeros(3)])
    with pytest.raises(ValueError, match="for inference 2"):
        agreements(base, kept([np.zeros(2)], [np.zeros(4)]))


def test_labels_give_top_one_and_top_five() -> None:
    scores = np.array([[0.9, 0.1, 0, 0, 0, 0, 0], [0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]])
    both = kept([scores[:1]], [scores[1:]])
    assert right(both, np.array([0, 4])) == ("out0", {"top-1": 0.5, "top-5": 1.0})
    assert right(both, np.array([1, 6])) == ("out0", {"top-1": 0.0, "top-5": 0.5})
    assert right(kept([scores[:1, :3]]), np.array([0]))[1] == {"top-1": 1.0}
    for labels in (np.array([0]), np.array([0.0, 1.0]), np.array([0, 7]), np.array([-1, 0])):
        with pytest.raises(InputError, match="do not match"):
            right(both, labels)


def test_a_metric_is_the_users_own() -> None:
    one = kept([np.array([2.0, 4.0])])
    assert measured(one, Judge(metric=lambda outputs, labels: outputs["out0"][0].sum(), metric_name="m:f")) == 6.0
    with pytest.raises(InputError, match="ZeroDivisionError"):
        measured(one, Judge(metric=lambda outputs, labels: 1 / 0, metric_name="m:f"))
    with pytest.raises(InputError, match="SystemExit"):
        measured(one, Judge(metric=lambda outputs, labels: sys.exit(), metric_name="m:f"))
    with pytest.raises(InputError, match="no session has a number"):
        lines([None, None], Judge(metric=lambda outputs, labels: 1.0, metric_name="m:f"))
    with pytest.raises(InputError, match="no session kept"):
        lines([None, None], Judge(labels=np.array([0])))


def test_a_comparison_has_output_rows_and_says_what_lacks_them() -> None:
    groups = [Group(name, (made(seed, seconds=10),)) for seed, name in enumerate("abc")]
    outputs = kept([np.array([[1.0, 2.0]])]), kept([np.array([[1.0, 2.5]])]), None
    groups = [replace(g, samples=(replace(g.samples[0], outputs=o),)) for g, o in zip(groups, outputs, strict=True)]
    found = compare(groups)
    assert found.row("output/out0/max_abs").values == (None, 0.5, None)
    assert found.row("outputs").values == ("1", "1", None)
    assert [one.message for one in found.fair if one.code == "outputs-not-compared"] == [
        "c: outputs are not compared: it kept no outputs"
    ]
