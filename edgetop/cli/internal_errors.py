"""Reports internal errors of the analysis: a line at the end of a command, and a file to send as a bug report."""

import hashlib
import platform
from collections.abc import Sequence

from edgetop import __version__
from edgetop.analysis.faults import Fault
from edgetop.errors import OutputError
from edgetop.paths import home, recordings_home
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.wording.fault_words import fault_words

FOLDER = "internal-errors"  # beside the recordings


def words(faults: Sequence[Fault]) -> str:
    """Write a file for a bug report, and return a line that describes the errors and names the file."""
    first, more = faults[0], len(faults) - 1
    session = f"{first.session}: " if first.session else ""
    others = f", and {more} more" if more else ""
    return f"{session}{first.name}: {fault_words(first)}{others}; the other results are valid ({_to_send(faults)})"


def _to_send(faults: Sequence[Fault]) -> str:
    """Write a file for a bug report, and return the advice to send it. The same errors always give the same file."""
    text = document(faults)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = recordings_home() / FOLDER / f"{name}.txt"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedOutput(path, force=True, elsewhere="").stream(is_text=True) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except (OSError, OutputError) as error:
        return f"the file for a bug report could not be written: {error}"
    return f"please report it with {path}, which holds only versions and tracebacks: edgetop help report"


def document(faults: Sequence[Fault]) -> str:
    """Return the text of the file for a bug report.

    It has versions and tracebacks, and no data or names of the session.
    """
    head = f"edgetop {__version__}, Python {platform.python_version()}, {platform.machine()}\n"
    parts = (f"\n{fault.name}\n{fault.traceback}" for fault in faults)
    return "".join((head, *parts)).replace(str(home()), "~")
