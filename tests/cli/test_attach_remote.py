"""A session on another machine on the screen here, through the system's ssh: the one that is told where to go."""

import os
import signal
import sys
from pathlib import Path

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.cli.watching.attach import connector
from edgetop.control.control_socket import Answer
from edgetop.control.server import ControlServer
from edgetop.feeds.remote import RemoteFeed
from edgetop.feeds.ssh import Target
from edgetop.session.clock import SystemClock
from edgetop.session.events import Order
from edgetop.session.seconds import NS
from tests.support import sshd
from tests.support.commands import edgetop, environment
from tests.support.relays import FakeSsh, LiveRecording, plant_program, read_until
from tests.support.scripts import OrderLog, Script
from tests.support.sessions import differences, folded
from tests.support.terminal import LEAVE_ALTERNATE_SCREEN, Terminal, as_its_own
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

# Through the system's ssh and a real sshd where one is installed, and through plain pipes always.
WAYS = ["pipes", *(["sshd"] if sshd.SSHD and sshd.SSH else [])]


@pytest.fixture
def home(tmp_path) -> Path:
    (tmp_path / "state/edgetop").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def ssh(home, monkeypatch) -> FakeSsh:
    fake = FakeSsh(home / "bin")
    for name, value in {**environment(home), **fake.environment()}.items():
        monkeypatch.setenv(name, value)
    return fake


@pytest.fixture
def script() -> Script:
    return Script(step_s=0.5).load().warm_up().begin().measure(4)


@pytest.fixture
def live(script, home) -> LiveRecording:
    return LiveRecording(home / "state/edgetop/soak.edgetop", script.batches)


def go_on(script: Script, live: LiveRecording, seconds: float) -> None:
    before = len(script.batches)
    script.measure(seconds)
    live.put(*script.batches[before:])


def end(script: Script, live: LiveRecording) -> None:
    before = len(script.batches)
    live.finish(*script.end().batches[before:])


@pytest.fixture(params=WAYS)
def way(request, home, monkeypatch):
    if request.param == "pipes":
        yield request.getfixturevalue("ssh")
        return
    with sshd.running(home / "sshd", home / "state") as there:
        for name, value in there.environment().items():
            monkeypatch.setenv(name, value)
        yield there


def test_it_is_watched_through_a_drop_marked_and_seen_to_its_end(way, script, live):
    asked = OrderLog()
    server = ControlServer(live.folder, asked)
    server.start()
    there = str(way.folder / "edgetop")
    feed = RemoteFeed(connector(Target("board"), there, print), "board", SystemClock(), (0.01,))
    analysis = Analysis()
    read_until(feed, analysis.fold, lambda: analysis.progress.view().now_ns == script.now_ns)
    feed.order(Order("mark", "fan on"))
    wait_until(lambda: asked.asked == [Order("mark", "fan on")])
    os.kill(way.pid, signal.SIGKILL)
    go_on(script, live, 2)
    read_until(feed, analysis.fold, lambda: analysis.progress.view().now_ns == script.now_ns)
    server.finish(Answer())
    end(script, live)
    read_until(feed, analysis.fold, lambda: feed.is_over)
    windows = (10 * NS, 60 * NS, None)
    there_shown = folded(script.batches)
    assert differences([analysis.view(w) for w in windows], [there_shown.view(w) for w in windows]) == []
    assert feed.close(1.0) == ()
    assert way.arguments[-3:-1] == ["--", "board"]
    assert way.arguments[-1] == f"{there} relay -- {live.folder}"


@pytest.fixture
def open_terminal(home, ssh):
    terminals = []

    def open_terminal(*arguments: str) -> Terminal:
        around = {**environment(home), **ssh.environment()}
        terminals.append(Terminal(["attach", *arguments], 80, 24, around, template="commands"))
        return terminals[-1]

    yield open_terminal
    for terminal in terminals:
        terminal.close()


def test_the_screen_shows_a_lost_link_and_the_session_runs_on(open_terminal, ssh, script, live):
    terminal = open_terminal("ssh:pi@board")
    terminal.wait_for("p50", "attached  REC")
    plant_program(ssh.folder, "ssh", "#!/bin/sh\nexit 255\n")  # from now on nobody answers
    os.kill(ssh.pid, signal.SIGKILL)
    terminal.wait_for("LINK LOST, reconnecting in")
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
    assert "LINK LOST" in "\n".join(terminal.shown(80, 24))
    assert terminal.output.count(LEAVE_ALTERNATE_SCREEN.encode()) == 1


def test_messages_of_ssh_are_printed_safely_before_the_screen(open_terminal, ssh, live):
    program = (ssh.folder / "ssh").read_text().replace("for last", "printf 'Welcome \\033[2J\\n' >&2\nfor last")
    plant_program(ssh.folder, "ssh", program)
    terminal = open_terminal("ssh:pi@board")
    terminal.wait_for("Welcome", "p50")
    assert b"Welcome \x1b[2J" not in terminal.output
    terminal.send("q")
    assert terminal.wait_for_exit() == 0


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("ssh:pi@board", "edgetop: pi@board: no session runs now (edgetop sessions lists what was recorded)"),
        ("ssh:pi@board:soak", "edgetop: pi@board: soak: no such recording (none is recorded in HOME/state/edgetop)"),
    ],
)
def test_what_the_board_cannot_show_is_one_line_here(open_terminal, home, target, line):
    terminal = open_terminal(target)
    assert terminal.wait_for_exit() == 2
    said = terminal.text.replace(str(home), "HOME").replace("\r\n", "").strip()
    assert said.removeprefix("edgetop: connecting to pi@board") == line


def test_a_missing_remote_edgetop_is_one_line_with_advice(open_terminal, ssh):
    (ssh.folder / "edgetop").unlink()
    terminal = open_terminal("ssh:pi@board", "--remote-command", "no-such-edgetop")
    assert terminal.wait_for_exit() == 2
    said = terminal.text.replace("\r\n", "")
    assert "no no-such-edgetop on pi@board: install it there" in said
    assert "--remote-command '~/.local/bin/edgetop'" in said


@pytest.mark.parametrize("target", ["ssh:-oProxyCommand=reboot", "ssh:", "ssh:a b"])
def test_what_is_no_host_is_told_before_anything_is_started(target, home, ssh):
    done = edgetop("attach", target, home=home, **ssh.environment())
    assert done.returncode == 2
    assert done.stderr == f"edgetop: {target}: not a host (ssh:[USER@]HOST[:SESSION])\n"
    assert not (ssh.folder / "arguments").exists()


def test_without_a_terminal_nothing_is_started(home, ssh):
    done = edgetop("attach", "ssh:board", home=home, **ssh.environment())
    assert (done.returncode, done.stderr) == (
        2,
        "edgetop: the screen needs a terminal as input and output (ssh board edgetop report)\n",
    )
    assert not (ssh.folder / "arguments").exists()


ASKING = """#!/bin/sh
printf 'password: ' > /dev/tty
read word < /dev/tty
printf 'got %s\\n' "$word" > /dev/tty
for last; do :; done
exec sh -c "exec $last"
"""


@pytest.fixture
def open_own_terminal(home, ssh):
    """As the shell of a login: it is the controlling terminal of what runs there."""
    terminals = []

    def open_terminal(*arguments: str, then: str) -> Terminal:
        argv = [
            "bash",
            "-mc",
            f'cd "$0"; "$@"; {then}',
            str(home),
            sys.executable,
            "-m",
            "edgetop",
            "attach",
            *arguments,
        ]
        terminals.append(Terminal(as_its_own(argv), 80, 24, {**environment(home), **ssh.environment()}))
        return terminals[-1]

    yield open_terminal
    for terminal in terminals:
        terminal.close()


@pytest.mark.thorough
def test_ssh_asks_for_a_password_and_then_the_screen_has_keys(open_own_terminal, ssh, live):
    plant_program(ssh.folder, "ssh", ASKING)
    terminal = open_own_terminal("ssh:pi@board", then='echo "back: $?"')
    terminal.wait_for("password: ")
    terminal.send("secret\r")
    terminal.wait_for("got secret", "p50")
    terminal.send("q")
    terminal.wait_for("back: 0")


def test_ctrl_c_ends_a_wait_for_ssh(open_own_terminal, ssh):
    plant_program(ssh.folder, "ssh", "#!/bin/sh\nprintf 'asking ' > /dev/tty\nexec sleep 1000\n")
    terminal = open_own_terminal("ssh:pi@board", then='echo "back: $?"')
    terminal.wait_for("asking")
    terminal.send("\x03")
    terminal.wait_for("edgetop: interrupted", "back: 130")


@pytest.mark.thorough
def test_ctrl_z_stops_a_wait_for_ssh_and_it_goes_on(open_own_terminal, ssh, live):
    plant_program(ssh.folder, "ssh", ASKING)
    terminal = open_own_terminal("ssh:pi@board", then='echo "stopped: $?"; fg; echo "back: $?"')
    terminal.wait_for("password: ")
    terminal.send("\x1a")
    terminal.wait_for("stopped: ")
    terminal.send("secret\r")
    terminal.wait_for("got secret", "p50")
    terminal.send("q")
    terminal.wait_for("back: 0")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("yes 'go away'", 'pi@board said "go away go away'),
        (
            "printf 'This account is \\033[2J closed\\n'",
            'ended without an answer; it said "This account is \\x1b[2J closed"',
        ),
        ("echo oops; exit 3", 'edgetop on pi@board ended with exit code 3: no message on stderr; it said "oops"'),
    ],
)
def test_what_is_no_relay_is_one_line_with_what_it_said(open_terminal, ssh, program, words):
    plant_program(ssh.folder, "ssh", f"#!/bin/sh\n{program}\n")
    terminal = open_terminal("ssh:pi@board")
    assert terminal.wait_for_exit() == 2
    said = terminal.output.decode().replace("\r\n", "")
    assert words in said
    assert "could not reach" not in said
    assert "\x1b" not in said
