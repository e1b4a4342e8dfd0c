"""A power log as a sensor: aligned, averaged, followed as it grows, in bounded memory."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from edgetop.errors import InputError
from edgetop.sensors.log_formats import FORMATS
from edgetop.sensors.power_log import NS, PIECE_BYTES, LogSpec, PowerLog, follow, is_tegrastats
from edgetop.sensors.sensor_protocol import Backlog, Gap
from tests.support import printed

HEADER = "time_s,power_w\n"


class Session:
    """A log in a file, read at the session times that a test says."""

    def __init__(self, tmp_path: Path, *, offset_s: float = 0.0, bin_s: float = 0.1) -> None:
        self.path = tmp_path / "log.csv"
        self.now_s = 0.0
        spec = LogSpec(self.path, "csv", None, offset_s)
        self.log = PowerLog(spec, lambda: round(self.now_s * NS), bin_s)

    def append(self, *rows: tuple[float, float], end: str = "\n") -> None:
        with self.path.open("a") as file:
            file.write("\n".join(f"{t!r},{w!r}" for t, w in rows) + end)

    def read(self, now_s: float) -> list[tuple[float, float]]:
        """Everything that has become past, in s and W."""
        self.now_s = now_s
        past, peaks = self.log.read()
        assert isinstance(past, Backlog)
        assert isinstance(peaks, Backlog)
        self.peaks_w = [watts for _, watts in peaks.samples]
        assert [t_ns for t_ns, _ in peaks.samples] == [t_ns for t_ns, _ in past.samples]
        return [(t_ns / NS, watts) for t_ns, watts in past.samples]


def begun(tmp_path: Path, rows: Sequence[tuple[float, float]] = (), **more: float) -> Session:
    session = Session(tmp_path, **more)
    session.path.write_text(HEADER)
    if rows:
        session.append(*rows)
    return session


def test_samples_are_averaged_over_bins(tmp_path: Path) -> None:
    session = begun(tmp_path, [(0.02, 4.0), (0.04, 6.0), (0.13, 8.0), (0.25, 1.0)])
    assert session.read(10.0) == [pytest.approx((0.03, 5.0)), pytest.approx((0.13, 8.0))]


def test_the_highest_sample_of_each_bin_is_told_beside_the_mean(tmp_path: Path) -> None:
    session = begun(tmp_path, [(0.02, 0.2), (0.04, 10.0), (0.06, 0.3), (0.13, 8.0), (0.14, 9.0), (0.25, 1.0)])
    assert session.read(10.0) == [pytest.approx((0.04, 3.5)), pytest.approx((0.135, 8.5))]
    assert session.peaks_w == [10.0, 9.0]


def test_the_offset_puts_the_logs_time_on_the_sessions(tmp_path: Path) -> None:
    rows = [(float(t), 10.0 + t) for t in range(6)]
    assert begun(tmp_path, rows, offset_s=-2.5).read(60.0) == [(0.5, 13.0), (1.5, 14.0)]
    assert begun(tmp_path, rows, offset_s=2.5).read(60.0) == [
        (2.5, 10.0), (3.5, 11.0), (4.5, 12.0), (5.5, 13.0), (6.5, 14.0),
    ]  # fmt: skip


def test_a_log_of_the_time_to_come_is_told_when_that_has_come(tmp_path: Path) -> None:
    session = begun(tmp_path, [(float(t), 10.0 + t) for t in range(100)])
    assert [t for t, _ in session.read(2.5)] == [0.0, 1.0, 2.0]
    assert session.read(2.9) == []
    assert [t for t, _ in session.read(5.5)] == [3.0, 4.0, 5.0]


def test_appended_lines_are_read_once_they_are_whole(tmp_path: Path) -> None:
    session = begun(tmp_path)
    assert session.read(1.0) == []
    session.append((1.0, 5.0), (2.0, 6.0), (3.0, 7.0), end="")
    assert session.read(10.0) == [(1.0, 5.0)]
    with session.path.open("a") as file:
        file.write("5\n4.0,8.0\n")  # and so the third was 3.0,7.05
    assert session.read(10.0) == [(2.0, 6.0), (3.0, 7.05)]


def test_rows_without_a_value_are_gaps(tmp_path: Path) -> None:
    session = begun(tmp_path)
    with session.path.open("a") as file:
        file.write("0.5,4\nnan,nan\n1.5,\n\nend of capture\n2.5,6\n3.5,7\n")
    assert session.read(10.0) == [(0.5, 4.0), (2.5, 6.0)]


def test_a_clock_that_stands_still_is_a_gap_with_its_rows_after_what_it_timed(tmp_path: Path) -> None:
    session = begun(tmp_path, [(0.1 * n, 5.0) for n in range(40)])
    session.append(*[(4.0, 9.0)] * 300)
    assert len(session.read(10.0)) == 40
    with pytest.raises(ValueError, match=r"its time stands still: 4 s from row 42 to row 242"):
        session.read(10.0)
    with pytest.raises(ValueError, match="stands still"):
        session.read(10.0)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_semicolons_decimal_commas_and_a_byte_order_mark_are_read(tmp_path: Path, newline: str) -> None:
    """As instruments write them in Germany or France, and Excel saves them."""
    session = Session(tmp_path)
    rows = ["time_s;power_w", "0,5;3,25", "1,5;3,75", "2,5;0,0", ""]
    session.path.write_bytes(newline.join(rows).encode("utf-8-sig"))
    assert session.read(10.0) == [(0.5, 3.25), (1.5, 3.75)]


def test_rows_that_are_not_understood_are_said_with_the_first_of_them(tmp_path: Path) -> None:
    """Decimal commas between commas: 0,050 may be 50 as well."""
    session = begun(tmp_path)
    with session.path.open("a") as file:
        file.write('"0,050","3,1"\n' + '"0,100","3,2"\n' * 29)
    session.now_s = 10.0
    for gap in session.log.read():
        assert isinstance(gap, Gap)
        assert gap.reason.startswith("its last 30 rows have no time and power, the first of them: ")
        assert '"0,050","3,1"' in gap.reason
    session.append((0.5, 4.0), (1.5, 4.0))
    assert session.read(10.0) == [(0.5, 4.0)]


def test_power_that_flows_out_of_the_board_is_a_gap(tmp_path: Path) -> None:
    """It does so all the time with a reversed probe, and now and then with a battery. Some milliwatts are an offset."""
    session = begun(tmp_path, [(0.05, -4.0), (0.15, 5.0), (0.25, -0.004), (0.35, -3.0), (0.45, 1.0)])
    assert session.read(10.0) == [(0.15, 5.0), (0.25, 0.0)]
    assert session.peaks_w == [5.0, 0.0]
    session.append((0.55, -4.0), (0.65, -4.0))
    assert session.read(20.0) == [(0.45, 1.0)]
    session.append((0.75, -4.0))
    for gap in session.log.read():
        assert isinstance(gap, Gap)
        assert gap.reason.startswith("4 W flow the other way")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_log_of_powershell_is_followed_in_pieces(tmp_path: Path, encoding: str) -> None:
    """PowerShell's `>` writes UTF-16 with a byte order mark; a read may end within a character."""
    session = Session(tmp_path)
    rows = [(0.02, 4.0), (0.04, 6.0), (0.13, 8.0), (0.25, 1.0), (0.36, 1.0)]
    content = (HEADER + "".join(f"{t!r},{w!r}\r\n" for t, w in rows)).encode(encoding)
    told = []
    for end in range(0, len(content) + 1, 7):
        session.path.write_bytes(content[:end])  # the same file grows
        told += session.read(10.0)
    session.path.write_bytes(content)
    assert told + session.read(10.0) == [pytest.approx(each) for each in ((0.03, 5.0), (0.13, 8.0), (0.25, 1.0))]


def test_a_tegrastats_log_of_powershell_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    path.write_text(f"{printed.NANO}\n" * 3, encoding="utf-16")
    assert is_tegrastats(path)
    (source,) = follow(LogSpec(path, "tegrastats", None), lambda: 60 * NS).sources
    assert source.read()[0] == Backlog("a log has past samples", ((0, 1.75), (NS, 1.75)))


def test_rows_that_go_back_in_time_are_left_out(tmp_path: Path) -> None:
    session = begun(tmp_path, [(1.0, 5.0), (2.0, 6.0), (1.5, 99.0), (3.0, 7.0), (4.0, 8.0)])
    assert session.read(10.0) == [(1.0, 5.0), (2.0, 6.0), (3.0, 7.0)]


def test_a_file_that_is_written_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    session = begun(tmp_path, [(1.0, 5.0), (2.0, 6.0)])
    session.read(10.0)
    session.path.write_text("Time (ms),Power (mW)\n")
    session.read(10.0)
    with session.path.open("a") as file:
        file.write("11000,1500\n12000,2500\n")
    assert session.read(20.0) == [(11.0, 1.5)]


def test_a_file_that_is_not_there_yet_is_an_error_of_that_read(tmp_path: Path) -> None:
    session = Session(tmp_path)
    with pytest.raises(FileNotFoundError):
        session.read(1.0)
    session.path.write_text(HEADER)
    session.append((1.0, 5.0), (2.0, 6.0))
    assert session.read(10.0) == [(1.0, 5.0)]


def test_a_wrong_first_line_is_told_at_every_read(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.path.write_text("nothing,of,use\n1,2,3\n")
    for _ in range(3):
        with pytest.raises(ValueError, match="no column of time"):
            session.read(1.0)


def test_a_file_without_lines_is_no_log(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.path.write_bytes(b"\0" * 100_000)
    with pytest.raises(ValueError, match="no line ends"):
        session.read(1.0)


@pytest.mark.slow
def test_a_large_file_is_read_in_pieces_and_keeps_its_energy(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    watts = 5 + random.random(150_000)
    session = begun(tmp_path)
    with session.path.open("a") as file:
        file.writelines(f"{i * 1e-4:.4f},{w:.6f}\n" for i, w in enumerate(watts.tolist()))
    assert session.path.stat().st_size > 2 * PIECE_BYTES
    pieces = []
    while piece := session.read(100.0):
        pieces.append(piece)
    assert len(pieces) > 2
    told = [pair for piece in pieces for pair in piece]
    assert len(told) == 149  # 15 s in tenths, of which the last is still open
    assert np.mean([w for _, w in told]) == pytest.approx(watts[:149_000].mean(), rel=1e-6)


def test_it_is_the_total_and_says_how_it_is_aligned(tmp_path: Path) -> None:
    log = PowerLog(LogSpec(tmp_path / "a.csv", "ppk2", 5.1, -2.0), lambda: 0)
    info, peak = log.sensors
    assert (peak.id, peak.role, peak.note) == (
        "power/log-peak",
        "peak",
        "the highest sample of each 0.1 s of power/log",
    )
    assert (info.id, info.role, info.accuracy) == ("power/log", "total", "external-shunt")
    assert info.note == "ppk2 log, its time 0 at session time -2 s, means of 0.1 s, at 5.1 V"


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_log_that_is_not_what_it_is_said_to_be_is_refused(tmp_path: Path, log_format: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary,\n")
    with pytest.raises(InputError, match=r"notes\.txt: no column"):
        follow(LogSpec(path, log_format, 5.0), lambda: 0)


def test_a_log_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a file"):
        follow(LogSpec(tmp_path, "csv", None), lambda: 0)
    with pytest.raises(InputError, match="no such file"):
        follow(LogSpec(tmp_path / "a" / "b.csv", "csv", None), lambda: 0)


def test_a_log_that_is_yet_to_be_written_is_followed(tmp_path: Path) -> None:
    (tmp_path / "later.csv").touch()
    (source,) = follow(LogSpec(tmp_path / "later.csv", "csv", None), lambda: NS).sources
    (tmp_path / "later.csv").write_text(HEADER + "0,1\n0.5,2\n")
    assert source.read() == [Backlog("a log has past samples", ((0, 1.0),))] * 2


def tegrastats(tmp_path: Path, *lines: str, interval_s: float = 1.0) -> tuple[PowerLog, list[tuple[float, float]]]:
    """The log, and all that it tells, in s and W."""
    path = tmp_path / "tegrastats.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    log = PowerLog(LogSpec(path, "tegrastats", None, interval_s=interval_s), lambda: 100 * NS)
    past, _ = log.read()
    assert isinstance(past, Backlog)
    return log, [(t_ns / NS, watts) for t_ns, watts in past.samples]


def test_a_tegrastats_log_is_the_total_rail_by_its_own_time(tmp_path: Path) -> None:
    lines = [
        printed.ORIN_NANO.replace("18:30:28", f"18:30:{28 + i}").replace("17946mW", f"{17000 + i}mW") for i in range(4)
    ]
    log, told = tegrastats(tmp_path, *lines[:2], "dmesg: something else", *lines[2:])
    assert told == [(0.0, 17.0), (1.0, 17.001), (2.0, 17.002)]
    info, _ = log.sensors
    assert (info.role, info.accuracy, info.averages) == ("total", "on-board-monitor", None)
    assert info.note is not None
    assert info.note.startswith("VDD_IN, the total: what goes into the module")


def test_lines_without_a_time_are_an_interval_apart(tmp_path: Path) -> None:
    lines = [printed.NANO.replace("1750/", f"{1750 + i}/") for i in range(4)]
    assert tegrastats(tmp_path, *lines, interval_s=0.5)[1] == [(0.0, 1.75), (0.5, 1.751), (1.0, 1.752)]


def test_without_a_total_the_parts_are_summed_and_are_no_total(tmp_path: Path) -> None:
    log, told = tegrastats(tmp_path, printed.AGX_ORIN, printed.AGX_ORIN.replace("10:36:27", "10:36:28"))
    assert told == [(0.0, pytest.approx(6.755))]
    info, _ = log.sensors
    assert info.role is None
    assert "VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0: about the module, and no total" in str(info.note)


def test_an_empty_tegrastats_log_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "later.log"
    path.touch()
    (source,) = follow(LogSpec(path, "tegrastats", None), lambda: 60 * NS).sources
    assert "VDD_IN, POM_5V_IN or VIN" in str(source.sensors[0].note)
    path.write_text(f"{printed.NANO}\n{printed.NANO}\n")
    assert source.read() == [Backlog("a log has past samples", ((0, 1.75),))] * 2


@pytest.mark.parametrize(
    ("line", "volts", "why"),
    [
        (printed.TX1, None, "no rail of its first line is known as the total: none at all"),
        (printed.NANO, 5.0, "leave --power-volts out"),
        ("Dear diary,", None, "no column of tegrastats"),
    ],
)
def test_a_log_of_tegrastats_without_power_is_refused(tmp_path: Path, line: str, volts: float | None, why: str) -> None:
    path = tmp_path / "t.log"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=why):
        follow(LogSpec(path, "tegrastats", volts), lambda: 0)
