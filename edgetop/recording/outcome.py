"""What a session came to, in three figures: kept beside its tables, so that a list need not read them.

It follows from the tables and can be deleted at any time. It counts only for the manifest and the version of edgetop
that it was made of: a copy of a session and a newer edgetop judge anew.
"""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgetop import __version__
from edgetop.recording.files import MANIFEST, open_regular
from edgetop.session.manifest import built

FILE = "outcome.json"
MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: str  # in a few words: "throttled 6x, 22 %"
    p50_ms: float | None = None  # None: nothing was measured
    p99_ms: float | None = None


def read_outcome(folder: Path) -> Outcome | None:
    """None where there is none for this manifest, or it cannot be read."""
    try:
        with os.fdopen(open_regular(folder / FILE), "rb") as file:
            document: Any = json.loads(file.read(MAX_BYTES))
        if document.pop("of") != _of(folder):
            return None
        return built(Outcome, document, FILE)
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Where it can be written; a list is only slower without."""
    with contextlib.suppress(OSError):
        temporary = folder / f"{FILE}.tmp"
        text = json.dumps(asdict(outcome) | {"of": _of(folder)})
        with os.fdopen(open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
            file.write(text)
        temporary.replace(folder / FILE)


def _of(folder: Path) -> list[Any]:
    found = (folder / MANIFEST).stat()
    return [__version__, found.st_size, found.st_mtime_ns]
