"""The note beside a journal that says what could not be written, as on a full disk."""

import contextlib
import os
import re
from pathlib import Path

from edgetop.files import open_regular, sync_folder
from edgetop.frozen import frozen
from edgetop.recording.session_folder import names_in

_UNWRITTEN = re.compile(r"unwritten-(\d{1,17})-(\d{1,18})-(\d{1,18})")


@frozen
class Unwritten:
    inferences: int = 0  # number that were neither in the journal nor in the tables when this was noted
    ns: int = 0  # session time in which they ran, without the time since the journal's last batch
    until_ns: int = 0  # session time at which data waited for the disk; still waiting if the last batch is older

    @property
    def name(self) -> str:
        return f"unwritten-{self.inferences}-{self.ns}-{self.until_ns}"


class UnwrittenNote:
    """A note on the disk of how much data the disk did not accept: the name of an empty file, which needs no space."""

    def __init__(self, journal: Path) -> None:
        """Create a note that says "nothing" in the folder `journal`. Raises OSError."""
        self._journal = journal
        self.noted = Unwritten()
        os.close(open_regular(journal / self.noted.name, os.O_RDWR | os.O_CREAT))

    def note(self, unwritten: Unwritten) -> None:
        """Change the note to `unwritten`, by renaming its file. Errors are ignored, because the folder is gone then."""
        if unwritten == self.noted:
            return
        is_first = self.noted == Unwritten()
        with contextlib.suppress(OSError):
            (self._journal / self.noted.name).replace(self._journal / unwritten.name)
            self.noted = unwritten
            if is_first:
                sync_folder(self._journal)


def read_unwritten(journal: Path) -> Unwritten:
    """Return how much data the disk did not accept, as the writer noted it in the folder `journal`.

    Without a note, the result is an empty `Unwritten`.
    """
    try:
        notes = [match for name in names_in(journal) if (match := _UNWRITTEN.fullmatch(name))]
    except OSError:
        return Unwritten()
    return max((Unwritten(*map(int, match.groups())) for match in notes), key=lambda u: u.until_ns, default=Unwritten())
