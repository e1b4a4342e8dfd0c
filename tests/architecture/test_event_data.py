"""Behind the codec nothing looks into an event's data: a reader of a field that went away is an error of types."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "edgetop"
CODEC = "session/event_codec.py"
# Where an event's data leaves edgetop, or is shown key by key.
WRITES_IT = {
    "recording/columns.py": "the event table",
    "recording/packing.py": "the journal and the wire",
    "recording/export/to_perfetto.py": "another format",
    "ui/panes/events_pane.py": "the detail of an event lists its data",
    "wording/notice_words.py": "a notice repeats the event's figures",
}


def test_nothing_reads_the_data_of_an_event_but_the_codec() -> None:
    found = [place for path in _sources() for place in _readers(path)]
    assert found == []


def test_the_plain_data_of_events_is_made_only_where_it_leaves() -> None:
    users = {_name(path) for path in _sources() if "event_codec import data_of" in path.read_text()}
    assert users == set(WRITES_IT)


def test_the_phase_of_a_session_is_asked_of_one_fold() -> None:
    """`session.phases`. The others write these events, show them, or need to know that one came."""
    folds = (path for path in _sources() if _name(path).startswith(("analysis/", "recording/", "metrics/", "ui/")))
    readers = {_name(path) for path in folds if "PhaseBegan" in path.read_text()}
    assert readers == {"analysis/progress.py", "ui/panes/events_pane.py"}


def test_a_reader_of_data_is_found(tmp_path: Path) -> None:
    path = tmp_path / "reader.py"
    path.write_text("def f(event):\n    return event.data['x'], event.body.read_from, event.whole('n')\n")
    assert len(list(_readers(path))) == 3


def _sources() -> Iterator[Path]:
    return (path for path in sorted(PACKAGE.rglob("*.py")) if _name(path) != CODEC)


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _readers(path: Path) -> Iterator[str]:
    text = path.read_text()
    if not re.search(r"\.\s*(data|whole|read_from)\b", text):  # most files need no parsing
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and _is_of_event(node):
            yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def _is_of_event(node: ast.Attribute) -> bool:
    if node.attr not in ("data", "whole"):
        return node.attr == "read_from"
    return ast.unparse(node.value).rpartition(".")[2] in ("event", "body")
