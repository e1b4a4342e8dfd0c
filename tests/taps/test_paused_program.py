"""A program that is ready and waits: what it inherits, whose memory counts as its peak, and how it fails."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.taps.paused_program import PausedProgram

SHOWS = """
import os, signal, sys
print(repr([sys.argv[1:], dict(os.environ), os.getpid() == os.getsid(0) == os.getpgrp(),
            signal.getsignal(signal.SIGINT) == signal.SIG_IGN, sorted(os.listdir('/proc/self/fd')), sys.stdin.read()]))
"""
IGNORED = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('SigIgn')])"


def output_of(*command: str, environment: dict[str, str] | None = None, **given: int) -> tuple[str, int]:
    """The output and the exit status of a program that was started and released."""
    read, write = os.pipe()
    program = PausedProgram(command, os.environ if environment is None else environment, stdout=write, **given)
    os.close(write)
    program.release()
    with os.fdopen(read) as file:
        return file.read(), os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1])


def test_it_gets_its_words_variables_input_and_session(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("given")
    words, variables = ["", "a b", "é\n", "--x"], {"A": "1=2\n", "E": "", "PATH": os.environ["PATH"]}
    with (tmp_path / "in").open() as file:
        text, status = output_of(
            sys.executable, "-I", "-S", "-c", SHOWS, *words, environment=variables, stdin=file.fileno()
        )
    argv, environment, is_leader, ignores_interrupt, descriptors, given = ast.literal_eval(text)
    assert (argv, status, is_leader, ignores_interrupt, given) == (words, 0, True, False, "given")
    assert {**environment, **variables} == {**environment}
    assert set(environment) - set(variables) <= {"LC_CTYPE"}
    assert {"0", "1", "2"} <= set(descriptors)


def test_it_ignores_the_signals_that_a_program_of_a_shell_ignores() -> None:
    bare = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True, check=True).stdout
    assert output_of(sys.executable, "-c", IGNORED)[0] == bare


def test_nothing_is_executed_before_the_release(tmp_path: Path) -> None:
    program = PausedProgram(["touch", str(tmp_path / "begun")], os.environ)
    assert Path(f"/proc/{program.pid}/cmdline").read_bytes().split(b"\0")[-7].endswith(b"starter.py")
    program.close()  # closes the pipes, as the kernel does when edgetop dies
    assert os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1]) != 0
    assert not (tmp_path / "begun").exists()


def test_the_peak_of_a_small_program_is_not_that_of_edgetop() -> None:
    held = bytearray(64 * 2**20)
    for place in range(0, len(held), 4096):
        held[place] = 1
    program = PausedProgram(["true"], os.environ)
    program.release()
    used = os.wait4(program.pid, 0)[2]
    assert used.ru_maxrss < 24 * 1024


def test_what_cannot_be_executed_is_an_error() -> None:
    program = PausedProgram(["/no/such/program"], os.environ)
    with pytest.raises(FileNotFoundError):
        program.release()


def test_a_cgroup_that_cannot_be_entered_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PausedProgram(["true"], os.environ, cgroups=[str(tmp_path / "none/cgroup.procs")])


def test_it_enters_each_cgroup(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("a", "b")]
    for place in places:
        place.write_text("")
    program = PausedProgram(["true"], os.environ, cgroups=list(map(str, places)))
    assert [place.read_text() for place in places] == [str(program.pid)] * 2
    program.release()
    os.waitpid(program.pid, 0)


def test_a_scope_that_fails_is_an_error() -> None:
    with pytest.raises(InputError, match="false ended with exit status 1"):
        PausedProgram(["true"], os.environ, prefix=["false"])


def test_a_signal_ends_it_as_it_ends_any_program() -> None:
    program = PausedProgram(["sh", "-c", "kill -TERM $$"], os.environ)
    program.release()
    assert os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1]) == -signal.SIGTERM
