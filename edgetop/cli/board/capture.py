"""`edgetop sensors --capture`: list the board's files, ask the user, and write the files to an archive."""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from edgetop.cli.output import print_text, wrapped
from edgetop.errors import DISK_FULL, InputError, OutputError
from edgetop.formatting import clean, quantity, size
from edgetop.sensors.capture.collect import Capture, collect, notes_text, pack, write_archive
from edgetop.sensors.root import Root

SUFFIX = ".tar.gz"


def capture_board(root: Root, path: Path, *, yes: bool, force: bool) -> None:
    """Write an archive to `path` of the files that describe the board. List the files first, and ask the user to agree.

    `root` is the root of the board's file system. With `yes`, the user is not asked. `force` allows replacing an
    existing file. Raises OutputError if the file cannot be written, or InputError if the path is unsuitable or there is
    no terminal to ask on.
    """
    refuse(path, "--capture", yes=yes, force=force)
    capture = collect(root)
    packed = size(len(pack(capture)))
    print_text("\n".join(part for line in listing(capture) for part in wrapped(line)), err=True)
    question = f"Write {quantity(len(capture.files), 'file')}, {packed}, to {clean(str(path))}?"
    if not yes and not click.confirm(question, err=True):
        click.echo("Nothing was written.", err=True)
        return
    write(path, "--capture", pack(capture), force=force)
    click.echo(
        f"{clean(str(path))}: {quantity(len(capture.files), 'file')}, {packed}. Check its contents before you send it.",
        err=True,
    )


def refuse(path: Path, option: str, *, yes: bool, force: bool) -> None:
    """Raise InputError if `path` is unsuitable for an archive, or if there is no terminal on which to ask the user.

    `option` is the option that gave the path, such as "--capture". With `yes`, the user will not be asked, so no
    terminal is needed. Without `force`, an existing file is unsuitable.
    """
    if not path.name.endswith(SUFFIX) or path.name == SUFFIX:
        raise InputError(f"{option} {path}: not a name for an archive", f"its name must end in {SUFFIX}")
    if os.path.lexists(path) and not force:
        raise _exists(path, option)
    if not yes and not (sys.stdin is not None and sys.stdin.isatty()):
        raise InputError(f"{option} asks first, but there is no terminal", "add --yes")


def write(path: Path, option: str, packed: bytes, *, force: bool) -> None:
    """Write an archive to `path`, with permissions that let only its owner read it. `packed` is its whole content.

    `option` is the option that gave the path, for error messages. Raises InputError if the file exists and `force` is
    false, or OutputError if it cannot be written.
    """
    try:
        write_archive(packed, path, force=force)
    except FileExistsError:
        raise _exists(path, option) from None
    except OSError as error:
        reason = error.strerror or str(error)
        advice = "choose another path" if error.errno not in DISK_FULL else "free some space, or choose another path"
        raise OutputError(f"{option} {path}: cannot be written: {reason}", advice) from None


def listing(capture: Capture) -> Iterator[str]:
    """Yield lines of text that list the content of an archive: files by folder, the number of links, and notes."""
    yield "In the capture:"
    for folder, paths in itertools.groupby(capture.files, key=lambda path: path.rpartition("/")[0]):
        yield f"  {clean(folder or '.')}: {clean(' '.join(path.rpartition('/')[2] for path in paths))}"
    yield f"  {quantity(len(capture.links), 'link')} between them"
    yield from (clean(line) for line in notes_text(capture).splitlines()[1:])
    yield ""


def _exists(path: Path, option: str) -> InputError:
    return InputError(f"{option} {path}: already exists", "choose another file, or add --force")
