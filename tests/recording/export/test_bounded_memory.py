"""Memory of an export does not grow with the session: measured as the peak of a process of its own.

Not by getrusage(2), whose figure a process inherits from the one that started it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from edgetop.recording import columns
from edgetop.recording.columns import SCHEMAS
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from tests.support.recordings import back_to_back, record, session

pytestmark = pytest.mark.slow

GROUP = 20_000
PROGRAM = """
import sys
from pathlib import Path
from tests.support.exports import export
form, hz, out, *folders = sys.argv[1:]
for number, folder in enumerate(folders):
    export(Path(folder), form, Path(out) / str(number), hz=float(hz))
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
MORE_KIB = 10_000  # held all at once, ten times the rows cost 22 MB and more
GIVES_BACK = {  # allocators that keep nothing they need not, so that what is measured is what is held
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_MMAP_THRESHOLD_": "65536",
}


def lengthened(folder: Path, groups: int) -> Path:
    """A recording of back to back inferences of 1 ms in so many row groups."""
    record(folder, list(session(back_to_back(2, 20e6))))
    aggregator, seconds = SecondAggregator(), []
    with pq.ParquetWriter(folder / "inferences.parquet", SCHEMAS["inferences"]) as out:
        for group in range(groups):
            inferences = back_to_back(GROUP, 1e6, group, start_ns=group * 21 * NS)
            seconds.append(aggregator.add(inferences))
            out.write_table(columns.to_arrow("inferences", inferences))
    rows = columns.to_arrow("seconds", concatenate([*seconds, aggregator.close()]))
    pq.write_table(rows, folder / "seconds.parquet", row_group_size=600)
    text = (folder / "session.json").read_text()
    duration = next(line for line in text.splitlines() if '"duration_ns"' in line)
    (folder / "session.json").write_text(text.replace(duration, f' "duration_ns": {groups * 21 * NS},'))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """By their number of row groups."""
    home = tmp_path_factory.mktemp("lengths")
    return {groups: lengthened(home / f"{groups}.edgetop", groups) for groups in (1, 4, 40)}


def peaks_kib(form: str, hz: float, out: Path, *folders: Path) -> list[int]:
    """Of one process, after each."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, form, str(hz), out, *folders],
        cwd=Path(__file__).parents[3], env={**os.environ, **GIVES_BACK}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize(
    ("form", "hz"),
    [*(pytest.param(form, 1, marks=pytest.mark.thorough) for form in ("csv", "json", "session")), ("parquet", 100)],
)
def test_ten_times_the_row_groups_take_no_more_memory(form, hz, folders, tmp_path):
    short, long_ = peaks_kib(form, hz, tmp_path, folders[4], folders[40])
    assert long_ - short < MORE_KIB


@pytest.mark.thorough
def test_spans_of_a_trace_are_not_held_either(folders, tmp_path):
    short, long_ = peaks_kib("perfetto", 1, tmp_path, folders[1], folders[4])
    assert (tmp_path / "1").stat().st_size > 2_500_000
    assert long_ - short < MORE_KIB
