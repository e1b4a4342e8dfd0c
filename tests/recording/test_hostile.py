"""Recordings that come from elsewhere: as much as is sound, one line for the rest, never a traceback."""

import json
import os
import re
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_report import report
from edgetop.cli.printing.report_text import summary
from edgetop.errors import InputError
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.recording.reader import Recording
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from edgetop.wording.report_document import to_json
from tests.support.clocks import ManualClock
from tests.support.commands import edgetop
from tests.support.damage import run_here
from tests.support.recordings import back_to_back, content, first_manifest, record, session, with_phases
from tests.support.thorough import mostly_thorough


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "s.edgetop"
    return record(folder, list(session(with_phases(back_to_back(600, 20e6)), seed=5)))


@pytest.fixture
def recorded(tmp_path: Path, original: Path) -> Path:
    return shutil.copytree(original, tmp_path / "s.edgetop")


def opened(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Its report, and what was wrong with it."""
    recording, analysis = Recording(folder), Analysis()
    for batch in recording.play(inferences=True):
        analysis.fold(batch)
        analysis.view(None).freeze()
    result = report(analysis)
    document = to_json(result)
    json.dumps(document, allow_nan=False)
    summary(result)
    replayed(folder)
    return document, recording.problems


def replayed(folder: Path) -> None:
    """It can be played and gone about in."""
    feed, analysis = ReplayFeed(Recording(folder), ManualClock()), Analysis()
    for t_ns in (0, feed.transport.end_ns, feed.transport.end_ns // 2):
        feed.seek(t_ns)
        batch = feed.read()
        assert batch is not None
        analysis.fold(batch)
        analysis.view(None).freeze()


def changed(path: Path, **columns: Callable[[pa.ChunkedArray], Any]) -> None:
    """Rewrite some columns of a table."""
    table = pq.read_table(path)
    for name, change in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(change(table[name])))
    pq.write_table(table, path)


def first_is(value: object) -> Callable[[pa.ChunkedArray], list[object]]:
    return lambda column: [value, *column.to_pylist()[1:]]


YEAR_S = 365 * 86_400

SPOILT: dict[str, tuple[str, dict[str, Any]]] = {
    "time before all time": ("inferences", {"t_ns": first_is(-(2**63))}),
    "time after all time": ("seconds", {"t_ns": first_is(2**62)}),
    "a second years after the end": ("seconds", {"t_ns": first_is(3 * YEAR_S * NS)}),
    "a reading years after the end": ("readings", {"t_ns": first_is(3 * YEAR_S * NS)}),
    "latency that is none": ("inferences", {"latency_ns": first_is(-5)}),
    "a second that does not begin one": ("seconds", {"t_ns": first_is(5)}),
    "buckets below zero": ("seconds", {"bucket": lambda c: [[-1] * len(b) for b in c.to_pylist()]}),
    "buckets beyond the last": ("seconds", {"bucket": lambda c: [[32_000] * len(b) for b in c.to_pylist()]}),
    "counts below zero": ("seconds", {"bucket_count": lambda c: [[-9] * len(b) for b in c.to_pylist()]}),
    "lists of absurd length": ("seconds", dict.fromkeys(["bucket", "bucket_count"], first_is([1] * 1_000_000))),
    "counts that the histogram denies": ("seconds", {"count": first_is(2**31 - 1)}),
    "a spread that is no number": ("seconds", {"m2_ns2": first_is(float("nan"))}),
    "readings that are no numbers": ("readings", {"value": first_is(float("nan"))}),
    "readings without end": ("readings", {"value": first_is(float("inf"))}),
    "events in no time": ("events", {"t_ns": first_is(2**63 - 1)}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", SPOILT)
def test_rows_that_cannot_be_true_are_left_out_and_told(recorded: Path, case: str) -> None:
    name, columns = SPOILT[case]
    changed(recorded / f"{name}.parquet", **columns)
    document, (problem,) = opened(recorded)
    assert problem.startswith(f"{recorded}/{name}.parquet: rows that cannot be true are left out")
    if "buckets" not in case and "counts below" not in case:
        assert document["latency"]["count"] > 400


@pytest.mark.parametrize(
    "columns",
    [
        {"latency_ns": lambda c: ["text"] * len(c)},
        {"t_ns": lambda c: [None] * len(c)},
        {"ok": lambda c: [{"a": 1}] * len(c)},
        {"phase": lambda c: ["unheard-of"] * len(c)},
    ],
)
def test_columns_of_another_type_are_damage(recorded: Path, columns: dict[str, Any]) -> None:
    changed(recorded / "inferences.parquet", **columns)
    document, problems = opened(recorded)
    assert document["latency"]["count"] > 400
    assert all("inferences.parquet: " in problem for problem in problems)


def test_a_table_without_its_end_costs_itself_alone(recorded: Path) -> None:
    path = recorded / "readings.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    document, (problem,) = opened(recorded)
    assert problem.startswith(f"{path}: is damaged")
    assert document["latency"]["count"] > 400


def test_a_damaged_row_group_costs_itself_alone(recorded: Path) -> None:
    path = recorded / "inferences.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=100, write_page_checksum=True)
    group = pq.ParquetFile(path).metadata.row_group(2).column(1)
    data = bytearray(path.read_bytes())
    data[group.data_page_offset + group.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    recording = Recording(recorded)
    assert sum(len(batch.inferences) for batch in recording.play(inferences=True)) == 500
    (problem,) = recording.problems
    assert "is damaged" in problem


ESCAPES = "\x1b]0;owned\x07[bold red]\x1b[2J\u202e\n\r"


@pytest.mark.slow
def test_escapes_and_markup_in_names_stay_text(recorded: Path) -> None:
    manifest = json.loads((recorded / "session.json").read_text())
    manifest["name"] = manifest["model"]["path"] = manifest["board"]["model"] = ESCAPES
    manifest["end_reason"] = ESCAPES
    manifest["engine"]["providers"] = [ESCAPES]
    for sensor in manifest["sensors"]:
        sensor["id"] = f"temp/{ESCAPES}"
    (recorded / "session.json").write_text(json.dumps(manifest))
    changed(recorded / "events.parquet", message=lambda c: [ESCAPES] * len(c), severity=lambda c: ["critical"] * len(c))
    done = edgetop("report", recorded, home=recorded.parent)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "link to nothing"])
@pytest.mark.parametrize("name", ["inferences", "seconds"])
def test_what_is_no_file_is_not_read_as_a_table(recorded: Path, name: str, kind: str) -> None:
    path = recorded / f"{name}.parquet"
    outside = shutil.copy(path, recorded.parent / "outside.parquet")
    path.unlink()
    {
        "link": lambda: path.symlink_to(outside),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "link to nothing": lambda: path.symlink_to("nowhere"),
    }[kind]()
    _, (problem,) = opened(recorded)
    assert problem.startswith(f"{path}: is damaged")


@pytest.mark.slow
def test_one_line_says_what_is_wrong_and_the_rest_is_reported(recorded: Path) -> None:
    (recorded / "readings.parquet").unlink()
    (recorded / "events.parquet").write_bytes(b"PAR1")
    before = content(recorded)
    done = edgetop("report", recorded, "--json", home=recorded.parent)
    assert done.returncode == 2
    assert json.loads(done.stdout)["latency"]["count"] > 400
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"edgetop: {recorded}/readings.parquet: is missing (and 1 more;")
    assert content(recorded) == before


def test_an_age_without_rows_is_passed_over_in_one_step(tmp_path: Path) -> None:
    inferences = back_to_back(10, 1e6)
    inferences["t_ns"][5:] += 9 * 365 * 86_400 * NS
    folder = record(tmp_path / "s.edgetop", [Batch(manifest=first_manifest(), inferences=inferences)])
    batches = list(Recording(folder).play(inferences=True))
    assert len(batches) < 6
    assert np.concatenate([batch.inferences for batch in batches])["t_ns"].tolist() == inferences["t_ns"].tolist()


def in_order_of(places: Callable[[int], list[int]]) -> Callable[[Path], None]:
    def rewrite(path: Path) -> None:
        table = pq.read_table(path)
        pq.write_table(table.take(pa.array(places(len(table)))), path, row_group_size=9)

    return rewrite


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", mostly_thorough(["seconds", "events", "inferences", "readings", "operators"], "seconds")
)
@pytest.mark.parametrize(
    "order",
    [
        lambda n: list(range(n))[::-1],
        pytest.param(lambda n: [*range(n // 2, n), *range(n // 2)], marks=pytest.mark.thorough),
    ],
)
def test_rows_in_another_order_are_put_in_order(
    recorded: Path, original: Path, name: str, order: Callable[[int], list[int]]
) -> None:
    in_order_of(order)(recorded / f"{name}.parquet")
    document, problems = opened(recorded)
    assert problems == []
    assert document["lost"] is None
    if name in ("seconds", "events"):
        assert document == opened(original)[0]
    for form in ("csv", "json", "parquet", "perfetto", "session"):
        assert run_here("export", str(recorded), "--to", form, "-o", str(recorded.parent / form))[1] == ""


def test_seconds_that_come_twice_count_once(recorded: Path, original: Path) -> None:
    in_order_of(lambda n: [*range(n), *range(n)])(recorded / "seconds.parquet")
    document, _ = opened(recorded)
    assert document["latency"]["count"] == opened(original)[0]["latency"]["count"]


def test_an_unknown_phase_is_left_out_and_counted(recorded: Path) -> None:
    changed(recorded / "inferences.parquet", phase=first_is("unheard-of"))
    document, (problem,) = opened(recorded)
    assert "rows that cannot be true are left out: 1 or more" in problem
    assert document["lost"]["inferences"] == 1
    for form in ("csv", "json", "parquet", "perfetto", "session"):
        said = run_here("export", str(recorded), "--to", form, "-o", str(recorded.parent / form))[1]
        assert "left out" in said or form == "parquet"


def test_what_a_damaged_table_of_seconds_lacks_is_counted(recorded: Path, original: Path) -> None:
    path = recorded / "seconds.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=4, write_page_checksum=True)
    group = pq.ParquetFile(path).metadata.row_group(1).column(4)
    data = bytearray(path.read_bytes())
    data[group.data_page_offset + group.total_compressed_size - 2] ^= 1
    path.write_bytes(data)
    document, (problem,) = opened(recorded)
    missing = opened(original)[0]["latency"]["count"] - document["latency"]["count"]
    assert missing > 100
    assert (document["lost"]["seconds"], document["lost"]["inferences"]) == (4.0, missing)
    assert document["lost"]["why"] == problem


def test_a_damaged_description_is_told_and_the_rest_is_reported(recorded: Path, original: Path) -> None:
    path = recorded / "session.json"
    document = json.loads(path.read_text())
    document["board"]["cores"], document["labels"], document["added_later"] = "many", 5, {"a": [1]}
    path.write_text(json.dumps(document))
    document, problems = opened(recorded)
    assert problems == [f"{path}: damaged, so not known: board: cores, labels"]
    assert (document["lost"], document["session"]["board"]["cores"], document["session"]["labels"]) == (None, None, {})
    assert document["latency"] == opened(original)[0]["latency"]


def test_a_manifest_of_absurd_size_or_depth_is_refused_before_it_takes_memory(recorded: Path) -> None:
    path = recorded / "session.json"
    text = path.read_text()
    for hostile, why in (
        ('{"a": [' + "[]," * 20_000_000 + "[]]}", "not a manifest: larger than 4.0 MiB"),
        ("[" * 100_000 + "]" * 100_000, "not a manifest: "),
        ('{"labels": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "," + text.lstrip()[1:], "not a manifest: "),
    ):
        path.write_text(hostile)
        tracemalloc.start()
        with pytest.raises(InputError, match=re.escape(f"{path}: {why}")):
            Recording(recorded)
        assert tracemalloc.get_traced_memory()[1] < 64e6
        tracemalloc.stop()


def test_a_session_that_claims_to_last_for_ever_is_read_fast(recorded: Path) -> None:
    path = recorded / "session.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "duration_ns": 2**63 - 1}))
    document, _ = opened(recorded)
    assert document["latency"]["count"] > 400
