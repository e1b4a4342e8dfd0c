"""`edgetop ab`, as a user runs it: what is printed and recorded, how it ends, what is refused."""

import contextlib
import hashlib
import json
import os
import signal

import click
import duckdb
import psutil
import pytest

from edgetop.cli.companions import raw_words
from edgetop.cli.comparing.ab import max_duration, ratio_gate, share, side_options
from edgetop.cli.comparing.ab_soak import counterbalanced
from edgetop.cli.running import run
from tests.cli.test_run import wait_for_words
from tests.support import onnx_models
from tests.support.commands import complaints, edgetop, start_edgetop
from tests.support.processes import engine_of, engines_of
from tests.support.waiting import PATIENCE_S, wait_until

QUIET = ("--threads", "1", "--headless", "--max-duration", "8s")  # on a busy machine too enough turns


@pytest.fixture
def models(tmp_path):
    """Two with other inputs, of which one takes many times as long."""
    for name, build in (("small", onnx_models.onnx_tiny), ("large", onnx_models.onnx_half_ms)):
        (tmp_path / f"{name}.onnx").write_bytes(build())
    return tmp_path


@pytest.mark.slow
def test_two_models_are_compared_recorded_and_reported(models):
    asked = ("--keep-outputs", "2", "--max-duration", "14s", "--json", "-o", "s")  # beside other load, for some quads
    done = edgetop("ab", "small.onnx", "large.onnx", *QUIET, *asked, home=models)
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["ab"]["ratios"]["p50"]["verdict"] == "slower"
    assert document["ab"]["ratios"]["p50"]["ci95"][0] > 1.5
    assert [v["name"] for v in document["ab"]["variants"]] == ["small.onnx", "large.onnx"]
    assert "B is slower" in document["verdict"]["words"]
    assert "other inputs: x [64,256] float32 random" in document["ab"]["outputs"]["refused"]
    assert json.loads(edgetop("report", "s", "--json", home=models).stdout) == document
    manifest = json.loads((models / "s.edgetop/session.json").read_text())
    inputs = [variant["model"]["inputs"][0]["shape"] for variant in manifest["ab"]["variants"]]
    assert inputs == [[1, 4096], [64, 256]]
    hashes = [variant["model"]["sha256"] for variant in manifest["ab"]["variants"]]
    assert hashes == [hashlib.sha256((models / f"{name}.onnx").read_bytes()).hexdigest() for name in ("small", "large")]
    assert manifest["model"]["sha256"] == hashes[0]
    query = "select variant, median(latency_ns) from '{}' where phase = 'measure' group by variant order by variant"
    (_, fast), (_, slow) = duckdb.sql(query.format(models / "s.edgetop/inferences.parquet")).fetchall()
    assert slow > 1.5 * fast
    text = edgetop("report", "s", home=models).stdout
    assert "small.onnx" in text
    assert "B to A" in text
    assert "not compared: other inputs" in text


@pytest.mark.thorough
@pytest.mark.slow
def test_one_model_with_two_settings_and_a_gate_that_fails(models):
    gates = ("--fail-if", "p50>-90%", "--fail-if", "p50<-95%")
    sides = ("--a", "--seed 1", "--b", "--seed 2")
    done = edgetop("ab", "small.onnx", *sides, *QUIET, *gates, "--json", "--no-record", home=models)
    assert done.returncode == 1
    assert done.stderr.count("gate failed") == 1
    assert "gate failed: p50>-90%: B to A is " in done.stderr
    assert [v["name"] for v in json.loads(done.stdout)["ab"]["variants"]] == [
        "small.onnx --seed 1",
        "small.onnx --seed 2",
    ]


@pytest.mark.thorough
@pytest.mark.slow
def test_ctrl_c_finishes_the_recording_with_what_there_is(models):
    process = start_edgetop("ab", "small.onnx", "large.onnx", *QUIET[:-1], "60s", "-o", "s", home=models)
    wait_for_words(process, "A/B")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    manifest = json.loads((models / "s.edgetop/session.json").read_text())
    assert (manifest["state"], manifest["end_reason"]) == ("finished", "signal")


def ended_by_killing_engines(process):
    """Kill every engine of a process. Return whether the process has ended: an engine at its end dies for nothing."""
    if process.poll() is not None:
        return True
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        for pid in engines_of(process.pid):
            os.kill(pid, signal.SIGKILL)
    return False


@pytest.mark.thorough
@pytest.mark.slow
def test_an_engine_that_dies_ends_it_with_its_reason(models):
    process = start_edgetop("ab", "small.onnx", "large.onnx", *QUIET[:-1], "60s", "-o", "s", home=models)
    wait_for_words(process, "A/B")
    begun = engine_of(process)
    wait_until(lambda: [pid for pid in engines_of(process.pid) if pid != begun])  # the first has warmed up
    wait_until(lambda: ended_by_killing_engines(process))
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert "the engine died: " in said
    assert "SIGKILL" in said
    manifest = json.loads((models / "s.edgetop/session.json").read_text())
    assert (manifest["state"], manifest["end_reason"]) == ("finished", "engine-died")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("small.onnx",), "there is nothing to compare it with"),
        (("small.onnx", "none.onnx", "--headless"), "none.onnx"),
        (("small.onnx", "large.onnx", "--until", "5"), "write a share"),
        (("small.onnx", "--b", "--duration 3s"), "no such option"),
        (("small.onnx", "--b", "--threads x"), "is not a whole number"),
        (("small.onnx", "large.onnx", "--max-duration", "1s"), "from 2s to 24h"),
        (("small.onnx", "large.onnx", "--fail-if", "p50>+33ms"), "write a change in %"),
        (("small.onnx", "large.onnx", "--rate", "30"), "no such option: --rate"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(models, arguments, words):
    done = edgetop("ab", *arguments, home=models)
    assert done.returncode == 2
    assert done.stdout == ""
    assert words.lower() in done.stderr.lower()
    assert len(complaints(done)) == 1


def test_the_options_of_a_side_are_those_that_were_written():
    written, options = side_options("--threads 2 --provider CUDA:device_id=1 --provider CPU")
    assert written.startswith("--threads 2")
    assert options["threads"] == 2
    assert [name for name, _ in options["providers"]] == ["CUDA", "CPU"]
    assert "seed" not in options


def test_shares_gates_and_times_are_read():
    assert share("0.5%") == pytest.approx(0.005)
    gate = ratio_gate("throughput < -5%")
    assert (gate.name, gate.is_above, gate.limit) == ("throughput", False, -5)
    assert max_duration("5m") == 300 * 10**9
    for parse, text in ((share, "0%"), (ratio_gate, "p95>+1%"), (max_duration, "25h"), (side_options, "--threads '")):
        with pytest.raises(click.BadParameter):
            parse(text)


def test_a_soak_is_counterbalanced():
    for seed in range(4):
        order = counterbalanced(5, seed)
        assert (order.count("A"), order.count("B")) == (5, 5)
        assert {order[k : k + 4] for k in (0, 4)} in ({"ABBA"}, {"BAAB"})
    assert len({counterbalanced(5, seed) for seed in range(9)}) == 2


@pytest.mark.benchmark  # half a minute
def test_a_soak_runs_each_alone_and_compares_sessions(models):
    """The board of a file tree has a zone, so each session begins with a cool-down."""
    zone = models / "root/sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("cpu-thermal\n")
    (zone / "temp").write_text("41000\n")
    board = ("--sysroot", "root", "--threads", "1", "--warmup-runs", "5", "--no-raw")
    done = edgetop(
        "ab", "small.onnx", "--a", "--seed 1", "--b", "--seed 2", "--soak", "300ms", *board, "-o", "hot", "--json",
        home=models, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["key"] for row in document["rows"] if row["key"] == "p50_ms"]
    assert "a cool-down before each to 42.0 C (temp/cpu-thermal)" in done.stderr
    sessions = sorted((models / "hot").iterdir())
    assert len(sessions) == 10
    manifests = [json.loads((folder / "session.json").read_text()) for folder in sessions]
    assert [m["labels"]["variant"] for m in manifests] == list(counterbalanced(5, 0))
    assert {m["methodology"]["cooldown_to_c"] for m in manifests} == {42.0}
    assert {m["engine"]["threads"] for m in manifests} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--soak", "1s", "--until", "1%"), ("--repeat", "6")])
def test_what_a_soak_has_no_use_for_is_refused(models, arguments):
    done = edgetop("ab", "small.onnx", "large.onnx", *arguments, home=models)
    assert (done.returncode, len(complaints(done))) == (2, 1)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_session_of_a_soak_that_fails_ends_it_with_its_reason(models):
    chip = ("--i2c", "250:0x40:ina226:0.002")
    done = edgetop("ab", "small.onnx", "large.onnx", "--soak", "1s", *chip, "-o", "hot", home=models)
    assert done.returncode == 2
    assert "i2c-250" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("edgetop: 01-")


def test_what_was_written_is_handed_on_to_each_session():
    written = ["--threads", "2", "--provider", "CPU", "--provider", "CUDA:a=1", "--no-raw", "--label", "k=v", "--ascii"]
    given = run.command.make_parser(click.Context(run.command)).parse_args(args=written)[0]
    names = {"threads", "providers", "no_raw", "labels"}
    assert sorted(raw_words(run.command.params, names, given)) == [
        "--label=k=v", "--no-raw", "--provider=CPU", "--provider=CUDA:a=1", "--threads=2",
    ]  # fmt: skip
