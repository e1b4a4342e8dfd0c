"""Runs SQL on a lake with DuckDB in this process, or with Daft in this process or on a Ray cluster.

The user's SQL can only read the tables of the lake, and no other files.
"""

import importlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.installation import extra_command
from edgetop.lake.lake_tables import KEYS, TABLES, dataset
from edgetop.lake.place import Place

LEAST_PARTS, FILES_A_PART = 4, 256  # partitions of an aggregation on Ray: at least, and files per partition
EXTRAS = {"duckdb": "lake", "daft": "lake-distributed"}


@frozen
class Answer:
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def records(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def refuse_missing(engine: str) -> None:
    """Raise InputError if the Python package of the query engine "duckdb" or "daft" is not installed."""
    if importlib.util.find_spec(engine) is None:
        raise InputError(f"{engine} is not installed", extra_command(EXTRAS[engine]))


def ask(place: Place, sql: str, *, engine: str = "duckdb", since: str = "", ray: str = "") -> Answer:
    """Run the SQL query `sql` on the lake at `place`, and return its result.

    `engine` is "duckdb" or "daft". Files of days before `since` (YYYY-MM-DD) are not opened. `ray` is the address of a
    Ray cluster for Daft; "" for this process. Raises InputError if the query or the engine fails.
    """
    refuse_missing(engine)
    used = {table: place.files(table, since) for table in TABLES if re.search(rf"\b{table}\b", sql, re.IGNORECASE)}
    place.refuse_none()
    return _duckdb(place, sql, used) if engine == "duckdb" else _daft(place, sql, used, ray)


def _duckdb(place: Place, sql: str, used: Mapping[str, Sequence[str]]) -> Answer:
    duckdb: Any = importlib.import_module("duckdb")
    connection = duckdb.connect()
    for table, paths in used.items():
        connection.register(table, dataset(place, table, paths))
    connection.execute("SET enable_external_access = false")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET lock_configuration = true")
    try:
        if (found := connection.execute(sql)) is None:
            raise InputError("the statement asks nothing", "edgetop lake TARGET sql 'SELECT ...'")
        names = tuple(one[0] for one in found.description or ())
        return Answer(names, tuple(map(tuple, found.fetchall())))
    except duckdb.Error as error:
        if "'pytz'" in str(error):  # up to 2.0.0, DuckDB needs pytz to return a time with a zone
            raise InputError("a column is a time with a zone", "cast it: now()::TIMESTAMP") from None
        advice = "a file that was not pushed can be taken out" if ".parquet'" in str(error) else "edgetop help lake"
        raise InputError(f"DuckDB: {_first(error)}", advice) from None
    finally:
        connection.close()


def _daft(place: Place, sql: str, used: Mapping[str, Sequence[str]], ray: str) -> Answer:
    daft: Any = importlib.import_module("daft")
    functions: Any = importlib.import_module("daft.functions")
    if ray:
        daft.set_runner_ray(ray, noop_if_initialized=True)
        # Each file adds an object to each partition in Ray's store: with the default of 200 a query never ends.
        parts = LEAST_PARTS + max(map(len, used.values()), default=0) // FILES_A_PART
        daft.set_execution_config(shuffle_aggregation_default_partitions=parts)
    frames, scheme = {}, place.target.partition("://")[0] + "://" if "://" in place.target else ""
    for table, paths in used.items():
        if not paths:
            frames[table] = daft.from_arrow(dataset(place, table, ()).to_table())
            continue
        urls = [scheme + place.at(path) for path in paths]
        frame = daft.read_parquet(urls, file_path_column="path", io_config=_io(place))
        frames[table] = frame
        for key, pattern in zip(KEYS, (r"/date=([^/]+)/", r"/board=([^/]+)/", r"/([^/.]+)[^/]*$"), strict=True):
            frames[table] = frames[table].with_column(key, functions.regexp_extract(daft.col("path"), pattern, 1))
    try:
        found = daft.sql(sql, **frames).to_pydict()
    except Exception as error:  # noqa: BLE001  Daft has no exception class for errors in SQL
        raise InputError(f"Daft: {_first(error)}", "edgetop help lake") from None
    return Answer(tuple(found), tuple(zip(*found.values(), strict=True)))


def _io(place: Place) -> Any:
    """Return Daft's I/O settings (`IOConfig`) for a lake with its own S3 endpoint, or None for any other lake."""
    from urllib.parse import parse_qs, urlparse  # noqa: PLC0415

    options = {key: values[0] for key, values in parse_qs(urlparse(place.target).query).items()}
    if "endpoint_override" not in options:
        return None
    daft_io: Any = importlib.import_module("daft.io")
    endpoint = f"{options.get('scheme', 'https')}://{options['endpoint_override']}"
    return daft_io.IOConfig(s3=daft_io.S3Config(endpoint_url=endpoint, region_name=options.get("region")))


def _first(error: Exception) -> str:
    return clean(" ".join(str(error).split()))[:300]
