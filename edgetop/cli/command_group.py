"""The click group of all commands. The module of a command is imported only when that command is called."""

import importlib

import click

from edgetop import __version__
from edgetop.cli.companions import Value, needs, option
from edgetop.cli.overview import COMMANDS, help_text
from edgetop.errors import EXIT_DONE
from edgetop.nearest import nearest_hint


class Commands(click.Group):
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
            hint = nearest_hint(name, COMMANDS)
            if "." in name or "/" in name:
                from edgetop.cli.shell_words import path_word  # noqa: PLC0415  where it is asked for

                hint = f"to run a model: edgetop run {path_word(name)}"
            raise click.UsageError(f"no such command: {name} ({hint})", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Value:
        is_asked, is_verbose = ctx.params.pop("version"), ctx.params.pop("verbose")
        if not is_asked:
            return super().invoke(ctx)
        if is_verbose:
            from edgetop.cli.versions import verbose_lines  # noqa: PLC0415  --help needs none of it

            click.echo("\n".join(verbose_lines()))
        else:
            click.echo(f"edgetop {__version__}")
        return EXIT_DONE

    def get_help(self, ctx: click.Context) -> str:
        return help_text().rstrip("\n")


OPTIONS = (
    option("--version", "-V", is_flag=True, help="Show the version and exit."),
    option(
        "--verbose", is_flag=True, help="With --version: also those of Python, runtimes and packages.",
        rules=[needs("version")],
    ),
)  # fmt: skip


@click.command(
    cls=Commands,
    invoke_without_command=True,
    params=[*OPTIONS],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.pass_context
def edgetop(ctx: click.Context) -> int | None:
    """Without a command: run the built-in demo model on the live screen."""
    if ctx.invoked_subcommand is None:
        return int(ctx.invoke(Commands.get_command(edgetop, ctx, "run")))  # type: ignore[arg-type]
    return None
