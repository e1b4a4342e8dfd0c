"""What the rows of power logs mean."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors.log_formats import FORMATS, TEGRASTATS, Sample, columns_of
from edgetop.sensors.tegrastats import power_log

PPK2 = "Timestamp(ms),Current(uA),D0-D7"
MONSOON = "Time(ms),Main(mA),USB(mA),Aux(mA),Main Voltage(V),USB Voltage(V),"


def rows_of(log_format: str, header: str, volts: float | None) -> Sample:
    return power_log(header, volts, 1.0) if log_format == TEGRASTATS else columns_of(log_format, header, volts)


def sample(log_format: str, header: str, row: str, volts: float | None = None) -> object:
    found = rows_of(log_format, header, volts)(row)
    return found and (pytest.approx(found[0]), pytest.approx(found[1]))


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (PPK2, "1234.56,152345.678,-1-0XX--"),
        ("Timestamp(ms),Current(uA)", "1234.56,152345.678"),
        ("Timestamp(ms),Current(uA),D0-D7,D0,D1,D2,D3,D4,D5,D6,D7", "1234.56,152345.678,00000000,0,0,0,0,0,0,0,0"),
        ("Timestamp(ms),Current(uA),Bits", "1234.56,152345.678,0\r"),
    ],
)
def test_a_ppk2_gives_milliseconds_and_microamperes(header: str, row: str) -> None:
    assert sample("ppk2", header, row, 5.0) == (1.23456, 0.76172839)


@pytest.mark.parametrize(
    "row", ["2.5,812.3,0.0,0.0,4.1,0.0,", "np.float64(2.5),np.float64(812.3),0,0,np.float64(4.1),0,"]
)
def test_a_monsoon_gives_seconds_whatever_its_header_says(row: str) -> None:
    assert sample("monsoon", MONSOON, row) == (2.5, 3.33043)


def test_a_monsoon_log_has_its_voltage_unless_one_is_given() -> None:
    assert sample("monsoon", MONSOON, "2.5,1000,0,0,4.1,0,", 5.0) == (2.5, 5.0)
    assert sample("monsoon", "Time(ms),Main(mA),", "2.5,1000,", 5.0) == (2.5, 5.0)


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("time_s,power_w", "1.5,7.25", (1.5, 7.25)),
        ("Time (s),Power (W)", "1.5,7.25", (1.5, 7.25)),
        ("Timestamp[ms], Power[mW]", "1500,7250", (1.5, 7.25)),
        ("n,time_us,voltage_mv,current_ma", "3,1500000,5000,1450", (1.5, 7.25)),
        ("\ufefft s,U V,I A", "1.5,5.0,1.45", (1.5, 7.25)),
        ("time_s,volts_v,amps_ua", "1.5,5,1450000", (1.5, 7.25)),
        ("time_s,voltage_uv,current_a", "1.5,5000000,1.45", (1.5, 7.25)),
    ],
)
def test_columns_of_a_csv_are_known_by_their_names_and_units(
    header: str, row: str, expected: tuple[float, float]
) -> None:
    assert sample("csv", header, row) == expected


def test_the_given_voltage_stands_in_for_that_of_a_csv() -> None:
    assert sample("csv", "time_s,current_a", "1,2", 12.0) == (1.0, 24.0)
    assert sample("csv", "time_s,current_a,voltage_v", "1,2,11", 12.0) == (1.0, 24.0)


@pytest.mark.parametrize(
    ("log_format", "header", "volts", "complaint"),
    [
        ("ppk2", PPK2, None, "--power-volts"),
        ("ppk2", "time_s,power_w", 5.0, r"timestamp\(ms\)"),
        ("monsoon", PPK2, 5.0, r"main\(ma\)"),
        ("monsoon", "Time(ms),Main(mA),", None, r"main voltage\(v\)"),
        ("csv", "power_w", None, "no column of time"),
        ("csv", "time_s,volts", None, "no column of power or current"),
        ("csv", "time_s,current_a", None, "voltage_v"),
        ("csv", "0.1,0.2", None, "no column of time"),
    ],
)
def test_a_header_that_does_not_say_enough_is_told(
    log_format: str, header: str, volts: float | None, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        rows_of(log_format, header, volts)


@pytest.mark.parametrize(
    "row", ["", ",", "1.0", "1.0,", "NaN,1", "1.0,NaN", "1.0,inf", "1.0,1_0", "1.0,x", "1.0,1e300"]
)
def test_a_row_without_two_finite_numbers_is_no_sample(row: str) -> None:
    assert sample("ppk2", PPK2, row, 5.0) is None


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(FORMATS), st.text(max_size=60), st.text(max_size=60))
def test_whatever_a_file_holds_a_sample_is_finite(log_format: str, header: str, row: str) -> None:
    for first in (header, "time_s,power_w", PPK2, MONSOON):
        try:
            found = rows_of(log_format, first, 5.0)(row)
        except ValueError:
            continue
        assert found is None or all(abs(value) < 1e12 for value in found)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("time_s;power_w", "1,5;3,25"),
        ("Time (ms)\tPower (mW)", "1500,0\t3250"),
        ("\ufefftime_s,power_w", "1.5,3.25"),
        ('"time_s";"current_ma";"voltage_v"', '"1,5";"650,0";"5,0"'),
    ],
)
def test_cells_are_separated_as_the_first_line_shows(header: str, row: str) -> None:
    assert sample("csv", header, row) == (1.5, 3.25)


def test_digits_in_groups_are_no_value() -> None:
    assert sample("csv", "time_s;power_w", "1,5;1.234,5") is None


def test_a_time_that_stands_still_is_told_with_its_rows() -> None:
    rows = rows_of("monsoon", MONSOON, None)
    assert rows("2.0,800,0,0,4.0,0,") == (2.0, pytest.approx(3.2))
    row = "2.5,800,0,0,4.0,0,"
    assert None not in [rows(row) for _ in range(200)]
    with pytest.raises(ValueError, match=r"its time stands still: 2\.5 s from row 3 to row 203"):
        rows(row)
