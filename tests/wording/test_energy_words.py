"""The sentence of each reason why a figure of energy is unknown."""

import pytest

from edgetop.analysis.energy import UNKNOWN_CODES, EnergyUnknown
from edgetop.wording.energy_words import unknown_words

WORDS = [
    (EnergyUnknown("no-total"), "no sensor here tells what the whole board draws"),
    (EnergyUnknown("nothing-measured"), "nothing was measured yet"),
    (EnergyUnknown("few-inferences", count=99), "only 99 inferences: it takes 100"),
    (EnergyUnknown("little-covered", covered=0.7), "readings cover only 70.0 % of the measured phase"),
    (
        EnergyUnknown("in-step", interval_s=0.1, period_ns=1e8),
        "read evenly every 100ms beside a load that rests every 100.0 ms: at which phase is not known",
    ),
    (
        EnergyUnknown("few-readings", interval_s=1.0),
        "too few readings, one every 1s: run longer, or read more often (edgetop run --hz)",
    ),
    (
        EnergyUnknown("few-readings"),
        "too few readings, one only: run longer, or read more often (edgetop run --hz)",
    ),
    (
        EnergyUnknown("scattered"),
        "readings scatter by more than 30.0 %: run longer, or read more often (edgetop run --hz)",
    ),
    (EnergyUnknown("short-baseline"), "the idle baseline had too few readings: 30s or more, or --hz"),
    (
        EnergyUnknown("rough-net"),
        "what is left of the power without the idle baseline is not known to 30.0 %: make both longer, or --hz",
    ),
    (EnergyUnknown("no-power"), "the board draws nothing"),
    (EnergyUnknown("rough-rate"), "what the board draws at that rate is not known to 30.0 %"),
    (EnergyUnknown("rate-too-high", rate_hz=20.0, most_hz=10.53), "20.0 Hz cannot be kept up: at most 10.5 Hz"),
    (
        EnergyUnknown("other-rate"),
        "it ran at another rate: edgetop run --idle-baseline 30s tells what the board draws in between",
    ),
]


@pytest.mark.parametrize(("unknown", "text"), WORDS)
def test_each_reason_has_its_sentence(unknown: EnergyUnknown, text: str) -> None:
    assert unknown_words(unknown) == text


def test_every_code_is_above_and_no_reason_has_no_words() -> None:
    assert {unknown.code for unknown, _ in WORDS} == set(UNKNOWN_CODES)
    assert unknown_words(None) == ""
