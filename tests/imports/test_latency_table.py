"""Tables of latencies: any separator, units by name, and rows that are not understood."""

import re
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.imports.latency_table import Columns
from edgetop.imports.measured import Times
from edgetop.imports.read import Options, Reading, read

MS, US = 1_000_000, 1_000


def of(folder: Path, text: str, latency: str | None = None, time: str | None = None) -> tuple[Times, Reading]:
    path = folder / "l.csv"
    path.write_text(text)
    reading = read(path, Options(columns=Columns(latency, time)))
    (times,) = reading.found
    assert isinstance(times, Times)
    return times, reading


TABLES = {
    "commas": "latency_ms,x\n1.5,1\n2.5,1\n",
    "semicolons and decimal commas": "n;Latency (ms)\n1;1,5\n2;2,5\n",
    "tabs": "step\tinference_time_us\n1\t1500\n2\t2500\n",
    "quotes": '"id","duration [s]"\n"a, b","0.0015"\n"c","0.0025"\n',
    "camel case": "run,inferenceTimeMs\n1,1.5\n2,2.5\n",
    "units in the cells": "frame,latency\n1,1.5 ms\n2,2500us\n",
    "rows that sum up": "frame,latency_ms\n1,1.5\n2,2.5\nmean,2.0\np99,2.5\n95 %ile,2.5\n",
    "comments": "# by a script\nlatency_ms\n1.5\n2.5\n",
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_column_of_latencies_is_found_by_its_name_and_unit(tmp_path: Path, kind: str) -> None:
    times, _ = of(tmp_path, TABLES[kind])
    assert (times.latency_ns.tolist(), times.has_starts) == ([1_500_000, 2_500_000], False)


@pytest.mark.parametrize(("latency", "time"), [("lat:us", "when:s"), ("2:us", "1:s"), ("LAT:us", "When:seconds")])
def test_columns_are_named_by_the_user(tmp_path: Path, latency: str, time: str) -> None:
    times, _ = of(tmp_path, "when,lat\n100.0,7\n100.5,9\n", latency, time)
    assert (times.latency_ns.tolist(), times.start_ns.tolist()) == ([7 * US, 9 * US], [0, 500 * MS])


def test_a_table_without_names_has_numbers(tmp_path: Path) -> None:
    assert of(tmp_path, "1.5\n2.5\n", "1:ms")[0].latency_ns.tolist() == [1_500_000, 2_500_000]


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,latency_ms\n2026-11-27T12:00:00.250Z,3\n2026-11-27T13:00:01.750+01:00,3\n",
        "timestamp_ns,latency_ms\n1795867200250000001,3\n1795867201750000001,3\n",
    ],
)
def test_times_are_dates_or_numbers(tmp_path: Path, text: str) -> None:
    times, _ = of(tmp_path, text)
    assert (times.start_ns.tolist(), times.end_ns) == ([0, 1_500 * MS], 1_503 * MS)


def test_rows_that_are_not_understood_are_counted_with_the_first(tmp_path: Path) -> None:
    times, reading = of(tmp_path, "latency_ms,who\n1,a\nfailed,b\n-3,c\nnan,d\n2,e\n")
    assert times.latency_ns.tolist() == [MS, 2 * MS]
    assert reading.notes == (
        '2 of 5 rows not understood, the first: "row 3: failed,b"',
        '1 of 5 rows left out, as no inference takes such a time, the first: "row 4: -3,c"',
        '1 of 2 columns not read, the first: "who"',
    )


def test_a_time_that_stands_still_or_goes_back_is_said(tmp_path: Path) -> None:
    still, reading = of(tmp_path, "t_s,latency_ms\n1,5\n1,6\n1,7\n")
    assert (still.has_starts, reading.notes) == (False, ("column 't_s' not used: its time stands still",))
    back, reading = of(tmp_path, "t_s,latency_ms\n1,5\n3,6\n2,7\n")
    assert (back.latency_ns.tolist(), back.start_ns.tolist()) == ([5 * MS, 7 * MS, 6 * MS], [0, 1000 * MS, 2000 * MS])
    assert reading.notes == ("column 't_s': its time goes back in 1 row, first at inference 3",)


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ("0 1", "column 'time' does not name its unit: --time-column time:s"),
        ("10:00:00 10:00:01", "column 'time' has no number and no date: '10:00:00'"),
    ],
)
def test_times_that_cannot_be_read_leave_the_latencies(tmp_path: Path, cells: str, why: str) -> None:
    text = "time,latency_ms\n" + "".join(f"{cell},5\n" for cell in cells.split())
    times, reading = of(tmp_path, text)
    assert (times.latency_ns.tolist(), times.has_starts) == ([5 * MS, 5 * MS], False)
    assert f"times not used: {why}" in reading.notes
    with pytest.raises(InputError, match=re.escape(why)):
        of(tmp_path, text, time="time")


BAD = {
    "no such column": ("a,b\n1,2\n", "c:ms", "no column 'c': it has a, b"),
    "no unit": ("a,b\n1,2\n", "a", "does not name its unit: --latency-column a:ms"),
    "two": ("latency_ms,infer_ms\n1,2\n", None, "several columns may be latencies"),
    "nothing": ("latency_ms\nx\n", None, "has no latency"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_told_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    text, latency, why = BAD[case]
    with pytest.raises(InputError) as refused:
        of(tmp_path, text, latency)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("frame,latency_ms\n1,1.5\nframe,latency_ms\n1,2.5\n", "row 3 names the columns again: of two runs"),
        ("Latency\n1.5\n", "column 'Latency' does not name its unit: --latency-column Latency:ms"),
        ("frame,ms\n1,1.5\n2,2.5\n", r"no column is named as a latency \(frame, ms\): .* --latency-column ms "),
        ("ms\n1.5\n2.5\n", r"no column is named as a latency \(ms\): choose one, such as --latency-column ms "),
        ("time,value\n1,2\n2,3\n", r"\(time, value\): choose one, such as --latency-column value:ms"),
        ("1.5\n2.5\n", "a table without names of columns: .*, such as --latency-column 1:ms"),
    ],
)
def test_a_table_that_is_not_one_run_or_has_no_unit_is_refused_with_the_reason(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        of(tmp_path, text)
