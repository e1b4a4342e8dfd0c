"""What lies in the current folder is never run as code of edgetop or of Python."""

import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.cli.board import service
from edgetop.cli.comparing.sweep import command
from edgetop.cli.terminal import edgetop_command
from edgetop.cli.watching.stop import _stop_sweep
from edgetop.cli.watching.watch_session import with_sudo
from edgetop.errors import InputError, OutputError
from edgetop.recording.recorder import Recorder
from edgetop.sweep_plan import FILE, LOCK, Plan, Settings, combined, is_running, ordered, read_plan, write_plan
from tests.support.commands import environment
from tests.support.recordings import first_manifest
from tests.support.waiting import PATIENCE_S, wait_until

MODEL = Path(__file__).parents[2] / "edgetop/roofline_models/probe.onnx"
NAMES = ("click", "inspect", "select", "numpy", "selectors", "tempfile", "subprocess", "json", "psutil", "pyarrow")
TRAP = 'open("PWNED", "a").write(__name__ + "\\n"); raise SystemExit(1)'


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder with a model, and with modules that look like those of edgetop, its packages and Python."""
    folder = tmp_path / "models"
    (folder / "edgetop").mkdir(parents=True)
    for name in (*NAMES, "edgetop/__init__", "edgetop/__main__"):
        (folder / f"{name}.py").write_text(TRAP)
    (folder / "m.onnx").write_bytes(MODEL.read_bytes())
    return folder


def run_in(folder: Path, home: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    around = environment(home)
    return subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_sweep_its_runs_engines_and_writers_load_nothing_of_the_folder(trap: Path, tmp_path: Path) -> None:
    words = (
        "sweep",
        "m.onnx",
        "--repeat",
        "1",
        "--runs",
        "20",
        "--warmup-runs",
        "2",
        "--cooldown-max",
        "1s",
        "-o",
        "s",
    )
    done = run_in(trap, tmp_path, *edgetop_command(*words, "--json"))
    assert (done.returncode, (trap / "PWNED").exists()) == (0, False), done.stderr
    assert '"state": "done"' in done.stdout


@pytest.mark.slow
def test_python_m_edgetop_loads_no_module_of_the_folder(trap: Path, tmp_path: Path) -> None:
    for name in ("__init__", "__main__"):
        (trap / f"edgetop/{name}.py").unlink()  # with a folder of that name here, Python itself would choose it
    (trap / "edgetop").rmdir()
    done = run_in(trap, tmp_path, sys.executable, "-m", "edgetop", "sessions")
    assert (done.returncode, (trap / "PWNED").exists()) == (0, False), done.stderr


@pytest.mark.slow
def test_the_unit_of_a_service_starts_edgetop_from_its_own_place(trap: Path, tmp_path: Path) -> None:
    unit = service.unit_of(["sessions"], trap, None)
    (line,) = (line.removeprefix("ExecStart=") for line in unit.splitlines() if line.startswith("ExecStart="))
    done = run_in(trap, tmp_path, *shlex.split(line))
    assert (done.returncode, (trap / "PWNED").exists()) == (0, False), done.stderr


def test_advice_to_use_sudo_names_a_program_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    (tmp_path / "edgetop").write_text("#!/bin/sh\n")
    (tmp_path / "edgetop").chmod(0o755)
    assert shlex.split(with_sudo(["watch"])) == ["sudo", *edgetop_command("watch")]


@pytest.mark.parametrize("name", ["x\nExecStartPre=-/bin/touch pwned", "x\\", "x ", "x\ty"])
def test_a_folder_that_a_unit_cannot_name_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(InputError, match="systemd cannot start a unit") as caught:
        service.command.main(["watch", "--", "app"], standalone_mode=False)
    assert "\n" not in str(caught.value)


def test_a_unit_of_root_executes_nothing_that_others_may_change(tmp_path: Path) -> None:
    service.refuse_changeable((Path("/"), Path("/usr/bin/env")))
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "m.onnx").touch()
    with pytest.raises(InputError, match="would run as root, but other users may change"):
        service.refuse_changeable((shared / "m.onnx",))
    (tmp_path / "link").symlink_to(shared / "m.onnx")
    with pytest.raises(InputError, match="other users may change"):
        service.refuse_changeable((tmp_path / "link",))


def plan(*options: str) -> Plan:
    combinations = combined((str(MODEL),), (1,), (None,), (None,), (None,))
    return Plan(tuple(ordered(combinations, 1, 0)), options, "/", 0, 1.0, 1.0)


@pytest.mark.slow
def test_a_signal_goes_to_the_holder_of_the_lock_and_to_no_pid_of_a_file(tmp_path: Path) -> None:
    write_plan(tmp_path, plan())
    with subprocess.Popen(["sleep", "60"]) as victim:
        text = (tmp_path / FILE).read_text()
        (tmp_path / FILE).write_text(text.replace('"seed"', f'"pid": {victim.pid}, "seed"'))
        holds = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); time.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", holds, str(tmp_path / LOCK)]) as holder:
            wait_until(lambda: is_running(tmp_path))
            assert _stop_sweep(tmp_path) == 0
            assert holder.wait(PATIENCE_S) == -signal.SIGTERM
        assert victim.poll() is None
        victim.kill()
    with pytest.raises(InputError, match="is not running"):
        _stop_sweep(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of another user")
def test_a_sweep_of_another_user_is_neither_stopped_nor_resumed(tmp_path: Path) -> None:
    write_plan(tmp_path, plan())
    os.chown(tmp_path / FILE, 65534, 65534)
    with pytest.raises(InputError, match="belongs to another user"):
        _stop_sweep(tmp_path)
    with pytest.raises(InputError, match="belongs to another user"):
        command.main(["--resume", str(tmp_path)], standalone_mode=False)


@pytest.mark.parametrize(
    "options",
    [
        ("--on-event", "ended=touch PWNED"), ("--prom-textfile", "/tmp"), ("--output=/x",), ("/etc/passwd",),
        ("--junit=x.xml", "--fail-if=p99>1ms"), ("--detach",), ("--config=x",),
    ],
)  # fmt: skip
def test_a_plan_that_gives_orders_is_refused(options: tuple[str, ...], tmp_path: Path) -> None:
    write_plan(tmp_path, plan(*options))
    with pytest.raises(InputError, match="is not the plan of a sweep: "):
        command.main(["--resume", str(tmp_path)], standalone_mode=False)


def test_what_runs_or_loads_something_is_not_in_a_plan_and_asked_for_again(tmp_path: Path) -> None:
    given = plan("--duration=1s", "--engine-python=/x/python", "--delegate=/x/lib.so")
    write_plan(tmp_path, given)
    kept = read_plan(tmp_path)
    assert (kept.options, kept.asked) == (("--duration=1s",), ("--delegate", "--engine-python"))
    assert "/x/" not in (tmp_path / FILE).read_text()
    with pytest.raises(InputError, match=r"repeat them \(.* --delegate \.\.\. --engine-python \.\.\.\)"):
        command.main(["--resume", str(tmp_path)], standalone_mode=False)
    # As an older edgetop, or a stranger, wrote it.
    text = (tmp_path / FILE).read_text().replace('"--duration=1s"', '"--engine-python", "/x/python"')
    (tmp_path / FILE).write_text(text.replace('"asked": [\n  "--delegate",\n  "--engine-python"\n ]', '"asked": []'))
    with pytest.raises(InputError, match=r"repeat them \(.* --engine-python \.\.\.\)"):
        command.main(["--resume", str(tmp_path)], standalone_mode=False)


def test_a_provider_with_options_may_load_a_library_and_is_asked_for_again(tmp_path: Path) -> None:
    runs = tuple(replace(run, settings=Settings(str(MODEL), provider="QNN:backend_path=/x.so")) for run in plan().runs)
    write_plan(tmp_path, replace(plan(), runs=runs))
    with pytest.raises(InputError, match=r"--provider QNN:backend_path=/x\.so"):
        command.main(["--resume", str(tmp_path)], standalone_mode=False)


@pytest.mark.parametrize("change", [("folder", "x"), ("model", "--on-event=ended=x"), ("provider", "--x")])
def test_no_text_of_a_plan_stands_for_an_option(change: tuple[str, str], tmp_path: Path) -> None:
    key, value = change
    given = plan()
    if key == "folder":
        given = replace(given, folder=value)
    else:
        given = replace(given, runs=(replace(given.runs[0], settings=replace(given.runs[0].settings, **{key: value})),))
    write_plan(tmp_path, given)
    with pytest.raises(InputError, match="is not the plan of a sweep"):
        read_plan(tmp_path)


def test_a_session_that_is_a_link_is_not_removed(tmp_path: Path) -> None:
    mine = tmp_path / "mine.edgetop"
    Recorder(mine, first_manifest()).finish(first_manifest())
    (tmp_path / "friend.sweep").mkdir()
    given = plan()
    write_plan(tmp_path / "friend.sweep", given)
    (tmp_path / "friend.sweep" / given.runs[0].session).symlink_to(mine)
    with pytest.raises(InputError, match="is a link, not a session of this sweep"):
        command.main(["--resume", str(tmp_path / "friend.sweep")], standalone_mode=False)
    assert (mine / "session.json").exists()


def test_a_lock_that_is_a_link_is_told_in_one_line(tmp_path: Path) -> None:
    write_plan(tmp_path, plan())
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="cannot be locked"):
        command.main(["--resume", str(tmp_path)], standalone_mode=False)
    assert not (tmp_path / "elsewhere").exists()
