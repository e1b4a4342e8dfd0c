"""The throttle word: which limit holds now, which has since boot, and which only before the session."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import raspberry_pi
from edgetop.sensors.raspberry_pi import FLAGS, parse_throttled, throttle_flags
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap, Source
from tests.support.trees import plant

PI4_FILE = "sys/devices/platform/soc/soc:firmware/get_throttled"
PI5_FILE = "sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled"

WORDS = st.integers(0, 0xFFFFF)


def reading(first: int, *words: int, since_boot: int | None = 0) -> list[dict[str, float]]:
    """What each of the words reads as, by the label of the sensor."""
    left: Iterator[int] = iter(words)
    source = throttle_flags(lambda: next(left), "here", first, since_boot)
    return [by_label(source, source.read()) for _ in words]


def by_label(source: Source, values: Sequence[float | Gap]) -> dict[str, float]:
    assert not any(isinstance(value, Gap) for value in values)
    return {info.label: value for info, value in zip(source.sensors, values, strict=True)}  # type: ignore[misc]


def up(values: dict[str, float]) -> set[str]:
    return {label for label, value in values.items() if value}


@pytest.mark.parametrize(
    ("answer", "word"), [("throttled=0x0", 0), ("throttled=0x50005", 0x50005), (" throttled=0xE0008\n", 0xE0008)]
)
def test_the_answer_is_a_word(answer: str, word: int) -> None:
    assert parse_throttled(answer) == word


@pytest.mark.parametrize(
    "answer",
    ["", "throttled=", "throttled=50005", "throttled=0x", "throttled=0x123456789", "throttled=0x5 0x5", "error"],
)
def test_anything_else_is_no_word(answer: str) -> None:
    with pytest.raises(ValueError, match="not a throttle word"):
        parse_throttled(answer)


@pytest.mark.parametrize("text", ["", "0x5", "five", "-1", "123456789", "5 5"])
def test_the_file_holds_hexadecimal_alone(text: str) -> None:
    assert parse_throttled("50005", prefix="") == 0x50005
    with pytest.raises(ValueError, match="not a throttle word"):
        parse_throttled(text, prefix="")


@pytest.mark.parametrize(("bit", "flag"), list(enumerate(FLAGS)))
def test_each_of_the_low_bits_is_a_limit_in_force(bit: int, flag: str) -> None:
    (values,) = reading(0, 1 << bit)
    assert up(values) - {"thermal"} == {flag, f"{flag}-sticky"}


def test_a_limit_that_has_gone_is_sticky_alone() -> None:
    during, after, long_after = reading(0, 0x50005, 0x50000, 0x50000)
    assert {"under-voltage", "throttled"} <= up(during)
    assert up(after) == up(long_after) == {"under-voltage-sticky", "throttled-sticky"}


def test_what_was_before_the_session_never_counts_as_now() -> None:
    before = 0x50000
    (values,) = reading(before, before, since_boot=before)
    assert up(values) == {"under-voltage-sticky", "throttled-sticky"}


def test_a_limit_that_held_between_two_reads_counts_once() -> None:
    quiet, risen, after = reading(0, 0x0, 0x20000, 0x20000)
    assert not up(quiet)
    assert "freq-capped" in up(risen)
    assert up(after) == {"freq-capped-sticky"}


def test_a_history_that_the_kernel_clears_tells_each_time() -> None:
    """In the file bits 16 to 19 are those of the last poll alone."""
    values = reading(0, 0x10000, 0x0, 0x10000, since_boot=None)
    assert ["under-voltage" in up(value) for value in values] == [True, False, True]
    assert all("under-voltage-sticky" in up(value) for value in values)


def sticky_notes(since_boot: int | None) -> dict[str, str | None]:
    source = throttle_flags(lambda: 0, "here", 0, since_boot)
    return {info.label: info.note for info in source.sensors if info.label.endswith("-sticky")}


def test_sticky_flags_tell_what_they_go_back_to() -> None:
    notes = sticky_notes(0x10000)
    assert notes["under-voltage-sticky"] == "was set already before this session"
    assert notes["throttled-sticky"] == "since boot"
    assert "since edgetop began" in (sticky_notes(None)["throttled-sticky"] or "")


@pytest.mark.parametrize(
    ("word", "is_by_heat"),
    [
        (0x8, True),
        (0x2, True),
        (0x4, True),
        (0x6, True),
        (0x5, False),
        (0x3, False),
        (0x1, False),
        (0xD, True),
        (0, False),
    ],
)
def test_throttled_together_with_under_voltage_is_not_heat(word: int, is_by_heat: bool) -> None:
    (values,) = reading(0, word)
    assert values["thermal"] == is_by_heat


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 0xFFFFF), st.lists(WORDS, min_size=1, max_size=8), st.one_of(st.none(), WORDS))
def test_flags_are_claims_and_sticky_ones_never_fall(first: int, words: list[int], since_boot: int | None) -> None:
    seen: set[str] = set()
    before = first
    for word, values in zip(words, reading(first, *words, since_boot=since_boot), strict=True):
        assert set(values.values()) <= {0.0, 1.0}
        assert seen <= up(values)
        seen = {label for label in up(values) if label.endswith("-sticky")}
        for bit, flag in enumerate(FLAGS):
            has_risen = word >> bit + 16 & 1 and not before >> bit + 16 & 1
            assert values[flag] == bool(word >> bit & 1 or has_risen)
            assert values[flag] <= values[f"{flag}-sticky"]
        before = word


@pytest.mark.parametrize("file", [PI4_FILE, PI5_FILE])
def test_the_file_of_either_board_is_read_rather_than_a_command(tmp_path: Path, file: str) -> None:
    root = plant(tmp_path, {file: "0\n"})
    (source,) = raspberry_pi.discover_throttle_flags(root, 0x10000).sources
    assert source.sensors[0].source == f"/{file}"
    plant(tmp_path, {file: "4\n"})
    assert up(by_label(source, source.read())) == {"throttled", "throttled-sticky", "under-voltage-sticky", "thermal"}


def test_without_the_file_the_command_is_asked(tmp_path: Path) -> None:
    root = plant(tmp_path, {"commands/vcgencmd_get_throttled": "throttled=0x50000"})
    (source,) = raspberry_pi.discover_throttle_flags(root, 0x50000).sources
    assert source.sensors[0].source == "vcgencmd get_throttled"
    assert up(by_label(source, source.read())) == {"under-voltage-sticky", "throttled-sticky"}


def test_a_file_that_holds_no_word_is_passed_over(tmp_path: Path) -> None:
    root = plant(tmp_path, {PI4_FILE: "none", "commands/vcgencmd_get_throttled": "throttled=0x0"})
    (source,) = raspberry_pi.discover_throttle_flags(root, 0).sources
    assert source.sensors[0].source == "vcgencmd get_throttled"


def test_with_neither_the_flags_are_missing(tmp_path: Path) -> None:
    found = raspberry_pi.discover_throttle_flags(Root(tmp_path), None)
    assert found.sources == ()
    assert [missing.what for missing in found.missing] == ["throttle flags"]
