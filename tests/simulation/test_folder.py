"""The board's folder: private, replaced file by file, and gone when its process is."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgetop.simulation.virtual_board import LOCK, PREFIX, BoardFolder, home, remove_abandoned

KILLED = """
import os, pathlib, signal, sys
from edgetop.simulation.virtual_board import BoardFolder
folder = BoardFolder(pathlib.Path(sys.argv[1]))
folder.write({"sys/x": "1"})
os.kill(os.getpid(), signal.SIGKILL)
"""


def boards(place: Path) -> list[Path]:
    return list(place.glob(f"{PREFIX}*"))


def test_it_is_for_its_owner_alone_and_is_removed(tmp_path: Path) -> None:
    folder = BoardFolder(tmp_path)
    folder.write({"sys/a/b": "1\n", "bytes": b"\0\xff"})
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert ((folder.tree / "sys/a/b").read_text(), (folder.tree / "bytes").read_bytes()) == ("1\n", b"\0\xff")
    assert {path.name for path in folder.tree.rglob("*")} == {"sys", "a", "b", "bytes"}
    folder.remove()
    assert boards(tmp_path) == []


def test_a_file_is_only_written_where_it_has_changed(tmp_path: Path) -> None:
    folder = BoardFolder(tmp_path)
    folder.write({"one": "1", "two": "2"})
    before = {name: (folder.tree / name).stat().st_ino for name in ("one", "two")}
    folder.write({"one": "1", "two": "3"})
    assert (folder.tree / "one").stat().st_ino == before["one"]
    assert (folder.tree / "two").stat().st_ino != before["two"]
    folder.remove()


def test_a_reader_has_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    folder = BoardFolder(tmp_path)
    texts = ["a" * 5000, "b" * 10_000]
    folder.write({"file": texts[0]})
    over = threading.Event()

    def rewrite() -> None:
        for i in range(100):
            folder.write({"file": texts[i % 2]})
        over.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    seen = set()
    while not over.is_set():
        seen.add((folder.tree / "file").read_text())
    writer.join()
    assert seen <= set(texts)
    folder.remove()


def test_only_the_folder_of_a_killed_board_is_removed(tmp_path: Path) -> None:
    living = BoardFolder(tmp_path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert len(boards(tmp_path)) == 2
    remove_abandoned(tmp_path)
    assert boards(tmp_path) == [living.path]
    living.remove()


def test_what_only_looks_like_a_board_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / LOCK).touch()
    (tmp_path / f"{PREFIX}link").symlink_to(precious)
    (tmp_path / f"{PREFIX}new").mkdir()  # a board that has no lock yet
    (tmp_path / f"{PREFIX}file").touch()
    remove_abandoned(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    assert (precious / LOCK).exists()


def test_it_lies_in_memory_where_there_is_such_a_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert home() == tmp_path
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert home() != tmp_path
    assert os.access(home(), os.W_OK)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc")  # has no free bytes
    assert home() != Path("/proc")
