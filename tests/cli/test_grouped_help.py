"""`--help` of commands with many options: examples first, then options by group, the rarely used ones at the end."""

import re
import shlex

import click
import pytest

from edgetop.cli.comparing import ab, sweep
from edgetop.cli.grouped_help import RARE
from edgetop.cli.running import demo
from edgetop.cli.running.run import GROUPS, command
from edgetop.cli.watching import watch

HELP = command.get_help(click.Context(command, info_name="run"))
TITLES = ["Load", "Model", "Recording", "Board", "Limits", "Gates", "Screen", RARE]


def test_it_starts_with_five_examples_that_parse() -> None:
    lines = HELP.splitlines()
    assert lines[2].strip() == "Examples:"
    examples = [line.strip() for line in lines[3 : lines.index("", 3)]]
    assert len(examples) == 5
    for example in examples:
        program, name, *words = shlex.split(example.partition(" > ")[0])
        assert (program, name) == ("edgetop", "run")
        command.make_context("run", words)


def test_every_option_is_in_one_group() -> None:
    titles = [line.rstrip(":") for line in HELP.splitlines() if re.fullmatch(r"[A-Z][a-z ]+:", line)]
    assert titles == TITLES
    named = [name for names in GROUPS.values() for name in names]
    options = {param.name: max(param.opts, key=len) for param in command.params if isinstance(param, click.Option)}
    assert len(named) == len(set(named))
    assert set(named) <= set(options)
    shown = re.findall(r"^  (?:-\w, )?(--[\w-]+)", HELP, re.MULTILINE)
    assert sorted(shown) == sorted([*options.values(), "--help"])


def test_common_options_come_first_and_rare_ones_last() -> None:
    assert HELP.index("--duration") < HELP.index("--engine") < HELP.index("--output PATH") < HELP.index("--headless  ")
    rare = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", HELP[HELP.index(f"\n{RARE}:") :], re.MULTILINE))
    assert {"--fsync-interval", "--metrics-key", "--pace-of", "--help"} <= rare
    assert not {"--duration", "--threads", "--output", "--fail-if", "--json"} & rare


@pytest.mark.parametrize(
    ("module", "first"),
    [(ab, "Comparison"), (sweep, "Combinations"), (demo, "Virtual board"), (watch, "Program")],
)
def test_others_list_their_own_options_first_and_each_once(module: object, first: str) -> None:
    its = module.command  # type: ignore[attr-defined]
    text = its.get_help(click.Context(its, info_name=its.name))
    lines = text.splitlines()
    assert lines[2].strip() == "Examples:"
    titles = [line.rstrip(":") for line in lines if re.fullmatch(r"[A-Z][A-Za-z ]+:", line)]
    assert (titles[0], titles[-1]) == (first, RARE)
    shown = re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)
    options = [param for param in its.params if isinstance(param, click.Option) and not param.hidden]
    assert len(shown) == len(set(shown)) == len(options) + 1  # and --help
    named = {name for title, names in module.GROUPS.items() if title not in GROUPS for name in names}  # type: ignore[attr-defined]
    assert named <= {param.name for param in options}
