"""The screen's exports: a process of their own that says in a line how it ended."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from edgetop.cli.exporting import ExportProcess, SessionExporter
from edgetop.ui.screen_settings import Export
from tests.support.recordings import record
from tests.support.scripts import measured
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record(tmp_path / "soak.edgetop", measured(3).end().batches)


def ended(export: Export) -> tuple[bool, str]:
    wait_until(lambda: export.result() is not None)
    result = export.result()
    assert result is not None
    return result


def test_an_export_goes_to_the_current_folder_replacing_nothing(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "json.py").write_text("raise SystemExit('a file of the user was run')")
    for name in ("soak.parquet", "soak-2.parquet"):
        is_done, said = ended(SessionExporter().begin(recording, "parquet"))
        assert is_done, said
        assert said.startswith(f"wrote {tmp_path / 'here' / name} (")
        assert len(pq.read_table(name)) > 0


def test_a_recording_that_is_gone_is_told_in_a_line(tmp_path: Path) -> None:
    is_done, said = ended(ExportProcess(tmp_path / "gone.edgetop", "csv", tmp_path / "x"))
    assert not is_done
    assert "gone.edgetop" in said
    assert "\n" not in said


def test_an_export_gives_way_to_everything_else(recording: Path, tmp_path: Path) -> None:
    export = ExportProcess(recording, "json", tmp_path / "x.jsonl")
    assert os.getpriority(os.PRIO_PROCESS, export._process.pid) >= 10
    assert os.getsid(export._process.pid) == export._process.pid
    assert ended(export)[0]


def test_every_format_of_the_command_line_is_offered_with_words() -> None:
    assert list(SessionExporter().forms) == ["csv", "json", "parquet", "perfetto", "session"]
    assert all(SessionExporter().forms.values())
