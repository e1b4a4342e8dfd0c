"""No file of the program is longer than 500 lines: one idea each."""

from pathlib import Path

LONGEST = 500

# Files that may be longer, with the reason.
LONGER = {
    "edgetop/probe/hook/sitecustomize.py": "Python runs this one file first in programs of other people",
    "edgetop/ui/monitor_screen.py": "one class: the screen, its keys and what it remembers",
    "edgetop/analysis/folds.py": "one class: all folds of a session, in the order in which they take a batch",
}


def test_no_file_has_more_than_500_lines() -> None:
    lengths = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in Path("edgetop").rglob("*.py")}
    assert {path for path, length in lengths.items() if length > LONGEST} - LONGER.keys() == set()
