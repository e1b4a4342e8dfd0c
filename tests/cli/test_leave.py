"""A run goes on without its terminal, is watched again, and is ended from elsewhere: as a user does it."""

import json
import os
import re
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetop.recording.session_folder import LOG, SOCKET, is_live
from tests.support import onnx_models
from tests.support.commands import edgetop, environment, start_edgetop
from tests.support.terminal import LEAVE_ALTERNATE_SCREEN, Terminal, as_its_own
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """With a model; what still runs at the end of a test is killed."""
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    yield tmp_path
    for folder in tmp_path.glob("*.edgetop"):
        for pid in writers_of(folder):
            os.kill(pid, signal.SIGKILL)


def writers_of(folder: Path) -> list[int]:
    """The processes that hold the session's lock file open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            files = [str(fd.readlink()) for fd in (process / "fd").iterdir()]
        except OSError:
            continue
        if str(folder / "session.json.lock") in files:
            found.append(int(process.name))
    return found


def manifest_of(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "session.json").read_text()))


def one_session(home: Path) -> dict[str, object]:
    (one,) = json.loads(edgetop("sessions", "--json", home=home).stdout)
    return dict(one)


LIGHT = ("--threads", "1", "--rate", "200", "--profile-every", "0")  # what watches the run needs a CPU too
RUN = ("run", "model.onnx", *LIGHT)


def on_terminal(home: Path, *arguments: str, then: str = "", to: str = "") -> Terminal:
    """edgetop on a terminal of its own; `then`: what the shell that started it does next. `to`: its redirections."""
    around = {**environment(home), "COLORTERM": "truecolor", "TMUX": ""}
    if not then and not to:
        return Terminal([*arguments], 100, 30, around, template="commands", is_its_own=True)
    shell = ["sh", "-c", f'cd "$0"; "$@" {to}; {then or "exit $?"}', str(home)]
    return Terminal(as_its_own([*shell, sys.executable, "-m", "edgetop", *arguments]), 100, 30, around)


def assert_private(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if not path.is_dir()} == {0o600}


def test_a_run_outlives_its_terminal_and_is_watched_and_stopped(home: Path) -> None:
    folder = home / "one.edgetop"
    terminal = on_terminal(home, "run", str(home / "model.onnx"), *LIGHT, "-o", str(folder))
    terminal.wait_for("p50")
    terminal.hang_up()
    wait_until((folder / LOG).exists)
    wait_until(lambda: "p50" in (folder / LOG).read_text())
    assert is_live(folder)
    assert_private(folder)
    other = on_terminal(home, "attach", "--refresh", "100ms")
    try:
        other.wait_for("p50", "attached  REC", "the terminal hung up")
        stopped = edgetop("stop", "one", home=home)
        assert (stopped.returncode, stopped.stderr) == (0, "")
        assert stopped.stdout.startswith("STOPPED (by the user) after 00:00:")
        assert manifest_of(folder)["state"] == "finished"
        assert_private(folder)
        assert not (folder / SOCKET).exists()
        other.wait_for("by the user")
        other.send("q")
        assert other.wait_for_exit() == 0
        assert "the run continues, recorded" not in other.text
    finally:
        other.close()
        terminal.close()
    wait_until(lambda: "recorded in" in (folder / LOG).read_text())  # which follows the end of the session
    log = (folder / LOG).read_text()
    assert "\x1b" not in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("to", "isolation", "result"),
    [
        ("2>log", "process", ""),
        pytest.param("2>log", "thread", "", marks=pytest.mark.thorough),
        pytest.param(">out", "process", "out", marks=pytest.mark.thorough),
    ],
)
def test_the_screen_is_drawn_on_the_stream_that_is_a_terminal(to: str, isolation: str, result: str, home: Path) -> None:
    run = ("run", str(home / "model.onnx"), "--refresh", "100ms", "--isolation", isolation, "-o", str(home / "one"))
    terminal = on_terminal(home, *run, to=to)
    try:
        terminal.wait_for("p50", "q leave")
        # Its first frame, which may still be on its way, ends with the last of the rows that the terminal has.
        terminal._wait(lambda: "q leave" in terminal.seen[29], "the last row")
        terminal.send("Q")
        assert terminal.wait_for_exit() == 0
        printed = (home / result).read_text() if result else terminal.text
        assert "STOPPED" in printed
        assert "more: edgetop report" in printed
        assert "\x1b" not in (home / to.lstrip("2>")).read_text()
    finally:
        terminal.close()


@pytest.mark.parametrize(("keys", "last"), [("Q", "more:"), pytest.param("dd", "ends it", marks=pytest.mark.thorough)])
def test_what_is_printed_on_leaving_fits_a_window_that_was_made_narrower(keys: str, last: str, home: Path) -> None:
    run = ("run", str(home / "model.onnx"), *LIGHT, "-o", str(home / "one"))
    terminal = on_terminal(home, *run, then='echo "back: $?"')
    try:
        terminal.wait_for("p50", "q leave")
        terminal.resize(56, 30)
        terminal.send(keys)
        terminal.wait_for("back: 0")
        printed = terminal.output.decode().rpartition(LEAVE_ALTERNATE_SCREEN)[2]
        assert last in printed
        lines = [re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", line).rstrip() for line in printed.splitlines()]
        # Only a word that is longer than a line, such as a path, exceeds it.
        assert [line for line in lines if len(line) > 56 and " " in line.strip()] == []
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("keys", "status"),
    [("\x03", 130), *(pytest.param(*case, marks=pytest.mark.thorough) for case in (("q\x03", 130), ("Q", 0)))],
)
def test_ctrl_c_on_the_screen_ends_with_the_status_of_an_interrupt(keys: str, status: int, home: Path) -> None:
    terminal = on_terminal(home, "run", str(home / "model.onnx"), *LIGHT, "-o", str(home / "one"))
    try:
        terminal.wait_for("p50", "q leave")
        terminal.send(keys)
        assert terminal.wait_for_exit() == status
        assert "STOPPED" in terminal.text
    finally:
        terminal.close()


@pytest.mark.thorough
def test_ctrl_c_on_the_screen_of_a_run_that_is_over_only_closes_it(home: Path) -> None:
    terminal = on_terminal(home, "run", str(home / "model.onnx"), *LIGHT, "--runs", "100", "-o", str(home / "one"))
    try:
        terminal.wait_for("FINISHED")
        terminal.send("\x03")
        assert terminal.wait_for_exit() == 0
    finally:
        terminal.close()


def test_d_detaches_and_an_attached_screen_can_mark_and_stop(home: Path) -> None:
    folder = home / "one.edgetop"
    terminal = on_terminal(
        home, "run", str(home / "model.onnx"), *LIGHT, "-o", str(folder), then='echo "back: $?"; read x'
    )
    other = None
    try:
        terminal.wait_for("p50")
        terminal.send("dd")
        terminal.wait_for("the run continues", "edgetop attach one", "edgetop stop one", "back: 0")
        assert terminal.attributes() == terminal.attributes_before
        assert is_live(folder)
        (writer,) = writers_of(folder)
        assert os.getsid(writer) == writer
        other = on_terminal(home, "attach", "one", "--refresh", "100ms")
        other.wait_for("p50", "its screen was left")
        other.send("m")
        other.wait_for("Mark this moment")
        other.send("door\r")
        other.wait_for("user: door")
        other.send("Q")
        other.wait_for("Stop the run")
        other.send("s")
        other.wait_for("by the user")
        assert not is_live(folder) or wait_until(lambda: not is_live(folder))
        terminal.send("\r")
        assert terminal.wait_for_exit() == 0
    finally:
        terminal.close()
        if other:
            other.close()


def test_a_run_killed_while_watched_is_shown_as_cut_short(home: Path) -> None:
    folder = home / "one.edgetop"
    assert edgetop(*RUN, "--detach", "-o", "one", home=home).returncode == 0
    other = on_terminal(home, "attach", "--refresh", "100ms")
    try:
        other.wait_for("p50")
        for pid in writers_of(folder):
            os.kill(pid, signal.SIGKILL)
        other.wait_for("CUT SHORT")
        other.send("q")
        assert other.wait_for_exit() == 0
    finally:
        other.close()
    assert manifest_of(folder)["state"] == "recovered"
    assert not (folder / SOCKET).exists()


def test_stop_without_a_name_asks_before_it_ends_a_run_on_another_terminal(home: Path) -> None:
    folder = home / "one.edgetop"
    terminal = on_terminal(home, "run", str(home / "model.onnx"), *LIGHT, "-o", str(folder))
    others: list[Terminal] = []
    try:
        terminal.wait_for("p50")
        refused = edgetop("stop", home=home)
        assert refused.returncode == 2
        assert re.fullmatch(
            r"edgetop: one: is shown on another terminal \(pts/\d+\) \(.*stop one .*\)\n", refused.stderr
        )
        for answer, code in (("n\r", 2), ("\r", 2), ("y\r", 0)):
            assert is_live(folder)
            others.append(on_terminal(home, "stop"))
            others[-1].wait_for("one is shown on pts/", "End it? [y/N]")
            others[-1].send(answer)
            assert others[-1].wait_for_exit() == code
        assert "nothing was ended" in others[0].text
        assert "STOPPED (by the user)" in others[2].text
        assert not is_live(folder)
    finally:
        for one in (terminal, *others):
            one.close()


def test_a_detached_run_is_started_listed_and_stopped(home: Path) -> None:
    done = edgetop(*RUN, "--detach", "-o", "far away", home=home)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == f"edgetop: the run continues, recorded in {home}/far away.edgetop"
    assert "edgetop attach 'far away'" in done.stderr
    folder = home / "far away.edgetop"
    assert is_live(folder)
    wait_until(lambda: one_session(home)["p50_ms"] is not None)  # the journal has it after the log
    one = one_session(home)
    assert list(one)[:9] == ["name", "path", "id", "state", "duration_s", "size_bytes", "model", "board", "verdict"]
    assert (one["name"], one["path"], one["state"]) == ("far away", str(folder), "live")
    assert one["model"] == "model.onnx"
    again = edgetop(*RUN, "--detach", "-o", "far away", home=home)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "exists already" in again.stderr
    (elsewhere := home / "elsewhere").mkdir()
    stopped = edgetop("stop", str(one["id"])[:8], home=elsewhere, XDG_STATE_HOME=str(home / "state"))
    assert stopped.returncode == 0, stopped.stderr
    two = one_session(home)
    assert (two["id"], two["state"]) == (one["id"], "finished")
    late = edgetop("stop", "far away", home=home)
    assert (late.returncode, late.stderr.count("\n")) == (2, 1)
    assert "is not running" in late.stderr
    assert edgetop("stop", home=home).stderr.startswith("edgetop: no session runs now")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model.onnx", "--no-record"], "--detach and --no-record contradict"),
        (["model.onnx", "--json"], "edgetop report SESSION --json"),
        (["nix.onnx"], "nix.onnx: no such file"),
        (["model.onnx", "--shape", "nix:1,2", "-o", "one"], "no such input"),
    ],
    ids=["no-record", "json", "file", "shape"],
)
def test_a_detached_run_that_cannot_begin_says_so_in_a_line(arguments: list[str], words: str, home: Path) -> None:
    done = edgetop("run", "--detach", *arguments, home=home)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert words in done.stderr
    assert not list(home.rglob("session.json"))


def test_without_a_terminal_sighup_is_ignored_and_sigterm_ends(home: Path) -> None:
    process = start_edgetop(*RUN, "--headless", "-o", "one", home=home)
    wait_until(lambda: "p50" in process.stderr.readline())
    process.send_signal(signal.SIGHUP)
    log = home / "one.edgetop" / LOG
    wait_until(log.exists)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "STOPPED" in err, "recorded in" in out) == (0, True, True)  # the pipes are no terminal
    assert log.read_text() == ""


def test_a_run_that_is_not_recorded_ends_with_its_terminal(home: Path) -> None:
    process = start_edgetop(*RUN, "--headless", "--no-record", home=home)
    wait_until(lambda: "p50" in process.stderr.readline())
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out.startswith("STOPPED")) == (0, True)


@pytest.mark.thorough
def test_ending_the_launcher_ends_the_run_in_order(home: Path) -> None:
    folder = home / "one.edgetop"
    terminal = on_terminal(home, "run", str(home / "model.onnx"), *LIGHT, "-o", str(folder))
    try:
        terminal.wait_for("p50")
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait_for_exit() == 0
        wait_until(lambda: manifest_of(folder)["state"] == "finished")
        assert manifest_of(folder)["end_reason"] == "signal"
    finally:
        terminal.close()


@pytest.mark.parametrize("is_killed", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_the_terminal_is_restored_after_a_run_that_could_not_do_it(is_killed: bool, home: Path) -> None:
    """It is killed, or the code of its engine, a thread of it, ends the process."""
    folder = home / "one.edgetop"
    arguments = ("run", str(home / "model.onnx"), *LIGHT, "--isolation", "thread", "-o", str(folder))
    terminal = on_terminal(home, *arguments, then='echo "back: $?"; read x')
    try:
        terminal.wait_for("p50")
        assert terminal.attributes() != terminal.attributes_before
        (writer,) = writers_of(folder)
        os.kill(writer, signal.SIGKILL if is_killed else signal.SIGABRT)
        terminal.wait_for("back: ", "edgetop sessions lists it")
        assert terminal.attributes() == terminal.attributes_before
        after = terminal.output.rpartition(b"\x1b[?1049h")[2]
        assert b"\x1b[?1049l" in after
        assert b"\x1b[?1003l" in after
        assert b"\x1b[?25h" in after
    finally:
        terminal.close()


@pytest.mark.parametrize(
    "is_leader", [True, pytest.param(False, marks=pytest.mark.thorough)]
)  # of the terminal's session: then its end hangs the terminal up
def test_a_run_whose_waiting_process_is_killed_goes_on_detached(is_leader: bool, home: Path) -> None:
    folder = home / "one.edgetop"
    run = ("run", str(home / "model.onnx"), *LIGHT, "-o", str(folder))
    terminal = on_terminal(home, *run, then="" if is_leader else 'echo "back: $?"; read x')
    try:
        terminal.wait_for("p50")
        (writer,) = writers_of(folder)
        os.kill(parent_of(writer), signal.SIGKILL)
        if not is_leader:
            terminal.wait_for("back: 137", "the run continues, recorded in", "edgetop attach one", "press Enter for")
            assert terminal.attributes() == terminal.attributes_before
        wait_until(lambda: (folder / LOG).exists() and "p50" in (folder / LOG).read_text())
        assert "\x1b" not in (folder / LOG).read_text()
        assert os.getsid(writer) == writer
        assert is_live(folder)
        assert edgetop("stop", "one", home=home).returncode == 0
        assert manifest_of(folder)["end_reason"] == "user"
        told = edgetop("export", "one", "--to", "csv", "--table", "events", "-o", "-", home=home).stdout
        assert "the process that waited for the run was killed: the run continues without" in told
    finally:
        terminal.close()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_the_shell_is_given_the_exit_code_of_the_run(home: Path) -> None:
    terminal = on_terminal(home, "run", str(home / "model.onnx"), *LIGHT, "--shape", "nix:1", then='echo "back: $?"')
    try:
        terminal.wait_for("no such input", "back: 2")
    finally:
        terminal.close()
