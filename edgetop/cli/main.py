"""The commands by name, and the one place where errors are printed and exit codes chosen."""

import errno
import importlib
import sys
from typing import Any, NoReturn

import click

from edgetop import __version__, streams
from edgetop.errors import (
    DISK_FULL,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_NOT_WRITTEN,
    EXIT_USAGE,
    EdgetopError,
    OutputError,
    ReaderLeftError,
)
from edgetop.formatting import clean
from edgetop.nearest import nearest_hint

# name -> (module, what it does): `--help` lists commands without importing one.
COMMANDS = {
    "run": ("edgetop.cli.run", "Run a model and watch it: latency, heat, power, memory, events."),
    "demo": ("edgetop.cli.demo", "Watch a virtual board get hot, or into other trouble; real inference."),
    "inspect": ("edgetop.cli.inspect", "Show what a model file holds: operators, weights, FLOPs. Needs no runtime."),
    "attach": ("edgetop.cli.attach", "Watch a session that runs already; leaving it costs it nothing."),
    "stop": ("edgetop.cli.stop", "End a running session in order; returns when its recording is final."),
    "sessions": ("edgetop.cli.sessions", "List what runs, and what was recorded."),
    "ops": ("edgetop.cli.ops", "Profile the operators of a model: time, FLOPs, bytes, where each ran."),
    "replay": ("edgetop.cli.replay", "Play a recorded session on the same screen: pause, speed, seek."),
    "report": ("edgetop.cli.report", "Summarise a recorded session, as text or JSON."),
    "export": ("edgetop.cli.export", "Export a session, or a part: csv, json, parquet, perfetto, a smaller session."),
    "import": ("edgetop.cli.import_file", "Make a session of what trtexec or ONNX Runtime's profiler wrote."),
    "sensors": ("edgetop.cli.sensors", "List every sensor of this board, and every one missing."),
    "doctor": ("edgetop.cli.doctor", "Is this board fit to measure on, and if not, what fixes it?"),
    "relay": ("edgetop.cli.relay", "What edgetop attach ssh:HOST starts on the board: streams a session to it."),
    "completion": ("edgetop.cli.completion", "Print what bash, zsh or fish needs to complete commands and names."),
    "help": (
        "edgetop.cli.help",
        "Read a topic: quickstart, demo, attach, boards, power, keys, themes, ops, report, format.",
    ),
}

EPILOG = """\b
Examples:
  edgetop                          watch the built-in demo model
  edgetop demo                     watch it get hot on a virtual board, and throttle
  edgetop run model.onnx           watch your own; it is recorded as it runs
  edgetop run model.tflite --headless --duration 60s --json
  edgetop run model.onnx --detach  leave it running; edgetop attach, edgetop stop
  edgetop report demo-20261121-101502
  edgetop replay demo-20261121-101502 --speed 10
  edgetop sensors                  what this board can tell
  edgetop doctor                   is it fit to measure on
"""


class Commands(click.Group):
    """Imports a command only when it is called."""

    # ruff: noqa: ARG002  the signatures are Click's

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing and not name.startswith("-"):
            hint = f"to run a model: edgetop run {name}" if "." in name or "/" in name else nearest_hint(name, COMMANDS)
            raise click.UsageError(f"no such command: {name} ({hint})", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)
@click.version_option(__version__, "-V", "--version", message="edgetop %(version)s")
@click.pass_context
def edgetop(ctx: click.Context) -> int | None:
    """Watch a model run on an edge board: is it fast enough, does it stay so, and if not, why?

    Without a command: run the built-in demo model on the live screen.
    """
    if ctx.invoked_subcommand is None:
        return int(ctx.invoke(Commands.get_command(edgetop, ctx, "run")))  # type: ignore[arg-type]
    return None


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command; exit with its code, an error as one line on stderr."""
    streams.guard()
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except ReaderLeftError:
        pass
    except OutputError as error:
        code = _complain(str(error), error.exit_code)
    sys.stderr.flush()
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    try:
        result: Any = edgetop.main(arguments, prog_name="edgetop", standalone_mode=False)
        code = result if isinstance(result, int) else EXIT_DONE
    except click.ClickException as error:
        code = _complain(_one_line(error), EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        code = _complain("interrupted", EXIT_INTERRUPTED)
    except ReaderLeftError as error:
        code = error.exit_code
    except EdgetopError as error:
        code = _complain(str(error), error.exit_code)
    except SystemExit:  # how Click ends a completion
        code = EXIT_DONE
    except MemoryError as error:
        code = _complain(f"not enough memory: {error or 'an allocation was refused'}", EXIT_USAGE)
    except OSError as error:
        if error.errno != errno.EIO and error.errno not in DISK_FULL:
            raise
        code = EXIT_DONE  # the terminal is gone
        if error.errno != errno.EIO:
            code = _complain(f"{error.filename or 'a file'}: cannot be written: {error.strerror}", EXIT_NOT_WRITTEN)
    return code


def _complain(message: str, code: int) -> int:
    click.echo(f"edgetop: {clean(message)}", err=True)
    return code


def _one_line(error: click.ClickException) -> str:
    """Click's message with its hints, in one line: "no such option: --duratoin (did you mean --duration?)"."""
    if isinstance(error, click.NoSuchOption):
        command = error.ctx.command_path if error.ctx else "edgetop"
        hint = f"did you mean {error.possibilities[0]}?" if error.possibilities else f"see {command} --help"
        return f"no such option: {error.option_name} ({hint})"
    message = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:]
