"""Root: one captured board is all there is, and no read waits."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgetop.sensors.root import MAX_OPEN, READ_BYTES, Root, ThreadFiles
from tests.support.trees import link, plant
from tests.support.waiting import wait_until


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    plant(tmp_path / "outside", {"secret": "secret\n"})
    return tmp_path / "outside"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    plant(tmp_path / "tree", {"sys/inside": "inside\n"})
    return tmp_path / "tree"


LINKS_OUT = {
    "absolute": ("way", "{outside}/secret", "way"),
    "relative": ("sys/way", "../../outside/secret", "sys/way"),
    "through a folder": ("sys/way", "{outside}", "sys/way/secret"),
    "through a link inside": ("sys/way", "../step", "sys/way"),
}


@pytest.mark.parametrize("case", LINKS_OUT)
def test_a_link_that_leads_out_is_not_followed(tree: Path, outside: Path, case: str) -> None:
    name, target, asked = LINKS_OUT[case]
    link(tree, name, target.format(outside=outside))
    link(tree, "step", outside / "secret")
    root = Root(tree)
    with pytest.raises(FileNotFoundError):
        root.read_text(asked)
    assert not root.exists(asked)
    assert root.resolve(asked) is None


def test_the_names_of_a_folder_outside_are_not_told(tree: Path, outside: Path) -> None:
    link(tree, "sys/way", outside)
    assert Root(tree).names("sys/way") == []


@pytest.mark.parametrize("asked", ["../outside/secret", "sys/../../outside/secret", "{outside}/secret"])
def test_a_path_that_leads_out_is_refused(tree: Path, outside: Path, asked: str) -> None:
    with pytest.raises(FileNotFoundError):
        Root(tree).read_text(asked.format(outside=outside))


def test_a_sibling_folder_with_the_same_prefix_is_outside(tmp_path: Path) -> None:
    plant(tmp_path / "tree-2", {"secret": "secret"})
    (tmp_path / "tree").mkdir()
    with pytest.raises(FileNotFoundError):
        Root(tmp_path / "tree").read_text("../tree-2/secret")


def test_a_link_that_stays_inside_is_followed(tree: Path) -> None:
    link(tree, "class/device", "../sys/inside")
    root = Root(tree)
    assert root.read_text("class/device") == "inside"
    assert root.resolve("class/device") == "sys/inside"


def test_a_root_that_is_itself_a_link_is_where_it_leads(tree: Path, tmp_path: Path) -> None:
    link(tmp_path, "captured", tree)
    assert Root(tmp_path / "captured").read_text("sys/inside") == "inside"


def test_links_in_a_circle_are_an_error_like_any_other(tree: Path) -> None:
    link(tree, "sys/a", "b")
    link(tree, "sys/b", "a")
    root = Root(tree)
    with pytest.raises(OSError):
        root.read_text("sys/a")
    assert not root.exists("sys/a")
    assert root.names("sys/a") == []
    assert root.resolve("sys/a") is None


def test_a_file_without_data_yet_is_an_error_and_no_wait(tree: Path) -> None:
    os.mkfifo(tree / "sys/temp")
    writer = os.open(tree / "sys/temp", os.O_RDWR | os.O_NONBLOCK)
    try:
        with pytest.raises(BlockingIOError):
            Root(tree).read_text("sys/temp")
    finally:
        os.close(writer)


def test_a_pipe_without_a_writer_is_empty_and_no_wait(tree: Path) -> None:
    os.mkfifo(tree / "sys/temp")
    assert Root(tree).read_text("sys/temp") == ""


@pytest.mark.parametrize("asked", ["sys/absent", "sys", "sys/inside/deeper"])
def test_what_is_no_file_is_an_oserror(tree: Path, asked: str) -> None:
    with pytest.raises(OSError):
        Root(tree).read_text(asked)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"Raspberry Pi 5\0", "Raspberry Pi 5"),
        (b"vendor,board\0vendor,chip\0", "vendor,board\0vendor,chip"),
        (b"61400\n", "61400"),
        (b"", ""),
        (b"caf\xe9\n", "caf�"),
    ],
)
def test_text_comes_without_its_end_mark(tree: Path, content: bytes, text: str) -> None:
    assert plant(tree, {"file": content}).read_text("file") == text


def test_a_file_longer_than_one_read_is_read_whole(tree: Path) -> None:
    content = bytes(range(256)) * (READ_BYTES // 256 * 2 + 1)
    assert plant(tree, {"file": content}).read_bytes("file") == content


@pytest.mark.parametrize(("text", "number"), [("61400\n", 61400), ("-256000\n", -256000), (" 7\n", 7), ("+7", 7)])
def test_an_integer_is_read(tree: Path, text: str, number: int) -> None:
    assert plant(tree, {"file": text}).read_int("file") == number


@pytest.mark.parametrize("text", ["", "abc", "0x10", "1e3", "1.5", "1_0", "1 2", "٣", "²", "<unknown>", "9" * 400])
def test_what_the_kernel_would_not_print_is_no_integer(tree: Path, text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        plant(tree, {"file": text}).read_int("file")


def test_names_are_sorted_as_people_count(tree: Path) -> None:
    plant(tree, {f"zones/{name}": "" for name in ("zone10", "zone2", "zone1", "cooling_device0", "zone")})
    assert Root(tree).names("zones") == ["cooling_device0", "zone", "zone1", "zone2", "zone10"]


def test_the_names_of_no_folder_are_none(tree: Path) -> None:
    assert Root(tree).names("sys/absent") == []


def test_a_path_is_shown_as_the_board_would_name_it(tree: Path) -> None:
    assert Root(tree).absolute("sys/class/thermal") == "/sys/class/thermal"


def test_only_the_real_root_is_the_host(tree: Path) -> None:
    assert Root().is_host
    assert not Root(tree).is_host
    assert str(os.getpid()) in Root().names("proc")


def test_unreadable_when_captured_fails_alike_by_every_path(tmp_path: Path) -> None:
    files = {"unreadable.txt": "ENODATA sys/a/temp\nnonsense\nEFROB sys/a/load\n", "sys/a/temp": "", "sys/a/load": ""}
    root = plant(tmp_path, files)
    link(tmp_path, "sys/b", "a")
    for path, number in (("sys/a/temp", errno.ENODATA), ("sys/b/temp", errno.ENODATA), ("sys/a/load", errno.EIO)):
        with pytest.raises(OSError) as caught:
            root.read_text(path)
        assert caught.value.errno == number
        assert root.exists(path)


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_list_of_errors_that_is_no_file_is_none(tmp_path: Path, outside: Path, kind: str) -> None:
    plant(outside, {"list": "EIO sys/inside\n"})
    tree = tmp_path / "tree"
    plant(tree, {"sys/inside": "inside\n"})
    if kind == "pipe":
        os.mkfifo(tree / "unreadable.txt")
    else:
        link(tree, "unreadable.txt", outside / "list")
    assert Root(tree).read_text("sys/inside") == "inside"


def test_a_file_longer_than_asked_for_is_refused(tree: Path) -> None:
    root = Root(tree)
    assert root.read_bytes("sys/inside", 7) == b"inside\n"
    with pytest.raises(OSError, match="too large") as caught:
        root.read_bytes("sys/inside", 6)
    assert caught.value.errno == errno.EFBIG


def test_a_regular_file_is_told_from_all_else(tree: Path, outside: Path) -> None:
    os.mkfifo(tree / "pipe")
    link(tree, "way", outside / "secret")
    link(tree, "in", "sys/inside")
    root = Root(tree)
    assert [root.is_file(name) for name in ("sys/inside", "in", "sys", "pipe", "way", "gone")] == [True] * 2 + [
        False
    ] * 4


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("cpu-thermal\n", "cpu-thermal"),
        ("a\nb\n", "a"),
        ("NUL\0", "NUL"),
        (" padded \n", "padded"),
        ("\n", None),
        ("", None),
    ],
)
def test_the_first_line_is_what_it_says_or_nothing(tmp_path: Path, content: str, line: str | None) -> None:
    assert plant(tmp_path, {"file": content}).line("file") == line
    assert Root(tmp_path).line("absent") is None


def test_a_file_is_read_anew_through_one_descriptor() -> None:
    root = Root()
    files = [root.file("proc/self/status"), root.file("proc/stat")]
    before = [file.read_text() for file in files]
    assert [text.split()[0] for text in before] == ["Name:", "cpu"]
    wait_until(lambda: files[1].read_text() != before[1])
    assert root.open_files == 2
    files.clear()
    assert root.open_files == 0


def test_a_long_file_is_read_whole_through_its_descriptor() -> None:
    file = Root().file("proc/self/smaps")
    text = file.read_text()
    assert len(text) > READ_BYTES / 4
    assert file.read_text().splitlines()[0] == text.splitlines()[0]


def test_the_file_of_an_ended_process_is_an_error() -> None:
    root = Root()
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    file = root.file(f"proc/{process.pid}/stat")
    assert file.read_text().startswith(f"{process.pid} ")
    process.communicate(b"\n")
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            file.read_text()
    assert root.open_files == 0


def test_only_so_many_descriptors_are_kept() -> None:
    root = Root()
    files = [root.file("proc/stat") for _ in range(MAX_OPEN + 5)]
    assert all(file.read_text().startswith("cpu ") for file in files)
    assert root.open_files == MAX_OPEN


def test_a_captured_boards_file_may_be_replaced(tree: Path) -> None:
    file = plant(tree, {"temp": "1\n"}).file("temp")
    assert file.read_int() == 1
    plant(tree, {"new": "2\n"})
    (tree / "new").replace(tree / "temp")
    assert file.read_int() == 2
    (tree / "temp").unlink()
    assert file.line() is None
    with pytest.raises(FileNotFoundError):
        file.read_int()


@pytest.mark.parametrize(("content", "number"), [("7\n", 7), ("x\n", None), ("", None)])
def test_a_number_is_what_is_there_or_nothing(tree: Path, content: str, number: int | None) -> None:
    assert plant(tree, {"file": content}).number("file") == number
    assert Root(tree).number("absent") is None


def test_the_files_of_threads_stay_open_until_their_threads_end() -> None:
    root, end = Root(), threading.Event()
    files = ThreadFiles(root, os.getpid(), "schedstat")
    thread = threading.Thread(target=end.wait)
    thread.start()
    tid = str(thread.native_id)
    before = dict(files.read_texts())
    assert tid in before
    assert root.open_files == len(before) > 1
    assert dict(files.read_texts()).keys() >= {tid, str(os.getpid())}
    end.set()
    thread.join()
    wait_until(lambda: tid not in root.entries("proc/self/task"))
    assert dict(files.read_texts([tid, str(os.getpid())])).keys() == {str(os.getpid())}
    assert root.open_files == 1


def test_the_threads_of_an_ended_process_cannot_be_read() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    files = ThreadFiles(Root(), process.pid, "schedstat")
    assert len(list(files.read_texts())) == 1
    process.communicate(b"\n")
    with pytest.raises(FileNotFoundError):
        list(files.read_texts())
