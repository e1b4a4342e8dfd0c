"""The board that `--sysroot` names: a tree, or the folder that a capture was unpacked in."""

import pytest

from edgetop.cli.board import board_root
from edgetop.errors import InputError
from tests.support.trees import plant


def test_without_it_this_machine_is_meant() -> None:
    assert board_root(None).is_host


def test_an_unpacked_capture_stands_for_its_tree(tmp_path) -> None:
    plant(tmp_path, {"tree/proc/stat": "captured", "notes.txt": ""})
    for folder in (tmp_path, tmp_path / "tree"):
        assert board_root(folder).read_text("proc/stat") == "captured"


def test_a_board_that_has_a_folder_of_that_name_is_still_itself(tmp_path) -> None:
    plant(tmp_path, {"tree/proc/stat": "another", "proc/stat": "its own"})
    assert board_root(tmp_path).read_text("proc/stat") == "its own"


def test_what_is_no_folder_is_refused(tmp_path) -> None:
    (tmp_path / "board.tar.gz").write_text("")
    for name in ("gone", "board.tar.gz"):
        with pytest.raises(InputError, match=rf"--sysroot .*{name}: no such folder \(unpack"):
            board_root(tmp_path / name)
