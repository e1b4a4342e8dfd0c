"""What the disk has not taken, noted so that it outlives a writer to whom the disk gives no byte any more.

The note is the name of an empty file in the journal, for a file can be renamed on a full disk:
`unwritten-INFERENCES-NS-UNTIL`. Nothing is written into it, and nothing else counts what is missing.
"""

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from edgetop.recording.files import names_in, open_regular, sync_folder

_NAME = re.compile(r"unwritten-(\d{1,17})-(\d{1,18})-(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Unwritten:
    inferences: int = 0  # neither in the journal nor in the tables, when this was noted
    ns: int = 0  # session time in which they ran, without that since the journal's last batch
    until_ns: int = 0  # session time at which something waited for the disk; behind the last batch: it still does

    @property
    def name(self) -> str:
        return f"unwritten-{self.inferences}-{self.ns}-{self.until_ns}"


class UnwrittenNote:
    """The writer's side."""

    def __init__(self, journal: Path) -> None:
        """Raises OSError."""
        self._journal = journal
        self.noted = Unwritten()
        os.close(open_regular(journal / self.noted.name, os.O_RDWR | os.O_CREAT))

    def note(self, unwritten: Unwritten) -> None:
        """Where even that is not possible, the folder is gone."""
        if unwritten == self.noted:
            return
        is_first = self.noted == Unwritten()
        with contextlib.suppress(OSError):
            (self._journal / self.noted.name).replace(self._journal / unwritten.name)
            self.noted = unwritten
            if is_first:
                sync_folder(self._journal)


def read_unwritten(journal: Path) -> Unwritten:
    """What a writer noted last; nothing, where it is of an earlier version."""
    try:
        found = [match for name in names_in(journal) if (match := _NAME.fullmatch(name))]
    except OSError:
        return Unwritten()
    return max((Unwritten(*map(int, match.groups())) for match in found), key=lambda u: u.until_ns, default=Unwritten())
