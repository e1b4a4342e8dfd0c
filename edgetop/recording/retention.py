"""What the user wants kept of a session, and how safely."""

from dataclasses import dataclass

FSYNC_INTERVAL_NS = 5_000_000_000  # SD cards wear with each


@dataclass(frozen=True, slots=True)
class Retention:
    raw: bool = True  # single inferences
    max_bytes: int | None = None  # of the folder: beyond it the oldest single inferences go
    fsync_interval_ns: int = FSYNC_INTERVAL_NS
