"""`edgetop completion`: what a shell needs to complete commands, options and names."""

import click

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_EDGETOP_COMPLETE"  # Click's name for a program called edgetop


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script for SHELL: commands, options, sessions, providers, themes, topics.

    \b
    Examples:
      edgetop completion bash > ~/.local/share/bash-completion/completions/edgetop
      edgetop completion zsh > ~/.zfunc/_edgetop       (with ~/.zfunc in fpath before compinit)
      edgetop completion fish > ~/.config/fish/completions/edgetop.fish
      eval "$(edgetop completion bash)"                for this shell alone
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415  the others need it not

    from edgetop.cli.commands import edgetop  # noqa: PLC0415  it knows this command by its name

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(edgetop, {}, "edgetop", VARIABLE).source())
