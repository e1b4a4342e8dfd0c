"""Reading columns of numbers from a large CSV file, in pieces of limited size."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from edgetop.files import open_regular

Floats = npt.NDArray[np.float64]

PIECE_BYTES = 1 << 20


def number_columns(
    path: Path,
    begin: int,
    width: int,
    columns: Sequence[int],
    *,
    separator: str,
    has_comma: bool,
    encoding: str = "utf-8",
) -> Iterator[list[Floats]]:
    """Yield, piece by piece, a list with an array for each of `columns`. An empty cell is NaN.

    `begin` is the byte offset of the first row. `width` is the number of cells in a row. Rows with another number of
    cells are left out. `separator` separates the cells. `columns` are the positions of the wanted columns, from 0.
    `has_comma` says that the decimal sign is a comma. `encoding` is that of the text, such as `utf-16-le`. Raises
    OSError, or ValueError if a cell is no number.
    """
    names = [f"c{place}" for place in range(width)]
    wanted = [names[place] for place in columns]
    with os.fdopen(open_regular(path), "rb") as file:
        file.seek(begin)
        try:
            reader = pyarrow.csv.open_csv(
                pa.PythonFile(file, mode="r"),
                pyarrow.csv.ReadOptions(
                    column_names=names, block_size=PIECE_BYTES, use_threads=False, encoding=encoding
                ),
                pyarrow.csv.ParseOptions(delimiter=separator, invalid_row_handler=lambda _: "skip"),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.float64()),
                    include_columns=list(dict.fromkeys(wanted)),
                    decimal_point="," if has_comma else ".",
                    null_values=["", "NaN", "nan", "-"],
                ),
            )
            for batch in reader:
                yield [batch.column(name).to_numpy(zero_copy_only=False) for name in wanted]
        except pa.ArrowInvalid as error:
            raise ValueError(str(error).splitlines()[0]) from None
