"""What ssh is started with, and what is said where it ends."""

import os
import shlex
import signal

import pytest

from edgetop.errors import InputError
from edgetop.feeds.remote import LinkEndedError
from edgetop.feeds.ssh import SshLink, Target, parse_target
from tests.support.processes import is_running
from tests.support.relays import FakeSsh, plant_program
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("text", "host", "session"),
    [
        ("ssh:board", "board", None),
        ("ssh:pi@board", "pi@board", None),
        ("ssh:pi@board.local:soak-1", "pi@board.local", "soak-1"),
        ("ssh:board:/home/pi/my run.edgetop", "board", "/home/pi/my run.edgetop"),
        ("ssh:board:a:b@c", "board", "a:b@c"),
        ("ssh:192.168.1.5", "192.168.1.5", None),
        ("ssh:[fe80::1%eth0]", "fe80::1%eth0", None),
        ("ssh:pi@[::1]:soak", "pi@::1", "soak"),
    ],
)
def test_a_target_is_a_host_and_perhaps_a_session(text, host, session):
    assert parse_target(text) == Target(host, session)


@pytest.mark.parametrize(
    "text",
    [
        "ssh:",
        "ssh::soak",
        "ssh:-oProxyCommand=reboot",
        "ssh:-v@board",
        "ssh:pi@-oProxyCommand=reboot",
        "ssh:a b",
        "ssh:$(reboot)",
        "ssh:`reboot`@board",
        "ssh:board;reboot",
        "ssh:pi@@board",
        "ssh:[board",
        "ssh:board\n",
        "ssh:board:",
    ],
)
def test_what_is_no_host_is_refused(text):
    with pytest.raises(InputError, match="not a host"):
        parse_target(text)


@pytest.fixture
def ssh(tmp_path, monkeypatch) -> FakeSsh:
    fake = FakeSsh(tmp_path / "bin")
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    return fake


def started(session=None, command="edgetop", *, attended=True, on_line=lambda _: None) -> SshLink:
    return SshLink(Target("pi@board"), session, command, attended=attended, on_line=on_line)


def test_options_precede_the_host_which_follows_the_double_dash(ssh):
    started(command="true #").close()
    assert ssh.arguments[-3:] == ["--", "pi@board", "true # relay"]
    assert "BatchMode=yes" not in ssh.arguments
    assert "ServerAliveInterval=5" in ssh.arguments


def test_nobody_is_asked_for_a_password_under_a_screen(ssh):
    started(command="true #", attended=False).close()
    assert "BatchMode=yes" in ssh.arguments


@pytest.mark.parametrize("session", ["soak-1", "a b", "$(reboot)", "'; reboot; '", "-v", "--help", "x\ny"])
def test_the_shell_over_there_sees_a_session_as_one_word(ssh, session, tmp_path):
    plant_program(
        tmp_path / "bin", "edgetop", f"#!/bin/sh\nprintf '%s\\0' \"$@\" > {shlex.quote(str(tmp_path / 'got'))}\n"
    )
    started(session).close()
    assert (tmp_path / "got").read_text().split("\0")[:-1] == ["relay", "--", session]


def test_a_home_in_the_remote_command_is_the_one_over_there(ssh, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    plant_program(tmp_path / "bin", "there", f"#!/bin/sh\ntouch {tmp_path / 'called'}\n")
    started(command="~/bin/there").close()
    assert (tmp_path / "called").exists()


def why(script: str, tmp_path) -> str:
    """What is said of an ssh that does this."""
    plant_program(tmp_path / "bin", "ssh", f"#!/bin/sh\n{script}\n")
    link = started()
    with pytest.raises(LinkEndedError):
        link.read(20)
    return link.close()


def test_an_edgetop_that_is_not_found_is_told_with_what_to_do(ssh, tmp_path):
    words = why("echo sh: 1: edgetop: not found >&2; exit 127", tmp_path)
    assert words.startswith("no edgetop on pi@board: install it there")
    assert "--remote-command '~/.local/bin/edgetop'" in words


def test_what_ssh_failed_of_is_told_in_its_last_words(ssh, tmp_path):
    words = why("echo banner >&2; echo ssh: connect to host board port 22: No route to host >&2; exit 255", tmp_path)
    assert words == "ssh: connect to host board port 22: No route to host"


def test_an_ssh_that_fails_without_a_word_is_told(ssh, tmp_path):
    assert why("exit 255", tmp_path) == "ssh could not reach pi@board"


def test_an_old_edgetop_over_there_is_told_in_its_words(ssh, tmp_path):
    words = why("echo 'edgetop: no such command: relay (did you mean replay?)' >&2; exit 2", tmp_path)
    assert words == "edgetop on pi@board ended with exit code 2: edgetop: no such command: relay (did you mean replay?)"


def test_a_flood_of_words_is_not_kept(ssh, tmp_path):
    assert len(why("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 255", tmp_path)) <= 4096


def test_what_ssh_says_is_heard_line_by_line(ssh, tmp_path):
    plant_program(tmp_path / "bin", "ssh", "#!/bin/sh\nprintf 'one\\n\\ntwo' >&2\n")
    heard: list[str] = []
    started(on_line=heard.append).close()
    assert heard == ["one", "two"]


def test_an_ssh_that_does_not_end_is_ended(ssh, tmp_path):
    plant_program(tmp_path / "bin", "ssh", "#!/bin/sh\necho $$ > $FAKE_SSH/pid; exec sleep 1000\n")
    link = started()
    wait_until(lambda: (tmp_path / "bin/pid").exists() and (tmp_path / "bin/pid").read_text().strip())
    link.close()
    with pytest.raises(ProcessLookupError):
        os.kill(ssh.pid, signal.SIGCONT)


WITH_A_PROXY = "#!/bin/sh\nsleep 1000 &\necho $! > $FAKE_SSH/proxy; echo $$ > $FAKE_SSH/pid; {then}\n"


@pytest.mark.slow
@pytest.mark.parametrize("then", ["wait", "trap '' TERM; wait; wait; sleep 1000", "exit 0"])
@pytest.mark.parametrize("attended", [True, False])
def test_whatever_ssh_has_begun_is_ended_with_it(ssh, attended, then, tmp_path):
    plant_program(tmp_path / "bin", "ssh", WITH_A_PROXY.format(then=then))
    link = started(attended=attended)
    wait_until(lambda: (tmp_path / "bin/pid").exists() and (tmp_path / "bin/pid").read_text().strip())
    link.close()
    proxy = int((tmp_path / "bin/proxy").read_text())
    wait_until(lambda: not is_running(proxy) and not is_running(ssh.pid))


def test_what_it_says_while_it_is_ended_is_not_why_it_ended(ssh, tmp_path):
    plant_program(
        tmp_path / "bin",
        "ssh",
        "#!/bin/sh\ntrap 'echo killed >&2; exit 255' TERM\necho > $FAKE_SSH/pid\nwhile :; do sleep 0.05; done\n",
    )
    link = started()
    wait_until((tmp_path / "bin/pid").exists)
    assert link.close() == ""


def test_a_writer_to_an_ended_ssh_learns_that_it_ended(ssh, tmp_path):
    plant_program(tmp_path / "bin", "ssh", "#!/bin/sh\nexit 0\n")
    link = started()
    link._process.wait()
    with pytest.raises(LinkEndedError):
        link.write(b"x")
    link.close()


def test_a_machine_without_ssh_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="install OpenSSH's client"):
        started()


def test_silence_is_told_from_the_end(ssh, tmp_path):
    plant_program(tmp_path / "bin", "ssh", "#!/bin/sh\nexec sleep 1000\n")
    link = started()
    with pytest.raises(TimeoutError):
        link.read(0.01)
    link.close()
