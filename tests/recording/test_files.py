"""The folder of a session and its manifest."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.errors import InputError
from edgetop.recording.session_folder import create_folder, read_manifest, session_folder, write_manifest
from edgetop.session.manifest import FORMAT_VERSION
from edgetop.session.manifest_codec import to_json
from tests.support.recordings import first_manifest


@pytest.mark.parametrize(
    ("output", "folder"),
    [("soak", "soak.edgetop"), ("soak.edgetop", "soak.edgetop"), ("a/v1.2", "a/v1.2.edgetop")],
)
def test_the_suffix_is_appended_where_it_is_missing(output: str, folder: str) -> None:
    assert session_folder(Path(output)) == Path(folder)


@pytest.mark.parametrize("output", ["/", ".", "..", ".edgetop"])
def test_a_folder_without_a_name_is_refused(output: str) -> None:
    with pytest.raises(InputError, match="no name of a session"):
        session_folder(Path(output))


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    create_folder(tmp_path / "a/b/s.edgetop")
    assert (tmp_path / "a/b/s.edgetop/journal").is_dir()


def refusal(folder: Path, **arguments: int) -> str:
    with pytest.raises(InputError) as caught:
        create_folder(folder, **arguments)
    assert str(folder) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["folder", "file", "link to nothing"])
def test_what_exists_is_not_written_over(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "s.edgetop"
    {"folder": folder.mkdir, "file": folder.touch, "link to nothing": lambda: folder.symlink_to("nowhere")}[kind]()
    assert "exists already" in refusal(folder)


def test_a_place_under_a_file_is_refused_for_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = refusal(tmp_path / "file/s.edgetop")
    assert "exists already" not in message
    assert f"{tmp_path}/file is not a folder" in message
    assert "Not a directory" in refusal(tmp_path / "file/deeper/s.edgetop")


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    assert "File name too long" in refusal(tmp_path / ("x" * 300 + ".edgetop"))


def test_a_disk_with_too_little_room_is_refused_before_the_run(tmp_path: Path) -> None:
    message = refusal(tmp_path / "s.edgetop", min_free_bytes=2**62)
    assert "disk is full" in message
    assert not (tmp_path / "s.edgetop").exists()


def test_a_manifest_comes_back(tmp_path: Path) -> None:
    manifest = replace(first_manifest(), labels={"fan": "off", "odd \udcff": "\0"}, name="\udce4")
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest


def test_a_reader_gets_the_whole_old_or_new_manifest(tmp_path: Path) -> None:
    write_manifest(tmp_path, first_manifest("old"))
    with (tmp_path / "session.json").open() as reading:
        write_manifest(tmp_path, first_manifest("new"))
        assert json.load(reading) == to_json(first_manifest("old"))
    assert read_manifest(tmp_path).name == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]


def test_what_a_crash_left_of_a_write_does_not_matter(tmp_path: Path) -> None:
    write_manifest(tmp_path, first_manifest("old"))
    (tmp_path / "session.json.tmp").write_text('{"format_version": 1, "id": "' + "half" * 10_000)
    assert read_manifest(tmp_path).name == "old"
    write_manifest(tmp_path, first_manifest("a"))
    assert read_manifest(tmp_path).name == "a"


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_manifest(folder)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def test_a_folder_without_a_manifest_is_no_session(tmp_path: Path) -> None:
    assert "not a recorded session" in refused(tmp_path)
    assert "not a recorded session" in refused(tmp_path / "absent")


def test_a_manifest_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "session.json").mkdir()
    assert "session.json: cannot be read: not a regular file" in refused(tmp_path)


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 99])
def test_a_newer_format_is_refused_with_what_to_do(tmp_path: Path, version: int) -> None:
    (tmp_path / "session.json").write_text(json.dumps({"format_version": version, "new": True}))
    message = refused(tmp_path)
    assert f"format {version}" in message
    assert "update edgetop" in message


GARBAGE = {
    "nothing": b"",
    "half": json.dumps(to_json(first_manifest())).encode()[:200],
    "no UTF-8": b'{"name": "\xff"}',
    "a list": b"[]",
    "an empty object": b"{}",
    "deep": b"[" * 100_000,
    "a number for no float": json.dumps({**to_json(first_manifest()), "load": {"rate_hz": 10**400}}).encode(),
    "sensors for people": json.dumps({**to_json(first_manifest()), "sensors": "temp/cpu"}).encode(),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_no_manifest_and_is_told(tmp_path: Path, kind: str) -> None:
    (tmp_path / "session.json").write_bytes(GARBAGE[kind])
    assert "not a manifest" in refused(tmp_path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = sorted(to_json(first_manifest()))


@settings(max_examples=80, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_a_manifest_with_any_value_in_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, object]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "session.json").write_text(json.dumps({**to_json(first_manifest()), **changes}))
    with contextlib.suppress(InputError):
        assert read_manifest(folder).format_version == FORMAT_VERSION


def test_keys_of_a_later_format_are_passed_over(tmp_path: Path) -> None:
    document = {**to_json(first_manifest()), "later": {"more": 1}}
    (tmp_path / "session.json").write_text(json.dumps(document))
    assert read_manifest(tmp_path) == first_manifest()
