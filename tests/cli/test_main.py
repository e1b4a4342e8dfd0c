"""The edges of the program: streams that are gone or narrow must not end in a traceback."""

import subprocess
import sys

import pytest

from edgetop.cli.main import main
from tests.support.commands import environment
from tests.support.waiting import scaled

pytestmark = pytest.mark.slow


def shell(line, home, **more):
    """A line of shell in which `edgetop` is the program."""
    script = f'edgetop() {{ "{sys.executable}" -m edgetop "$@"; }}\n{line}'
    return subprocess.run(  # noqa: PLW1510  callers look at the exit status
        ["bash", "-c", script],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=scaled(60),
        env=environment(home, **more),
    )


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
