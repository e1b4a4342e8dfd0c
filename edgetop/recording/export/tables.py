"""The rows of a recording that can be believed, as Arrow tables with the columns of the format."""

from collections.abc import Iterator

import pyarrow as pa

from edgetop.recording.columns import to_arrow
from edgetop.recording.reader import Recording
from edgetop.recording.rows import Span


def sound_tables(recording: Recording, name: str, span: Span) -> Iterator[pa.Table]:
    """In pieces of bounded size. What could not be read is told in `recording.problems`."""
    sensor_ids = [info.id for info in recording.manifest.sensors]
    for rows in recording.rows(name, span):
        yield to_arrow(name, rows, sensor_ids)
