"""The formats of fast power meters, read in pieces."""

from pathlib import Path

import numpy as np
import pytest

from edgetop.imports.power_trace import PowerTrace, Scale, TraceSpec
from edgetop.recording import csv_numbers

PPK2 = "Timestamp(ms),Current(uA),D0\n0.00,1000000,0\n0.01,2000000,0\n0.02,1500000,1\n"
# PyMonsoon, sampleEngine.py: seconds under the name ms, a comma at the end, and packets that share a time.
MONSOON = "Time(ms),Main(mA),Main Voltage(V),\n0.0,1000,5.0,\n0.0,1000,5.0,\n0.0004,2000,5.0,\n0.0004,1000,5.0,\n"
JOULESCOPE = "#header=time,current,voltage,power\n0.0,1.0,5.0,5.0\n0.001,2.0,5.0,10.0\n"
OTII = "Timestamp (s);Main current (mA);Main voltage (V)\n0,0;1000,5;5,0\n0,001;2000;5,0\n"
SCOPE = "Model,DS1054Z\nSample interval,1e-6\n\nTime,CH1,CH2\ns,V,V\n-1e-6,0.1,5.0\n0,0.2,5.0\n1e-6,0.1,5.0\n"


def read(path: Path, text: str, log_format: str, **more: object) -> tuple[list[float], list[float]]:
    path.write_text(text)
    pieces = list(PowerTrace(TraceSpec(path, log_format, **more)).pieces())  # type: ignore[arg-type]
    return [float(t) for piece in pieces for t in piece.t_s], [float(w) for piece in pieces for w in piece.watts]


def test_a_ppk2_has_milliseconds_and_microamperes(tmp_path: Path) -> None:
    t_s, watts = read(tmp_path / "log", PPK2, "ppk2", volts=5.0)
    assert t_s == pytest.approx([0, 1e-5, 2e-5])
    assert watts == pytest.approx([5.0, 10.0, 7.5])


def test_the_rows_of_a_monsoons_packet_are_spread_over_its_time(tmp_path: Path) -> None:
    t_s, watts = read(tmp_path / "log", MONSOON, "monsoon")
    assert t_s == pytest.approx([0, 0.0002, 0.0004, 0.0006])
    assert watts == pytest.approx([5, 5, 10, 5])


def test_a_joulescope_has_its_names_in_a_comment(tmp_path: Path) -> None:
    assert read(tmp_path / "log", JOULESCOPE, "joulescope") == ([0.0, 0.001], [5.0, 10.0])


def test_otii_may_have_decimal_commas(tmp_path: Path) -> None:
    t_s, watts = read(tmp_path / "log", OTII, "otii")
    assert t_s == [0.0, 0.001]
    assert watts == pytest.approx([5.0025, 10.0])


def test_an_oscilloscope_has_lines_before_its_names_and_units_below(tmp_path: Path) -> None:
    columns = {"current": Scale("CH1", 10.0), "voltage": Scale("CH2", 1.0)}
    t_s, watts = read(tmp_path / "log", SCOPE, "oscilloscope", columns=columns)
    assert t_s == pytest.approx([-1e-6, 0, 1e-6])
    assert watts == pytest.approx([5.0, 10.0, 5.0])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize(("text", "log_format"), [(OTII, "otii"), (JOULESCOPE, "joulescope"), (MONSOON, "monsoon")])
def test_a_log_may_have_any_encoding(text: str, log_format: str, encoding: str, tmp_path: Path) -> None:
    plain, path = read(tmp_path / "log", text, log_format), tmp_path / "arrived"
    path.write_bytes(text.replace("\n", "\r\n").encode(encoding))
    pieces = list(PowerTrace(TraceSpec(path, log_format)).pieces())
    assert [float(t) for piece in pieces for t in piece.t_s] == plain[0]
    assert [float(w) for piece in pieces for w in piece.watts] == plain[1]


def test_a_large_log_of_powershell_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_numbers, "PIECE_BYTES", 4096)
    path, t_s = tmp_path / "log", np.arange(5000) / 1e5
    path.write_text("time_s,power_w\n" + "".join(f"{t:.5f},{t % 0.01:.6f}\n" for t in t_s), encoding="utf-16")
    pieces = list(PowerTrace(TraceSpec(path, "csv")).pieces())
    assert np.concatenate([piece.t_s for piece in pieces]) == pytest.approx(t_s)


def test_a_marker_is_a_column_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(PPK2)
    (piece,) = PowerTrace(TraceSpec(path, "ppk2", 5.0, marker="D0")).pieces()
    assert piece.marked is not None
    assert piece.marked.tolist() == [False, False, True]


def test_rows_without_numbers_and_rows_back_in_time_are_left_out(tmp_path: Path) -> None:
    text = "time_s,power_w\n0,1\n1,\n2,3\n1.5,9\n3,nan\n4,5\nbroken\n5,6\n"
    assert read(tmp_path / "log", text, "csv") == ([0, 2, 4, 5], [1, 3, 5, 6])


@pytest.mark.parametrize(
    ("text", "log_format", "why"),
    [
        ("", "csv", "it has no whole line"),
        ("a,b\n1,2\n", "joulescope", "no column of time"),
        ("time,b\n1,2\n", "oscilloscope", "--current-column"),
        ("time,current\n1,2\n", "otii", "--power-volts"),
        (PPK2, "ppk2", "--power-volts"),
        ("time_s,power_w\n1,2\n2,x\n", "csv", "x"),
    ],
)
def test_a_log_that_cannot_be_read_says_why(tmp_path: Path, text: str, log_format: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(tmp_path / "log", text, log_format)


def test_a_large_log_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_numbers, "PIECE_BYTES", 4096)
    path, t_s = tmp_path / "log", np.arange(5000) / 1e5
    path.write_text("time_s,power_w\n" + "".join(f"{t:.5f},{t % 0.01:.6f}\n" for t in t_s))
    pieces = list(PowerTrace(TraceSpec(path, "csv")).pieces())
    assert len(pieces) > 10
    assert np.concatenate([piece.t_s for piece in pieces]) == pytest.approx(t_s)
