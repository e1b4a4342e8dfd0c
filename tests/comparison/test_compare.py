"""Sessions of one law are the same or cannot be told apart; those of another differ."""

import json
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from edgetop.analysis.report_parts import LatencyFigures
from edgetop.analysis.statistics import SETTLED_COUNTS
from edgetop.cli.printing.comparison_markdown import comparison_markdown
from edgetop.cli.printing.comparison_words import comparison_text
from edgetop.comparison.figures import FIGURES
from edgetop.comparison.ratios import CHANCE, LONE, Comparison, compare, comparison_document
from edgetop.comparison.sample import Group, Sample, grouped
from edgetop.errors import InputError
from edgetop.formatting import milliseconds
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Constraints, EngineInfo, Methodology, Model
from tests.support.compared import group, made


@cache
def groups() -> tuple[Group, Group, Group]:
    """Two of one law, and one that is slower."""
    return group("a", range(5)), group("b", range(5, 10)), group("c", range(10, 15), times=1.2)


@cache
def slow_one() -> Sample:
    return made(77, times=2.0)


def words(comparison: Comparison, key: str, place: int = 1) -> tuple[str, str]:
    row = comparison.row(key)
    assert row
    found = row.ratios[place]
    assert found
    return found.verdict, found.words


def codes(comparison: Comparison) -> list[str]:
    return [notice.code for notice in comparison.fair]


@pytest.mark.slow
def test_groups_of_one_law_are_the_same_and_a_slower_is_found() -> None:
    a, b, slower = groups()
    found = compare([a, b, slower])
    assert words(found, "p50_ms", 1)[0] == "same"
    assert words(found, "p50_ms", 1)[1].startswith("the same within ")
    assert words(found, "p50_ms", 2) == ("slower", "slower")
    assert words(found, "p99_ms", 2) == ("slower", "slower")
    row = found.row("p50_ms")
    assert row
    assert row.ratios[0] is None
    assert row.ratios[2]
    assert row.ratios[2].ci95
    low, high = row.ratios[2].ci95
    assert low < 1.2 < high
    assert row.ratios[2].value == pytest.approx(row.values[2] / row.values[0], rel=1e-5)


def test_what_is_not_told_apart_is_not_ranked_apart() -> None:
    a, b, slower = groups()
    assert [(rank.rank, set(rank.sessions)) for rank in compare([a, slower, b]).ranking] == [
        (1, {"a", "b"}),
        (3, {"c"}),
    ]


def test_single_sessions_show_a_large_gap_but_not_a_small_one() -> None:
    a, b, _ = groups()
    alone = Group("alone", a.samples[:1])
    near, far = Group("b", b.samples[:1]), Group("far", (slow_one(),))
    found = compare([alone, near, far])
    assert words(found, "p50_ms", 1) == ("unknown", LONE)
    assert words(found, "p50_ms", 2) == ("slower", "slower")
    assert words(found, "temp_end_c", 1) == ("unknown", LONE)
    assert codes(found)[0] == "one-session-each"


def test_one_session_beside_several_is_judged_by_their_spread() -> None:
    a, b, _ = groups()
    assert words(compare([a, Group("far", (slow_one(),))]), "p50_ms") == ("slower", "slower")
    assert words(compare([a, Group("b", b.samples[2:3])]), "p50_ms")[0] in ("unknown", "same")


def test_a_session_and_itself_are_the_same() -> None:
    a, *_ = groups()
    alone = Group("alone", a.samples[:1])
    found = compare(grouped([*alone.samples, *alone.samples], None))
    assert found.names == ("run-0", "run-0 (2)")
    assert words(found, "p50_ms") == ("same", "the same within 0 %")
    assert "same-session" in codes(found)
    assert len(found.ranking) == 1


def test_other_processes_widen_the_interval_of_one_session_each() -> None:
    a, *_ = groups()
    alone = Group("alone", a.samples[:1])
    crowded = Group("far", (replace(made(77, times=1.5), others_pct=100.0),))
    assert words(compare([alone, Group("far", (made(77, times=1.5),))]), "p50_ms")[0] == "slower"
    found = compare([alone, crowded])
    assert words(found, "p50_ms") == ("unknown", LONE)
    assert "background-load" in codes(found)


def test_secondary_rows_pass_the_false_discovery_rate() -> None:
    a, b, _ = groups()
    lucky = compare([a, b])
    unlucky = [row for row in lucky.rows for one in row.ratios if one and one.words == CHANCE]
    assert all(row.key not in ("p50_ms", "p99_ms") for row in unlucky)
    assert all(one.verdict == "unknown" for row in unlucky for one in row.ratios if one and one.words == CHANCE)
    told = [one for row in lucky.rows for one in row.ratios if one and one.verdict not in ("same", "unknown")]
    assert told == []


def test_nothing_is_made_up_where_nothing_was_measured() -> None:
    a, b, _ = groups()
    bare = replace(a.samples[0].report, temperature={}, operators=None)
    found = compare([Group("a", (replace(a.samples[0], report=bare, quarters={}),)), Group("b", b.samples[:1])])
    temperature = found.row("temp_end_c")
    assert temperature
    assert temperature.values[0] is None
    assert temperature.ratios[1]
    assert (temperature.ratios[1].difference, temperature.ratios[1].verdict) == (None, "unknown")
    assert words(found, "p50_ms") == ("unknown", LONE)


def test_fairness_names_what_differs() -> None:
    a, b, _ = groups()
    hot = Methodology(warmup_runs=2, start_temperatures={"temp/cpu": 70.0}, ambient_c=30.0, enclosure="case")
    cool = Methodology(warmup_runs=50, start_temperatures={"temp/cpu": 40.0}, ambient_c=20.0, enclosure="open")
    one = made(1, methodology=hot, load=Load(batch=4), edgetop_version="9", model=Model("other.onnx"))
    other = made(2, methodology=cool, seconds=30)
    assert {
        "start-temperature-differs", "ambient-differs", "enclosure-differs", "warm-up-differs", "load-differs",
        "edgetop-version-differs", "duration-differs", "one-session-each",
    } <= set(codes(compare([Group("a", (one,)), Group("b", (other,))])))  # fmt: skip
    assert set(codes(compare([a, b]))) <= {"start-temperature-differs"}


def test_what_one_session_does_not_know_is_no_difference_in_where_it_ran() -> None:
    """A run may end before its scheduler and its CPUs are seen."""
    short = Group("a", (made(1, methodology=Methodology(warmup_runs=50)),))
    known = Methodology(warmup_runs=50, scheduler="SCHED_OTHER, nice 0")
    seen = made(2, methodology=known, constraints=Constraints(cpus=2.0))
    assert "placement-differs" not in codes(compare([short, Group("b", (seen,))]))
    fewer = Group("c", (made(3, methodology=known, constraints=Constraints(cpus=1.0)),))
    (told,) = [one for one in compare([Group("b", (seen,)), fewer]).fair if one.code == "placement-differs"]
    assert told.message == "number of CPUs differs: 2.0 (b); 1.0 (c)"


def test_sessions_are_grouped_by_a_label_or_by_what_ran() -> None:
    labelled = [made(seed, labels={"release": str(seed % 2)}) for seed in range(3)]
    groups = grouped(labelled, "release")
    assert [(one.name, len(one.samples)) for one in groups] == [("release=0", 2), ("release=1", 1)]
    assert [one.name for one in grouped(labelled, "threads")] == ["threads=default"]
    with pytest.raises(InputError, match=r"run-0 has no label colour \(choose one that all sessions have, or model"):
        grouped(labelled, "colour")
    with pytest.raises(ValueError, match="needs two"):
        compare(grouped(labelled, "threads"))


def test_the_document_is_json_with_the_keys_of_the_report() -> None:
    a, _, slower = groups()
    document = json.loads(json.dumps(comparison_document(compare([a, slower])), allow_nan=False))
    assert list(document) == ["sessions", "groups", "rows", "fair", "ranking", "ranked_by"]
    keys = [row["key"] for row in document["rows"]]
    assert {"p50_ms", "p99_ms", "throughput_hz", "net_mj", "gross_mj", "rss_peak_mib"} <= set(keys)
    assert len(set(keys)) == len(keys)
    p50 = next(row for row in document["rows"] if row["key"] == "p50_ms")
    assert p50["ratios"][0] is None
    assert p50["ratios"][1]["verdict"] == "slower"
    throughput = next(row for row in document["rows"] if row["key"] == "throughput_hz")
    assert throughput["ratios"][1]["verdict"] in ("same", "unknown")  # paced by the generator


@pytest.mark.thorough
@pytest.mark.slow
def test_sessions_of_one_law_are_called_different_in_few_of_many() -> None:
    """The small form of tests/benchmarks/test_comparison.py."""
    pool = [made(seed, seconds=20) for seed in range(500, 560)]
    verdicts = []
    for begin in range(0, 60, 6):
        first, second = Group("a", tuple(pool[begin : begin + 3])), Group("b", tuple(pool[begin + 3 : begin + 6]))
        verdicts.append(words(compare([first, second]), "p50_ms")[0])
        verdicts.append(words(compare([Group("a", first.samples[:1]), Group("b", second.samples[:1])]), "p50_ms")[0])
    assert sum(verdict in ("slower", "faster") for verdict in verdicts) <= 2


def test_what_is_not_known_says_how_many_sessions_would_settle_it() -> None:
    """The same pair of models with as many sessions as were said to be needed is told apart, or the same."""
    few = [Group(name, tuple(made(seed, times=times) for seed in range(at, at + 3))) for name, times, at in
           (("a", 1.0, 200), ("b", 1.02, 230))]  # fmt: skip
    one = compare(few).row("p50_ms").ratios[1]  # type: ignore[union-attr]
    assert one
    assert one.verdict == "unknown"
    assert one.needs_sessions
    assert 4 <= one.needs_sessions <= 60
    assert one.needs_s == pytest.approx(2 * one.needs_sessions * 60, rel=0.01)
    count = one.needs_sessions * 2  # chance: the spread of three is known to a factor of two
    many = [Group(name, tuple(made(seed, times=times) for seed in range(at, at + count))) for name, times, at in
            (("a", 1.0, 300), ("b", 1.02, 400))]  # fmt: skip
    settled = compare(many).row("p50_ms").ratios[1]  # type: ignore[union-attr]
    assert settled
    assert settled.verdict in ("slower", "same")
    assert (settled.needs_sessions, settled.needs_s) == (None, None)


def test_a_percentile_of_too_few_inferences_needs_a_longer_run() -> None:
    few = [Group(name, (made(seed, seconds=20),)) for seed, name in ((1, "a"), (2, "b"))]
    one = compare(few).row("p999_ms").ratios[1]  # type: ignore[union-attr]
    assert one
    assert (one.verdict, one.needs_sessions) == ("unknown", None)
    assert one.needs_s == pytest.approx(2 * SETTLED_COUNTS[0.999] / 40, rel=0.05)


def test_a_percentile_of_too_few_inferences_is_marked_in_text_and_markdown() -> None:
    short, long = group("a", range(1), seconds=15), group("b", range(1, 2), seconds=60)  # 600 and 2,400 inferences
    comparison = compare((short, long))
    row = next(row for row in comparison.rows if row.key == "p99_ms")
    assert row.settled == tuple((of.samples[0].report.latency.settled or {})["p99"] for of in (short, long))
    assert not row.is_settled(0)
    doubtful = f"{milliseconds(float(row.values[0] or 0) * 1e6)}?"
    assert doubtful in comparison_text(comparison)
    assert doubtful in "\n".join(comparison_markdown(comparison, ()))
    p50 = next(row for row in comparison.rows if row.key == "p50_ms")
    assert f"{milliseconds(float(p50.values[1] or 0) * 1e6)}?" not in comparison_text(comparison)


@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("kind", ["", "response_", "burst_", "sustained_", "ttft_", "itl_"])
def test_each_kind_of_percentile_is_settled_as_the_report_says(kind: str, *, is_settled: bool) -> None:
    named = {"p50": True, "p99": is_settled}
    span, times = SimpleNamespace(settled=named), SimpleNamespace(settled=is_settled)
    sure = SimpleNamespace(settled={"p50": True, "p99": True})
    is_of = {name: kind == f"{name}_" for name in ("burst", "sustained", "ttft", "itl")}
    report = SimpleNamespace(
        latency=LatencyFigures(count=9, errors=0, settled=named if not any(is_of.values()) else sure.settled),
        generation=SimpleNamespace(**{name: times if is_of[name] else None for name in ("ttft", "itl")}),
        **{name: span if is_of[name] else sure for name in ("burst", "sustained")},
    )
    sample: Any = SimpleNamespace(report=report)
    figures = {figure.key: figure for figure in FIGURES}
    told = [figures[f"{kind}{name}_ms"].is_settled(sample) for name in ("p50", "p99")]
    assert told == [True, is_settled]


def test_of_one_session_each_no_more_than_five_are_asked_for() -> None:
    """The spread between runs is a cautious assumption then; five sessions measure it."""
    for times, needed in ((1.01, 4), (1.025, 5)):
        groups = [Group("a", (made(1),)), Group("b", (made(2, times=times),))]
        one = compare(groups).row("p50_ms").ratios[1]  # type: ignore[union-attr]
        assert one
        assert (one.words, one.needs_sessions) == (LONE, needed)


def test_settings_of_the_runtime_that_differ_are_rows() -> None:
    def one(seed: int, runtime: str = "onnxruntime", **settings: str) -> Group:
        engine = EngineInfo(runtime=runtime, settings=settings)
        return Group(f"g{seed}", (made(seed, seconds=10, engine=engine),))

    compared = compare([one(1, arena="off"), one(2, optimize="0", arena="off"), one(3, "ncnn", fp16="True")])
    rows = {row.key: row.values for row in compared.rows if row.key.startswith("settings.")}
    assert rows == {
        "settings.optimize": ("default", "0", None),
        "settings.arena": ("off", "off", None),
        "settings.fp16": (None, None, "True"),
    }
    alike = compare([one(1, optimize="0"), one(2, optimize="0")])
    assert not [row for row in alike.rows if row.key.startswith("settings.")]
