"""A watched program is as it is alone, ends when somebody asked for it, and outlives every fault of edgetop."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.cli.watching.watch_session import without_hooks
from tests.support.commands import ROOT, edgetop, environment, start_edgetop
from tests.support.processes import is_running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
# A shell that starts its program with other limits, signals and files than it has itself.
ODD = "ulimit -c 1000; umask 037; trap '' INT; exec 7</etc/hostname; exec nice -n 3 \"$@\""


def watching(tmp_path, *options, how, more=(), **streams):
    """A watched `stops.py`, once it runs."""
    output = tmp_path / "out.txt"
    command = (sys.executable, PROGRAMS / "stops.py", how, *more)
    options = ("--app-output", output, *options)
    process = start_edgetop("watch", "--headless", *options, "--", *command, home=tmp_path, PYTHONPATH=str(ROOT))
    wait_until(lambda: output.exists() and "ready" in output.read_text())
    return process, output, int(output.read_text().split()[1])


def test_a_program_is_started_as_it_is_alone(tmp_path):
    alone, seen = tmp_path / "alone.json", tmp_path / "seen.json"
    environ = environment(tmp_path, PYTHONPATH="/nowhere:/elsewhere")
    for path in (alone, seen):
        command = [sys.executable, PROGRAMS / "surroundings.py", path, "an argument", ""]
        if path is seen:
            watch = ["watch", "--headless", "--no-record", "--monitor-cpus", "0", "--"]
            entry = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from edgetop.cli.main import main; main(sys.argv[1:])"
            command = [sys.executable, "-c", entry, *watch, *command]
        done = subprocess.run(
            ["sh", "-c", ODD, "sh", *map(str, command)],
            input=b"given", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, cwd=tmp_path, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout.splitlines()[0]) == (3, b"written")
    before, after = (json.loads(path.read_text()) for path in (alone, seen))
    for one in (before, after):
        del one["descriptors"]["0"], one["descriptors"]["1"], one["descriptors"]["2"]  # pipes of each
        one["environment"].pop("_", None)
    assert after == before
    assert before["input"] == "given"
    assert before["descriptors"]["7"] == "/etc/hostname"


def test_a_program_without_a_handler_ends_at_once_and_no_inference_failed(tmp_path):
    process, _, _ = watching(tmp_path, "-o", "s", "--fail-if", "errors>0", how="at once")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 0
    manifest = json.loads((tmp_path / "s.edgetop" / "session.json").read_text())
    assert manifest["end_reason"] == "signal"


def test_an_interrupted_call_is_no_failed_inference(tmp_path):
    process, output, _ = watching(
        tmp_path, "--no-record", "--stop-signal", "int", "--fail-if", "errors>0", how="at once"
    )
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert (process.returncode, "interrupted" in output.read_text()) == (0, True)
    assert "1 of" not in said


def test_a_program_that_takes_its_time_is_waited_for_and_the_user_is_told(tmp_path):
    end = tmp_path / "end"
    process, output, pid = watching(tmp_path, "--no-record", "--stop-signal", "USR1", how="waits", more=(end,))
    process.send_signal(signal.SIGTERM)
    lines = [next(line for line in process.stderr if "STOPPING" in line)]
    assert is_running(pid)
    end.touch()
    process.communicate()
    assert "waiting for " in lines[0]
    assert re.search("to end after SIGUSR1: (90|89) s left, then SIGKILL", lines[0])
    assert (process.returncode, output.read_text().splitlines()[-1]) == (0, "done")


def test_a_program_that_does_not_end_in_time_is_killed(tmp_path):
    process, _, pid = watching(tmp_path, "-o", "s", "--stop-timeout", "600ms", how="never")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert (process.returncode, is_running(pid)) == (0, False)
    assert (
        "was sent SIGKILL: it had not ended 1 s after SIGTERM"
        in edgetop("export", "s", "--to", "json", "-o", "-", home=tmp_path).stdout
    )


def test_a_second_interrupt_kills_at_once(tmp_path):
    process, output, pid = watching(tmp_path, "--no-record", how="never")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "asked" in output.read_text())
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert (process.returncode, is_running(pid)) == (130, False)


def test_a_program_outlives_its_terminal_and_is_named(tmp_path):
    end = tmp_path / "end"
    process, output, pid = watching(tmp_path, "--no-record", how="waits", more=(end,))
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate()
    assert is_running(pid)
    assert f"continues unwatched as process {pid}; its output goes to {output}; kill {pid} ends it" in said
    end.touch()
    wait_until(lambda: "done" in output.read_text())


@pytest.mark.parametrize(("number", "is_hinted"), [(signal.SIGSEGV, True), (signal.SIGTERM, False)])
def test_a_crash_soon_after_the_start_names_the_way_without_hooks(tmp_path, number, is_hinted):
    command = ("sh", "-c", f"kill -{number.value} $$")
    done = edgetop("watch", "--headless", "--no-record", "--", *command, home=tmp_path)
    assert done.returncode == 128 + number
    again = f"edgetop watch --no-preload --no-hook --headless --no-record -- sh -c 'kill -{number.value} $$'"
    assert (again in done.stderr) == is_hinted
    done = edgetop("watch", "--no-preload", "--no-hook", "--headless", "--no-record", "--", *command, home=tmp_path)
    assert "--no-hook" not in done.stderr


def test_without_hooks_nothing_is_loaded_into_the_program(tmp_path):
    shown = (
        "os.environ.get('LD_PRELOAD')", "os.environ.get('PYTHONPATH')", "'sitecustomize' in sys.modules",
        "'ort_preload' in open('/proc/self/maps').read()",
    )  # fmt: skip
    command = (sys.executable, "-c", f"import os, sys; print({', '.join(shown)})")
    options = ("--headless", "--no-record", "--no-preload", "--no-hook")
    done = edgetop("watch", *options, "--", *command, home=tmp_path, PYTHONPATH="/x")
    assert done.stdout.splitlines()[0] == "None /x False False"


def test_another_place_is_given_for_the_recording():
    words = ["watch", "--no-hook", "--output=a", "--"]
    assert without_hooks(words) == ["watch", "--no-preload", "--no-hook", "--output=a-again", "--"]


@pytest.mark.parametrize(
    "kind",
    [pytest.param("forks", marks=pytest.mark.thorough), "clock", "cut", str(2**62), str(2**64 - 5), str(4_001 + 2**15)],
)
def test_what_a_program_does_to_its_ring_hides_no_call_and_ends_nothing(tmp_path, kind):
    command = (sys.executable, PROGRAMS / "hostile_ring.py", kind)
    options = ("watch", "--headless", "--json", "--no-record")
    done = edgetop(*options, "--", *command, home=tmp_path, PYTHONPATH=str(ROOT))
    made = int(next(line for line in done.stderr.splitlines() if line.startswith("made ")).split()[1])
    document = json.loads(done.stdout)
    streams, warmup = document["session"]["watched"]["streams"], document["session"]["methodology"]["warmup_runs"]
    seen = document["latency"]["count"] + warmup + len(streams)
    codes = {warning["code"] for warning in document["warnings"]}
    if kind == "cut":  # what was not read until then is gone with the file
        assert seen <= made
    else:
        assert seen == made
        assert document["session"]["duration_ns"] < 60 * 10**9
    assert ("foreign-times" in codes) == (kind == "clock")
    if kind == "clock":
        assert document["lost"]["inferences"] == 1
