"""The id of a board: stable, telling nothing of it."""

import uuid
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.lake.board import board_id


def test_it_is_the_same_each_time_and_another_on_each_machine(tmp_path: Path) -> None:
    machine = tmp_path / "machine-id"
    ids = []
    for _ in range(2):
        machine.write_text(uuid.uuid4().hex + "\n")
        ids.append(board_id(None, machine))
        assert board_id(None, machine) == ids[-1]
        assert machine.read_text()[:6] not in ids[-1]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("text", ["", "uninitialized\n", "00ff", "ä"])
def test_without_a_machine_id_one_is_to_be_chosen(tmp_path: Path, text: str) -> None:
    (tmp_path / "machine-id").write_text(text)
    with pytest.raises(InputError, match="--board-id"):
        board_id(None, tmp_path / "machine-id")


@pytest.mark.parametrize("chosen", ["", "42", "nan", "a/b", "..", "A", "a" * 64, "a b", "a=b", "a\n"])
def test_an_id_is_a_safe_name_that_is_no_number(chosen: str) -> None:
    with pytest.raises(InputError):
        board_id(chosen)


def test_a_chosen_id_is_taken() -> None:
    assert board_id("pi-07.lab") == "pi-07.lab"
