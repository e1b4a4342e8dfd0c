"""Sessions of what tools print: their own figures, and no inference that they do not tell of."""

import contextlib
import json

import pytest

from edgetop.errors import InputError
from edgetop.imports.measured import Summary, Times
from edgetop.imports.read import read, read_all
from edgetop.recording.reader import Recording
from edgetop.recording.rows import WHOLE
from tests.imports.test_session import imported, reported, text_of
from tests.support import printed, trtexec

MS = 1_000_000


def summary_of(folder, text):
    path = folder / "out.txt"
    path.write_text(text, encoding="utf-8")
    found = read(path).found[0]
    assert isinstance(found, Summary)
    return found


def test_trtexecs_summary_is_told_by_the_names_of_the_report(tmp_path):
    found = summary_of(tmp_path, printed.TRTEXEC)
    assert found.figures == {
        "min_ms": 1.17474, "p50_ms": 1.1897, "p90_ms": 1.25, "p95_ms": 1.3, "p99_ms": 1.50061, "max_ms": 4.4541,
        "mean_ms": 1.20348, "count": 3015, "throughput_hz": 1004.27,
    }  # fmt: skip
    assert (found.more["compute_p50_ms"], found.more["enqueue_max_ms"]) == (0.97998, 4.79843)
    assert (found.version, found.model, found.warmup, found.span_ns) == (
        "8.4.1",
        "yolov7-fp16.engine",
        148,
        3_002_200_000,
    )


def test_trtexec_7_with_an_explicit_batch_has_no_counts(tmp_path):
    found = summary_of(tmp_path, printed.TRTEXEC_7)
    assert found.figures == {
        "min_ms": 4.34442,
        "p50_ms": 4.49951,
        "p99_ms": 5.46606,
        "max_ms": 7.12915,
        "mean_ms": 4.52398,
    }
    assert (found.more["compute_mean_ms"], found.version, found.warmup) == (4.41, None, None)


def test_benchmark_models_warmup_is_not_among_the_measured(tmp_path):
    found = summary_of(tmp_path, printed.BENCHMARK_MODEL)
    assert found.figures == {
        "mean_ms": 63.7432, "min_ms": 49.088, "max_ms": 686.105, "stdev_ms": 60.716, "p50_ms": 51.891, "p95_ms": 68.628,
        "count": 1000,
    }  # fmt: skip
    assert (found.init_ns, found.first_ns, found.warmup) == (119_515_000, 87_112_000, 9)
    assert found.warmup_ns == pytest.approx(9 * 58.1474 * MS)
    assert (found.model, found.providers) == ("./models/tiny_muaalem_float32.tflite", ("XNNPACK",))


def test_an_old_benchmark_model_and_its_profile_are_told_apart(tmp_path):
    found = summary_of(tmp_path, printed.BENCHMARK_MODEL_1)
    assert found.figures == {"mean_ms": 2.1771, "min_ms": 2.056, "max_ms": 2.656, "stdev_ms": 0.124, "count": 459}
    assert (found.first_ns, found.warmup, found.init_ns) == (None, 215, 896_000)


def test_equal_inferences_have_their_latency_as_extremes(tmp_path):
    same = "INFO: count=3 curr=500 (all same)"
    last = "Inference timings in us: Init: 9, First inference: 500, Warmup (avg): 500, Inference (avg): 500"
    found = summary_of(tmp_path, f"INFO: count=1 curr=500\n{same}\nINFO: {last}\n")
    assert (found.figures["min_ms"], found.figures["max_ms"], found.figures["count"]) == (0.5, 0.5, 3)


def test_what_looks_like_a_figure_after_the_measured_ones_is_not_read(tmp_path):
    other = "count=1 curr=1e99\n"
    with_other, without = (
        summary_of(tmp_path, printed.BENCHMARK_MODEL + other),
        summary_of(tmp_path, printed.BENCHMARK_MODEL),
    )
    assert with_other == without


def test_perf_tests_percentiles_are_in_seconds(tmp_path):
    found = summary_of(tmp_path, printed.PERF_TEST)
    assert found.figures["p99_ms"] == found.figures["max_ms"] == pytest.approx(1.90312)
    assert (found.figures["mean_ms"], found.figures["count"], found.figures["throughput_hz"]) == (1.85739, 100, 538.184)
    assert (found.init_ns, found.first_ns, found.span_ns) == (10_201_600, 2 * MS, 185_810_000)
    assert found.more == {"cpu_pct": 96.0, "memory_peak_mib": 36696064 / 2**20}


def test_a_summary_is_a_session_with_figures_but_no_inferences(tmp_path):
    folder = imported(tmp_path, printed.TRTEXEC)
    assert [rows for rows in Recording(folder).rows("inferences", WHOLE) if len(rows)] == []
    document = reported(folder)
    latency = document["latency"]
    assert (latency["count"], latency["p50_ms"], latency["p99_ms"], latency["throughput_hz"]) == (
        3015, 1.1897, 1.50061, 1004.27,
    )  # fmt: skip
    assert (latency["errors"], latency["p999_ms"], latency["jitter_ms"], latency["ci95"]) == (None, None, None, None)
    assert latency["told_by"] == "trtexec"
    assert latency["settled"] == {"p50": True, "p90": True, "p95": True, "p99": True}
    assert (document["session"]["engine"]["version"], document["session"]["model"]["path"]) == (
        "8.4.1", "yolov7-fp16.engine",
    )  # fmt: skip
    assert (document["phases"]["warmup"], document["session"]["duration_ns"]) == (
        {"runs": 148, "mean_ms": None}, 3_002_200_000,
    )  # fmt: skip
    text = text_of(folder)
    assert "as printed by trtexec: single inferences are not known" in text
    assert "3015 inferences, 1004/s, - errors" in text
    assert "trtexec says: p50 1.1897 ms" in text


def test_what_a_summary_does_not_tell_is_not_known(tmp_path):
    document = reported(imported(tmp_path, printed.BENCHMARK_MODEL_1))
    latency = document["latency"]
    assert (latency["throughput_hz"], latency["p50_ms"], latency["p99_ms"]) == (None, None, None)
    assert (document["session"]["duration_ns"], document["burst"], document["drift_ratio"]) == (None, None, None)
    assert document["session"]["engine"]["providers"] == []


def test_a_session_of_edgetops_own_says_that_nobody_else_told_it(tmp_path):
    assert "told_by" not in reported(imported(tmp_path, trtexec.times(20)))["latency"]


def test_perf_tests_result_has_single_inferences_but_no_starts(tmp_path):
    seconds = [0.001 + run / 1e5 for run in range(200)]
    document = reported(imported(tmp_path, printed.perf_result(seconds, "a, b")))
    latency = document["latency"]
    assert (latency["count"], latency["min_ms"], latency["max_ms"]) == (200, 1.0, 2.99)
    assert latency["p50_ms"] == pytest.approx(1.99, rel=0.01)
    assert (latency["throughput_hz"], document["session"]["model"]["path"]) == (None, "a, b")
    assert "told_by" not in latency
    assert "no-starts" in {warning["code"] for warning in document["warnings"]}


def test_with_its_output_beside_it_the_throughput_is_the_tools(tmp_path):
    seconds = [0.00185739] * 100
    document = reported(imported(tmp_path, printed.perf_result(seconds), printed.PERF_TEST))
    latency, session = document["latency"], document["session"]
    assert (latency["throughput_hz"], session["model"]["path"]) == (538.184, "squeezenet")
    assert (session["engine"]["init_ns"], latency["count"]) == (10_201_600, 100)


def test_verbose_output_of_perf_test_has_single_inferences(tmp_path):
    each = "".join(f"iteration:{run + 1},time_cost:0.00{run + 1}\n" for run in range(3))
    path = tmp_path / "v.txt"
    path.write_text(each + printed.PERF_TEST.replace("requests: 100", "requests: 3"))
    measured = read_all([path])
    assert isinstance(measured.times, Times)
    assert measured.times.latency_ns.tolist() == [1 * MS, 2 * MS, 3 * MS]
    assert measured.summary is not None
    assert measured.summary.count == 3


def test_trtexecs_output_adds_to_its_times(tmp_path):
    both = reported(imported(tmp_path, trtexec.times(3015), printed.TRTEXEC))
    assert (both["latency"]["count"], "told_by" in both["latency"]) == (3015, False)
    assert both["latency"]["p50_ms"] == pytest.approx(2.375, rel=0.01)
    assert (both["session"]["engine"]["version"], both["phases"]["warmup"]["runs"]) == ("8.4.1", 148)
    assert "tool-summary" not in {warning["code"] for warning in both["warnings"]}


BAD = {
    "trtexec, cut off": (printed.TRTEXEC.partition("=== Performance")[0], "without its performance summary"),
    "trtexec, failed": ("&&&& RUNNING TensorRT.trtexec\n&&&& FAILED TensorRT.trtexec\n", "trtexec failed"),
    "trtexec, twice": (printed.TRTEXEC * 2, "it holds 2 runs of trtexec"),
    "trtexec, doctored": (printed.TRTEXEC.replace("min = 1.17474", "min = 9.9"), "it cannot be that min_ms is 9.9"),
    "trtexec, a mean beyond all": (printed.TRTEXEC.replace("mean = 1.20348", "mean = 99"), "that mean_ms is 99"),
    "trtexec, endless": (printed.TRTEXEC.replace("max = 4.4541", "max = 4e300"), "no figure of such a run"),
    "benchmark_model, cut off": (printed.BENCHMARK_MODEL[:700], "without its inference timings"),
    "benchmark_model, cut off in its mean": (
        printed.BENCHMARK_MODEL.partition("3743.2 std")[0].partition("INFO: Running")[0]
        + "Inference timings in us: Init: 1, First inference: 2, Warmup (avg): 3, Inference (avg): 637",
        "cut off in its last figure",
    ),
    "benchmark_model, twice": (printed.BENCHMARK_MODEL * 2, "it holds 2 runs of benchmark_model"),
    "perf_test, cut off": (printed.PERF_TEST[:180], "without its results"),
    "perf_test, twice": (printed.PERF_TEST * 2, "it holds 2 runs of onnxruntime_perf_test"),
    "a result, appended to": (printed.perf_result([0.1]) * 2, "it holds 2 runs of onnxruntime_perf_test"),
    "a result, cut off": (printed.perf_result([0.1, 0.2]).partition(",96,1")[0], "cut off, or no result"),
    "a result without its beginning": (printed.perf_result([0.1, 0.2]).partition("\n")[2], "inferences are missing"),
    "a result that took no time": (printed.perf_result([0.1, 0.0]), "inference 1 took no time"),
    "of two tools": (printed.TRTEXEC + printed.PERF_TEST, "output of trtexec and of onnxruntime_perf_test"),
    "beside a log": (f"{printed.NANO}\n{printed.TRTEXEC}", "output of trtexec and of tegrastats"),
    "of none": ("Usage: trtexec [options]", "no output of a tool that is known"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_of_no_use_is_refused_in_one_line(tmp_path, case):
    text, why = BAD[case]
    path = tmp_path / "f.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_layers_name_that_looks_like_output_is_no_output(tmp_path):
    path = tmp_path / "p.json"
    path.write_text(trtexec.profile((("=== Performance summary ===\\nRAM 1/2MB &&&& PASSED TensorRT.trtexec", 1.0),)))
    assert read(path).found[0].runs == 400


def test_files_of_two_runs_are_two_sessions(tmp_path):
    (tmp_path / "a").write_text(printed.perf_result([0.1, 0.2]))
    (tmp_path / "b").write_text(printed.PERF_TEST)
    with pytest.raises(InputError, match="of two runs, one of 2 inferences and one of 100"):
        read_all([tmp_path / "a", tmp_path / "b"])


def test_names_in_output_are_data(tmp_path):
    hostile = printed.BENCHMARK_MODEL.replace("./models/tiny_muaalem_float32.tflite", "\x1b[31mred \udcff[bold]")
    path = tmp_path / "h.txt"
    path.write_bytes(hostile.encode("utf-8", "surrogateescape"))
    measured = read_all([path])
    assert measured.summary is not None
    assert measured.summary.model == "red \ufffd[bold"  # without its colour, up to the bracket that ends it
    assert json.dumps(measured.summary.model)
    assert "\x1b" not in text_of(imported(tmp_path, path.read_text("utf-8", "replace")))


@pytest.mark.parametrize(
    "text",
    [printed.TRTEXEC, printed.TRTEXEC_7, printed.BENCHMARK_MODEL, printed.PERF_TEST, printed.perf_result([0.1, 0.2])],
)
def test_truncated_text_is_refused_or_gives_no_different_figure(tmp_path, text):
    path = tmp_path / "c.txt"
    path.write_text(text)
    whole = told(path)
    for end in range(0, len(text) - 1, 5):
        path.write_text(text[:end])
        with contextlib.suppress(InputError):
            assert told(path).items() <= whole.items()


def told(path):
    found = read(path).found[0]
    return dict(found.figures if isinstance(found, Summary) else enumerate(found.latency_ns.tolist()))
