"""The usage table: its rows, for one session and for a group, as text and as CSV."""

from dataclasses import replace

from edgetop.analysis.usage import UsageFigures
from edgetop.cli.printing.usage_text import usage_csv, usage_lines
from edgetop.comparison.usage_table import KEYS, UsageRow, usage_row

ONE = UsageFigures(50.0, 80.0, 100.0, 120.0, 1024, 2048, None, 4096, 12_500.0, mem_limit_mib=512.0)
OTHER = UsageFigures(70.0, 75.0, 110.0, 115.0, 3072, 2048, None, 0, 13_500.0, mem_limit_mib=512.0)


def row_of(*usages: UsageFigures | None) -> UsageRow:
    row = usage_row("train", usages)
    assert row
    return row


def test_the_row_of_a_session_has_its_figures() -> None:
    assert row_of(ONE).to_json() == {
        "name": "train", "cpu_mean_pct": 50.0, "cpu_peak_pct": 80.0, "mem_mean_mib": 100.0, "mem_peak_mib": 120.0,
        "mem_limit_mib": 512.0, "cgroup_peak_mib": None, "net_rx_bytes": 1024, "net_tx_bytes": 2048,
        "block_read_bytes": None, "block_write_bytes": 4096, "total_time_ms": 12_500.0,
    }  # fmt: skip
    assert usage_row("empty", [None]) is None


def test_a_group_has_medians_and_the_highest_peaks() -> None:
    values = row_of(ONE, None, OTHER).to_json()
    assert (values["cpu_mean_pct"], values["mem_mean_mib"], values["total_time_ms"]) == (60.0, 105.0, 13_000.0)
    assert (values["cpu_peak_pct"], values["mem_peak_mib"]) == (80.0, 120.0)


def test_columns_without_a_value_are_left_out() -> None:
    lines = list(usage_lines([row_of(ONE)], 160))
    assert lines[0] == ""
    assert " ".join(lines[1].split()) == "usage CPU % peak MiB peak MiB limit net in net out written time"
    assert lines[2] == "train     50    80  100.0     120.0  512.0  1.0 KiB  2.0 KiB  4.0 KiB  12.5s"
    assert list(usage_lines([], 160)) == []


def test_a_narrow_terminal_has_two_tables() -> None:
    lines = list(usage_lines([row_of(ONE)], 60))
    assert max(map(len, lines)) <= 60
    assert [line.split()[0] for line in lines if line] == ["usage", "train"] * 2


def test_long_names_keep_their_begin_and_end_at_every_width() -> None:
    names = [f"face_detection_short_range.tflite threads={count}, batch=1" for count in (1, 2)]
    rows = [replace(row_of(ONE), name=name) for name in names]
    assert [line.split("  ")[0] for line in usage_lines(rows, 200)][2:] == names
    for columns in (60, 80, 100, 120):
        lines = [line for line in usage_lines(rows, columns) if line]
        assert max(map(len, lines)) <= columns
        shown = [line.split("  ")[0] for line in lines if not line.startswith("usage")]
        assert all(name.startswith("face") and name.endswith(("threads=1, batch=1", "=1", "batch=1")) for name in shown)
        assert len(shown[0]) >= 16


def test_csv_has_every_column() -> None:
    head, row = usage_csv([row_of(ONE)])
    assert head == ("name", *KEYS)
    assert row == ("train", 50.0, 80.0, 100.0, 120.0, 512.0, None, 1024, 2048, None, 4096, 12_500.0)
