"""Options with rules about other options, and options that a command passes on to the runs that it starts.

A rule rejects an option that would have no effect. Rules look only at the command line: defaults and settings never
break a rule.
"""

import copy
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from edgetop import standard_streams
from edgetop.errors import InputError
from edgetop.frozen import frozen

PATH = click.Path(path_type=Path)  # the type of an option that is a path

# A value of an option, or an attribute of its declaration: Click itself has no narrower type for them.
Value = Any
Given = Mapping[str, Value]  # all parsed values of a command line, by the name of the parameter

T = TypeVar("T")


def taken(kind: type[T], given: Given) -> T:
    """Return an object of the dataclass `kind`. Each field gets the parsed option of the same name in `given`."""
    return kind(**{each.name: given[each.name] for each in fields(kind)})  # type: ignore[arg-type]


@frozen
class Asked:
    """What a rule judges: one option that is on the command line, together with the values of all options."""

    option: str
    """The option as users write it: `--live`."""
    given: Given
    context: click.Context

    def written(self, name: str) -> str:
        """Return the option `name` as users write it, such as `--csv` for `csv_file`."""
        options = (param for param in self.context.command.params if isinstance(param, click.Option))
        return next((max(option.opts, key=len) for option in options if option.name == name), name)


Rule = Callable[[Asked], InputError | None]
Test = Callable[[Any], bool]  # takes the value of an option as text, or None if the option is not given


class Companion(click.Option):
    """A click option with rules about other options. For example, a rule can require another option."""

    def __init__(self, declarations: Sequence[str], rules: Sequence[Rule], **attributes: Value) -> None:
        super().__init__(declarations, **attributes)
        self.rules = tuple(rules)

    def handle_parse_result(self, ctx: click.Context, opts: Given, args: list[str]) -> tuple[Value, list[str]]:
        """Parse the option as click does, then check its rules. An invalid value is thus reported before a broken rule.

        `opts` are the options on the command line, as text by name. Returns what click's method returns. Raises
        InputError if a rule is broken.
        """
        result = super().handle_parse_result(ctx, opts, args)
        if self.name in opts and not ctx.resilient_parsing:  # shell completion parses incomplete command lines
            written = {name: value for name, value in opts.items() if isinstance(value, str | bool | Sequence)}
            asked_for = max(self.opts, key=len)
            if isinstance(self.type, click.Choice) and not self.multiple:
                asked_for = f"{asked_for} {opts[self.name or '']}"
            asked = Asked(asked_for, written, ctx)
            for rule in self.rules:
                if error := rule(asked):
                    raise error
        return result


def option(*declarations: str, rules: Sequence[Rule] = (), **attributes: Value) -> click.Option:
    """Return a click option with rules about other options.

    `declarations` (such as "--csv") and `attributes` are passed to click.Option.
    """
    return Companion(declarations, rules, **attributes) if rules else click.Option(declarations, **attributes)


def ruled(given: click.Option, rule: Rule) -> click.Option:
    """Return a copy of the option `given`, with one more rule."""
    rules = given.rules if isinstance(given, Companion) else ()
    made = copy.copy(given)
    made.__class__ = Companion
    assert isinstance(made, Companion)
    made.rules = (*rules, rule)
    return made


class AsWritten(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of Click
    """A click type that checks a value as the type `inner` does, but keeps the value as text, to pass it on to runs."""

    name = "text"

    def __init__(self, inner: click.ParamType) -> None:  # type: ignore[type-arg]
        self.inner = inner

    def convert(self, value: Value, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        self.inner.convert(value, param, ctx)
        return str(value)


def passed_on(options: Iterable[click.Option], without: Collection[str]) -> tuple[click.Option, ...]:
    """Return copies of the options whose values stay text. A command passes these texts on to the runs that it starts.

    `without` are the names of options to leave out.
    """
    copies = tuple(copy.copy(param) for param in options if param.name not in without)
    for param in copies:
        if not param.is_flag:
            param.type = AsWritten(param.type)
    return copies


def raw_words(params: Iterable[click.Parameter], names: Collection[str], given: Given) -> Iterator[str]:
    """Yield words of a command line, such as `--threads=4`, for the options in `params` whose names are in `names`.

    `given` holds the values of the options as text, by the name of the option.
    """
    for param in params:
        value = given.get(param.name or "")
        if param.name not in names or value is None:
            continue
        name = max(param.opts, key=len)
        if isinstance(param, click.Option) and param.is_flag:
            yield name
        else:
            yield from (f"{name}={one}" for one in (value if isinstance(value, list | tuple) else (value,)))


def given_names(ctx: click.Context) -> list[str]:
    """Return the names of the options that are on the command line, such as `csv_file`. Defaults do not count."""
    return [name for name in ctx.params if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE]


def needs(*others: str, holds: Test = bool, message: str = "", advice: str = "") -> Rule:
    """Return a rule for an option: at least one of the options `others` must be given too.

    An option in `others` counts as given if `holds(value)` is true for its value.

    `others` are names such as `csv_file`. `message` replaces the default error; {} in it stands for the option that has
    the rule. `advice` is added to the error.
    """

    def rule(asked: Asked) -> InputError | None:
        if any(holds(asked.given.get(other)) for other in others):
            return None
        default = f"{asked.option} needs {' or '.join(map(asked.written, others))}"
        return InputError(message.format(asked.option) or default, advice)

    return rule


def not_beside(*others: str, unless: str = "", message: str = "", advice: str = "") -> Rule:
    """Return a rule for an option: none of the options `others` may be given too.

    The rule does not apply if the option `unless` is given. `others` and `unless` are names of options such as
    `csv_file`. `message` replaces the default error; {} in it stands for the option that has the rule. `advice` is
    added to the error.
    """

    def rule(asked: Asked) -> InputError | None:
        beside = [other for other in others if asked.given.get(other) is not None]
        if not beside or asked.given.get(unless):
            return None
        default = f"{asked.option} and {asked.written(beside[0])} contradict each other"
        return InputError(message.format(asked.option) or default, advice)

    return rule


def rings(asked: Asked) -> InputError | None:
    """Return an error if `--notify` cannot work, else None.

    It cannot work if there is no terminal to ring, or if the run will leave its terminal (`--detach`).
    """
    is_terminal = sys.stderr.isatty() if asked.given.get("headless") else standard_streams.has_screen()
    if is_terminal and not asked.given.get("detach"):
        return None
    advice = "--on-event works without a terminal (edgetop help alerts)"
    return InputError(f"{asked.option} needs a terminal to ring", advice)
