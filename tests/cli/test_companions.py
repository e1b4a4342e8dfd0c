"""Options that would be ignored are refused in a line, by the command line as it is written and by nothing else."""

from typing import Any

import click
import pytest

from edgetop.cli.command_group import COMMANDS, edgetop
from edgetop.cli.companions import Companion
from edgetop.errors import InputError

REFUSED = {
    **{
        f"watch --{word} -- true": f"--{word.split()[0]} needs --url"
        for word in (
            "prompt x",
            "prompts x.jsonl",
            "max-tokens 3",
            "temperature 1",
            "rate 2",
        )
    },
    "watch --arrivals poisson -- true": "--arrivals poisson needs",
    "trace soak log.csv --format csv --force": "--force needs --html",
    "trace soak log.csv --format csv --offset 1s --marker D0": "--marker and --offset contradict each other",
    "inspect x.onnx --engine-python python3": "--engine-python needs --provider",
    "run --no-record --keep-outputs 5": "--keep-outputs and --no-record contradict each other",
    "run --no-record --rotate 1h": "--rotate and --no-record contradict each other",
    "run --no-record --sessions-quota 2G": "--sessions-quota and --no-record contradict each other",
    "fleet board --patience 5s": "--patience needs --headless",
    "lake x --ray y": "--ray is for --engine daft",
    "lake x --dialect spark": "--dialect spark needs --print-sql",
    "service --install --system run": "--system and --install contradict each other",
    "service --user pi run": "--user needs --system",
    "run --live": "--live needs --headless",
    "run --headless --theme dark": "--theme and --headless contradict each other",
    "run --detach --theme dark": "--theme and --detach contradict each other",
    "run --headless --theme drak": "did you mean dark?",
    "run --headless --refresh 1s": "--refresh and --headless contradict each other",
    "run --detach --no-ascii": "--ascii and --detach contradict each other",
    "watch --setup true -- true": "--setup needs --container or --dockerfile",
    "watch --container-args --init -- true": "--container-args needs --container or --dockerfile",
    "watch --container a --pid 1": "--container and --pid contradict each other",
    "watch --dockerfile pyproject.toml --pid 1": "--dockerfile and --pid contradict each other",
    "watch --against pyproject.toml --json -- true": "--against and --json contradict each other",
    "run --metrics-token-file x": "--metrics-token-file needs --metrics",
    "run --metrics-cert x": "--metrics-cert needs --metrics",
    "run --metrics-key x": "--metrics-key needs --metrics-cert",
    "run --pace-of app --rate 5": "--pace-of and --rate contradict each other",
    "run --arrivals poisson": "--arrivals poisson needs --rate",
    "run --rate 5 --delay 1s": "--delay and --rate contradict each other",
    "run --fail-fast": "--fail-fast needs a gate",
    "run --junit x.xml": "--junit needs a gate",
    "run --no-record -o x": "--no-record and --output contradict each other",
    "run --no-record --no-raw": "--no-raw and --no-record contradict each other",
    "run --no-record --max-size 1G": "--max-size and --no-record contradict each other",
    "run --no-record --fsync-interval 1s": "--fsync-interval and --no-record contradict each other",
    "run --detach --no-record": "--detach and --no-record contradict each other",
    "run --detach --json": "--json and --detach contradict each other",
    "run --power-volts 5V": "--power-volts needs --power-log FILE",
    "run --power-log-format csv": "--power-log-format csv needs --power-log FILE",
    "run --power-log-interval 1s": "--power-log-interval needs --power-log FILE",
    "run --power-log-offset 1s": "--power-log-offset needs --power-log FILE",
    "run --isolation thread --engine-cpus 0": "--engine-cpus needs --isolation process",
    "run --isolation thread --engine-python x": "--engine-python needs --isolation process",
    "run --isolation thread --limit cpus=1": "--limit needs --isolation process",
    "run m.gguf --parallel 2 --streams 2": "--parallel and --streams contradict each other",
    "run m.gguf --prompt x --prompts y.jsonl": "--prompt and --prompts contradict each other",
    "run m.gguf --prompts y.jsonl --prompt-tokens 9": "--prompts and --prompt-tokens contradict each other",
    "sweep m.onnx --speed 20x": "--speed needs --scenario",
    "sweep m.onnx --force": "--force needs --csv or --html",
    "sweep m.onnx --arrivals poisson": "--arrivals needs --rate",
    "compare a b --strict": "--strict needs --fail-if",
    "ab a.onnx b.onnx --labels l.npy": "--labels needs --keep-outputs",
    "ab a.onnx b.onnx --metric eval.py:score": "--metric needs --keep-outputs",
    "ab a.onnx b.onnx --repeat 7": "--repeat needs --soak",
    "ab a.onnx b.onnx --soak 5m --detach": "--soak and --detach contradict each other",
    "demo --headless --theme dark": "--theme and --headless contradict each other",
    "demo --live": "--live needs --headless",
    "attach --live": "--live needs --headless",
    "attach --headless --theme dark": "--theme and --headless contradict each other",
    "attach --headless --refresh 1s": "--refresh and --headless contradict each other",
    "attach --remote-command x": "--remote-command needs ssh:HOST",
    "attach soak --remote-command x": "--remote-command needs ssh:HOST",
    "attach ssh:board --headless": "--headless does not go with ssh:",
    "doctor --engine litert": "--engine needs --roofline",
    "doctor --provider CUDA": "--provider needs --roofline",
    "doctor --delegate lib.so": "--delegate needs --roofline",
    "doctor --threads 0": "--threads needs --roofline",
    "doctor --roofline --sysroot x": "--roofline and --sysroot contradict each other",
    "doctor --engine-python x --sysroot x": "--engine-python and --sysroot contradict each other",
    "sensors --refresh 2s": "--refresh needs --watch",
    "sensors --yes": "--yes needs --capture FILE.tar.gz",
    "sensors --force": "--force needs --capture FILE.tar.gz",
    "sensors --capture x.tar.gz --watch": "--capture cannot be combined with --json or --watch",
    "ops --force": "--force needs --csv or --trace",
    "export s --to csv --hz 2": "--hz is for parquet",
    "export s --to perfetto --table events": "--table is for csv and json",
    "export s --to parquet --no-raw": "--no-raw is not for parquet",
    "export s --to json --last 1s --end 2s": "--last cannot be combined with --begin or --end",
}

TAKEN = (
    "run --headless --live --refresh 1s --ascii",
    "run --refresh 1s --theme dark --no-ascii",
    "run --rate 5 --arrivals poisson",
    "run --fail-if errors --fail-fast --junit x.xml",
    "run --headless --json --no-record",
    "run --no-raw --max-size 1G -o x",
    "run --engine-cpus 0 --isolation process",
    "run --limit cpus=1 --limit memory=64M,quota=50%",
    "sweep m.onnx --scenario healthy --speed 20x --rate 5,10 --arrivals poisson --csv x.csv --force",
    "demo --headless --ascii",
    "attach --headless --live --refresh 1s --ascii",
    "attach ssh:board --remote-command x --theme dark",
    "doctor --roofline --engine litert --threads 0",
    "doctor --engine-python x",
    "sensors --watch --refresh 2s --json",
    "sensors --capture x.tar.gz --yes --force",
    "ops --trace x --force",
    "export s --to parquet --hz 2",
    "export s --to csv --table events --no-raw",
)


def parsed(line: str, **more: Any) -> click.Context:
    name, *words = line.split()
    command = edgetop.get_command(click.Context(edgetop), name)
    assert command
    return command.make_context(name, words, **more)


@pytest.mark.parametrize("line", REFUSED)
def test_what_would_be_ignored_is_refused_in_a_line(line: str) -> None:
    with pytest.raises(InputError) as refused:
        parsed(line)
    assert str(refused.value).startswith(REFUSED[line]) or REFUSED[line].startswith("did you")
    assert REFUSED[line] in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("line", TAKEN)
def test_what_means_something_is_taken(line: str) -> None:
    assert parsed(line).params


def test_tab_is_told_nothing() -> None:
    assert all(parsed(line, resilient_parsing=True) for line in REFUSED)


def test_every_option_with_a_rule_is_seen_to_refuse() -> None:
    words = {word for line in REFUSED for word in line.split()} | {"--notify"}  # that one is tested with a terminal
    for name in COMMANDS:
        command = edgetop.get_command(click.Context(edgetop), name)
        assert command
        for option in command.params:
            assert not isinstance(option, Companion) or words & {*option.opts, *option.secondary_opts}, option.opts
