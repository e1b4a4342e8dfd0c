"""Bursts into Arrow columns and back: a row an operator. What is not known (FLOPs, bytes, origin) is null."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgetop.recording.packing import encodable
from edgetop.recording.schema import OPERATORS
from edgetop.recording.soundness import are_sound_operators
from edgetop.session.operators import Burst, Numbers, OperatorInfo, joined

_INFO = ("name", "op_type", "provider", "flops", "bytes", "origin")  # the fields of an OperatorInfo

MAX_KNOWN = 64  # a model runs in few ways
FEW_ROWS = 8_192  # a writer has fewer at a time, and does without Arrow's compute functions then: 10 MiB

Infos = tuple[OperatorInfo, ...]


def bursts_to_arrow(bursts: Sequence[Burst]) -> pa.RecordBatch:
    sizes = [len(burst) for burst in bursts]
    infos = [info for burst in bursts for info in burst.infos]
    columns = {
        "t_ns": np.repeat([burst.t_ns for burst in bursts], sizes),
        "burst": np.repeat([burst.number for burst in bursts], sizes),
        "position": np.fromiter(chain.from_iterable(map(range, sizes)), np.int64),
        "calls": _concatenated(burst.calls for burst in bursts),
        "total_ns": _concatenated(burst.total_ns for burst in bursts),
        **{name: [encodable(getattr(info, name)) for info in infos] for name in ("name", "op_type", "provider")},
        **{name: [getattr(info, name) for info in infos] for name in ("flops", "bytes")},
        "origin": [None if info.origin is None else encodable(info.origin) for info in infos],
    }
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in OPERATORS], schema=OPERATORS)


def _concatenated(arrays: Iterable[Numbers]) -> Numbers:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def as_table(table: pa.Table) -> pa.Table:
    """With the columns of the schema, whoever wrote it. Raises KeyError, pa.ArrowException."""
    columns = []
    for field in OPERATORS:
        if field.name in table.column_names or not field.nullable:
            columns.append(table[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(len(table), field.type))
    return pa.table(columns, schema=OPERATORS)


def sound_rows(table: pa.Table) -> pa.Table:
    """Those that can be true. Raises pa.ArrowException where the columns are not sound themselves."""
    table.validate(full=True)
    sound = are_sound_operators(*(np.asarray(table[name]) for name in ("t_ns", "calls", "total_ns")))
    return table if sound.all() else table.filter(pa.array(sound))


def bursts_from_arrow(pieces: Sequence[pa.Table], known: dict[Infos, Infos] | None = None) -> tuple[Burst, ...]:
    """The bursts of pieces that follow one another; where one ends, a burst may be cut.

    `known`: what other bursts have, to be shared with these.
    """
    shared: dict[Infos, Infos] = {} if known is None else known
    return joined(burst for piece in pieces for burst in _bursts(piece, shared))


def _bursts(table: pa.Table, known: dict[Infos, Infos]) -> Iterator[Burst]:
    if not len(table):
        return
    t_ns, number, calls, total_ns = (
        np.asarray(table[name]).astype(np.int64) for name in ("t_ns", "burst", "calls", "total_ns")
    )
    begins = np.flatnonzero((np.diff(t_ns) != 0) | (np.diff(number) != 0)) + 1
    ends = [*begins.tolist(), len(table)]
    codes, values = _coded(table)
    seen: dict[bytes, Infos] = {}
    begin = 0
    for end in ends:
        key = codes[begin:end].tobytes()
        if key not in seen:
            infos = _infos(codes[begin:end], values)
            seen[key] = known.setdefault(infos, infos) if len(known) < MAX_KNOWN else infos
        yield Burst(int(t_ns[begin]), int(number[begin]), seen[key], calls[begin:end], total_ns[begin:end])
        begin = end


def _coded(table: pa.Table) -> tuple[npt.NDArray[np.int32], list[list[object]]]:
    """For each row the places of what it is among the values of each column; each value is made once."""
    codes = np.empty((len(table), len(_INFO)), np.int32)
    values = []
    for place, name in enumerate(_INFO):
        codes[:, place], found = _encoded(table[name])
        values.append([*found, None])
    return codes, values


def _encoded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], list[object]]:
    """For each row the place of its value among all there are, which is behind their last where it has none."""
    if not pa.types.is_dictionary(column.type) and len(column) <= FEW_ROWS:
        rows = column.to_pylist()
        places = {value: place for place, value in enumerate(dict.fromkeys(rows))}
        return np.array([places[value] for value in rows], np.int32), list(places)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = encoded.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    found = whole.dictionary.to_pylist()
    return np.nan_to_num(np.asarray(whole.indices), nan=len(found)).astype(np.int32), found


def _infos(codes: npt.NDArray[np.int32], values: list[list[object]]) -> Infos:
    return tuple(
        OperatorInfo(*(value[code] for value, code in zip(values, row, strict=True))) for row in codes.tolist()
    )
