"""The folder of a session that runs is moved or removed: recording goes on where it is, and what is said fits."""

import contextlib
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from edgetop.recording.registry import REGISTER
from edgetop.recording.session_folder import is_live
from tests.cli.test_leave import RUN, manifest_of, on_terminal, one_session
from tests.support import onnx_models
from tests.support.commands import edgetop, start_edgetop
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path: Path) -> Iterator[object]:
    (tmp_path / "model.onnx").write_bytes(onnx_models.onnx_half_ms())
    process = start_edgetop(*RUN, "--headless", "-o", "one", "--fsync-interval", "200ms", home=tmp_path)
    try:
        grown(tmp_path / "one.edgetop", 2_000)
        yield process
    finally:
        process.kill()
        process.communicate()


def grown(folder: Path, size: int) -> None:
    """Until its journal is so long."""
    journal = folder / "journal/00000001.journal"
    wait_until(lambda: journal.exists() and journal.stat().st_size > size)


def registered_in(place: Path) -> list[Path]:
    """The folders of the sessions that run. A link that is just being replaced is none of them."""
    found = []
    for link in place.iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(link.readlink())
    return found


def is_deleted(folder: Path) -> bool:
    """Delete it. False: its writer has made a file meanwhile."""
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
    return not folder.exists()


CONNECTED = "03"  # of /proc/net/unix (proc_pid_net(5))


def is_connected(pid: int) -> bool:
    """Whether a process has a Unix socket that somebody has accepted, or will."""
    held = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            held.add(str(fd.readlink()))
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return any(row[5] == CONNECTED and f"socket:[{row[6]}]" in held for row in rows)


def test_a_moved_folder_is_recorded_to_the_end_and_named_anew(run, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere/soak.edgetop"
    moved.parent.mkdir()
    (tmp_path / "one.edgetop").rename(moved)
    (tmp_path / "one.edgetop").mkdir()  # whoever takes its place gets nothing
    grown(moved, 2 * (moved / "journal/00000001.journal").stat().st_size)
    place = tmp_path / "state/edgetop" / REGISTER
    wait_until(lambda: registered_in(place) == [moved])
    listed = one_session(tmp_path)
    assert (listed["path"], listed["state"]) == (str(moved), "live")
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, "Traceback" in err) == (0, False)
    assert f"recorded in {moved}\n" in out
    assert list((tmp_path / "one.edgetop").iterdir()) == []
    assert manifest_of(moved)["state"] == "finished"
    assert not (moved / "journal").exists()
    (counted,) = duckdb.sql(f"SELECT sum(count) FROM '{moved}/seconds.parquet'").fetchall()
    assert counted == (json.loads((moved / "session.json").read_text())["methodology"]["measure_runs"],)
    told = duckdb.sql(f"SELECT message FROM '{moved}/events.parquet' WHERE kind = 'recording-moved'").fetchall()
    assert told == [(f"the recording is now in {moved}",)]


@pytest.mark.thorough
def test_who_is_attached_goes_on_and_who_comes_later_finds_it(run, tmp_path: Path) -> None:
    moved = tmp_path / "two.edgetop"
    screen = on_terminal(tmp_path, "attach", str(tmp_path / "one.edgetop"), "--refresh", "100ms")
    try:
        screen.wait_for("p50")
        (tmp_path / "one.edgetop").rename(moved)
        screen.wait_for("the recording is now in")
        screen.send("m")
        screen.wait_for("Mark this moment")
        screen.send("door\r")
        screen.wait_for("user: door")
        stopped = edgetop("stop", "two", home=tmp_path)
        assert (stopped.returncode, stopped.stderr) == (0, "")
        assert stopped.stdout.endswith(f"recorded in {moved}\n")
        screen.wait_for("STOPPED")
        screen.send("q")
        assert screen.wait_for_exit() == 0
    finally:
        screen.close()
    assert run.wait(PATIENCE_S) == 0


def test_a_stop_follows_a_session_that_is_moved_while_it_ends(run, tmp_path: Path) -> None:
    run.send_signal(signal.SIGSTOP)
    ending = start_edgetop("stop", "one", home=tmp_path)
    wait_until(lambda: is_connected(ending.pid))
    (tmp_path / "one.edgetop").rename(tmp_path / "two.edgetop")
    run.send_signal(signal.SIGCONT)
    out, err = ending.communicate(timeout=PATIENCE_S)
    assert (ending.returncode, err) == (0, "")
    assert out.endswith(f"recorded in {tmp_path / 'two.edgetop'}\n")


def test_what_was_deleted_is_not_promised_to_be_completed(run, tmp_path: Path) -> None:
    wait_until(lambda: is_deleted(tmp_path / "one.edgetop"))
    said = next(line for line in run.stderr if "NOT RECORDING" in line)
    assert "it was deleted" in said
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 4
    assert err.splitlines()[-1] == (
        f"edgetop: {tmp_path / 'one.edgetop'}: it was deleted, or moved to another file system: it is not complete "
        "(what was moved has come as far as it was then; what was deleted is lost. The run itself went on)"
    )
    assert "edgetop report" not in err
    assert "but it was deleted" in out
    assert not (tmp_path / "one.edgetop").exists()
    assert is_live(tmp_path / "one.edgetop") is False
    assert json.loads(edgetop("sessions", "--json", home=tmp_path).stdout) == []
