"""Logs as people have them (`captured/README.md` has the sources), and what other programs put before their lines."""

from pathlib import Path

import pytest

from edgetop.imports.measured import Found, Layers, SensorLog, Summary, T
from edgetop.imports.read import read
from tests.imports.test_session import imported, reported

HERE = Path(__file__).parent / "captured"
MS = 1_000_000


def only(found: tuple[Found, ...], kind: type[T]) -> T:
    (one,) = [each for each in found if isinstance(each, kind)]
    return one


def values(log: SensorLog) -> dict[str, list[float]]:
    return {info.id: value.tolist() for info, value in zip(log.sensors, log.values, strict=True)}


def test_jetpack_7_has_the_first_of_each_temperatures_and_rails_numbers() -> None:
    reading = read(HERE / "tegrastats-jetpack-7.txt")
    told = values(only(reading.found, SensorLog))
    assert (told["temp/cpu"], told["power/VDD_GPU_SOC"]) == ([52.968, 52.968], [5.139, 5.139])
    assert (told["load/gpu"], told["freq/gpu"]) == ([12.0, 12.0], [1300.0, 1300.0])
    assert (len(told), reading.notes) == (18, ())


def test_thors_total_is_its_input_and_nothing_of_a_line_is_lost() -> None:
    reading = read(HERE / "tegrastats-thor.txt")
    log = only(reading.found, SensorLog)
    told = values(log)
    assert (told["power/VIN"], told["temp/gpu"]) == ([30.8, 31.0], [62.906, 63.1])
    assert {info.id: info.role for info in log.sensors if info.role} == {
        "power/VIN": "total", "power/VDD_GPU": "part", "power/VDD_CPU_SOC_MSS": "part",
    }  # fmt: skip
    assert reading.notes == ()


def test_a_part_that_is_not_known_or_cannot_be_is_said_and_changes_nothing_else(tmp_path: Path) -> None:
    lines = (HERE / "tegrastats-jetpack-7.txt").read_text().splitlines()
    odd = lines[1].replace("VDD_GPU_SOC 5139mW", "VDD_GPU_SOC -392mW") + " WIDGET=7furlongs"
    path = tmp_path / "t.log"
    path.write_text(f"{lines[0]}\n{odd}\n")
    reading = read(path)
    told, before = values(only(reading.found, SensorLog)), read(HERE / "tegrastats-jetpack-7.txt").found[0]
    assert isinstance(before, SensorLog)
    assert told.pop("power/VDD_GPU_SOC") == [5.139]
    assert told.items() <= values(before).items()
    assert reading.notes == (
        '1 of 2 lines have parts not understood, the first: "WIDGET=7furlongs"',
        '1 of 2 lines have parts left out, as their value cannot be, the first: "VDD_GPU_SOC -392mW"',
    )


@pytest.mark.parametrize("name", ["litert-benchmark-2.3.0.txt", "litert-benchmark-2.3.0.json"])
def test_what_litert_benchmark_writes_is_a_summary(name: str) -> None:
    found = only(read(HERE / name).found, Summary)
    assert found.figures == {
        "mean_ms": 4.46, "min_ms": 1.04, "max_ms": 13.67, "p50_ms": 1.47, "stdev_ms": 4.45, "p95_ms": 13.51,
        "count": 50,
    }  # fmt: skip
    assert (found.init_ns, found.first_ns, found.warmup) == (28_240_000, 1_390_000, 5)
    assert found.warmup_ns == pytest.approx(5 * 4.61 * MS)


def test_litert_benchmarks_messages_name_the_model() -> None:
    reading = read(HERE / "litert-benchmark-2.3.0-verbose.txt")
    found = only(reading.found, Summary)
    assert (found.model, found.figures["mean_ms"], found.figures["count"]) == (
        "face_detection_short_range.tflite", 5.71, 20,
    )  # fmt: skip
    assert "lines not understood, the first: " in reading.notes[-1]


def test_litert_in_cpp_has_exact_figures_and_its_operators() -> None:
    reading = read(HERE / "litert-cpp-profiler.txt")
    summary, layers = only(reading.found, Summary), only(reading.found, Layers)
    assert summary.figures["mean_ms"] == pytest.approx(1.37964)
    assert (summary.figures["p95_ms"], summary.figures["count"]) == (1.409, 1000)
    assert (summary.first_ns, summary.warmup) == (1_927_000, 358)
    assert (layers.runs, layers.run_ns) == (1357, 1_307_190)
    assert [(each.op_type, each.provider, each.total_ns // 1357) for each in layers.operators] == [
        ("LiteRT::Run[buffer registration]", "CPU", 18_000), ("Static Reshape (NC)", "XNNPACK", 4_000),
        ("Fully Connected (NC, F32) GEMM", "XNNPACK", 1_269_000), ("LiteRT::Run[Buffer sync]", "CPU", 16_000),
    ]  # fmt: skip
    assert any("AllocateTensors" in note for note in reading.notes)


def test_the_initialisations_table_is_not_that_of_the_operators() -> None:
    layers = only(read(HERE / "benchmark-model-op-profiling.txt").found, Layers)
    assert [(each.name, each.provider, each.calls) for each in layers.operators] == [("[Identity]:77", "GPU", 110)]
    assert layers.run_ns == 8_671_490


def test_a_table_that_is_cut_off_is_left_out_and_the_summary_stays(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text(
        (HERE / "litert-cpp-profiler.txt").read_text().partition("	                LiteRT::Run[Buffer")[0]
    )
    reading = read(path)
    assert only(reading.found, Summary).figures["count"] == 1000
    assert len(reading.found) == 1
    assert "its table of operators is cut off, and left out" in reading.notes


GUIDE = """Inference (avg): 12.34 ms
Inference (std dev): 0.56 ms
Inference timings in us:
    Init: 1523
    First inference: 15234
    Warmup (avg): 12890
    Inference (avg): 12340
"""


def test_the_form_of_guides_has_microseconds_under_its_heading(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text(GUIDE)
    found = only(read(path).found, Summary)
    assert found.figures == {"mean_ms": 12.34, "stdev_ms": 0.56}
    assert (found.init_ns, found.first_ns) == (1_523_000, 15_234_000)


def test_figures_without_any_unit_are_taken_for_microseconds_and_said(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text("Init: 1523\nWarmup (avg): 12890\nInference (avg): 11873.2\nInference (std dev): 204\n")
    reading = read(path)
    assert only(reading.found, Summary).figures == pytest.approx({"mean_ms": 11.8732, "stdev_ms": 0.204})
    assert "its times have no unit: they are taken for microseconds, as benchmark_model prints them" in reading.notes


def test_a_time_of_zero_is_no_figure(tmp_path: Path) -> None:
    path = tmp_path / "z.txt"
    text = (HERE / "litert-benchmark-2.3.0.txt").read_text()
    path.write_text(text.replace("1.04 ms", "0.00 ms").replace("4.46 ms", "0.02 ms").replace("13.67", "0.02"))
    path.write_text(path.read_text().replace("1.47 ms", "0.02 ms").replace("13.51", "0.02"))
    reading = read(path)
    assert "min_ms" not in only(reading.found, Summary).figures
    assert any("figures of 0 left out" in note for note in reading.notes)
    assert any("rounded to 0.01 ms, 50.0 % of the mean" in note for note in reading.notes)


def test_a_batch_is_one_inference_and_its_items_are_another_figure(tmp_path: Path) -> None:
    found = only(read(HERE / "trtexec-7-batch-32.txt").found, Summary)
    assert (found.batch, found.figures["count"], found.warmup) == (32, 4, 1)
    assert found.figures["throughput_hz"] == pytest.approx(23.453 / 32)
    latency = reported(imported(tmp_path, (HERE / "trtexec-7-batch-32.txt").read_text()))["latency"]
    assert latency["items_per_s"] == pytest.approx(23.453, rel=1e-3)
    assert (latency["count"], latency["throughput_hz"]) == (4, pytest.approx(0.7329, rel=1e-3))


def test_a_throughput_that_counts_items_of_an_unknown_batch_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "b.txt"
    lines = (HERE / "trtexec-7-batch-32.txt").read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "atch" not in line))
    reading = read(path)
    found = only(reading.found, Summary)
    assert not {"throughput_hz", "count"} & found.figures.keys()
    assert found.figures["mean_ms"] == 1364.43
    assert any("its throughput of 23.453 qps left out" in note for note in reading.notes)


def test_the_table_of_trtexecs_profile_is_its_operators() -> None:
    (layers,) = read(HERE / "trtexec-dump-profile.txt").found
    assert isinstance(layers, Layers)
    assert (layers.runs, [each.op_type for each in layers.operators]) == (3449, ["Layer", "Reformat"])
    assert [each.total_ns for each in layers.operators] == [3_078_360_000, 14_820_000]


def test_before_8_4_the_name_of_a_layer_is_its_first_column(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text(
        "[I] === Profile (100 iterations ) ===\n"
        "[I]      Layer   Time (ms)   Avg. Time (ms)   Time %\n"
        "[I]    conv 1 2       30.00           0.3000     75.0\n"
        "[I]       relu       10.00           0.1000     25.0\n"
        "[I]      Total       40.00           0.4000    100.0\n"
    )
    (layers,) = read(path).found
    assert isinstance(layers, Layers)
    assert [(each.name, each.calls, each.total_ns) for each in layers.operators] == [
        ("conv 1 2", 100, 30 * MS), ("relu", 100, 10 * MS),
    ]  # fmt: skip


def test_a_profile_whose_rows_do_not_add_up_is_left_out(tmp_path: Path) -> None:
    text = (HERE / "trtexec-7-batch-32.txt").read_text() + (HERE / "trtexec-dump-profile.txt").read_text()
    path = tmp_path / "p.txt"
    path.write_text(text.replace("14.82", "814.82"))
    reading = read(path)
    assert [type(each) for each in reading.found] == [Summary]
    assert any("the rows have 3893.18 ms of 3093.17 ms" in note for note in reading.notes)


@pytest.mark.parametrize(
    "prefix",
    [
        "[2026-11-28 01:00:0{n}] ",  # ts '[%F %T]'
        "170000000{n} ",
        "2026-11-28 01:00:0{n},123 - bench - INFO - ",  # Python's logging
        "2026-11-28T01:00:0{n}.123456789Z stdout F ",  # the container runtime of Kubernetes
        "[INFO] [170000000{n}.123456789] [bench_node]: ",  # ROS 2
        "<6>Nov 28 01:00:0{n} jetson bench[123{n}]: ",
        "I0000 00:00:170000000{n}.123456   1234{n} tool.cc:7{n}] ",  # absl
        "> ",
    ],
)
@pytest.mark.parametrize(
    "name", ["tegrastats-jetpack-7.txt", "benchmark-model-op-profiling.txt", "trtexec-7-batch-32.txt"]
)
def test_what_any_program_puts_before_each_line_is_removed_and_said(prefix: str, name: str, tmp_path: Path) -> None:
    lines = (HERE / name).read_text().splitlines()
    path = tmp_path / name
    path.write_text("".join(f"{prefix.format(n=n % 10)}{line}\n" for n, line in enumerate(lines)))
    plain, reading = read(HERE / name), read(path)
    assert same(reading.found, plain.found)
    assert reading.notes[0].startswith("what ")
    assert reading.notes[0].endswith(" put before each line was removed")


def test_trtexec_6_has_means_of_some_inferences_and_no_summary() -> None:
    reading = read(HERE / "trtexec-6-averages.txt")
    summary = only(reading.found, Summary)
    assert (summary.figures["mean_ms"], summary.figures["count"]) == (pytest.approx(4.515), 20)
    assert (summary.model, summary.batch) == ("googlenet.prototxt", 8)
    assert summary.more == {"host_walltime_mean_ms": pytest.approx(4.605)}
    assert reading.notes[0] == "its mean is that of 2 averages, of the GPU's time without copies"


def same(found: tuple[Found, ...], other: tuple[Found, ...]) -> bool:
    return [repr(each) for each in found] == [repr(each) for each in other]
