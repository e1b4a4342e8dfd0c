"""A program that edgetop starts, as an engine: when it is ended, and when it goes on."""

import os
import signal
import sys
from pathlib import Path

import pytest

from edgetop.engines.engine_protocol import Died, Ended, LogLine
from edgetop.errors import InputError
from edgetop.probe import edgetop_probe as layout
from edgetop.taps.preload import preload_library, preloaded
from edgetop.taps.watched_program import HOOK, ProgramSpec, WatchedProgram
from tests.support.waiting import wait_until

SLEEPS = (sys.executable, "-S", "-c", "import time; print('ready', flush=True); time.sleep(60)")


@pytest.fixture
def started(tmp_path):
    programs = []

    def start(*command, **options):
        program = WatchedProgram(ProgramSpec(command, output=tmp_path / "out.txt", **options))
        program.start()
        programs.append(program)
        return program

    yield start
    for program in programs:
        program.close()
        end(program)


def end(program):
    if program.pid and program._exit_status() is None:
        os.killpg(program.pid, signal.SIGKILL)
        wait_until(lambda: program._exit_status() is not None)


def messages_until(program, kind):
    """All messages up to the first of this kind."""
    said = []
    wait_until(lambda: said.extend(program.poll().messages) or any(isinstance(one, kind) for one in said))
    return said


def test_closing_leaves_a_program_alone_and_names_it(started, tmp_path):
    program = started(*SLEEPS)
    program.poll()
    text = program.close()
    pid = program.pid
    assert text.endswith(f"as process {pid}; its output goes to {tmp_path / 'out.txt'}; kill {pid} ends it")
    assert program._exit_status() is None
    assert program.close() == text  # safe to call twice


def test_closing_says_nothing_of_a_program_that_has_ended(started):
    program = started("true")
    messages_until(program, Ended)
    assert program.close() == ""


def test_the_cpus_of_a_program_that_has_ended_before_the_first_look_are_known(started):
    program = started("true")
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    first = program.poll().messages
    assert [type(one).__name__ for one in first[:2]] == ["Started", "PhaseBegan"]
    assert os.sched_getaffinity(first[0].pid) == os.sched_getaffinity(0)
    messages_until(program, Ended)


def test_the_output_of_a_program_that_goes_on_is_kept_and_no_other_output(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for command, is_kept, awaited in ((("true",), False, Ended), (SLEEPS, True, LogLine)):
        program = WatchedProgram(ProgramSpec(command))
        program.start()
        assert not list(tmp_path.glob("edgetop-output-*"))  # so a killed edgetop leaves none
        messages_until(program, awaited)
        text = program.close()
        kept = list(tmp_path.glob("edgetop-output-*"))
        assert bool(kept) == is_kept
        assert all(str(path) in text and path.read_text() == "ready\n" for path in kept)
    end(program)


def test_a_program_that_died_before_it_was_stopped_was_not_ended_by_edgetop(started):
    program = started("sh", "-c", "kill -9 $$")
    wait_until(lambda: program._exit_status() is not None)
    program.stop()
    assert any(isinstance(one, Died) for one in messages_until(program, Died))
    assert (program.was_stopped, program.exit_status) == (False, 137)


def test_a_stop_sends_the_signal_and_the_next_one_kills(started, tmp_path):
    ignores = "import signal, time; signal.signal(signal.SIGINT, lambda *_: print('asked', flush=True))"
    program = started(sys.executable, "-S", "-c", f"{ignores}; print('ready', flush=True)\nwhile True: time.sleep(1)",
                      stop_signal=signal.SIGINT)  # fmt: skip
    output = tmp_path / "out.txt"
    wait_until(lambda: "ready" in output.read_text())
    program.stop()
    wait_until(lambda: "asked" in output.read_text())
    assert not [one for one in program.poll().messages if isinstance(one, Ended)]
    program.stop()
    said = messages_until(program, Ended)
    assert any(isinstance(one, LogLine) and "was sent SIGKILL" in one.message for one in said)
    assert program.was_stopped


def test_the_environment_has_only_what_is_wanted():
    folder, given = Path("/shm/x"), {"PYTHONPATH": "/a", "LD_PRELOAD": "/b.so", "LANG": "C"}
    off = ProgramSpec(("app",), has_hook=False).environment(folder, given)
    assert off == {**given, layout.FOLDER: "/shm/x"}
    on = ProgramSpec(("app",), preload=Path("/p.so"), stdout=1).environment(folder, given)
    assert (on["PYTHONPATH"], on["LD_PRELOAD"]) == (f"{HOOK}:/a", f"{preloaded(Path('/p.so'))} /b.so")
    assert "PYTHONUNBUFFERED" not in on
    assert "EDGETOP_LINES" not in on


def test_a_loader_that_is_not_glibcs_finds_no_library():
    """It would take the words as they are: musl's ends a program for which the library does not fit."""
    word = preloaded(Path(__file__))
    assert not Path(word).exists()
    for program in ("/bin/x", "/deep/" * 100 + "x"):
        assert os.path.normpath(word.replace("$ORIGIN", str(Path(program).parent))) == __file__


def test_a_folder_that_a_list_of_paths_cannot_name_is_left_out(tmp_path, monkeypatch):
    for name in ("a b", "a:b", "a$b"):
        assert preload_library(tmp_path / name) is None
    monkeypatch.setattr("edgetop.taps.watched_program.HOOK", Path("/opt/a:b/hook"))
    assert "PYTHONPATH" not in ProgramSpec(("app",)).environment(tmp_path, {})


def test_what_cannot_be_started_is_refused_and_leaves_nothing():
    program = WatchedProgram(ProgramSpec(("/no/such/program",)))
    with pytest.raises(InputError, match="cannot be started"):
        program.start()
    assert program._taps.folder is None


def test_a_language_model_that_is_a_part_of_the_program_is_a_warning_and_does_not_hold_up_its_duration(
    started, tmp_path
):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"x" * 8192)
    maps = f"import mmap; f = open({str(model)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
    program = started(sys.executable, "-S", "-c", f"{maps}; import time; time.sleep(60)")
    wait_until(program._should_infer)
    assert not program._may_infer()
    assert "llama.cpp is a part of the program" in program._why_unseen()
