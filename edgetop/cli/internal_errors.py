"""What a command says in the end of errors of edgetop in its own analysis, and the file that it leaves to be sent."""

import hashlib
import platform
from collections.abc import Sequence
from pathlib import Path

from edgetop import __version__
from edgetop.analysis.faults import Fault
from edgetop.errors import OutputError
from edgetop.paths import recordings_home
from edgetop.recording.export.export_formats import NamedOutput

FOLDER = "internal-errors"  # beside the recordings


def words(faults: Sequence[Fault]) -> str:
    """Return one line on these faults, with the file to send, which is written now."""
    first, more = faults[0], len(faults) - 1
    session = f"{first.session}: " if first.session else ""
    others = f", and {more} more" if more else ""
    return f"{session}{first.name}: {first.words}{others}; the rest stands ({_to_send(faults)})"


def _to_send(faults: Sequence[Fault]) -> str:
    """Write the file and say what to send. The same errors are one file, however often they occur."""
    text = document(faults)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = recordings_home() / FOLDER / f"{name}.txt"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedOutput(path, force=True, elsewhere="").stream(is_text=True) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except (OSError, OutputError) as error:
        return f"what to report could not be written: {error}"
    return f"report it with {path}, which holds versions and tracebacks alone; what else helps: edgetop help report"


def document(faults: Sequence[Fault]) -> str:
    """Return what a developer needs: versions and tracebacks, without data or names of the session."""
    head = f"edgetop {__version__}, Python {platform.python_version()}, {platform.machine()}\n"
    parts = (f"\n{fault.name}\n{fault.traceback}" for fault in faults)
    return "".join((head, *parts)).replace(str(Path.home()), "~")
