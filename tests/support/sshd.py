"""A real sshd of this user's own, on a port of the loopback interface, and an `ssh` on PATH that finds it."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.relays import FakeSsh
from tests.support.waiting import wait_until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
SSH = shutil.which("ssh")

_SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
"""
_CLIENT = """
Host board
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
"""
# The real client; the test can end it by its id.
_WRAPPER = """#!/bin/sh
printf '%s\\n' "$@" >> "$FAKE_SSH/arguments"
echo $$ > "$FAKE_SSH/pid"
exec {ssh} -F {folder}/client "$@"
"""
# What the board's side runs: sshd hands on none of this process's variables.
_EDGETOP = """#!/bin/sh
export PYTHONPATH='{pythonpath}' XDG_STATE_HOME='{state}' PYTHONDONTWRITEBYTECODE=1
exec {python} -m edgetop "$@"
"""


@contextlib.contextmanager
def running(folder: Path, state: Path) -> Iterator[FakeSsh]:
    """While it lasts, `ssh board` leads here; `state` is the XDG_STATE_HOME there."""
    assert SSHD
    folder.mkdir()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # without it, sshd refuses to start as root
    port = _free_port()
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    kind, key, *_ = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    (folder / "server").write_text(_SERVER.format(port=port, folder=folder))
    (folder / "client").write_text(_CLIENT.format(port=port, folder=folder, user=getpass.getuser()))
    ssh = FakeSsh(folder / "bin", _WRAPPER.format(ssh=SSH, folder=folder))
    program = folder / "bin/edgetop"
    pythonpath = Path(__file__).parents[2]
    program.write_text(_EDGETOP.format(python=sys.executable, pythonpath=pythonpath, state=state))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "server"], stdin=subprocess.DEVNULL, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or _answers(port))
        assert process.poll() is None, (folder / "log").read_text()
        yield ssh
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
