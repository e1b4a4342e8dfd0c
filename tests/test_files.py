"""Files are written whole or not at all, no link leads a write elsewhere, and nothing is read without a bound."""

import contextlib
import errno
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetop.cli.printing.output_agreement_words import judge_of
from edgetop.cli.watching.watch import command as watch
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.tensor_values import read_array
from edgetop.errors import InputError, OutputError
from edgetop.files import open_regular, parse_json, read_file, read_json, read_text, read_toml, replacing, write_file
from edgetop.metrics.prometheus import Textfile
from edgetop.recording.export import export_formats
from edgetop.sensors.root import MAX_FILE_BYTES, Root
from edgetop.ui.themes import parse_theme


def test_a_link_at_the_place_is_replaced_and_its_target_is_left_alone(tmp_path):
    other = tmp_path / "authorized_keys"
    other.write_text("my key")
    other.chmod(0o600)
    place = tmp_path / "out.json"
    place.symlink_to(other)
    write_file(place, "new")
    assert not place.is_symlink()
    assert place.read_text() == "new"
    assert other.read_text() == "my key"
    assert stat.S_IMODE(other.stat().st_mode) == 0o600


def test_a_hard_link_at_the_place_loses_its_name_and_keeps_its_content(tmp_path):
    other, place = tmp_path / "other", tmp_path / "out.json"
    other.write_text("kept")
    os.link(other, place)
    write_file(place, b"new", 0o644)
    assert other.read_text() == "kept"
    assert other.stat().st_nlink == 1


def test_nobody_can_guess_the_name_that_a_file_has_until_it_is_whole(tmp_path):
    names = set()
    for _ in range(3):
        with replacing(tmp_path / "a.json") as file:
            file.write(b"x")
            file.flush()
            (name,) = (path.name for path in tmp_path.iterdir() if path.name.endswith(".partial"))
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
            names.add(name)
    assert len(names) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def stopped(file):
    file.write(b"half")
    raise KeyboardInterrupt


def test_an_error_leaves_the_file_that_was_there_and_nothing_else(tmp_path):
    place = tmp_path / "a.json"
    write_file(place, "old")
    with pytest.raises(KeyboardInterrupt), replacing(place) as file:
        stopped(file)
    with pytest.raises(OSError, match="No such file"):
        write_file(tmp_path / "no" / "a.json", "x")
    assert place.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "a.json", "x")
    assert not any(tmp_path.iterdir())


def test_a_name_of_the_greatest_length_can_be_written(tmp_path):
    write_file(tmp_path / ("n" * 255), "x")
    assert [path.name for path in tmp_path.iterdir()] == ["n" * 255]


ODD: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "large": lambda path: path.write_bytes(b" " * 2000),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_small_file_is_refused_at_once(kind, tmp_path):
    path = tmp_path / "odd"
    ODD[kind](path)
    for read in (read_file, read_text, read_json, read_toml):
        with pytest.raises(OSError, match=r"larger than|not a regular file|No such device"):
            read(path, 1000)


def test_a_log_is_never_opened_through_a_link(tmp_path):
    (tmp_path / "run.log").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "run.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    assert not (tmp_path / "other").exists()


def test_a_link_of_the_user_leads_to_his_file(tmp_path):
    (tmp_path / "mine.json").write_text('{"a": 1}')
    (tmp_path / "link.json").symlink_to(tmp_path / "mine.json")
    assert read_json(tmp_path / "link.json") == {"a": 1}


def test_a_pipe_that_a_shell_has_opened_is_read():
    with subprocess.Popen(["echo", "a.onnx"], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert read_text(Path(f"/dev/fd/{process.stdout.fileno()}")) == "a.onnx\n"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{", "\x00", '"\ud800'.encode("utf-8", "replace")])
def test_hostile_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_deeply_nested_toml_is_a_value_error(tmp_path):
    (tmp_path / "a.toml").write_text("x = " + "[" * 100_000)
    with pytest.raises(ValueError, match="nested too deep"):
        read_toml(tmp_path / "a.toml")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["deep", "pipe", "zero", "long", "binary"])
def test_a_hostile_theme_is_told_in_one_line(kind, tmp_path):
    path = tmp_path / f"{kind}.toml"
    made: dict[str, Callable[[], object]] = {
        "deep": lambda: path.write_text("x = " + "[" * 100_000),
        "pipe": lambda: os.mkfifo(path),
        "zero": lambda: path.symlink_to("/dev/zero"),
        "long": lambda: path.write_text("#" * 2_000_000),
        "binary": lambda: path.write_bytes(b"\xff\x00"),
    }
    made[kind]()
    with pytest.raises(InputError, match="cannot be read: ") as caught:
        parse_theme(path)
    assert "\n" not in str(caught.value)


def test_metrics_in_a_folder_of_others_write_through_no_link(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    folder = tmp_path / "prom"
    folder.mkdir(mode=0o1777)
    for name in (".edgetop-1.tmp", "edgetop-1.prom"):
        (folder / name).symlink_to(secret)
    before = os.umask(0o077)
    try:
        textfile = Textfile(folder)
        assert textfile.send(()) == ""
    finally:
        os.umask(before)
    assert secret.read_text() == "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "edgetop-1.prom").lstat().st_mode) == 0o644  # node_exporter is another user
    textfile.close()


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_a_lock_of_metrics_is_refused(tmp_path):
    os.mkfifo(tmp_path / ".edgetop-1.lock")
    with pytest.raises(InputError, match="cannot be written: not a regular file"):
        Textfile(tmp_path)


@pytest.mark.timeout(20)
def test_pipes_devices_and_endless_files_of_a_captured_board_are_no_readings(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse").open("xb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    names = ["sparse"]
    with contextlib.suppress(PermissionError):  # of a user, or in a container without devices
        os.mknod(tmp_path / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        names.append("zero")
    root = Root(tmp_path)
    assert root.read_bytes("pipe") == b""  # nobody writes: it is not waited for
    for name in names:
        for read in (root.read_bytes, lambda name: root.file(name).read_bytes()):
            with pytest.raises(OSError, match=r"too large|a device|not permitted|denied"):
                read(name)


@pytest.mark.timeout(20)
def test_arrays_and_logs_that_the_user_names_are_regular_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "huge.npy").write_bytes(
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999,), }".ljust(128)
    )
    for name, why in (("pipe.npy", "not a regular file"), ("huge.npy", "not an array")):
        with pytest.raises(InputError, match=why):
            judge_of(tmp_path / name, None)
        with pytest.raises(EngineError, match=r"not a regular file|not an array file"):
            read_array(str(tmp_path / name), "x")
    words = ["--app-output", str(tmp_path / "pipe.npy"), "--", "true"]
    with pytest.raises(InputError, match="--app-output"):
        watch.main(words, standalone_mode=False)


@pytest.mark.timeout(20)
def test_a_pipe_that_nobody_reads_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(export_formats, "READER_S", 0.0)
    os.mkfifo(tmp_path / "pipe")
    output = export_formats.NamedOutput(tmp_path / "pipe")
    with pytest.raises(OutputError, match="cannot be written: No such device"), output.stream(is_text=True):
        pass
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with output.stream(is_text=True) as stream:
        stream.write(b"x")
    assert os.read(reader, 10) == b"x"
    os.close(reader)
