"""The clock that the firmware measures, which cpufreq does not show."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import raspberry_pi
from tests.support.trees import plant

ANSWER = "commands/vcgencmd_measure_clock_arm"


@pytest.mark.parametrize(
    ("answer", "mhz"), [("frequency(48)=1500398464", 1500.398464), ("frequency(0)=2400033792", 2400.033792)]
)
def test_an_answer_is_read_in_mhz(answer: str, mhz: float) -> None:
    assert raspberry_pi.parse_clock(answer) == mhz


@pytest.mark.parametrize("answer", ["", "frequency(48)=", "frequency(48)=0", "frequency()=1", "frequency(48)=-5"])
def test_anything_else_is_no_clock(answer: str) -> None:
    with pytest.raises(ValueError, match="not a clock"):
        raspberry_pi.parse_clock(answer)


@settings(deadline=None, max_examples=100)
@given(st.text() | st.from_regex(r"frequency\([0-9]*\)=[-0-9a-f]*", fullmatch=True))
def test_no_answer_makes_a_clock_that_is_not_in_it(answer: str) -> None:
    try:
        mhz = raspberry_pi.parse_clock(answer)
    except ValueError:
        return
    assert mhz > 0
    assert str(round(mhz * 1e6)) in answer


def test_a_cap_of_the_firmware_is_seen(tmp_path: Path) -> None:
    policy = "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq"
    root = plant(tmp_path, {ANSWER: "frequency(48)=1800457088", policy: "1800000"})
    (source,) = raspberry_pi.discover_arm_clock(root).sources
    (info,) = source.sensors
    assert (info.id, info.max) == ("freq/arm", 1800.0)
    assert "not in freq/cpu0" in (info.note or "")
    plant(tmp_path, {ANSWER: "frequency(48)=600117184"})
    assert source.read() == [600.117184]


def test_firmware_that_does_not_know_the_question_is_told(tmp_path: Path) -> None:
    root = plant(tmp_path, {ANSWER: 'error=1 error_msg="Command not registered"', f"{ANSWER}.exit": "255"})
    found = raspberry_pi.discover_arm_clock(root)
    assert found.sources == ()
    assert found.missing[0].what == "freq/arm"
    assert "does not know" in found.missing[0].why
