"""`edgetop push`: copy sessions into a lake."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli.companions import Value, option, taken
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.session.typed_json import Document

if TYPE_CHECKING:
    from edgetop.lake.place import Place

OPTIONS = (
    option("--board-id", metavar="ID", help="Name of this board in the lake. Default: derived from /etc/machine-id."),
    option("--follow", is_flag=True, help="Copy a running session in pieces of ten minutes, as they are completed."),
    option("--delete-after", is_flag=True, help="Delete each local session once its copy is complete and verified."),
    option("--json", "as_json", is_flag=True, help="Print one JSON document: a list."),
)  # fmt: skip


@frozen
class PushOptions:
    board_id: str | None
    follow: bool
    delete_after: bool
    as_json: bool


@click.command("push", params=[*OPTIONS])
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...", shell_complete=completion.sessions)
@click.argument("target")
def command(sessions: tuple[str, ...], target: str, **given: Value) -> None:
    """Copy sessions into the lake at TARGET: a folder, s3://BUCKET/PATH, gs:// or az://.

    The command can be repeated: what the lake already has is compared and not sent again (edgetop help push).

    \b
    Examples:
      edgetop push soak-42 /mnt/lake
      edgetop push soak-* s3://boards/lake --delete-after
      edgetop push soak-42 s3://boards/lake --follow
      edgetop push soak-42 's3://lake?endpoint_override=minio:9000&scheme=http' --board-id pi-07
    """
    from edgetop.cli.output import print_json, raise_problems  # noqa: PLC0415  --help needs none of it
    from edgetop.lake.place import Place  # noqa: PLC0415
    from edgetop.lake.transfer import board_id  # noqa: PLC0415
    from edgetop.paths import recordings_home  # noqa: PLC0415
    from edgetop.recording.registry import locate  # noqa: PLC0415

    options = taken(PushOptions, given)
    if options.follow and len(sessions) > 1:
        raise InputError("--follow accepts one session", "start one push per session")
    board = board_id(options.board_id)
    folders = [locate(session, recordings_home()) for session in sessions]
    place, done, problems = Place(target, pause=_pause), [], list[str]()
    for folder in folders:
        row, found = _push(folder, place, board, options)
        done.append(row)
        problems += found
    if options.as_json:
        print_json(done)
    raise_problems(problems, "the rest is in the lake, and the local session was not deleted")


def _push(folder: Path, place: "Place", board: str, options: PushOptions) -> tuple[Document, Sequence[str]]:
    """Copy the session in `folder` into the lake `place`, and print the result.

    With --delete-after, the local session is deleted if the copy is complete. `board` is the board's id in the lake.
    Returns the session's entry for the JSON of `--json`, and texts about what could not be read.
    """
    from edgetop.cli.output import print_text  # noqa: PLC0415
    from edgetop.formatting import size  # noqa: PLC0415
    from edgetop.lake.transfer import follow, push, remove  # noqa: PLC0415

    if options.follow:
        pushed = follow(folder, place, board, lambda words: print_text(words, err=True))
    else:
        pushed = push(folder, place, board)
    is_removed = options.delete_after and not pushed.problems
    left = remove(folder, pushed) if is_removed else ()
    row = {"session": pushed.session, "path": str(folder), "board": board, "target": place.target,
           "size_bytes": pushed.size, "sent_bytes": pushed.sent, "removed": is_removed, "left": list(left)}  # fmt: skip
    if not options.as_json:
        sent = f"{size(pushed.sent)} sent of {size(pushed.size)}" if pushed.sent else "is there already"
        stays = f" (left: {', '.join(left)})" if left else ""
        print_text(f"{folder.name}: {sent}, board {board}{', removed here' if is_removed else ''}{stays}")
    return row, pushed.problems


def _pause(pause_s: float) -> None:
    from edgetop.cli.output import print_text  # noqa: PLC0415

    print_text(f"the lake does not answer; next attempt in {pause_s:g} s", err=True)
    time.sleep(pause_s)
