"""`edgetop pull`: copy a session from a lake into a folder."""

from pathlib import Path

import click

from edgetop.cli.companions import PATH
from edgetop.errors import InputError


@click.command("pull")
@click.argument("target")
@click.argument("session")
@click.option(
    "-o", "--output", type=PATH, metavar="PATH", help="Folder of the session. Default: in the recordings folder."
)
def command(target: str, session: str, output: Path | None) -> None:
    """Copy SESSION, given by its name or the beginning of its id, from the lake at TARGET.

    \b
    Examples:
      edgetop pull s3://boards/lake soak-42
      edgetop pull /mnt/lake 5f0c9c1e -o here
    """
    from edgetop.cli.output import print_text  # noqa: PLC0415  --help needs none of it
    from edgetop.lake.place import TRIES_OF_READER, Place  # noqa: PLC0415
    from edgetop.lake.transfer import pull  # noqa: PLC0415
    from edgetop.paths import recordings_home  # noqa: PLC0415
    from edgetop.recording.registry import register  # noqa: PLC0415
    from edgetop.recording.session_folder import session_folder  # noqa: PLC0415

    place = Place(target, tries=TRIES_OF_READER)
    folder, session_id = pull(place, session, session_folder(output) if output else None, recordings_home())
    try:
        register(recordings_home(), folder, session_id)
    except OSError as error:
        raise InputError(f"{folder}: exists, but cannot be listed: {error.strerror}") from None
    print_text(f"{folder}")
