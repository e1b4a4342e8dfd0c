"""Reading columns of numbers from a large CSV file, in pieces of limited size."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from edgetop.files import open_regular
from edgetop.frozen import frozen

Floats = npt.NDArray[np.float64]

PIECE_BYTES = 1 << 20
_NUMPY = r"^np\.float(?:64|32)\((.*)\)$"  # how PyMonsoon prints values with NumPy 2
_SET = r"^(?:[1-9][0-9]*(?:[.,][0-9]*)?|0?[.,][5-9][0-9]*)$"  # a number of at least 0.5
_NUMBER = r"^-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


class SkippedRows:
    """Counts the rows of a file that were not used, and keeps the text of the first such row."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""

    def add(self, count: int, first: str) -> None:
        """Count some rows, the first of which has the text `first`."""
        if count and not self.count:
            self.first = first
        self.count += count

    def skip(self, row: "pyarrow.csv.InvalidRow") -> str:
        """Count a row with a wrong number of cells. Return "skip", which makes Arrow leave the row out."""
        self.add(1, row.text or "")
        return "skip"


@frozen
class Flag:
    """Where a table has a digital signal: in a column of its own, or as one character of a column with several signals.

    A PPK2 writes the signals as `-` (unknown), `0`, `1`, or `X` if a sample is a mean over both states.
    """

    column: int  # position of the column, from 0
    character: int | None = None  # position of the signal's character in the column's text; None: the whole text


def number_columns(
    path: Path,
    begin: int,
    width: int,
    columns: Sequence[int],
    skipped: SkippedRows,
    *,
    separator: str,
    has_comma: bool,
    encoding: str = "utf-8",
    flag: Flag | None = None,
) -> Iterator[list[Floats]]:
    """Yield the numbers of a CSV file in pieces: lists with an array for each of `columns`, and then one for `flag`.

    The array of the digital signal `flag` has 1 for set, else 0. Rows without `width` cells, and rows that lack a
    number, are left out and counted by `skipped`. `begin` is the byte offset of the first row. `has_comma` says that
    the decimal sign is a comma. Raises OSError if the file cannot be read, or ValueError if the file is no table.
    """
    names = [f"c{place}" for place in range(width)]
    wanted = [names[place] for place in columns]
    read = [*wanted, *([names[flag.column]] if flag else [])]
    with os.fdopen(open_regular(path), "rb") as file:
        file.seek(begin)
        try:
            reader = pyarrow.csv.open_csv(
                pa.PythonFile(file, mode="r"),
                pyarrow.csv.ReadOptions(
                    column_names=names, block_size=PIECE_BYTES, use_threads=False, encoding=encoding
                ),
                pyarrow.csv.ParseOptions(delimiter=separator, invalid_row_handler=skipped.skip),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(read, pa.string()),
                    include_columns=list(dict.fromkeys(read)),
                    null_values=["", "NaN", "nan", "-"],
                    strings_can_be_null=True,
                ),
            )
            for batch in reader:
                arrays = [_numbers(batch.column(name), has_comma=has_comma) for name in wanted]
                is_known = np.logical_and.reduce([np.isfinite(array) for array in arrays])
                if unknown := np.flatnonzero(~is_known).tolist():
                    cells = [str(batch.column(name)[unknown[0]].as_py() or "") for name in wanted]
                    skipped.add(len(unknown), separator.join(cells))
                if flag:
                    arrays.append(_is_set(batch.column(names[flag.column]), flag.character))
                yield [array[is_known] for array in arrays]
        except pa.ArrowInvalid as error:
            raise ValueError(str(error).splitlines()[0]) from None


def _is_set(column: pa.Array, character: int | None) -> Floats:
    """Return 1 for each row in which a digital signal is set, even if only for a part of the sample, else 0.

    `character` is the position of the signal's character in the text; None means the whole text.
    """
    text = pc.utf8_trim_whitespace(column)
    if character is not None:
        text = pc.utf8_slice_codeunits(text, character, character + 1)
    found = pc.or_(pc.equal(text, "X"), pc.match_substring_regex(text, _SET))
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), np.float64)


def _numbers(column: pa.Array, *, has_comma: bool) -> Floats:
    """Return the numbers in a column of text. Other text becomes NaN."""
    text = pc.utf8_trim_whitespace(column)
    if has_comma:
        text = pc.replace_substring(text, ",", ".")
    try:
        return np.asarray(text.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    except pa.ArrowInvalid:
        text = pc.replace_substring_regex(text, _NUMPY, r"\1")
        text = pc.replace_substring_regex(text, r"^\+", "")
        text = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, pa.scalar(None, pa.string()))
        return np.asarray(text.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
