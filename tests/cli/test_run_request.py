"""A command line as the request that it makes: typed, checked, and with nothing of it left out."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from edgetop.cli.running import demo, run
from edgetop.cli.running.run_request import (
    DemoSubject,
    ModelSubject,
    ProgramSubject,
    RunRequest,
    VariantsSubject,
    model_of,
)
from edgetop.cli.running.session_parts import EXTRAS, find_model, spec_of
from edgetop.engines.child.adapters import RUNTIMES
from edgetop.errors import InputError
from edgetop.runner.engine_limit import Limit
from edgetop.session.seconds import NS

# A value of each option of `run`, with what it needs beside it.
WORDS = {
    "engine": "--engine litert",
    "providers": "--provider CUDA:device_id=1",
    "delegates": "--delegate lib.so",
    "no_xnnpack": "--no-xnnpack",
    "threads": "--threads 2",
    "batch": "--batch 4",
    "engine_python": "--engine-python /usr/bin/python3",
    "inputs": "--input x=zeros",
    "shapes": "--shape x:1,3",
    "seed": "--seed 7",
    "require_full_delegation": "--require-full-delegation",
    "optimize": "--optimize 0",
    "session_options": "--session-option session.disable_prepacking=1",
    "custom_ops": "--custom-ops lib.so",
    "execution_mode": "--execution-mode parallel",
    "inter_op_threads": "--inter-op-threads 2",
    "no_arena": "--no-arena",
    "prompt": "--prompt hello",
    "prompts_file": "--prompts p.jsonl",
    "prompt_tokens": "--prompt-tokens 64",
    "max_tokens": "--max-tokens 32",
    "context": "--context auto",
    "temperature": "--temperature 0.5",
    "gpu_layers": "--gpu-layers 3",
    "parallel": "--parallel 4",
    "duration": "--duration 5m",
    "runs": "--runs 9",
    "warmup_runs": "--warmup-runs steady",
    "warmup_time": "--warmup-time 2s",
    "idle_baseline": "--idle-baseline 30s",
    "isolation": "--isolation thread",
    "profile_every": "--profile-every 0",
    "engine_cpus": "--engine-cpus 0",
    "monitor_cpus": "--monitor-cpus 0",
    "sysroot": "--sysroot /tmp",
    "limits": "--limit memory=512M",
    "cooldown": "--cooldown 30s",
    "signature": "--signature decode",
    "image_size": "--image-size 320x240",
    "image_layout": "--image-layout nhwc",
    "image_mean": "--image-mean 1,2,3",
    "image_scale": "--image-scale 0.5",
    "cooldown_to": "--cooldown-to 45C",
    "cooldown_max": "--cooldown-max 1m",
    "rate": "--rate 30",
    "arrivals": "--rate 30 --arrivals poisson",
    "pace_of": "--pace-of other",
    "streams": "--streams 4",
    "delay": "--delay 5ms",
    "duty": "--duty 2s:8s",
    "deadline": "--deadline 33ms",
    "gates": "--fail-if p99>33ms",
    "junit": "--fail-if p99>33ms --junit r.xml",
    "fail_fast": "--fail-if p99>33ms --fail-fast",
    "alerts": "--alert temp>80C",
    "hooks": "--on-event throttled=true",
    "i2c": "--i2c 1:0x40:ina226:0.002",
    "hz": "--hz 5",
    "sample_time": "--sample-time 500ms",
    "battery": "--battery 3.7V,1000mAh",
    "power_log": "--power-log p.csv",
    "power_log_format": "--power-log p.csv --power-log-format csv",
    "power_volts": "--power-log p.csv --power-volts 5V",
    "power_log_offset": "--power-log p.csv --power-log-offset 3s",
    "power_log_interval": "--power-log p.csv --power-log-interval 2s",
    "prom_textfile": "--prom-textfile dir",
    "metrics": "--metrics 9464",
    "metrics_token_file": "--metrics 9464 --metrics-token-file t",
    "metrics_cert": "--metrics 9464 --metrics-cert c",
    "metrics_key": "--metrics 9464 --metrics-cert c --metrics-key k",
    "otlp": "--otlp http://h:4318",
    "output": "-o soak",
    "no_record": "--no-record",
    "no_raw": "--no-raw",
    "max_size": "--max-size 512M",
    "fsync_interval": "--fsync-interval 1s",
    "keep_outputs": "--keep-outputs 8",
    "labels": "--label a=b",
    "notes": "--note here",
    "ambient": "--ambient 35C",
    "enclosure": "--enclosure closed",
    "rotate": "--rotate 24h",
    "sessions_quota": "--sessions-quota 2G",
    "headless": "--headless",
    "live": "--headless --live",
    "detach": "--detach",
    "as_json": "--json",
    "refresh": "--refresh 2s",
    "theme": "--theme light",
    "ascii_only": "--ascii",
    "config_file": "--config c.toml",
    "model": "model.onnx",
}
RINGS = {"notify"}  # needs a terminal


def request_of(words: str) -> RunRequest:
    return run.model_request(run.command.make_context("run", words.split()).params)


def test_the_table_has_every_option_of_run() -> None:
    assert WORDS.keys() | RINGS == {param.name for param in run.command.params if param.name not in ("help", "preset")}


@pytest.mark.parametrize("name", WORDS)
def test_no_option_is_left_out(name: str) -> None:
    """One that the request does not hold would be accepted and ignored."""
    *others, _ = WORDS[name].split(" --")
    before = " --".join(others) if len(others) else ""
    assert request_of(WORDS[name]) != request_of(before)


def test_the_options_have_their_final_types() -> None:
    request = request_of(
        "m.onnx --limit cpus=2 --limit memory=512M --warmup-runs steady --duty 2s:8s --rate 30 --no-xnnpack"
    )
    model = model_of(request.subject)
    assert isinstance(request.subject, ModelSubject)
    assert (model.path, model.limit, model.xnnpack) == (Path("m.onnx"), Limit(cpus=2, memory_bytes=2**29), False)
    assert request.phases.warmup_runs is None
    assert (request.load.rate_hz, request.load.duty_ns) == (30.0, (2 * NS, 8 * NS))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--limit cpus=1 --limit cpus=2", "--limit: cpus is limited twice"),
        ("--input x=zeros --input x=random", "--input is given twice for the same input"),
        ("--session-option a.b=1 --session-option a.b=2", "--session-option is given twice for the same key"),
        ("--fail-if misses>1%", "--fail-if misses needs --deadline"),
        ("--alert misses>1%", "--alert misses needs --deadline"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_read(words: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        request_of(words)


@pytest.mark.parametrize("words", ["--optimize 0", "--inter-op-threads 0", "--no-arena", "--session-option a.b=c"])
def test_session_options_are_for_onnx_runtime_alone(words: str) -> None:
    for model, engine in (("tflite", "litert runs this model"), ("onnx --engine openvino", "openvino runs this model")):
        request = request_of(f"edgetop/demo/demo.{model} {words}")
        with pytest.raises(InputError, match=f"{words.split(maxsplit=1)[0]} is for ONNX Runtime, and {engine}"):
            spec_of(request, find_model(model_of(request.subject)))
    request = request_of(f"edgetop/demo/demo.onnx {words}")
    spec = spec_of(request, find_model(model_of(request.subject)))
    assert (spec.engine, spec.session.given) == ("onnxruntime", words.split(maxsplit=1)[0])


def demo_of(words: str) -> RunRequest:
    return demo.demo_request(demo.command.make_context("demo", words.split()).params)


def test_a_demo_is_as_warm_as_its_scenario_unless_the_user_knows_better() -> None:
    own, asked = demo_of("--scenario thermal"), demo_of("--scenario thermal --ambient 50C --threads 3")
    assert isinstance(own.subject, DemoSubject)
    assert own.keeping.ambient_c == own.subject.scenario.ambient_c
    assert (model_of(own.subject).threads, model_of(asked.subject).threads) == (1, 3)
    assert asked.keeping.ambient_c == 50.0
    assert dict(own.keeping.labels) == {"scenario": "thermal", "speed": "20x"}


def test_a_demo_with_a_rival_shares_a_cpu_with_it() -> None:
    assert len(model_of(demo_of("--scenario contention").subject).cpus) == 1


class CaughtError(Exception):
    """Carries the request that would have been run."""


def caught(command: click.Command, words: list[str], monkeypatch: pytest.MonkeyPatch, catch: str) -> RunRequest:
    requests: list[RunRequest] = []

    def keep(request: RunRequest, *_: object) -> int:
        requests.append(request)
        raise CaughtError

    monkeypatch.setattr(catch, keep)
    with pytest.raises(CaughtError):
        command.main(words, standalone_mode=False)
    return requests[0]


def test_both_of_ab_have_the_common_options_and_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgetop.cli.comparing import ab

    words = ["m.onnx", "--threads", "2", "--b", "--threads 4", "--max-duration", "20s"]
    request = caught(ab.command, words, monkeypatch, "edgetop.cli.running.run.run_model")
    assert isinstance(request.subject, VariantsSubject)
    assert [variant.model.threads for variant in request.subject.variants] == [2, 4]
    assert [variant.written for variant in request.subject.variants] == ["", "--threads 4"]
    assert request.phases.duration_ns == 20 * NS
    assert request.phases.profile_every_ns == 0


def test_a_watched_program_is_the_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgetop.cli.watching import watch

    words = ["--headless", "--duration", "5s", "--deadline", "33ms", "--", "/bin/true"]
    request = caught(watch.command, words, monkeypatch, "edgetop.cli.running.run_session.run_session")
    assert isinstance(request.subject, ProgramSubject)
    assert tuple(request.subject.program.spec.command) == ("/bin/true",)
    assert (request.phases.duration_ns, request.load.deadline_ns) == (5 * NS, 33_000_000)
    with pytest.raises(TypeError):
        model_of(request.subject)


Maker = Callable[[Mapping[str, Any]], RunRequest]


@pytest.mark.parametrize("make", [request_of, demo_of])
def test_equal_command_lines_make_equal_requests(make: Callable[[str], RunRequest]) -> None:
    assert make("--threads 2") == make("--threads=2")
    assert replace(make("--rate 5"), load=make("").load) == make("")


def test_each_runtime_has_the_extra_that_installs_it() -> None:
    assert EXTRAS.keys() == RUNTIMES.keys()
