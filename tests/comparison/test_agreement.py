"""How well limits at the desk stand for a device: order, line and residuals, for models and programs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from edgetop.cli.printing.agreement_text import agreement_sentences
from edgetop.comparison.agreement import agreements, chance_of
from edgetop.comparison.device_fit import fit, identity, kendall, predict
from edgetop.comparison.fairness import fairness
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import Group, Sample
from edgetop.errors import InputError
from edgetop.session.manifest import Constraints, EngineInfo, Methodology, Model, Watched
from tests.support.compared import made

BASE = made(1, seconds=5)


def program(
    *words: str, ms: float, mib: float, end: str = "exit", p50: float | None = None, **changes: object
) -> Sample:
    """A run of a program, with its total time, its peak memory and, if inferences were seen, their p50."""
    session = replace(
        BASE.session, id=f"{words}-{ms}-{mib}", name=f"{words[-1]}", model=Model(""), engine=EngineInfo(),
        end_reason=end, watched=Watched(words), **changes,
    )  # fmt: skip
    report, usage = BASE.report, BASE.report.usage
    assert usage
    latency = replace(report.latency, p50_ms=p50, p99_ms=None, count=0 if p50 is None else 100)
    report = replace(
        report, session=session, latency=latency, usage=replace(usage, total_time_ms=ms),
        memory=replace(report.memory, rss_peak_mib=mib),
        energy=replace(report.energy, gross_mj=None, run_j=ms / 100),
    )  # fmt: skip
    return replace(BASE, report=report)


def side(folder: str, times: Sequence[float], python: str = "python3") -> list[Sample]:
    return [program(python, f"{folder}app.py", f"--model={folder}m{k}.tflite", ms=ms, mib=10.0 * (k + 1))
            for k, ms in enumerate(times)]  # fmt: skip


DESK = side("/home/a/", (100, 200, 400, 800))
BOARD = side("/srv/", (250, 520, 900, 2000), python="/usr/bin/python3.11")


def test_programs_match_by_their_commands_without_folders() -> None:
    assert identity(DESK[0]) == identity(BOARD[0]) == "app.py --model=m0.tflite"
    assert identity(program("sh", "-c", "a/b 'x/y' | c", ms=1, mib=1)) == "sh -c b 'y' | c"
    assert identity(program("python3", ms=1, mib=1)) == "python3"


@pytest.mark.parametrize(("key", "factor"), [("total_time_ms", 2.4), ("rss_peak_mib", 1.0), ("run_j", 2.4)])
def test_a_line_through_programs_has_each_figure(key: str, factor: float) -> None:
    found = fit(DESK, BOARD, key)
    (line,) = found.lines
    assert (len(line.pairs), line.kind.words) == (4, "program, app.py")
    assert line.at(line.pairs[1].here) / line.pairs[1].here == pytest.approx(factor, rel=0.1)
    (prediction,) = predict(found, program("python3", "app.py", "new", ms=300, mib=25), key)
    assert prediction.interval95
    assert prediction.interval95[0] < prediction.there < prediction.interval95[1]  # type: ignore[operator]


def test_two_programs_are_refused_and_other_programs_are_a_family_of_their_own() -> None:
    found = fit(DESK[:2], BOARD[:2], "total_time_ms")
    assert found.refused == ("program, app.py: 2 programs are on both sides, but a line needs 3",)
    others = [program("./other", f"{k}", ms=100.0 * k, mib=1) for k in (1, 2, 3)]
    found = fit([*DESK, *others], [*BOARD, *others], "total_time_ms")
    assert [line.kind.family for line in found.lines] == ["app.py", "other"]
    label = {"labels": {"family": "all"}}
    both = [program(f"./p{k}", ms=100.0 * k, mib=1, **label) for k in (1, 2, 3)]
    assert [line.kind.words for line in fit(both, both, "total_time_ms").lines] == ["program, all"]


def test_a_program_that_edgetop_ended_has_no_total_time() -> None:
    with pytest.raises(InputError, match="has no total time"):
        fit(*([*each, program("cut", ms=5, mib=1, end="duration")] for each in (DESK, BOARD)), "total_time_ms")
    with pytest.raises(InputError, match="one model with other settings: 1 CPU; 2 CPUs"):
        fit([program("a", ms=n, mib=1, constraints=Constraints(cpus=n)) for n in (1.0, 2.0)], BOARD, "total_time_ms")


def test_the_order_the_line_and_the_residuals_are_those_of_the_pairs() -> None:
    found = agreements(DESK, [*BOARD, program("alone", ms=1, mib=1)])
    by_key = {one.key: one for one in found.agreements}
    assert set(by_key) == {"total_time_ms", "rss_peak_mib", "run_j"}  # no inference was seen
    time = by_key["total_time_ms"]
    assert time.line
    assert (time.line.tau, time.chance) == (1.0, pytest.approx(1 / 24))
    off = {pair.here: pair.there / time.line.at(pair.here) - 1 for pair in time.line.pairs}
    assert list(time.residuals) == pytest.approx(list(off.values()))
    assert found.left_out == ("alone",)
    assert found.to_json()["figures"][0]["models"][0]["name"] == "app.py --model=m0.tflite"


def test_two_points_are_no_line_and_nothing_in_common_is_refused() -> None:
    (time, *_) = agreements(DESK[:2], BOARD).agreements
    assert (time.line, time.chance, time.residuals) == (None, None, ())
    assert "2 models are on both sides, but a line needs 3" in time.refused
    with pytest.raises(InputError, match="nothing ran on both sides"):
        agreements(DESK, [program("alone", ms=1, mib=1)])


def test_one_model_with_several_threads_is_several_pairs() -> None:
    def run(threads: int, ms: float) -> Sample:
        session = replace(BASE.session, id=f"{threads}{ms}", model=Model("m.onnx", sha256="0" * 64),
                          engine=replace(BASE.session.engine, threads=threads))  # fmt: skip
        return replace(
            BASE, report=replace(BASE.report, session=session, latency=replace(BASE.report.latency, p50_ms=ms))
        )

    found = agreements([run(k, 10.0 / k) for k in (1, 2, 4)], [run(k, 20.0 / k) for k in (1, 2, 4)])
    p50 = found.agreements[0]
    assert p50.line
    assert [pair.there for pair in p50.line.pairs] == pytest.approx([5.0, 10.0, 20.0])


@pytest.mark.parametrize("count", [3, 4, 5])
def test_the_chance_of_an_order_is_that_of_counting_all_orders(count: int) -> None:
    ranks = np.arange(float(count))
    taus = [kendall(ranks, np.array(order, float)) for order in permutations(range(count))]
    for tau in set(taus):
        assert chance_of(tau, count) == pytest.approx(sum(each >= tau - 1e-9 for each in taus) / len(taus))


def test_the_chance_of_many_models_is_nearly_the_exact_one() -> None:
    assert chance_of(0.3, 31) == pytest.approx(chance_of(0.3, 30), rel=0.15)
    assert chance_of(0.3, 10_000) < 1e-9


def test_programs_are_ranked_by_total_time_and_not_called_unmeasured() -> None:
    fast, slow = (Group(name, tuple(program("a", ms=ms + k, mib=1) for k in range(4))) for name, ms in
                  (("fast", 100.0), ("slow", 200.0)))  # fmt: skip
    found = compare([slow, fast])
    assert found.ranked_by == "total_time_ms"
    assert [rank.sessions for rank in found.ranking] == [("fast",), ("slow",)]
    row = found.row("total_time_ms")
    assert row
    assert row.ratios[1]
    assert row.ratios[1].verdict == "faster"
    assert not {"nothing-measured", "duration-differs"} & {one.code for one in fairness([slow, fast])}
    warm = [Group(str(n), (program("a", ms=9, mib=1, methodology=Methodology(warmup_runs=n)),)) for n in (1, 9)]
    assert "warm-up-differs" not in {one.code for one in fairness(warm)}  # a program warms up as it likes
    ended = Group("ended", (program("a", ms=9, mib=1, end="duration"),))
    assert compare([slow, ended]).ranked_by == "p50_ms"  # edgetop chose its length


def test_every_form_of_the_comparison_has_the_agreement() -> None:
    from edgetop.cli.printing.comparison_markdown import comparison_markdown
    from edgetop.cli.printing.comparison_page import _agreement
    from edgetop.cli.printing.comparison_words import comparison_text, csv_rows

    found = agreements(DESK, [*BOARD, program("python3", "other.py", ms=5, mib=1)])
    comparison = compare([Group("desk", tuple(DESK)), Group("bo|ard", tuple(BOARD))])
    (time,) = (one for one in found.agreements if one.key == "total_time_ms")
    assert time.line
    rows = {(row[0], row[2]): row[3] for row in csv_rows(comparison, found)}
    assert rows["agreement.total_time_ms.tau", "bo|ard"] == 1.0
    assert rows["agreement.total_time_ms.slope", "bo|ard"] == time.line.slope
    assert rows["agreement.total_time_ms.device", time.line.pairs[0].name] == pytest.approx(250)
    text, page = comparison_text(comparison, (), found), "".join(_agreement(found, comparison.names))
    document = "\n".join(comparison_markdown(comparison, (), found))
    for form in (text, page, document):
        assert "Kendall" in form
        assert "tau of the order 1.00" in form
        assert "off if left out" in form
        assert "other.py: on one side only" in form
    assert "`bo\\|ard`" in document
    assert len([line for line in document.splitlines() if "m3.tflite" in line]) >= 2
    assert "agreement.total_time_ms.tau" not in {row[0] for row in csv_rows(comparison)}


def runs(times: Sequence[Sequence[float]]) -> list[Sample]:
    """Five runs of each program; `times` has the total times of each program's runs in ms."""
    return [program(f"m{k}", ms=ms, mib=10.0 * (k + 1)) for k, each in enumerate(times) for ms in each]


APART = [[100, 101, 102, 103, 104], [200, 202, 204, 206, 208], [400, 404, 408, 412, 416]]


def test_pairs_that_cannot_be_told_apart_are_ties() -> None:
    alike = [[205, 198, 212, 203, 207], *APART[1:]]  # on the second machine, the first two programs are alike
    (time,) = (one for one in agreements(runs(APART), runs(alike)).agreements if one.key == "total_time_ms")
    assert time.order
    assert [(pair.first, pair.second, pair.here, pair.there) for pair in time.order.pairs] == [
        ("m0", "m1", -1, 0), ("m0", "m2", -1, -1), ("m1", "m2", -1, -1),
    ]  # fmt: skip
    assert time.order.tau_b == pytest.approx(2 / np.sqrt(3 * 2))
    document = time.to_json()["order"]
    assert document == {
        "tau_b": pytest.approx(0.816497), "pairs": 3, "told_apart": 2,
        "ties": [{"models": ["m0", "m1"], "desk": -1, "device": 0}],
    }  # fmt: skip
    (first, *_) = agreement_sentences(time, "desk", "board")
    assert first.startswith("total time: Kendall's tau of the order")
    told = list(agreement_sentences(time, "desk", "board"))
    assert told[1] == "pairs told apart on both: 2 of 3; tau-b with ties 0.82"
    assert told[2] == "not told apart: m0 and m1 (board)"


def test_without_a_pair_that_can_be_told_apart_there_is_no_tau_b() -> None:
    blur = [[100, 150, 200, 90, 120], [120, 180, 95, 140, 101], [105, 99, 190, 130, 160]]
    (time,) = (one for one in agreements(runs(APART), runs(blur)).agreements if one.key == "total_time_ms")
    assert time.order
    assert (time.order.tau_b, time.order.told_apart) == (None, ())
    assert "tau-b with ties none" in " ".join(agreement_sentences(time, "desk", "board"))


def test_a_reversed_order_has_a_negative_tau_b() -> None:
    (time,) = (one for one in agreements(runs(APART), runs(APART[::-1])).agreements if one.key == "total_time_ms")
    assert time.order
    assert (time.order.tau_b, len(time.order.told_apart)) == (-1.0, 3)
