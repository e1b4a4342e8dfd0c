"""Parquet tables, read row group by row group. Only what reads a table imports this module, which loads Arrow."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.recording import columns, operator_columns
from edgetop.recording.catalog import RowGroup
from edgetop.recording.files import Descriptor, open_regular
from edgetop.recording.operator_columns import Infos
from edgetop.recording.schema import SCHEMAS, as_described
from edgetop.recording.tables import metadata_of


class TableFile:
    """A file with row groups of a table. Everything raises OSError, or ValueError where the file is damaged."""

    def __init__(self, name: str, place: Path, source: Path, groups: list[RowGroup] | None = None) -> None:
        """`place`: its name for people; `source`: where it is read. `groups`: its index, where it has no footer."""
        self.name = name
        self.place = place
        if source == place:
            Descriptor(open_regular(place))  # no link, no pipe
        with _arrow_errors():
            metadata = None if groups is None else metadata_of(name, groups)
            self._file = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)
            self._groups = [self._file.metadata.row_group(number) for number in range(self._file.num_row_groups)]
            self._times = list(map(_times_in, self._groups))

    @property
    def unpacked_bytes(self) -> int:
        return sum(group.total_byte_size for group in self._groups)

    def rows_in(self, numbers: Sequence[int]) -> int:
        """How many rows these row groups have."""
        return sum(self._groups[number].num_rows for number in numbers)

    def times_in(self, number: int) -> tuple[int, int] | None:
        """The first and the last time in a row group, as far as its index says it."""
        return self._times[number]

    def read_times(self, number: int) -> npt.NDArray[np.int64]:
        """Of each row of a row group."""
        with _arrow_errors():
            t_ns = self._file.read_row_group(number, columns=["t_ns"])["t_ns"].cast(pa.int64())
            if t_ns.null_count:
                raise ValueError("t_ns lacks values")
            return np.asarray(t_ns)

    def by_time(self) -> list[tuple[int, ...]]:
        """The numbers of its row groups in the order of their times: another program may have written another order.

        No second of one may come before a second of an earlier one, so those that are mixed are read together.
        """
        known = [times for times in self._times if times is not None]
        if len(known) < len(self._groups):
            return [(number,) for number in range(len(self._groups))]
        found: list[tuple[int, ...]] = []
        last_ns = 0
        for number in sorted(range(len(known)), key=lambda number: known[number][0]):
            first_ns, end_ns = known[number]
            if self.name == "seconds" and found and first_ns <= last_ns:
                found[-1] = (*found[-1], number)
            else:
                found.append((number,))
            last_ns = max(last_ns, end_ns)
        return found

    def read(self, numbers: Sequence[int], sensor_ids: Sequence[str], infos: dict[Infos, Infos]) -> tuple[Any, int]:
        """The rows of these row groups, and how many of them cannot be true and are left out (of operators alone).

        `sensor_ids`: those of the manifest; rows of others are left out. `infos`: operators of bursts, held once.
        """
        with _arrow_errors():
            table = as_described(self._file.read_row_groups(list(numbers)), SCHEMAS[self.name])
            if self.name == "operators":
                sound = operator_columns.sound_rows(operator_columns.as_table(table))
                return operator_columns.bursts_from_arrow([sound], infos), len(table) - len(sound)
            return self._from_arrow(sensor_ids)(table), 0

    def _from_arrow(self, sensor_ids: Sequence[str]) -> Callable[[pa.Table], Any]:
        readers: dict[str, Callable[[pa.Table], Any]] = {
            "inferences": columns.inferences_from_arrow,
            "readings": lambda table: columns.readings_from_arrow(table, sensor_ids),
            "events": columns.events_from_arrow,
            "seconds": columns.seconds_from_arrow,
        }
        return readers[self.name]


def _times_in(group: pq.RowGroupMetaData) -> tuple[int, int] | None:
    for place in range(group.num_columns):
        column = group.column(place)
        known = column.statistics if column.path_in_schema == "t_ns" else None
        if known is not None and known.has_min_max and type(known.min) is type(known.max) is int:
            return known.min, known.max
    return None


@contextlib.contextmanager
def _arrow_errors() -> Iterator[None]:
    """Some of Arrow's are no errors of Python's."""
    try:
        yield
    except OSError:
        raise
    except (pa.ArrowException, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise ValueError(str(error)) from None
