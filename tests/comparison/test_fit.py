"""Lines from desk to device: what they are, which models are on them, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.comparison.device_fit import Kind, Pair, fit, line, predict, why_no_line
from edgetop.comparison.sample import Sample
from edgetop.errors import InputError
from edgetop.session.manifest import Ab, Board, EngineInfo, Model, Variant
from tests.support.compared import made

KIND = Kind("onnxruntime", "onnxruntime", "float32")


def pairs(*times: tuple[float, float]) -> list[Pair]:
    return [Pair(f"m{k}", f"{k}", KIND, *each) for k, each in enumerate(times)]


def test_a_line_is_found_in_spite_of_one_odd_model() -> None:
    ms = np.array([1.0, 2, 4, 8, 16])
    there = 3 * ms**0.9
    there[2] *= 10
    found = line(pairs(*zip(ms.tolist(), there.tolist(), strict=True)))
    assert found.slope == pytest.approx(0.9)
    assert found.at(5.0) == pytest.approx(3 * 5**0.9)
    assert found.left_out[2] == pytest.approx(9.0)  # ten times as long as the others say
    assert found.tau == pytest.approx(0.6)  # two of ten pairs of models swap
    assert found.r2 == pytest.approx(1 - np.log(10) ** 2 / float(np.square(np.log(there) - np.log(there).mean()).sum()))


def test_three_models_get_a_wide_interval_and_more_a_narrower() -> None:
    rng = np.random.default_rng(5)
    ms = np.geomspace(1, 30, 12)
    there = 4 * ms * np.exp(rng.normal(0, 0.1, 12))
    widths = []
    for chosen in (slice(0, 12, 5), slice(0, 12)):
        found = line(pairs(*zip(ms[chosen].tolist(), there[chosen].tolist(), strict=True)))
        low, high = found.interval(5.0)
        assert low < found.at(5.0) < high
        widths.append(high / low)
    assert widths[0] > 1.5 * widths[1]


def test_a_perfect_line_claims_no_more_than_runs_repeat() -> None:
    low, high = line(pairs((1, 2), (2, 4), (4, 8), (8, 16))).interval(3.0)
    assert high / low == pytest.approx(1.1465, rel=0.001)


def test_models_that_are_nearly_alike_overflow_nothing() -> None:
    found = line(pairs((1.0, 2.0), (1.0000001, 9.0), (1.0000002, 90.0), (30.0, 60.0)))
    assert np.isfinite([*found.left_out, *found.interval(5.0)]).all()


def test_too_few_models_and_models_alike_have_no_line() -> None:
    assert "2 models are on both sides" in why_no_line(pairs((1, 2), (2, 3)))
    assert "the same for all at the desk" in why_no_line(pairs((1, 2), (1, 3), (2, 4)))
    assert not why_no_line(pairs((1, 2), (3, 3), (2, 4)))


BASE = made(1, seconds=5)


def of(model: int, ms: float, *, board: str = "desk", **changes: object) -> Sample:
    """A session of one model of several, that takes so long."""
    session = replace(
        BASE.session,
        id=f"{board}-{model}-{ms}",
        name=f"{board}-{model}",
        model=Model(f"m{model}.onnx", sha256=f"{model:064}", precision="float32"),
        board=replace(BASE.session.board, model=board),
        **changes,
    )
    latency = replace(BASE.report.latency, p50_ms=ms)
    return replace(BASE, report=replace(BASE.report, session=session, latency=latency))


DESK = [of(k, ms) for k, ms in enumerate((1.0, 2.0, 5.0, 9.0))]
DEVICE = [of(k, 3 * ms, board="pi") for k, ms in enumerate((1.0, 2.0, 5.0))]


def test_models_match_by_hash_and_predictions_stay_in_range() -> None:
    found = fit(DESK, DEVICE, "p50_ms")
    assert [len(one.pairs) for one in found.lines] == [3]
    assert found.left_out == ("m3.onnx: not among --on",)
    (inside,), (outside,) = predict(found, of(7, 3.0), "p50_ms"), predict(found, DESK[3], "p50_ms")
    assert inside.there == pytest.approx(9.0)
    assert inside.interval95
    assert inside.interval95[0] < 9 < inside.interval95[1]
    assert outside.interval95 is None
    assert "9 ms is outside the range of the line's models, 1 to 5 ms" in (outside.refused or "")


def test_other_kinds_have_lines_of_their_own() -> None:
    labels = {"labels": {"family": "video"}}
    both = [[*side, *(of(10 + k, ms, board=board, **labels) for k, ms in enumerate((1.0, 2.0)))]
            for side, board in ((DESK, "desk"), (DEVICE, "pi"))]  # fmt: skip
    found = fit(*both, "p50_ms")
    assert [one.kind.family for one in found.lines] == [""]
    assert len(found.refused) == 1
    assert found.refused[0].endswith("video: 2 models are on both sides, but a line needs 3")
    (other,) = predict(found, of(7, 3.0, **labels), "p50_ms")
    assert "there is no line for its kind" in (other.refused or "")


def test_a_simulated_board_is_marked() -> None:
    device = [replace_board(one, replace(one.session.board, simulated=True)) for one in DEVICE]
    assert fit(DESK, device, "p50_ms").notes == ("--on: the board is SIMULATED",)


def replace_board(sample: Sample, board: Board) -> Sample:
    return replace(sample, report=replace(sample.report, session=replace(sample.session, board=board)))


def test_several_sessions_of_a_model_are_averaged() -> None:
    found = fit([*DESK, replace_ms(DESK[1], 8.0)], DEVICE, "p50_ms")
    assert found.lines[0].pairs[1].here == pytest.approx(4.0)


def replace_ms(sample: Sample, ms: float) -> Sample:
    session = replace(sample.session, id="again")
    return replace(
        sample, report=replace(sample.report, session=session, latency=replace(sample.report.latency, p50_ms=ms))
    )


def without_inferences(sample: Sample) -> Sample:
    """As of a recording whose tables are damaged."""
    latency = replace(sample.report.latency, count=0, p50_ms=None)
    return replace(sample, report=replace(sample.report, latency=latency))


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (without_inferences(of(8, 1.0)), "it has no measured inference"),
        (of(0, 1.0, board="another"), "several boards: another; desk"),
        (of(0, 1.5, engine=EngineInfo(threads=4)), "one model with other settings"),
        (of(8, 1.0, ab=Ab((Variant(Model("a"), EngineInfo()),) * 2, 0.01)), "an A/B session"),
        (replace_ms(of(8, 1.0), None), "has no p50"),  # type: ignore[arg-type]
    ],
)
def test_sessions_that_do_not_go_together_are_refused(odd: Sample, words: str) -> None:
    device = [*DEVICE, of(8, 3.0, board="pi")]
    with pytest.raises(InputError, match=words):
        fit([*DESK, odd], device, "p50_ms")
