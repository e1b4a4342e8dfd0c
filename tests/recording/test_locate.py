"""Which recording is meant."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.recording.registry import locate, locate_live, register
from edgetop.recording.session_folder import WriterLock, write_manifest
from tests.support.recordings import first_manifest
from tests.support.sessions import session_id as of


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, session_id in (("soak-1", "aaaa1111"), ("soak-2", "aaaa2222"), ("demo", "bbbb3333")):
        keep(tmp_path / "home", name, session_id)
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    (tmp_path / "here").mkdir()
    os.chdir(tmp_path / "here")
    yield tmp_path / "here"
    os.chdir(before)


def keep(folder: Path, name: str, session_id: str) -> Path:
    (folder / f"{name}.edgetop").mkdir(parents=True)
    write_manifest(folder / f"{name}.edgetop", replace(first_manifest(name), id=of(session_id)))
    return folder / f"{name}.edgetop"


def refusal(given: str, home: Path) -> str:
    with pytest.raises(InputError) as caught:
        locate(given, home)
    assert str(caught.value).startswith(given)
    return str(caught.value)


@pytest.mark.parametrize("given", ["demo", "demo.edgetop", "dem", "bbbb", "bbbb3333"])
def test_a_recording_is_found_by_name_or_id_or_enough_of_them(home: Path, given: str) -> None:
    assert locate(given, home) == home / "demo.edgetop"


def test_a_recording_is_found_by_its_path(home: Path, tmp_path: Path) -> None:
    elsewhere = keep(tmp_path / "elsewhere", "soak", "cccc")
    assert locate(str(elsewhere), home) == elsewhere
    assert locate(str(elsewhere).removesuffix(".edgetop"), home) == elsewhere


def test_a_recording_is_found_by_its_path_from_here(home: Path, elsewhere: Path) -> None:
    keep(elsewhere / "deep", "soak", "cccc")
    for given in ("deep/soak.edgetop", "deep/soak", "deep/../deep/soak"):
        assert locate(given, home).resolve() == elsewhere / "deep/soak.edgetop"


def test_a_recording_here_goes_before_one_of_that_name_at_home(home: Path, elsewhere: Path) -> None:
    keep(elsewhere, "demo", "dddd")
    assert locate("demo", home).resolve() == elsewhere / "demo.edgetop"


def test_a_whole_name_goes_before_longer_ones(home: Path) -> None:
    keep(home, "soak", "eeee")
    assert locate("soak", home) == home / "soak.edgetop"


@pytest.mark.parametrize("given", ["soak", "aaaa"])
def test_what_fits_several_is_refused_with_their_names(home: Path, given: str) -> None:
    message = refusal(given, home)
    assert "fits 2 recordings" in message
    assert "soak-1.edgetop, soak-2.edgetop" in message


def test_three_letters_are_too_few_for_an_id(home: Path) -> None:
    assert "no such recording" in refusal("bbb", home)


def test_names_are_listed_where_they_are_few(home: Path) -> None:
    assert "known: demo, soak-1, soak-2" in refusal("zzz", home)
    for number in range(20):
        keep(home, f"night-{number}", f"dddd{number}")
    assert refusal("zzz", home) == "zzz: no such recording (edgetop sessions lists the 23 that are known)"


def test_an_unknown_name_is_refused_with_the_nearest(home: Path) -> None:
    assert "did you mean soak-1?" in refusal("soka-1", home)


@pytest.mark.parametrize("given", ["demo", "x" * 300, "a\0b", "a/b/c"])
def test_without_any_recording_it_is_said_where_was_looked(tmp_path: Path, given: str) -> None:
    assert f"none is recorded in {tmp_path / 'empty'}" in refusal(given, tmp_path / "empty")


def test_what_exists_and_is_no_recording_is_said_to_be_none(home: Path, elsewhere: Path) -> None:
    (elsewhere / "notes.txt").touch()
    assert "not a recorded session" in refusal("notes.txt", home)


def test_a_broken_recording_does_not_hide_the_others(home: Path) -> None:
    (home / "demo.edgetop/session.json").write_text("{")
    assert locate("aaaa1111", home) == home / "soak-1.edgetop"
    assert locate("demo", home) == home / "demo.edgetop"


def test_a_registered_recording_is_found_by_name_or_id(home: Path, tmp_path: Path) -> None:
    far = keep(tmp_path / "far", "night", "ffff9999")
    register(home, far, of("ffff9999"))
    for given in ("night", "nig", "ffff9"):
        assert locate(given, home) == far


def test_two_of_one_name_are_told_apart_by_their_paths(home: Path, tmp_path: Path) -> None:
    for place, session_id in (("far", "ffff1111"), ("away", "ffff2222")):
        register(home, keep(tmp_path / place, "night", session_id), of(session_id))
    assert f"{tmp_path}/far/night.edgetop" in refusal("night", home)
    assert locate("ffff2", home) == tmp_path / "away" / "night.edgetop"


# Those that run.


@pytest.fixture
def run(home: Path) -> Iterator[Callable[[str], Path]]:
    """Has a recording at home be written."""
    locks = []

    def begin(name: str) -> Path:
        folder = home / f"{name}.edgetop"
        (folder / "journal").mkdir()
        locks.append(WriterLock(folder))
        return folder

    yield begin
    for lock in locks:
        lock.release()


def test_without_a_name_the_one_that_runs_is_meant(home: Path, run: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match="no session runs now"):
        locate_live(None, home)
    folder = run("soak-2")
    assert locate_live(None, home) == folder
    run("demo")
    with pytest.raises(InputError, match=r"2 sessions run now \(name one: .*soak-2"):
        locate_live(None, home)


def test_of_several_that_fit_the_one_that_runs_is_meant(home: Path, run: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match="fits 2 recordings"):
        locate_live("soak", home)
    folder = run("soak-2")
    assert locate_live("soak", home) == folder
    assert locate_live("aaaa", home) == folder
    assert locate_live("soak-1", home) == home / "soak-1.edgetop"
    with pytest.raises(InputError, match="no such recording"):
        locate_live("nothing", home)
