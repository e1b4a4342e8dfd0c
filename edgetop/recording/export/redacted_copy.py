"""Copying a finished session without texts that may identify a person, a machine or a network.

Numbers are copied unchanged. Logs and stored outputs are left out, because their content is unknown.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from edgetop.files import open_regular, write_file
from edgetop.recording.removal import OUTPUT_FILES, TABLE_FILES
from edgetop.recording.session_folder import FILE_MODE, FOLDER_MODE, LOG, MANIFEST, PROGRAM_LOG, Descriptor
from edgetop.session.typed_json import Document

LEFT_OUT = (LOG, PROGRAM_LOG, *OUTPUT_FILES)
_FREE_TEXT = ("source", "message")  # columns of events; `data` holds JSON
_EVENTS = "events.parquet"
Redact = Callable[[object], object]  # of a JSON value: texts in it are redacted


def copy_redacted(folder: Path, to: Path, manifest: Document, redact: Redact) -> list[str]:
    """Copy the tables of the session in `folder` into the new folder `to`. Return the names of files left out.

    `manifest` is the already redacted manifest for the copy. `redact` takes a JSON value and returns the value with its
    texts redacted. Raises OSError.
    """
    to.mkdir(FOLDER_MODE)
    for name in TABLE_FILES:
        if name == _EVENTS and (folder / name).is_file():
            _copy_events(folder / name, to / name, redact)
        elif (folder / name).is_file():
            shutil.copyfile(folder / name, to / name)
            (to / name).chmod(FILE_MODE)
    write_file(to / MANIFEST, json.dumps(manifest, indent=1))
    return [name for name in LEFT_OUT if (folder / name).is_file()]


def _copy_events(source: Path, to: Path, redact: Redact) -> None:
    import pyarrow as pa  # noqa: PLC0415  Arrow is loaded where something is read
    import pyarrow.parquet as pq  # noqa: PLC0415

    opened = Descriptor(open_regular(source))
    file = pq.ParquetFile(f"/proc/self/fd/{opened.fd}")  # Arrow only takes paths of UTF-8
    with to.open("wb") as sink, pq.ParquetWriter(sink, file.schema_arrow, compression="zstd") as writer:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            for name in (*_FREE_TEXT, "data"):
                if (at := table.schema.get_field_index(name)) >= 0:
                    kind = table.schema.field(at)
                    texts = [
                        None if text is None else _redacted(name, text, redact) for text in table[name].to_pylist()
                    ]
                    table = table.set_column(at, kind, pa.array(texts, pa.string()).cast(kind.type))
            writer.write_table(table)
    to.chmod(FILE_MODE)


def _redacted(column: str, text: str, redact: Redact) -> str:
    if column != "data":
        return str(redact(text))
    try:
        return json.dumps(redact(json.loads(text)))
    except (ValueError, RecursionError):  # whatever it is, it is no data of an event
        return "{}"
