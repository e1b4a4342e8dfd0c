"""Text for people, on stdout or stderr: the last place where foreign text could still act, and does not."""

from collections.abc import Sequence

import click

from edgetop.errors import InputError
from edgetop.formatting import clean


def tell(text: str, *, err: bool = False, ascii_only: bool = False) -> None:
    """Lines, each of them only text. No escape sequence and no tab gets through."""
    click.echo("\n".join(clean(line, ascii_only=ascii_only) for line in text.split("\n")), err=err)


def raise_problems(problems: Sequence[str], rest: str) -> None:
    """Raises InputError where a recording has unreadable parts. `rest`: what was done with the others."""
    if problems:
        more = len(problems) - 1
        raise InputError(problems[0], f"and {more} more; {rest}" if more else rest)
