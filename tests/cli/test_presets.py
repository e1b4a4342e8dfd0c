"""`edgetop run --preset NAME`: options from a section of edgetop.toml."""

from pathlib import Path
from typing import Any

import click
import pytest

from edgetop.cli.config import load_config
from edgetop.cli.running.run import command
from edgetop.errors import InputError
from tests.support.commands import edgetop

SOAK = """
theme = "dark"

[preset.soak]
duration = "8h"
rate = 30
fail-if = ["p99>33ms", "throttled"]
label = ["a=1"]
no-raw = true
headless = false
ascii = false

[preset.brief]
runs = 5
max_size = "512M"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config" / "edgetop"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (folder / "edgetop.toml").write_text(SOAK)
    return folder / "edgetop.toml"


def given(*words: str) -> dict[str, Any]:
    return command.make_context("run", [*words]).params


def test_the_options_of_a_preset_are_those_of_the_command_line(config: Path) -> None:
    written = ("--duration=8h", "--rate=30", "--fail-if=p99>33ms", "--fail-if=throttled", "--label=a=1", "--no-raw")
    plain = given(*written, "--no-ascii", "model.onnx")
    found = given("--preset", "soak", "model.onnx")
    assert found.pop("preset") == "soak"
    assert plain.pop("preset") is None
    assert {**found, "gates": [str(gate) for gate in found["gates"]]} == {
        **plain, "gates": [str(gate) for gate in plain["gates"]]
    }  # fmt: skip


def test_the_command_line_wins_and_adds(config: Path) -> None:
    found = given("model.onnx", "--preset=soak", "--rate", "10", "--label", "b=2")
    assert (found["rate"], found["duration"], found["labels"]) == (10, 8 * 3600 * 10**9, (("a", "1"), ("b", "2")))
    assert found["model"] == Path("model.onnx")


def test_another_settings_file_wins(config: Path, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[preset.soak]\nruns = 7\n")
    found = given("--preset", "soak", "--config", str(tmp_path / "other.toml"))
    assert (found["runs"], found["duration"]) == (7, None)
    assert given("--preset", "brief", "--config", str(tmp_path / "other.toml"))["max_size"] == 512 * 2**20


def test_settings_of_the_screen_take_no_notice(config: Path) -> None:
    assert load_config(config.parent).theme == "dark"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "--preset soak: there is no such preset in"),
        ("[preset.soa]", "did you mean soa"),
        ("preset = 1", "preset: is not a table (write [preset.soak])"),
        ("preset.soak = 1", "preset.soak: is not a table"),
        ("[preset.soak]\ndurration = '1s'", "preset.soak: unknown option durration (did you mean duration?)"),
        ("[preset.soak]\nduration = 'x'", "preset.soak.duration: 'x' is not a duration"),
        ("[preset.soak]\nduration = [1]", "preset.soak.duration: is a list, but --duration is given once"),
        ("[preset.soak]\nduration = true", "preset.soak.duration: is neither a string nor a number"),
        ("[preset.soak]\nlabel = [{a = 1}]", "preset.soak.label: is neither a string nor a number"),
        ("[preset.soak]\nno-raw = 'yes'", "preset.soak.no-raw: is neither true nor false"),
        ("[preset.soak]\npreset = 'brief'", "preset.soak: unknown option preset"),
        ("[preset.soak]\nrate = 0", "preset.soak.rate: 0 would start no inference"),
        ("[preset.soak\n", "edgetop.toml: cannot be read"),
    ],
)
def test_what_is_wrong_is_said_with_the_file_and_the_key(text: str, words: str, config: Path) -> None:
    config.write_text(text)
    with pytest.raises(InputError) as raised:
        given("--preset", "soak", "model.onnx")
    assert words in str(raised.value)
    assert str(config) in str(raised.value)


def test_options_of_a_preset_contradict_others_as_if_they_were_written(config: Path) -> None:
    with pytest.raises(InputError, match="--delay and --rate contradict each other"):
        given("--preset", "soak", "--delay", "1s")


def test_a_name_that_is_missing_is_an_error_of_usage(config: Path) -> None:
    with pytest.raises(click.UsageError, match="--preset"):
        given("--preset")


@pytest.mark.slow
def test_a_preset_runs(config: Path, tmp_path: Path) -> None:
    words = ("run", "--preset", "brief", "--headless", "--warmup-runs", "1", "-o", "one")
    done = edgetop(*words, home=tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert done.returncode == 0, done.stderr
    assert " 5 inferences, 0 errors\n" in done.stdout
