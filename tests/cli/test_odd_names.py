"""Names with spaces, dashes and bytes that are not UTF-8: sessions can be read, and printed commands copied."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

from edgetop.cli.shell_words import path_word, session_word
from tests.support import onnx_models
from tests.support.commands import edgetop
from tests.support.recordings import played
from tests.support.thorough import mostly_thorough

GOLDEN = Path(__file__).parents[1] / "recordings/v1/finished.edgetop"
NOT_UTF8 = Path(os.fsdecode(b"caf\xe9"))  # as it is called on a disk from a machine with Latin-1


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, folder))


def test_a_folder_whose_name_is_not_utf8_loses_nothing(tmp_path: Path) -> None:
    folder = copied(tmp_path / NOT_UTF8 / "one.edgetop")
    assert str(played(folder)) == str(played(GOLDEN))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    mostly_thorough(
        [("report",), ("bundle", "-o", "out.zip"), ("export", "--to", "parquet", "-o", "out.parquet"),
         ("export", "--to", "session", "-o", "out"), ("push", "lake"), ("tail",)],
        ("report",), ("export", "--to", "session", "-o", "out"), ("tail",),
    ),
    ids=lambda words: "-".join(words[:3:2]),
)  # fmt: skip
def test_commands_read_a_session_in_a_folder_whose_name_is_not_utf8(words: tuple[str, ...], tmp_path: Path) -> None:
    folder = copied(tmp_path / NOT_UTF8 / "one.edgetop")
    command, *options = words
    done = edgetop(command, str(folder), *options, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "damaged" not in done.stderr


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/edgetop"


def test_a_name_that_leads_to_the_session_is_its_word(home: Path) -> None:
    assert session_word(copied(home / "soak-1.edgetop")) == "soak-1"
    assert session_word(copied(home / "my soak.edgetop")) == "'my soak'"


def test_a_name_that_leads_elsewhere_is_no_word(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dashed, other = copied(home / "-rf.edgetop"), copied(tmp_path / "elsewhere/soak-1.edgetop")
    copied(home / "soak-1.edgetop")
    assert [session_word(dashed), session_word(other)] == [str(dashed), str(other)]


def test_a_path_that_looks_like_an_option_gets_its_folder() -> None:
    assert [path_word(Path("-o")), path_word("--to"), path_word("a/-o")] == ["./-o", "./--to", "a/-o"]


@pytest.mark.slow
def test_the_printed_way_to_the_report_can_be_copied(tmp_path: Path) -> None:
    (tmp_path / "my model -v2.onnx").write_bytes(onnx_models.onnx_tiny())
    options = ("--headless", "--runs", "5", "--profile-every", "0")
    done = edgetop("run", "my model -v2.onnx", *options, home=tmp_path)
    printed = done.stdout.splitlines()[-1]
    assert printed.startswith("more: edgetop report ")
    _, *command = shlex.split(printed.removeprefix("more: "))
    assert edgetop(*command, home=tmp_path).stdout.startswith("FINISHED")
