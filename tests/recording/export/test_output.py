import io
import os
from pathlib import Path

import pytest

from edgetop.errors import InputError, OutputError
from edgetop.recording.export.export_formats import NamedOutput, StreamOutput


class Terminal(io.BytesIO):
    def isatty(self):
        return True


def test_a_file_appears_when_it_is_complete(tmp_path):
    with NamedOutput(tmp_path / "out").stream(is_text=True) as file:
        file.write(b"all of it")
        assert not (tmp_path / "out").exists()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out": b"all of it"}


def test_a_folder_appears_when_it_is_complete(tmp_path):
    with NamedOutput(tmp_path / "out").folder() as folder:
        (folder / "one").write_text("1")
        assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "one"]


@pytest.mark.parametrize("cause", [KeyboardInterrupt, InputError("x")])
@pytest.mark.parametrize("kind", ["stream", "folder"])
def test_nothing_is_left_of_what_was_broken_off(kind, cause, tmp_path):
    output = NamedOutput(tmp_path / "out")
    opened = output.stream(is_text=True) if kind == "stream" else output.folder()
    with pytest.raises((KeyboardInterrupt, InputError)), opened:
        raise cause
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["stream", "folder"])
def test_what_a_killed_writer_left_goes_with_the_next_one_and_a_living_writers_stays(kind, tmp_path):
    def opened():
        output = NamedOutput(tmp_path / "out", force=True)
        return output.stream(is_text=False) if kind == "stream" else output.folder()

    with opened():
        living = {path.name for path in tmp_path.iterdir()}
        writer = os.fork()
        if not writer:
            left = opened()  # a name keeps it from being closed
            left.__enter__()
            os._exit(0)
        os.waitpid(writer, 0)
        assert len(list(tmp_path.iterdir())) == 2
        next_writer = opened()
        next_writer.__enter__()
        names = {path.name for path in tmp_path.iterdir()}
        assert len(names) == 2
        assert living < names
        next_writer.__exit__(None, None, None)
        (tmp_path / "out").rename(tmp_path / "next")
    assert {path.name for path in tmp_path.iterdir()} == {"out", "next"}


def test_what_is_called_like_a_partial_but_is_no_file_of_ours_stays(tmp_path):
    (tmp_path / "kept").write_text("kept")
    odd = tmp_path / f".out.{'0' * 16}.partial", tmp_path / f".out.{'1' * 16}.partial"
    odd[0].symlink_to(tmp_path / "kept")
    os.mkfifo(odd[1])
    with NamedOutput(tmp_path / "out").stream(is_text=False) as file:
        file.write(b"x")
    assert all(os.path.lexists(path) for path in odd)
    assert (tmp_path / "kept").read_text() == "kept"


def test_what_exists_is_replaced_only_by_force(tmp_path):
    (tmp_path / "out").write_text("before")
    with pytest.raises(InputError, match=r"exists already \(--force"):
        NamedOutput(tmp_path / "out")
    with NamedOutput(tmp_path / "out", force=True).stream(is_text=True) as file:
        file.write(b"after")
    assert (tmp_path / "out").read_text() == "after"


def test_a_link_counts_as_existing_wherever_it_leads(tmp_path):
    (tmp_path / "out").symlink_to("nowhere")
    with pytest.raises(InputError, match="exists already"):
        NamedOutput(tmp_path / "out")


def test_by_force_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "out").symlink_to(tmp_path / "kept")
    with NamedOutput(tmp_path / "out", force=True).stream(is_text=True) as file:
        file.write(b"after")
    assert ((tmp_path / "kept").read_text(), (tmp_path / "out").read_text()) == ("kept", "after")


@pytest.mark.parametrize("kind", ["stream", "folder"])
def test_a_folder_is_not_replaced_by_force_either(kind, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/kept").write_text("")
    output = NamedOutput(tmp_path / "out", force=True)
    with pytest.raises(InputError, match="out: "), output.stream(is_text=True) if kind == "stream" else output.folder():
        pass
    assert (tmp_path / "out/kept").exists()


@pytest.mark.parametrize("kind", ["stream", "folder"])
def test_a_place_that_is_not_there_is_one_line(kind, tmp_path):
    output = NamedOutput(tmp_path / "nowhere/out")
    opened = output.stream(is_text=True) if kind == "stream" else output.folder()
    with pytest.raises(OutputError, match="nowhere/out: cannot be written: No such file or directory"), opened:
        pass


def test_the_standard_output_takes_bytes_as_they_are():
    out = io.BytesIO()
    with StreamOutput(out).stream(is_text=True) as file:
        file.write(b"\x1b]0;owned\x07\n")
    assert out.getvalue() == b"\x1b]0;owned\x07\n"


def test_on_a_terminal_nothing_acts_however_it_is_cut():
    out = Terminal()
    text = 'a\x1b[2J,\u202e\x9b1m\r\u00fc\n"b"\n'.encode()
    with StreamOutput(out).stream(is_text=True) as file:
        for place in range(len(text)):
            file.write(text[place : place + 1])
    assert out.getvalue().decode() == 'a\\x1b[2J,\\u202e\\x9b1m\\rü\n"b"\n'


def test_a_binary_format_does_not_go_to_a_terminal():
    with pytest.raises(InputError, match="not for a terminal"), StreamOutput(Terminal()).stream(is_text=False):
        pass


def test_several_files_do_not_go_to_the_standard_output():
    with pytest.raises(InputError, match="several files"):
        StreamOutput(io.BytesIO()).folder()


def test_a_very_long_name_is_written_too(tmp_path):
    with NamedOutput(tmp_path / ("x" * 250)).stream(is_text=True):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x" * 250]


def test_a_terminal_that_is_named_shows_what_would_act():
    ours, theirs = os.openpty()
    place = Path(os.ttyname(theirs))
    with NamedOutput(place).stream(is_text=True) as file:
        file.write(b"\x1b[2J\n")
    assert os.read(ours, 100) == b"\\x1b[2J\r\n"
    with pytest.raises(InputError, match="not for a terminal"), NamedOutput(place).stream(is_text=False):
        pass
    assert place.is_char_device()
    os.close(ours)
    os.close(theirs)


def test_an_open_file_is_written_by_its_descriptor_number(tmp_path):
    with (
        (tmp_path / "out").open("wb") as held,
        NamedOutput(Path(f"/dev/fd/{held.fileno()}")).stream(is_text=True) as to,
    ):
        to.write(b"all of it")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"all of it")]
