"""The command line with a defect: `python -m tests.support.broken_program FOLD COUNT ARGUMENT...`.

That fold raises an error when it is fed for the next time after so many.
"""

import sys
from typing import Any

from edgetop.analysis.folds import FOLDS
from edgetop.cli.main import main


class BrokenError(Exception):
    """Of a fold that has a defect."""


def breaks(name: str, after: int) -> type:
    """The fold with the defect; one that is never fed has none."""
    kind = FOLDS[name]
    feeding = next((function for function in ("parts", "fold", "on_event") if hasattr(kind, function)), "")

    def fed(self: Any, *arguments: Any, **named: Any) -> Any:
        self.fed = getattr(self, "fed", 0) + 1
        if self.fed > after:
            raise BrokenError("on purpose")
        return getattr(kind, feeding)(self, *arguments, **named)

    return type(kind.__name__, (kind,), {feeding: fed} if feeding else {})


if __name__ == "__main__":
    FOLDS[sys.argv[1]] = breaks(sys.argv[1], int(sys.argv[2]))
    main(sys.argv[3:])
