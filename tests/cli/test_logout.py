"""A run that a logout would end is started where it does not reach.

systemd-run and logind stand in files here: a script that takes the same arguments, and a captured machine.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.cli.terminal import IN_SCOPE, LogoutEffect, logout_effect
from edgetop.sensors.root import Root
from tests.support.trees import plant

UID = 12345
KILLS = {"run/systemd/system/keep": "", "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n"}
LINGERS = {f"var/lib/systemd/linger/{UID}": ""}
# What systemd-run(1) does with --scope: it tells the manager, and becomes the command.
SYSTEMD_RUN = """#!/bin/sh
echo "$@" >> "{log}"
while [ "$1" != -- ]; do shift; done
shift
{first}
exec "$@"
"""


def programs(folder: Path, first: str = "") -> dict[str, str]:
    """An environment with a systemd-run, which does `first` before it becomes its command."""
    folder.mkdir()
    script = folder / "systemd-run"
    script.write_text(SYSTEMD_RUN.format(log=folder / "log", first=first))
    script.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.fixture
def machine(tmp_path: Path) -> Root:
    return plant(tmp_path / "machine", KILLS)


def test_where_a_logout_ends_nothing_the_run_is_started_as_it_is(tmp_path: Path) -> None:
    environment = programs(tmp_path / "bin")
    assert logout_effect(plant(tmp_path / "a", {}), UID, environment) == LogoutEffect()
    assert logout_effect(plant(tmp_path / "b", {"run/systemd/system/keep": ""}), UID, environment) == LogoutEffect()
    no = {**KILLS, "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=no\n"}
    assert logout_effect(plant(tmp_path / "c", no), UID, environment) == LogoutEffect()
    assert logout_effect(plant(tmp_path / "d", KILLS), 0, environment) == LogoutEffect()  # root is spared
    assert not (tmp_path / "bin" / "log").exists()


def test_a_run_that_a_logout_would_end_gets_a_scope_and_says_so(machine: Root, tmp_path: Path) -> None:
    environment = programs(tmp_path / "bin")
    effect = logout_effect(machine, UID, environment)
    script = str(tmp_path / "bin" / "systemd-run")
    assert effect.command == (script, "--user", "--scope", "--quiet", "--collect", "--")
    assert "a logout would end the run" in effect.message
    assert "loginctl enable-linger" in effect.message
    assert (tmp_path / "bin" / "log").read_text() == "--user --scope --quiet --collect -- true\n"


def test_who_lingers_is_not_told_to(tmp_path: Path) -> None:
    effect = logout_effect(plant(tmp_path / "machine", {**KILLS, **LINGERS}), UID, programs(tmp_path / "bin"))
    assert effect.command
    assert "enable-linger" not in effect.message


def test_without_systemd_run_it_is_said_what_to_do(machine: Root, tmp_path: Path) -> None:
    effect = logout_effect(machine, UID, {"PATH": str(tmp_path)})
    assert effect.command == ()
    assert "is missing" in effect.message
    assert "KillUserProcesses=no" in effect.message


def test_a_scope_is_probed_before_the_run_moves_into_one(machine: Root, tmp_path: Path) -> None:
    effect = logout_effect(machine, UID, programs(tmp_path / "bin", "echo 'Failed to connect to bus' >&2; exit 1"))
    assert effect.command == ()
    assert "systemd-run --user --scope fails here: loginctl enable-linger" in effect.message


@pytest.mark.parametrize("known_by", ["environment", "cgroup"])
def test_what_is_in_a_scope_already_is_not_moved_again(known_by: str, tmp_path: Path) -> None:
    environment = programs(tmp_path / "bin")
    cgroup = f"0::/user.slice/user-{UID}.slice/user@{UID}.service/app.slice/run-1.scope\n"
    files = {"proc/self/cgroup": cgroup} if known_by == "cgroup" else {}
    machine = plant(tmp_path / "machine", {**KILLS, **files})
    if known_by == "environment":
        environment[IN_SCOPE] = "1"
    assert logout_effect(machine, UID, environment) == LogoutEffect()


PROGRAM = """
import os, sys
from pathlib import Path
from edgetop.cli.terminal import move_into_scope, logout_effect
from edgetop.sensors.root import Root
effect = logout_effect(Root(Path(sys.argv[1])), 12345)
if effect.command:
    move_into_scope(effect.command)
print(os.getpid(), sys.argv[2:], sys.stdin.read())
"""


@pytest.mark.slow
def test_the_same_process_runs_the_command_in_the_scope(machine: Root, tmp_path: Path) -> None:
    environment = programs(tmp_path / "bin")
    (tmp_path / "program.py").write_text(PROGRAM)
    argv = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "machine"), "--label", "a b='c'"]
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    out, _ = process.communicate("typed")
    assert out == f"{process.pid} ['--label', \"a b='c'\"] typed\n"
    assert (tmp_path / "bin" / "log").read_text().splitlines()[1].endswith("--label a b='c'")
