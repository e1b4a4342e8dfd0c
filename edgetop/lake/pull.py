"""A session comes back from a lake: a folder that replays, each file of it verified."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from edgetop.errors import InputError, OutputError
from edgetop.lake.place import Place, refuse_full
from edgetop.lake.tables import FILES, MANIFEST, TABLE, dataset
from edgetop.recording.export.protocol import NamedOutput
from edgetop.recording.files import FILE_MODE, FOLDER_MODE, SUFFIX
from edgetop.recording.files import MANIFEST as SESSION
from edgetop.recording.rows import TABLES
from edgetop.session.manifest import from_json

LEAST_DIGITS = 4  # of an id
COLUMNS = ["session", "date", "board", MANIFEST, FILES]
_NAME = re.compile(r"[\w][\w.+@-]{0,120}", re.ASCII)


def pull(place: Place, given: str, output: Path | None, home: Path) -> tuple[Path, str]:
    """The folder and the id of a session, which is given by its name, its id or enough of it.

    Raises InputError and OutputError.
    """
    row = _found(place, given)
    try:
        manifest = from_json(json.loads(row[MANIFEST]))
        files = dict(_sound(json.loads(row[FILES])))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{place.target}: the row of {row['session']} is not sound: {error}") from None
    if not files:
        raise InputError(f"{row['session']} is not over: it is there in pieces", "pull it when its board has ended it")
    name = manifest.name if _NAME.fullmatch(manifest.name) else row["session"]
    target = output or home / f"{name}{SUFFIX}"
    refuse_full(target.absolute().parent, sum(size for size, _ in files.values()))
    with suppress(OSError):  # told when the folder is made
        target.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    with NamedOutput(target).folder() as folder:
        folder.chmod(FOLDER_MODE)
        for table, (_, sha256) in files.items():
            path = f"{table}/date={row['date']}/board={row['board']}/{row['session']}.parquet"
            with (folder / f"{table}.parquet").open("xb") as file:
                (folder / f"{table}.parquet").chmod(FILE_MODE)
                if place.read(path, file.write) != sha256:
                    raise OutputError(f"{place.target}/{path}: is not what was pushed", "push the session again")
        (folder / SESSION).write_text(row[MANIFEST], encoding="utf-8")
        (folder / SESSION).chmod(FILE_MODE)
    return target, manifest.id


def _found(place: Place, given: str) -> Mapping[str, Any]:
    place.refuse_none()
    paths = place.files(TABLE)
    fitting = [path for path in paths if len(given) >= LEAST_DIGITS and path.rpartition("/")[2].startswith(given)]
    named = ds.field("name") == given if not fitting else None
    rows = place.again(lambda: dataset(place, TABLE, fitting or paths).to_table(COLUMNS, filter=named)).to_pylist()
    if not rows:
        raise InputError(f"{place.target}: no session {given}", "edgetop lake TARGET sql 'FROM sessions' lists them")
    if len(rows) > 1:
        raise InputError(f"{given}: fits {len(rows)} sessions", ", ".join(row["session"] for row in rows[:5]))
    row: Mapping[str, Any] = rows[0]
    return row


def _sound(files: Any) -> Iterator[tuple[str, tuple[int, str]]]:
    for table, (size, sha256) in files.items():
        if table not in TABLES or type(size) is not int or size < 0 or type(sha256) is not str:
            raise ValueError(f"no such file: {table}")
        yield table, (size, sha256)
