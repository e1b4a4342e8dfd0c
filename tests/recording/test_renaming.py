"""A renamed session is found by its new name, and nothing else of it changes."""

import json
import shutil
from pathlib import Path

import pytest

from edgetop.errors import EdgetopError
from edgetop.recording.registry import all_sessions, locate
from edgetop.recording.renaming import rename_session
from edgetop.recording.session_folder import MANIFEST, WriterLock

V1 = Path(__file__).parents[1] / "recordings/v1"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return Path(shutil.copytree(V1 / "finished.edgetop", tmp_path / "elsewhere" / "one.edgetop"))


def test_folder_and_manifest_have_the_new_name(session: Path, tmp_path: Path) -> None:
    home, before = tmp_path / "home", json.loads((session / MANIFEST).read_text())
    (session / MANIFEST).write_text(json.dumps({**before, "of a later edgetop": 1}))
    renamed = rename_session(session, "after the fan", home)
    assert (renamed.name, session.exists()) == ("after the fan.edgetop", False)
    assert json.loads((renamed / MANIFEST).read_text()) == {**before, "name": "after the fan", "of a later edgetop": 1}
    assert all_sessions(home) == [renamed]
    assert locate("after the", home) == renamed


@pytest.mark.parametrize(
    ("name", "reason"),
    [("taken", "exists already"), ("../x", "cannot be a part of a path"), ("", "cannot be a part of a path")],
)
def test_a_name_that_cannot_be_used_changes_nothing(session: Path, tmp_path: Path, name: str, reason: str) -> None:
    (session.parent / "taken.edgetop").mkdir()
    before = (session / MANIFEST).read_bytes()
    with pytest.raises(EdgetopError, match=reason):
        rename_session(session, name, tmp_path)
    assert (session / MANIFEST).read_bytes() == before


def test_neither_a_link_nor_a_session_that_is_being_written_is_renamed(session: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.edgetop"
    link.symlink_to(session)
    with pytest.raises(EdgetopError, match="is a link"):
        rename_session(link, "two", tmp_path)
    lock = WriterLock(session)
    with pytest.raises(EdgetopError, match="is writing it"):
        rename_session(session, "two", tmp_path)
    lock.release()
    assert session.is_dir()


def test_a_folder_that_cannot_be_renamed_keeps_its_name_in_the_manifest(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path, __: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", fail)
    before = json.loads((session / MANIFEST).read_text())
    with pytest.raises(EdgetopError, match=r"cannot be renamed: Permission denied"):
        rename_session(session, "two", tmp_path)
    assert json.loads((session / MANIFEST).read_text()) == before
