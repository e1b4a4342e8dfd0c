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


@pytest.mark.parametrize(
    ("marker", "marked"),
    [("D0", [False, True, True, False]), ("d1", [False] * 4), ("D7", [True, False, False, False])],
)
def test_a_ppk2_may_have_all_digital_signals_in_one_column(marker: str, marked: list[bool], tmp_path: Path) -> None:
    """A sample that is the mean over both states has an X. No sample of the current is lost for that."""
    path = tmp_path / "log"
    bits = ("00000001", "X0000000", "10000000", "--------")
    rows = "".join(f"{n / 100},{n}00000,{text}\n" for n, text in enumerate(bits, 1))
    path.write_text("Timestamp(ms),Current(uA),D0-D7\n" + rows)
    (piece,) = PowerTrace(TraceSpec(path, "ppk2", 5.0, marker=marker)).pieces()
    assert piece.marked is not None
    assert piece.marked.tolist() == marked
    assert piece.watts.tolist() == pytest.approx([0.5, 1.0, 1.5, 2.0])


def test_a_marker_that_is_unknown_or_both_costs_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("Timestamp(ms),Current(uA),D0\n0.01,1,-\n0.02,1,X\n0.03,1,1\n0.04,1,\n0.05,1,0.7\n0.06,1,0.2\n")
    (piece,) = PowerTrace(TraceSpec(path, "ppk2", 5.0, marker="D0")).pieces()
    assert piece.marked is not None
    assert piece.marked.tolist() == [False, True, True, False, True, False]


def test_a_real_log_of_a_joulescopes_statistics_is_read(tmp_path: Path) -> None:
    """As its software wrote it, of a board at 4.7 V: joulescope_ui, `_record_statistics_item`."""
    text = (
        "#time,current,voltage,power,charge,energy\n0.0,0.399422,4.74572,1.89553,0,0\n"
        "0.5,0.400691,4.74479,1.90114,0.200345,0.950568\n1.0,0.399392,4.74555,1.89532,0.400042,1.89823\n"
    )
    assert read(tmp_path / "log", text, "joulescope") == ([0.0, 0.5, 1.0], [1.89553, 1.90114, 1.89532])


def test_rows_without_numbers_and_rows_back_in_time_are_left_out(tmp_path: Path) -> None:
    text = "time_s,power_w\n0,1\n1,\n2,3\n1.5,9\n3,nan\n4,5\nbroken\n5,6\n"
    assert read(tmp_path / "log", text, "csv") == ([0, 2, 4, 5], [1, 3, 5, 6])


def test_what_is_left_out_is_counted_with_its_first_example(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("time_s,power_w\n0,1\n1,OVER\n2,3\n1.5,9\nbroken\n3,---\n5,6\n")
    trace = PowerTrace(TraceSpec(path, "csv"))
    assert [piece.t_s.tolist() for piece in trace.pieces()] == [[0.0, 2.0, 5.0]]
    assert trace.notes == (
        '3 of 7 rows left out, without numbers, the first: "broken"',
        '1 of 7 rows left out, whose time goes back or whose power cannot be, the first: "1.5"',
    )


def test_a_monsoon_may_print_the_types_of_numpy_2(tmp_path: Path) -> None:
    text = "Time(ms),Main(mA),Main Voltage(V),\n" + "".join(
        f"np.float64({number / 5000}),np.float64({1000.0 + number}),np.float64(5.0),\n" for number in range(3)
    )
    t_s, watts = read(tmp_path / "log", text, "monsoon")
    assert t_s == pytest.approx([0, 0.0002, 0.0004])
    assert watts == pytest.approx([5.0, 5.005, 5.01])


def test_times_that_stand_still_are_seen_across_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_numbers, "PIECE_BYTES", 256)
    path = tmp_path / "log"
    for rows, is_still in ((200, False), (201, True)):
        path.write_text("time_s,power_w\n" + "".join(f"{i},2\n" for i in range(30)) + "30,2\n" * rows + "31,2\n")
        trace = PowerTrace(TraceSpec(path, "csv"))
        if is_still:
            with pytest.raises(ValueError, match="30 s from row 32 to row"):
                list(trace.pieces())
        else:
            assert sum(len(piece.t_s) for piece in trace.pieces()) > 31
            assert not trace.notes


# Exports as the manuals of the makers show them: PicoScope, a Rigol DS1000Z, a Keysight InfiniiVision, and a Siglent.
SCOPES = {
    "pico": "Time,Channel A,Channel B\n(ms),(V),(A)\n\n0.00,5.0,0.5\n0.01,5.0,0.6\n",
    "rigol": "X,CH1,CH2,Start,Increment,\nSequence,Volt,Volt,-2e-05,1e-05,\n2,5.0,5.0e-01,,\n3,5.0,6.0e-01,,\n",
    "keysight": "x-axis,1,2\nsecond,Volt,Ampere\n+0.0E+00,+5.0E+00,+5.0E-01\n+1.0E-05,+5.0E+00,+6.0E-01\n",
    "siglent": "Record Length,Analog:2\nSource,CH1,CH2\nSecond,Value,Value\n0.0,5.0,0.5\n0.00001,5.0,0.6\n",
}


@pytest.mark.parametrize("scope", SCOPES)
def test_oscilloscopes_have_their_units_and_steps_where_they_put_them(tmp_path: Path, scope: str) -> None:
    columns = {"current": Scale("3", 1.0), "voltage": Scale("2", 1.0)}
    if scope == "keysight":  # its channels are named by numbers
        columns = {"current": Scale("2", 1.0), "voltage": Scale("1", 1.0)}
    t_s, watts = read(tmp_path / "log", SCOPES[scope], "oscilloscope", columns=columns)
    assert t_s == pytest.approx([0, 1e-5])
    assert watts == pytest.approx([2.5, 3.0])


def test_a_name_of_several_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="several columns are named Value: name one by its number, from 1 to 3"):
        read(tmp_path / "log", SCOPES["siglent"].partition("CH2\n")[2], "oscilloscope",
             columns={"current": Scale("Value", 1.0)}, volts=5.0)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "log_format", "why"),
    [
        ("", "csv", "it has no whole line"),
        ("a,b\n1,2\n", "joulescope", "no column of time"),
        ("time,b\n1,2\n", "oscilloscope", "--current-column"),
        ("time,current\n1,2\n", "otii", "--power-volts"),
        (PPK2, "ppk2", "--power-volts"),
        ("time_s,power_w\n" + "0.5,2\n" * 300, "csv", "stands still: 0.5 s from row 2 to row 301"),
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
