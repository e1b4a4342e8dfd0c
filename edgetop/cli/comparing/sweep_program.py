"""Sweeps over a program, such as `python app.py {model} {threads}`.

Each run of the program is watched in its own session. The plan in a sweep's folder never says what is executed: it has
no command. To continue the sweep, the user must repeat the command and the values of its placeholders. So nobody can
make a user run something by giving them a folder.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
from click import BadParameter, IntRange

from edgetop.cli import options as text
from edgetop.cli.companions import Value, option, passed_on
from edgetop.cli.comparing.sweep_options import SweepOptions
from edgetop.cli.grouped_help import GroupedCommand
from edgetop.cli.running import run
from edgetop.cli.shell_words import path_word
from edgetop.cli.watching import watch
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.sweep_plan import OF_PROGRAMS, PLACEHOLDER, Plan, Settings

DASHES = "--"
META = "edgetop.sweep.command"  # key of the command in the context of Click
COMMAND_ADVICE = "edgetop sweep ... -- COMMAND"
# Placeholders that options of their own give values to: the field of `SweepOptions`, the option, and its type.
KNOWN: Mapping[str, tuple[str, str, Value]] = {
    "model": ("models", "--models", click.STRING),
    "threads": ("threads", "--threads", IntRange(0, 1024)),
    "provider": ("providers", "--provider", click.STRING),
    "batch": ("batch", "--batch", IntRange(1)),
    "rate": ("rate", "--rate", text.FiniteRange(1e-6, 1e6)),
}
_WATCH_ONLY = {
    *("stop_signal", "stop_timeout", "no_preload", "no_hook", "follow_children"),
    *("container", "dockerfile", "setup", "container_args"),
}


class SweepCommand(GroupedCommand):
    """The click command of `edgetop sweep`.

    The words after `--` are a program. Click alone would take these words as models.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index(DASHES) if DASHES in args else len(args)
        ctx.meta[META] = tuple(args[at + 1 :]) if at < len(args) else None
        return super().parse_args(ctx, args[:at])


def command_of(ctx: click.Context) -> tuple[str, ...] | None:
    """Return the words after `--` on the command line, or None without `--`. Raises InputError if there are none."""
    command: tuple[str, ...] | None = ctx.meta[META]
    if command == ():
        raise InputError(
            "there is no command after --", "edgetop sweep --models a.onnx,b.onnx -- python app.py {model}"
        )
    return command


def values(given: str) -> tuple[str, tuple[str, ...]]:
    """Parse `NAME=A,B,C` into the name of a placeholder and its values. Raises BadParameter.

    >>> values("lr=0.1,0.01")
    ('lr', ('0.1', '0.01'))
    """
    name, equals, rest = given.partition("=")
    texts = tuple(part.strip() for part in rest.split(","))
    if not equals or not re.fullmatch(PLACEHOLDER, name) or not all(texts):
        raise BadParameter(f"{given!r} are no values; write NAME=A,B, as in lr=0.1,0.01")
    return name, texts


OPTIONS = (
    option("--values", type=values, multiple=True, metavar="NAME=A,B",
        help="Values for the placeholder {NAME} in COMMAND: lr=0.1,0.01. Repeatable."),
    *passed_on((param for param in watch.PARAMS if isinstance(param, click.Option) and param.name in _WATCH_ONLY), ()),
)  # fmt: skip
ONLY = {str(param.name) for param in OPTIONS}  # options that need a command


def of_program(params: Sequence[click.Option]) -> tuple[click.Option, ...]:
    """Return the options that a sweep passes on to runs of a program.

    These are the options in `params` that `edgetop watch` has too, and some that only `watch` has.
    """
    of_watch = {param.name for param in watch.PARAMS}
    return (*(param for param in params if param.name in of_watch), *OPTIONS[1:])


def refuse_mixed(given: Sequence[str], written: Mapping[str, str], command: Sequence[str] | None) -> None:
    """Raise InputError for an option that does not fit the kind of sweep.

    A sweep over models must not have options for programs, such as `--values`. A sweep over a program must not have
    options for models, such as `--engine`. `given` are the names of the given options. `written` gives the text of each
    name, such as `--csv` for `csv_file`. `command` is the program; None for a sweep over models.
    """
    if command is None:
        if wrong := next((name for name in given if name in ONLY), None):
            raise InputError(f"{written[wrong]} applies only to a program", COMMAND_ADVICE)
        return
    of_watch, of_run = ({param.name for param in params} for params in (watch.PARAMS, run.OPTIONS))
    ranged = {field for field, *_ in KNOWN.values()}
    lacking = of_run - of_watch - ranged - {"seed"} | {"classes", "metric", "scenario", "speed"}
    if wrong := next((name for name in given if name in lacking), None):
        raise InputError(f"{written[wrong]} does not apply to a program", "give it to the program, after --")


def with_values(options: SweepOptions) -> SweepOptions:
    """Return the options changed so that `--values threads=1,2` has the effect of `--threads 1,2`.

    The names `model`, `provider`, `batch` and `rate` are treated in the same way. Raises InputError if a name gets
    values twice or invalid values.
    """
    fields: dict[str, Value] = {}
    rest: dict[str, tuple[str, ...]] = {}
    for name, texts in options.values:
        if name not in KNOWN:
            rest[name] = tuple(dict.fromkeys((*rest.get(name, ()), *texts)))
            continue
        field, written, kind = KNOWN[name]
        if name in fields or getattr(options, field):
            raise InputError(f"{{{name}}} is given values twice", f"{written} alone is enough")
        try:
            each = tuple(kind.convert(one, None, None) for one in texts)
        except BadParameter as error:
            raise InputError(f"--values {name}: {error.message.rstrip('.')}") from None
        fields[field] = tuple(map(Path, each)) if name == "model" else (each,) if name == "provider" else each
    return replace(options, values=tuple(rest.items()), **fields)


def refuse_unused(options: SweepOptions, command: Sequence[str]) -> None:
    """Raise InputError if values and placeholders of `command` do not match.

    `--threads 1,2` needs the placeholder `{threads}` in the command, and `{threads}` needs values.
    """
    has_models = bool(options.models or options.more_models or options.models_file)
    given = {name: bool(getattr(options, field)) for name, (field, *_) in KNOWN.items()} | {"model": has_models}
    given |= {name: True for name, _ in options.values}
    for name, is_given in given.items():
        is_named = any(f"{{{name}}}" in word for word in command)
        if is_given and not is_named:
            raise InputError(f"the command has no {{{name}}}", f"write {{{name}}} where its values belong")
        if is_named and not is_given:
            raise InputError(f"{{{name}}} in the command has no values", f"give them: {KNOWN[name][1]} A,B")


def filled(command: Sequence[str], settings: Settings) -> list[str]:
    """Return the command with its placeholders replaced by the settings. Other words in braces stay as they are.

    >>> filled(["app", "{model}", "--n={threads}", "{x}"], Settings("/m/a.onnx", threads=2))
    ['app', '/m/a.onnx', '--n=2', '{x}']
    """
    texts = settings.placeholders
    return [re.sub(rf"\{{({PLACEHOLDER})\}}", lambda found: texts.get(found[1], found[0]), word) for word in command]


def program_name(command: Sequence[str]) -> str:
    """Return the name of the script without its folder. Without a script, return the name of the program.

    >>> program_name(["python3", "src/app.py", "--fast"])
    'app.py'
    """
    script = next((word for word in command[1:] if word.endswith(".py")), command[0])
    return clean(script.rpartition("/")[2] or script)


def digest(command: Sequence[str]) -> str:
    import hashlib  # noqa: PLC0415  4 MiB of OpenSSL, which a sweep over models does without

    return hashlib.sha256("\0".join(command).encode("utf-8", "surrogateescape")).hexdigest()


def refuse_another(
    folder: Path, plan: Plan, command: Sequence[str] | None, combinations: Sequence[Settings] | None
) -> None:
    """Raise InputError if the command line differs from the command and the values with which the sweep began.

    `folder` is the folder of the sweep to continue, and `plan` is its plan. `command` is the program on the command
    line; None if there is none. `combinations` are the settings that the command line gives; None if it gives none.
    """
    if plan.program is None:
        if command is not None:
            raise InputError(f"{folder}: is a sweep over models, not over a program", "leave out -- COMMAND")
        return
    if command is None:
        again = f"edgetop sweep --resume {path_word(folder)} ... -- COMMAND"
        raise InputError(
            f"{folder}: the sweep runs a program, which a plan does not store: repeat the command and its values",
            clean(again),
        )
    if digest(command) != plan.command_sha256:
        raise InputError(f"{folder}: the sweep began with another command", "repeat that command, or begin a new sweep")
    if set(combinations or ()) != set(plan.combinations):
        raise InputError(f"{folder}: the sweep began with other models or values", "repeat those, or begin a new sweep")
    if Path(plan.folder) != Path.cwd():
        raise InputError(f"{folder}: the sweep began in another folder", clean(f"cd {shlex.quote(plan.folder)}"))


def again(options: SweepOptions, command: Sequence[str]) -> Iterator[str]:
    """Yield the words to type after `edgetop sweep --resume FOLDER` to continue a sweep over the program `command`."""
    for path in (*options.models, *options.more_models):
        yield f"--models={path}"
    if options.models_file:
        yield f"--models-file={options.models_file}"
    for name, (field, written, _) in KNOWN.items():
        each = getattr(options, field)
        if name == "provider":
            yield from (f"--provider={','.join(one)}" for one in each)
        elif name != "model" and each:
            yield f"{written}={','.join(f'{one:.12g}' for one in each)}"
    yield from (f"--values={name}={','.join(texts)}" for name, texts in options.values)
    yield from (DASHES, *command)


def goal_of(given: str | None, command: Sequence[str] | None) -> str:
    """Return the goal by which to recommend a combination: `given`, or else `p99` for models and `time` for programs.

    `command` is the program; None for a sweep over models. Raises InputError if the goal applies only to programs.
    """
    if command is None and given in OF_PROGRAMS:
        raise InputError(f"--goal {given} applies only to a program", COMMAND_ADVICE)
    return given or ("p99" if command is None else "time")
