"""What is said to a person, on stdout or stderr: the last place where foreign text could still act, and does not."""

import click

from edgetop.formatting import clean


def tell(text: str, *, err: bool = False, ascii_only: bool = False) -> None:
    """Lines, each of them only text. No escape sequence and no tab gets through."""
    click.echo("\n".join(clean(line, ascii_only=ascii_only) for line in text.split("\n")), err=err)
