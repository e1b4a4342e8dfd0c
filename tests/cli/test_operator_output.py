"""The tables of `edgetop ops`, of a profile that is made up."""

from pathlib import Path

import pytest

from edgetop.cli.running.operator_output import operator_document, operator_tables, output_files, write
from edgetop.cli.running.operator_run import OperatorProfile, put_together
from edgetop.engines.engine_protocol import BurstTaken, Loaded, ProfilerChosen
from edgetop.engines.spec import EngineSpec
from edgetop.runner.profiling import Profiled
from edgetop.session.ceilings import Ceilings
from edgetop.session.manifest import TensorInfo
from edgetop.session.operators import LEAST_BURSTS, EventCounts, Operator
from tests.support.onnx_models import LADDER, onnx_ladder
from tests.support.scripted_engine import inferences

MS = 1_000_000
ROOF = Ceilings(10e9, 1e9, "2026-11-21T10:00:00Z")
RUNS = 4


def made(
    path: Path,
    *,
    slow: str = "",
    on_cpu: str = "",
    ceilings: Ceilings | None = ROOF,
    way: str = "made up",
    reason: str = "",
    bursts: int = LEAST_BURSTS,
    other: str = "CUDA",
    counts: tuple[EventCounts, ...] = (),
    line_bytes: int | None = None,
) -> OperatorProfile:
    """The products of a ladder at 5 GFLOP/s each, but for one that is `slow`; on `other`, but for one."""
    path.write_bytes(onnx_ladder())
    operators = []
    for i, width in enumerate(LADDER[:8]):
        ns = 2 * 64 * 256 * width / 5 * (20 if f"rung{i}" == slow else 1)
        provider = "CPU" if f"rung{i}" == on_cpu else other
        operators.append(Operator(f"rung{i}", "MatMul", provider, RUNS, int(RUNS * ns)))
    run_ns = sum(operator.total_ns for operator in operators) // RUNS
    first_run = tuple((place, operator.total_ns // RUNS) for place, operator in enumerate(operators))
    profiled = Profiled(
        Loaded("onnxruntime", "1.31.1", "", ("CUDA", "CPU"), (), (TensorInfo("x", (64, 256), "float32"),), (), 1),
        ProfilerChosen(way, reason),
        [BurstTaken(0, 1, (run_ns,) * RUNS, tuple(operators), first_run, counts=counts)] * bursts,
        [inferences([0, 1, 2], run_ns)],
    )
    return put_together(profiled, EngineSpec(str(path), "onnx"), ceilings, line_bytes=line_bytes)


def rows(text: str, title: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    return [line.split() for line in text.split(f"{title}\n")[1].split("\n\n", maxsplit=1)[0].splitlines()[1:]]


def test_each_start_is_the_previous_end_and_rates_use_the_file(tmp_path: Path) -> None:
    found = made(tmp_path / "m.onnx", other="XNNPACK")
    first, second = rows(operator_tables("m.onnx", found), "operators in run order")[:2]
    assert first[:2] == ["0.000", "13.422"]
    assert second[0] == first[2] == "13.422"
    assert first[5] == "36.5-36.5"
    assert first[7] == "5.0"
    assert first[9:] == ["-", "compute-bound", "XNNPACK", "MatMul", "rung0"]


def test_the_ceilings_and_caches_of_the_cpu_do_not_bound_another_device(tmp_path: Path) -> None:
    found = made(tmp_path / "m.onnx")
    first = rows(operator_tables("m.onnx", found), "operators in run order")[0]
    assert first[9:] == ["-", "-", "CUDA", "MatMul", "rung0"]
    assert "CUDA" in operator_document("m.onnx", found)["bound_unknown"]


def test_an_estimate_is_called_one(tmp_path: Path) -> None:
    way = "estimate (isolated): each operator run by itself in a helper process"
    found = made(tmp_path / "m.onnx", way=way)
    assert f"profiled   {3 * RUNS} inferences by {way}" in operator_tables("m.onnx", found)
    assert operator_document("m.onnx", found)["way"] == way


def test_the_largest_come_first_by_time_and_shares_add_up(tmp_path: Path) -> None:
    table = rows(operator_tables("m.onnx", made(tmp_path / "m.onnx", slow="rung4")), "operators by time")
    assert [row[-1] for row in table[:2]] == ["rung4", "rung0"]
    assert table[0][3] == table[0][4]
    assert table[-1][4] == "100.0"


def test_the_answer_comes_first(tmp_path: Path) -> None:
    found = made(tmp_path / "m.onnx", slow="rung4")
    text = operator_tables("m.onnx", found)
    assert text.splitlines()[1] == f"all {len(found.rows)} operators, the slowest first"
    places = [text.index(words) for words in ("by time", "hint ", "where it ran", "in run order", "how it was")]
    assert places == sorted(places)


def test_unsettled_shares_have_a_question_mark_and_no_hint(tmp_path: Path) -> None:
    found = made(tmp_path / "m.onnx", slow="rung1", bursts=2)
    text = operator_tables("m.onnx", found)
    assert "unsettled  2 rounds with 8 inferences: shares settle from 3 rounds and 10 inferences on" in text
    assert {row[4] for row in rows(text, "operators in run order")} == {"?"}
    assert "hint" not in text
    document = operator_document("m.onnx", found)
    assert {(o["settled"], o["share_ci95"]) for o in document["operators"]} == {(False, None)}
    assert document["overhead_ratio"] is None


def test_of_a_slow_kernel_the_shapes_are_shown(tmp_path: Path) -> None:
    text = operator_tables("m.onnx", made(tmp_path / "m.onnx", slow="rung1"))
    assert "hint       1 operator of" in text
    assert f"           rung1: 64x256, 256x{LADDER[1]} to 64x{LADDER[1]}" in text
    assert "hint" not in operator_tables("m.onnx", made(tmp_path / "m.onnx"))


def test_what_fell_back_is_named_with_its_share_and_crossings(tmp_path: Path) -> None:
    found = made(tmp_path / "m.onnx", on_cpu="rung2")
    text = operator_tables("m.onnx", found)
    assert "where it ran: partitions 3, crossings between them 2" in text
    share = 100 * LADDER[2] / sum(LADDER[:8])
    assert f"  fell back  MatMul rung2, {share:.1f} % of the time" in text
    document = operator_document("m.onnx", found)
    assert (document["partitions"], document["crossings"], document["fell_back"]) == (3, 2, [2])
    assert document["warnings"][0]["code"] == "fell-back"


def test_without_ceilings_there_is_a_command_in_place_of_bounds(tmp_path: Path) -> None:
    found = made(tmp_path / "m.onnx", ceilings=None, other="XNNPACK")
    assert "edgetop doctor --roofline" in operator_tables("m.onnx", found)
    document = operator_document("m.onnx", found)
    assert {operator["bound"] for operator in document["operators"]} == {None}
    assert "edgetop doctor --roofline" in document["bound_unknown"]


@pytest.mark.parametrize("content", [b"", b"\x08\x08nonsense"])
def test_a_file_that_cannot_be_parsed_leaves_times_without_work(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    profiled = Profiled(
        Loaded("onnxruntime", "1.31.1", "", ("CPU",), (), (), (), 1),
        ProfilerChosen("made up", ""),
        [BurstTaken(0, 1, (MS,), (Operator("a", "Conv", "CPU", 1, MS),))],
        [inferences([0], MS)],
    )
    path.write_bytes(content)
    document = operator_document("m.onnx", put_together(profiled, EngineSpec(str(path), "onnx"), ROOF))
    (operator,) = document["operators"]
    assert (operator["mean_us"], operator["flops"], operator["bound"], operator["first_us"]) == (1000, None, None, None)
    assert document["memory"] is None


def test_what_was_counted_has_a_table_and_counted_bytes_say_what_limits(tmp_path: Path) -> None:
    """The first product of 13.4 ms misses the cache 150,000 times: 64 bytes each are 9.6 MB, of 1 GB a second."""
    counts = (
        EventCounts("cycles", 100_000, RUNS, ((0, RUNS * 20_000_000) + (RUNS * 20_000_000,) * 2,)),
        EventCounts("cache-misses", 1_000, RUNS, ((0, RUNS * 150_000) + (RUNS * 150_000,) * 2,)),
        EventCounts("page-faults", 1, RUNS, ()),
    )
    found = made(tmp_path / "m.onnx", other="CPU", counts=counts, line_bytes=64)
    text = operator_tables("m.onnx", found)
    table = rows(text, "operators by time: counted in an inference")
    assert ["20.0", "M", "150", "k", "9.60", "rung0"] in table
    assert "one in 100000 cycles, one in 1000 cache-misses" in " ".join(table[-1])
    assert "page faults" not in text
    first = operator_document("m.onnx", found)["operators"][0]
    assert first["counters"]["bytes"] == 9_600_000
    assert first["counters"]["page_faults"] == 0
    assert first["counters"]["ci95"]["cycles"][0] < 20_000_000 < first["counters"]["ci95"]["cycles"][1]
    assert (first["bound"], first["bound_by"]) == ("memory-bound", "counted")
    second = operator_document("m.onnx", made(tmp_path / "m.onnx", other="CPU"))["operators"][0]
    assert (second["bound"], second["bound_by"], second["counters"]) == ("compute-bound", "file", None)


def test_counts_of_the_cpu_are_not_those_of_another_device(tmp_path: Path) -> None:
    counts = (EventCounts("cycles", 100_000, RUNS, ((0, 400_000, 400_000, 400_000),)),)
    found = made(tmp_path / "m.onnx", other="CUDA", counts=counts)
    assert {row["counters"] for row in operator_document("m.onnx", found)["operators"]} == {None}


def test_the_csv_has_a_column_for_each_counted_event(tmp_path: Path) -> None:
    counts = (EventCounts("page-faults", 1, RUNS, ((0, 2 * RUNS) + (2 * RUNS,) * 2,)),)
    found = made(tmp_path / "m.onnx", other="CPU", counts=counts)
    csv, _ = output_files(tmp_path / "o.csv", None, force=False)
    write("m.onnx", found, csv, None, as_json=True)
    head, first, *_ = (tmp_path / "o.csv").read_text().splitlines()
    cells = dict(zip(head.split(","), first.split(","), strict=True))
    assert (cells["page_faults"], cells["cycles"], cells["bound_by"]) == ("2.0", "", "file")
