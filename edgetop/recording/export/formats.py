"""The formats by name. They are listed without importing one, since most load Arrow."""

import importlib
from dataclasses import dataclass
from pathlib import Path

from edgetop.recording.export.protocol import Exporter


@dataclass(frozen=True, slots=True)
class Format:
    module: str
    name: str  # of the class in it
    ending: str  # of what it writes, where nobody named that
    what: str  # it makes


_HERE = "edgetop.recording.export"
FORMATS = {
    "csv": Format(f"{_HERE}.to_csv", "Csv", ".csv", "a file a table"),
    "json": Format(f"{_HERE}.to_json", "JsonLines", ".jsonl", "a line a row, the manifest first"),
    "parquet": Format(
        f"{_HERE}.to_parquet", "WideParquet", ".parquet", "one wide table on a regular grid, a column a sensor"
    ),
    "perfetto": Format(f"{_HERE}.to_perfetto", "Perfetto", ".pftrace", "a trace for ui.perfetto.dev"),
    "session": Format(f"{_HERE}.to_session", "SmallerSession", "-cut.edgetop", "a recording, to send to a colleague"),
}


def default_path(recording: Path, name: str, *, is_one: bool = False) -> Path:
    """By the session's name, where nobody named one. `is_one`: it is of a single table."""
    from edgetop.recording.files import SUFFIX  # noqa: PLC0415  which loads numpy; the list of formats does not

    ending = "-csv" if name == "csv" and not is_one else FORMATS[name].ending
    return Path(recording.resolve().name.removesuffix(SUFFIX) + ending)


def load(name: str) -> Exporter:
    """Raises InputError where a package that it needs is missing."""
    form = FORMATS[name]
    exporter: Exporter = getattr(importlib.import_module(form.module), form.name)()
    return exporter
