"""The rows of a recording that can be believed, as Arrow tables with the columns of the format."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from edgetop.recording import columns
from edgetop.recording.reader import Recording
from edgetop.recording.span import Span


def sound_tables(recording: Recording, name: str, span: Span) -> Iterator[pa.Table]:
    """In pieces of bounded size. What could not be read is told in `recording.problems`."""
    sensor_ids = [info.id for info in recording.manifest.sensors]
    to_arrow: dict[str, Callable[[Any], pa.RecordBatch]] = {
        "inferences": columns.inferences_to_arrow,
        "readings": lambda rows: columns.readings_to_arrow(rows, sensor_ids),
        "events": columns.events_to_arrow,
        "seconds": columns.seconds_to_arrow,
    }
    for rows in recording.rows(name, span):
        yield pa.Table.from_batches([to_arrow[name](rows)]) if name in to_arrow else rows
