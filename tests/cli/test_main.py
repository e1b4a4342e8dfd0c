"""The edges of the program: streams that are gone or narrow must not end in a traceback."""

import io
import subprocess
import sys

import pytest

from edgetop.cli import command_group
from edgetop.cli.main import main
from edgetop.errors import EXIT_INTERRUPTED
from tests.support.commands import environment
from tests.support.thorough import mostly_thorough
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.any_python]


def shell(line, home, **more):
    """A line of shell in which `edgetop` is the program."""
    script = f'edgetop() {{ "{sys.executable}" -m edgetop "$@"; }}\n{line}'
    return subprocess.run(  # noqa: PLW1510  callers look at the exit status
        ["bash", "-c", script],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(home, **more),
    )


@pytest.mark.parametrize(
    "command", mostly_thorough(["sessions", "stop", "attach", "report", "service demo"], "sessions", "service demo")
)
def test_a_folder_that_was_removed_meanwhile_is_one_line(command, tmp_path):
    done = shell(f'mkdir gone && cd gone && rmdir "$PWD" && edgetop {command}', tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "edgetop: the current folder no longer exists (cd to another one)\n"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("edgetop report nowhere 2>&-", 2),
        ("edgetop help 2>&-", 0),
        ("edgetop nowhere 2>&-", 2),
        ("edgetop help | true; exit ${PIPESTATUS[0]}", 0),
    ],
)
def test_a_stream_that_is_closed_ends_in_no_traceback(line, code, tmp_path):
    done = shell(line, tmp_path)
    assert (done.returncode, done.stderr) == (code, "")


def test_a_stream_that_knows_few_characters_gets_question_marks(tmp_path):
    done = shell("edgetop report 中 2>&1", tmp_path, PYTHONIOENCODING="latin-1")
    assert done.returncode == 2
    assert done.stdout.startswith("edgetop: ?: no such recording")


def test_a_system_of_32_bits_is_refused_in_a_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("edgetop: needs a 64-bit system")


def test_what_ctrl_c_cut_off_comes_before_the_message(monkeypatch):
    """On one terminal, where the rest of a frame would wipe the message."""
    terminal = io.BytesIO()

    def cut_off(*_args, **_more):
        sys.stdout.write("half a frame ")
        raise KeyboardInterrupt

    monkeypatch.setattr(command_group.edgetop, "main", cut_off)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(terminal), "utf-8"))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(terminal, "utf-8", write_through=True))
    with pytest.raises(SystemExit) as left:
        main(["sensors"])
    assert left.value.code == EXIT_INTERRUPTED
    assert terminal.getvalue() == b"half a frame edgetop: interrupted\n"


INTERRUPTED_WHILE_LOADING = """
import sys

class Interrupting:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "click":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting)
from edgetop.cli.main import main
main(["sessions"])
"""


def test_an_interrupt_while_the_program_is_loaded_is_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_LOADING], env=environment(tmp_path), capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (EXIT_INTERRUPTED, "edgetop: interrupted\n")
