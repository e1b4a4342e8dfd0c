"""`edgetop help TOPIC`: read the documentation offline."""

from importlib import resources

import click

from edgetop.cli import completion
from edgetop.errors import InputError
from edgetop.nearest import nearest_hint

FOLDER = "docs"


@click.command("help")
@click.argument("topic", required=False, shell_complete=completion.topics)
def command(topic: str | None) -> None:
    """Read TOPIC in the terminal. Without TOPIC, list all topics."""
    topics = {
        entry.name.removesuffix(".md"): entry
        for entry in resources.files("edgetop").joinpath(FOLDER).iterdir()
        if entry.name.endswith(".md")
    }
    if topic is None:
        click.echo("Topics, for edgetop help TOPIC:")
        for name in sorted(topics):
            title = topics[name].read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
            click.echo(f"  {name:<12} {title}")
        return
    if topic not in topics:
        raise InputError(f"no topic {topic}", nearest_hint(topic, sorted(topics)))
    click.echo_via_pager(topics[topic].read_text(encoding="utf-8"))
