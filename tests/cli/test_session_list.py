"""`edgetop sessions`: every session in a line, hostile ones too, and quickly."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from edgetop.cli.sessions.session_list import Listed, listed, table
from edgetop.recording.registry import Outcome, register, write_outcome
from edgetop.recording.session_folder import read_manifest, write_manifest
from edgetop.session.batch import Batch
from edgetop.session.manifest import Board, Model
from edgetop.session.seconds import NS
from tests.support.commands import edgetop, environment
from tests.support.recordings import (
    back_to_back,
    first_manifest,
    left_by_a_dead_writer,
    record,
    session,
    until,
)
from tests.support.scripts import measured
from tests.support.sessions import ended_event, session_id
from tests.support.slow_sessions import session_of, stretch

KEYS = ["name", "path", "id", "state", "duration_s", "size_bytes", "model", "board", "verdict"]
KEYS += ["created_utc", "p50_ms", "p99_ms", "reason"]


def over(folder: Path, hour: int = 10, **changes: object) -> Path:
    """A session of which there is a manifest and no more."""
    folder.mkdir(parents=True)
    ended = {"state": "finished", "end_reason": "duration", "duration_ns": 90_061_000_000_000}
    created = f"2026-11-21T{hour:02}:00:00.000000Z"
    named = {"name": folder.stem, "id": session_id(folder.stem), "created_utc": created}
    write_manifest(folder, replace(first_manifest(), **{**ended, **named, **changes}))  # type: ignore[arg-type]
    return folder


def test_sessions_of_all_places_are_listed_newest_first(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    over(home / "at-home.edgetop", 10)
    over(here / "near.edgetop", 12)
    register(home, over(tmp_path / "far" / "far.edgetop", 11), session_id("far"))
    sessions = [asdict(session) for session in listed(home, here)]
    assert [session["name"] for session in sessions] == ["near", "far", "at-home"]
    assert [list(session) for session in sessions] == [KEYS] * 3
    assert sessions[1]["path"] == str(tmp_path / "far" / "far.edgetop")
    assert sessions[1]["size_bytes"] == (tmp_path / "far" / "far.edgetop" / "session.json").stat().st_size


def test_without_tables_the_verdict_is_how_it_ended(tmp_path: Path) -> None:
    over(tmp_path / "s.edgetop", end_reason="engine-died")
    (session,) = listed(tmp_path, tmp_path)
    assert (session.verdict, session.p50_ms) == ("engine died", None)


def throttled_session(folder: Path) -> Path:
    batch = session_of(
        stretch((60, 10.0), (20, 14.0), (20, 10.0)), {"throttle/thermal": stretch((60, 0.0), (20, 1.0), (20, 0.0))}
    )
    return record(folder, [batch, Batch(100 * NS, events=(ended_event(100 * NS, "duration"),))])


def test_what_it_came_to_is_listed_and_not_how_the_process_ended(tmp_path: Path) -> None:
    throttled_session(tmp_path / "s.edgetop")
    (session,) = listed(tmp_path, tmp_path)
    assert session.verdict == "throttled 1x, 20 %"
    assert session.p50_ms == pytest.approx(10, rel=0.02)
    assert session.p99_ms == pytest.approx(14.3, rel=0.03)
    head, row = table([session], None)
    assert "throttled 1x, 20 %  2026-" in row
    assert head.split()[:4] == ["SESSION", "VERDICT", "DATE", "DURATION"]


def test_tables_are_read_once_and_what_they_gave_is_kept(tmp_path: Path) -> None:
    folder = throttled_session(tmp_path / "s.edgetop")
    (first,) = listed(tmp_path, tmp_path)
    (folder / "seconds.parquet").unlink()
    (again,) = listed(tmp_path, tmp_path)
    assert (again.verdict, again.p50_ms) == (first.verdict, first.p50_ms)
    assert stat.S_IMODE((folder / "outcome.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"of": 1}', '{"verdict": 3, "of": null}', "x" * 9_000, '{"verdict": "a", "p50_ms": "b"}']
)
def test_a_kept_outcome_that_is_no_outcome_is_made_anew(text: str, tmp_path: Path) -> None:
    folder = throttled_session(tmp_path / "s.edgetop")
    (folder / "outcome.json").write_text(text)
    (session,) = listed(tmp_path, tmp_path)
    assert session.verdict == "throttled 1x, 20 %"


def test_the_outcome_of_another_manifest_does_not_count(tmp_path: Path) -> None:
    folder = throttled_session(tmp_path / "s.edgetop")
    write_outcome(folder, Outcome("steady", 1.0, 2.0))
    assert listed(tmp_path, tmp_path)[0].verdict == "steady"
    write_manifest(folder, replace(read_manifest(folder), name="another"))
    assert listed(tmp_path, tmp_path)[0].verdict == "throttled 1x, 20 %"


def test_a_session_whose_writer_died_is_recovered_and_listed_so(tmp_path: Path) -> None:
    left_by_a_dead_writer(tmp_path / "s.edgetop", until(measured(20).batches, 10))
    (session,) = listed(tmp_path, tmp_path)
    assert (session.state, session.verdict) == ("recovered", "cut short")
    assert session.duration_s == pytest.approx(10, abs=1)


def test_one_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    over(tmp_path / "sound.edgetop")
    (tmp_path / "broken.edgetop").mkdir()
    (tmp_path / "broken.edgetop" / "session.json").write_text('{"format_version": 99}')
    sound, broken = listed(tmp_path, tmp_path)
    assert (sound.name, broken.name, broken.state, broken.id) == ("sound", "broken", "unreadable", None)
    assert "UNREADABLE" in table([broken], None)[1]


def line(**changes: object) -> Listed:
    known = Listed("soak", "/x/soak.edgetop", "1", "finished", 61.0, 2**20, "m.onnx", "Raspberry Pi 5", "steady")
    return replace(known, **changes)  # type: ignore[arg-type]


def test_columns_are_aligned_whatever_stands_in_them() -> None:
    lines = table([line(state="live", verdict="MEASURING"), line(name="\N{CJK UNIFIED IDEOGRAPH-6F22}" * 4)], None)
    assert lines[1].startswith("* soak")
    ends = {cell_len(text[: text.index("1.0 MiB")]) for text in lines[1:]}
    assert len(ends) == 1


@pytest.mark.parametrize("columns", [1, 20, 40, 80])
def test_on_a_narrow_terminal_nothing_is_cut(columns: int) -> None:
    """Each session then takes two lines."""
    sessions = [line(name="x" * 200), line(name="\N{CJK UNIFIED IDEOGRAPH-6F22}" * 90, model="m" * 90)]
    narrow, wide = table(sessions, columns), table(sessions, None)
    assert (len(narrow), len(wide)) == (6, 3)
    words = [" ".join(narrow[at : at + 2]).split() for at in (0, 2, 4)]
    assert words == [text.split() for text in wide]
    assert len({text.index("1.0 MiB") for text in narrow[3::2]}) == 1


def test_a_table_that_fits_has_a_line_for_each_session() -> None:
    wide = table([line(), line(name="other")], None)
    assert table([line(), line(name="other")], max(map(len, wide))) == wide
    assert len(table([line(), line(name="other")], max(map(len, wide)) - 1)) == 6


def test_foreign_text_in_the_table_acts_on_no_terminal(tmp_path: Path) -> None:
    hostile = "a\x1b[31m[red]\u202e\n"
    over(tmp_path / "s.edgetop", name=hostile, model=Model(f"/m/{hostile}"), board=Board(model=hostile))
    shown = "\n".join(table(listed(tmp_path, tmp_path), None))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert shown.count("\n") == 1
    assert "[red]" in shown


@pytest.mark.slow
def test_where_outcomes_are_kept_no_table_is_read(tmp_path: Path) -> None:
    """So that hundreds are listed at once: no Arrow is loaded, no table opened."""
    for number in range(5):
        folder = over(tmp_path / "state" / "edgetop" / f"soak-{number}.edgetop")
        write_outcome(folder, Outcome("steady", 1.0, 2.0))
    code = (
        "import sys; from edgetop.cli.main import main\n"
        "try: main(['sessions', '--json'])\n"
        "finally: print('pyarrow' in sys.modules, 'textual' in sys.modules, file=sys.stderr)"
    )
    argv, home = [sys.executable, "-c", code], environment(tmp_path)
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path, env=home)
    assert [session["verdict"] for session in json.loads(done.stdout)] == ["steady"] * 5
    assert done.stderr.split() == ["False", "False"]


@pytest.mark.slow
def test_where_there_is_nothing_that_is_said(tmp_path: Path) -> None:
    done = edgetop("sessions", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no running and no recorded sessions in" in done.stderr
    assert json.loads(edgetop("sessions", "--json", home=tmp_path).stdout) == []


def test_a_session_is_called_by_its_folder_by_which_it_is_found(tmp_path: Path) -> None:
    over(tmp_path / "moved.edgetop", name="as-it-was-made")
    assert [session.name for session in listed(tmp_path, tmp_path)] == ["moved"]


@pytest.mark.slow
@pytest.mark.parametrize("key", ["delay_ns", "duty_off_ns", "duty_on_ns"])
def test_an_oversized_integer_is_a_line_and_hides_no_session(tmp_path: Path, key: str) -> None:
    home = tmp_path / "edgetop"
    for name in ("odd", "sound"):
        record(home / f"{name}.edgetop", list(session(back_to_back(100, 20e6))))
    path = home / "odd.edgetop/session.json"
    manifest = json.loads(path.read_text())
    manifest["load"][key] = 10**30
    path.write_text(json.dumps(manifest))
    (home / "pipe.edgetop").mkdir()
    os.mkfifo(home / "pipe.edgetop/session.json")
    done = edgetop("sessions", home=tmp_path, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert f"session.json: not a manifest: session.json: load: {key} has an unexpected value" in lines["odd"]
    assert "too short to tell" in lines["sound"]
    assert "UNREADABLE" in lines["pipe"]
    for command in (("report",), ("export", "--to", "csv", "-o", "x")):
        refused = edgetop(command[0], str(home / "odd.edgetop"), *command[1:], home=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert key in refused.stderr
