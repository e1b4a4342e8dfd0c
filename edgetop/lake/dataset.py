"""The tables of a lake as Arrow datasets: a file is opened only where its day, board or session is asked for.

What is in a path (`date`, `board`, `session`) is in columns, as text whatever it looks like. The columns are those
that this version knows; one that an older file lacks is null there.
"""

import re
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from edgetop.lake.place import Place
from edgetop.lake.row import SCHEMA, TABLE
from edgetop.recording.schema import SCHEMAS

PATH = re.compile(r"[^/]+/date=(?P<date>[\d-]+)/board=(?P<board>[^/]+)/(?P<session>[^/.]+)[^/]*\.parquet")
KEYS = ("date", "board", "session")
TABLES = {TABLE: SCHEMA, **SCHEMAS}


def dataset(place: Place, table: str, paths: Sequence[str]) -> Any:
    """`paths`: of `Place.files`. Left out are other names, and pieces of tables that are there whole."""
    whole = {path for path in paths if path.count(".") == 1}
    found = [
        (path, match)
        for path in paths
        if (match := PATH.fullmatch(path)) and (path in whole or f"{path.rsplit('.', 2)[0]}.parquet" not in whole)
    ]
    return ds.FileSystemDataset.from_paths(
        [place.at(path) for path, _ in found],
        schema=pa.schema([*_plain(TABLES[table]), *((key, pa.string()) for key in KEYS)]),
        format=ds.ParquetFileFormat(),
        filesystem=place.fs,
        partitions=[reduce(and_, (ds.field(key) == match[key] for key in KEYS)) for _, match in found],
    )


def _plain(schema: pa.Schema) -> list[Any]:
    """Names as text: dictionaries of many files differ."""
    return [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
