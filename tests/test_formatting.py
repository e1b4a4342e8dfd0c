"""Raw values become words that fit and do not lie; foreign text becomes harmless."""

import re
import unicodedata
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop import formatting
from edgetop.formatting import clean

DIRECTION_MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

ANY_TEXT = st.text(st.characters(exclude_categories=()))
CONTROLS = "\x00\x07\x1b\x7f\x85\x9b\n\r\t\v\f\u2028\u2029\u200b\ufeff"
HOSTILE = st.text(st.one_of(st.sampled_from(f"{CONTROLS}{DIRECTION_MARKS}[]"), st.characters(exclude_categories=())))


@settings(deadline=None)
@given(st.one_of(ANY_TEXT, HOSTILE), st.booleans())
def test_cleaned_text_is_one_line_in_which_nothing_acts(text: str, ascii_only: bool) -> None:
    shown = clean(text, ascii_only=ascii_only)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not set(shown) & set(DIRECTION_MARKS)


@settings(deadline=None)
@given(st.one_of(ANY_TEXT, HOSTILE))
def test_cleaned_for_an_ascii_terminal_text_is_ascii(text: str) -> None:
    assert clean(text, ascii_only=True).isascii()


@settings(deadline=None)
@given(st.one_of(ANY_TEXT, HOSTILE))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@settings(deadline=None)
@given(ANY_TEXT.filter(str.isprintable))
def test_text_that_does_nothing_is_left_as_it_is(text: str) -> None:
    assert clean(text) == text


@settings(deadline=None)
@given(st.text(st.sampled_from(f"\x1b\x9b\n\u2028{DIRECTION_MARKS}\ud800ab"), min_size=1))
def test_what_was_there_can_be_told_from_what_is_shown(text: str) -> None:
    assert clean(text).encode().decode("unicode_escape") == text


def test_markup_is_left_to_those_who_draw() -> None:
    assert clean("[red]x[/red]") == "[red]x[/red]"


def test_every_space_is_a_space() -> None:
    assert clean("a\u00a0b\u3000c") == "a b c"


@settings(deadline=None)
@given(st.floats(0, 1e12))
def test_milliseconds_are_true_to_their_last_digit(ns: float) -> None:
    shown = formatting.milliseconds(ns)
    value = float(shown)
    assert abs(value - ns / 1e6) <= 0.000_5 + 0.000_51 * value
    assert len(shown) <= 7


@pytest.mark.parametrize(
    ("ns", "text"),
    [(9_999_400, "9.999"), (9_999_600, "10.00"), (99_994_000, "99.99"), (99_996_000, "100.0"), (999_940_000, "999.9"),
     (999_960_000, "1000")],
)  # fmt: skip
def test_milliseconds_lose_a_decimal_only_for_another_digit(ns: float, text: str) -> None:
    assert formatting.milliseconds(ns) == text


@pytest.mark.parametrize(
    ("shown", "scale"), [(formatting.milliseconds, 1e6), (formatting.rate, 1), (formatting.count, 1)]
)
@settings(deadline=None)
@given(st.floats(-3, 5.9), st.floats(1, 2))
def test_a_larger_value_never_looks_smaller(
    shown: Callable[[float], str], scale: float, magnitude: float, times: float
) -> None:
    low = 10**magnitude * scale
    assert read_back(shown(low)) <= read_back(shown(low * times))


def read_back(text: str) -> float:
    number, _, suffix = text.partition(" ")
    return float(number) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[suffix]


@settings(deadline=None)
@given(st.floats(0, 9.9e11))
def test_counts_and_rates_fit_six_cells_within_half_a_percent(number: float) -> None:
    for text in (formatting.count(number), formatting.rate(number)):
        assert len(text) <= 6
        assert read_back(text) == pytest.approx(number, rel=0.005, abs=0.5)


BESIDE_A_UNIT = st.builds(lambda unit, share: int(1024**unit * share), st.integers(1, 4), st.floats(0.999, 1.001))


@settings(deadline=None)
@given(st.one_of(st.integers(0, 1_000 * 2**40), BESIDE_A_UNIT))
def test_sizes_are_below_1024_of_their_unit_and_true_to_a_tenth(number: int) -> None:
    value, unit = formatting.size(number).split()
    assert float(value) < 1024
    factor = 1024 ** ("B", "KiB", "MiB", "GiB", "TiB").index(unit)
    assert abs(float(value) * factor - number) <= 0.051 * factor


@settings(deadline=None)
@given(st.floats(0, 1e16))
def test_a_duration_reads_back_as_itself(ns: float) -> None:
    shown = formatting.duration(ns)
    parts = re.findall(r"([\d.]+)([dhms])", shown)
    assert "".join(f"{number}{unit}" for number, unit in parts) == shown
    seconds = [float(number) * {"d": 86_400, "h": 3_600, "m": 60, "s": 1}[unit] for number, unit in parts]
    smallest = {"d": 86_400, "h": 3_600, "m": 60, "s": 0.1}[parts[-1][1]]
    assert abs(sum(seconds) - ns / 1e9) <= max(smallest, 0.5)
    assert len(parts) <= 2


@settings(deadline=None)
@given(st.integers(0, 10**9))
def test_a_span_is_exactly_what_was_chosen(milliseconds: int) -> None:
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", formatting.span(milliseconds * 1e6)).groups()
    assert int(number) * {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}[unit] == milliseconds


@settings(deadline=None)
@given(st.integers(0, 10**7))
def test_clock_time_is_hours_minutes_and_seconds(seconds: int) -> None:
    hours, minutes, rest = formatting.clock_time(seconds * 1e9).split(":")
    assert int(hours) * 3_600 + int(minutes) * 60 + int(rest) == seconds
    assert len(minutes) == len(rest) == 2
    assert int(minutes) < 60
    assert int(rest) < 60


def test_clock_time_never_runs_ahead() -> None:
    assert formatting.clock_time(59.999e9) == "00:00:59"


@pytest.mark.parametrize(("share", "text"), [(0, "0.0 %"), (0.999, "99.9 %"), (1, "100.0 %"), (2.5, "250.0 %")])
def test_shares_are_percent(share: float, text: str) -> None:
    assert formatting.percent(share) == text


@pytest.mark.parametrize("seconds", [0, 59, 60, 3_725, 360_000])
def test_a_clock_time_reads_back_as_itself(seconds: int) -> None:
    assert formatting.parse_clock_time(formatting.clock_time(seconds * 1e9)) == seconds * 10**9


@pytest.mark.parametrize("text", ["", " ", "soon", "1:2:3:4", "-5s", "1h 2x", "5m1h", "1e9", "9" * 400, "nan", "::"])
def test_an_invalid_time_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="write 01:02:05, 90s or 1h02m"):
        formatting.parse_clock_time(text)


@pytest.mark.parametrize("value", [0.021, 5.02, 56.0, 178.2, 2103.0, 48_230.0, 1_234_567.0])
def test_a_scalar_of_numpy_is_written_as_the_same_number_of_python_is(value: float) -> None:
    for words in (formatting.milliseconds, formatting.rate, formatting.count, formatting.duration):
        for same in (value, value * 1e6):
            assert words(np.float64(same)) == words(same)
