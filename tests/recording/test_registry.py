"""Which sessions are found, wherever they were recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.recording.registry import REGISTER, all_sessions, live_sessions, locate, register, successor
from edgetop.recording.session_folder import JOURNAL, LOCK, MANIFEST, WriterLock, is_live, write_manifest
from tests.support.recordings import first_manifest
from tests.support.sessions import session_id as of


def keep(folder: Path, session_id: str, created: str = "2026-11-21T10:00:00.000000Z") -> Path:
    folder.mkdir(parents=True)
    write_manifest(folder, replace(first_manifest(folder.stem), id=of(session_id), created_utc=created))
    return folder


def running(folder: Path, session_id: str, created: str) -> tuple[Path, WriterLock]:
    keep(folder, session_id, created)
    (folder / JOURNAL).mkdir()
    return folder, WriterLock(folder)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_a_registered_session_elsewhere_is_found_from_home(home: Path, tmp_path: Path) -> None:
    at_home, far = keep(home / "a.edgetop", "aaaa"), keep(tmp_path / "far" / "b.edgetop", "bbbb")
    register(home, far, of("bbbb"))
    assert all_sessions(home) == [at_home, far]
    assert (home / REGISTER).stat().st_mode & 0o777 == 0o700


def test_one_at_home_needs_no_link(home: Path) -> None:
    register(home, keep(home / "a.edgetop", "aaaa"), of("aaaa"))
    assert not (home / REGISTER).exists()


def test_one_that_is_found_twice_is_one(home: Path, tmp_path: Path) -> None:
    far = keep(tmp_path / "far" / "b.edgetop", "bbbb")
    register(home, far, of("bbbb"))
    (tmp_path / "link").symlink_to(tmp_path / "far")
    assert all_sessions(home, tmp_path / "far") == [far]
    assert all_sessions(home, tmp_path / "link") == [far]


def test_a_link_to_another_session_or_to_none_is_removed(home: Path, tmp_path: Path) -> None:
    for name, now in (("gone", None), ("other", "cccc"), ("garbage", "")):
        register(home, keep(tmp_path / f"{name}.edgetop", name), of(name))
        manifest = tmp_path / f"{name}.edgetop" / MANIFEST
        if now is None:
            manifest.unlink()
        elif now:
            write_manifest(manifest.parent, replace(first_manifest(), id=of(now)))
        else:
            manifest.write_text("{")
    (home / REGISTER / "file").touch()
    (home / REGISTER / "loop").symlink_to(home / REGISTER / "loop")
    assert all_sessions(home) == []
    assert [path.name for path in (home / REGISTER).iterdir()] == ["file"], "which is no link, so not ours"


def test_sessions_that_follow_each_other_in_a_circle_come_to_an_end(home: Path) -> None:
    """A manifest may name itself, or one before it, as the session that follows."""
    for name, origin_ns, following in (("a", 5, "b"), ("b", 7, "c"), ("c", 9, "a"), ("d", 3, "d")):
        manifest = replace(first_manifest(name), id=of(name), followed_by=of(following))
        keep(home / f"{name}.edgetop", name)
        write_manifest(
            home / f"{name}.edgetop", replace(manifest, clock=replace(manifest.clock, origin_monotonic_ns=origin_ns))
        )
    places = {name: home / f"{name}.edgetop" for name in "abcd"}
    assert [successor(places[name]) for name in "abcd"] == [places["b"], places["c"], None, None]


def test_a_link_is_made_for_ids_alone(home: Path, tmp_path: Path) -> None:
    """The id of a pulled session once led to a file of the user's, which the link replaced."""
    far = keep(tmp_path / "far" / "b.edgetop", "bbbb")
    precious = tmp_path / "precious"
    precious.write_text("of the user")
    for hostile in (str(precious), "../../precious", "", ".."):
        with pytest.raises(InputError, match="the id"):
            register(home, far, hostile)
    assert precious.read_text() == "of the user"
    (home / REGISTER).mkdir(parents=True, exist_ok=True)
    (home / REGISTER / of("bbbb")).write_text("no link")
    with pytest.raises(FileExistsError):
        register(home, far, of("bbbb"))


def test_where_nothing_was_ever_recorded_nothing_is_known(home: Path) -> None:
    assert all_sessions(home) == []
    assert live_sessions(home) == []


def test_a_home_that_cannot_be_read_is_not_called_empty(tmp_path: Path) -> None:
    """As that of another user is. Root may read that, but no name this long."""
    home = tmp_path / ("n" * 300)
    for find in (lambda: all_sessions(home), lambda: live_sessions(home), lambda: locate("soak", home)):
        with pytest.raises(InputError, match=r"cannot be read: File name too long \(XDG_STATE_HOME names another"):
            find()
    at_home = keep(tmp_path / "home" / "a.edgetop", "aaaa")
    assert all_sessions(tmp_path / "home", here=home) == [at_home]


def test_those_that_run_come_the_newest_first(home: Path, tmp_path: Path) -> None:
    keep(home / "over.edgetop", "0000")
    one, lock = running(home / "one.edgetop", "1111", "2026-11-21T10:00:00.000000Z")
    two, other_lock = running(tmp_path / "far" / "two.edgetop", "2222", "2026-11-21T11:00:00.000000Z")
    register(home, two, of("2222"))
    assert [folder for folder, _ in live_sessions(home)] == [two, one]
    other_lock.release()
    assert [folder for folder, _ in live_sessions(home)] == [one]
    lock.release()
    assert live_sessions(home) == []


def test_a_session_is_live_while_locked_and_checks_take_no_lock(tmp_path: Path) -> None:
    folder, lock = running(tmp_path / "s.edgetop", "1", "")
    assert is_live(folder)
    assert is_live(folder)
    lock.release()
    assert not is_live(folder)
    lock = WriterLock(folder, for_recovery=True)
    assert not is_live(folder)
    lock.release()
    assert not is_live(folder)
    (folder / LOCK).unlink()
    assert not is_live(folder)


def test_an_empty_name_is_no_session(home: Path) -> None:
    keep(home / "only.edgetop", "1" * 36)
    with pytest.raises(InputError, match="an empty name is no session"):
        locate("", home)
