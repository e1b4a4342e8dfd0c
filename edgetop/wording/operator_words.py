"""What limits the speed of operators, and how much energy operators take, in words."""

from collections.abc import Sequence

from edgetop import formatting
from edgetop.analysis.operator_bounds import ABOVE_CEILING, TOO_SHORT, applicable
from edgetop.analysis.operator_energy import LEAST_READINGS, NotTold, OperatorEnergies
from edgetop.analysis.operator_shares import OperatorView
from edgetop.analysis.provider_shares import FallbackReason, ProviderShare, WhyNot, provider_shares
from edgetop.analysis.report_operators import OperatorFigures
from edgetop.formatting import UNKNOWN, clean, percent, shortened
from edgetop.session.ceilings import DTYPE, INTEGERS, Ceilings
from edgetop.session.manifest import EngineInfo
from edgetop.session.operators import ON_CPU

# Ratio of an operator's share of the energy to its share of the time from which it is named. Choice. Larger: a hungry
# operator is not named; smaller: noise names one.
STANDS_OUT = 1.2

_ENERGY_UNKNOWN = {
    "no-meter": "no sensor reads the total power as the mean since its reading before",
    "several-at-once": "the readings are of several models or streams at once",
    "repeated": "an operator runs several times in an inference",
    "no-operators": "no operator or no inference was measured",
    "tokens": "a request to a language model runs each operator once for each token",
}


def bound_unknown_words(ceilings: Ceilings | None, precision: str | None, provider: str) -> str:
    """Return why it is unknown whether arithmetic or memory limits operators, or "" if it can be known.

    `ceilings`: the measured limits of the board; None if they were not measured. `precision`: the data type in which
    the model computes, such as `float32`; None if unknown. `provider`: what runs the operators, such as `CUDA`.
    """
    if provider not in ON_CPU:
        return f"ceilings are measured of the CPU, not of {provider}"
    if ceilings is None:
        return "the ceilings of this board with this runtime are not measured: edgetop doctor --roofline"
    if applicable(ceilings, precision) is None:
        if precision in INTEGERS:
            return f"the ceiling of {precision} is not measured: edgetop doctor --roofline"
        return f"the ceilings are those of {DTYPE} and int8, and the model computes on {precision}"
    return ""


def ceiling_words(ceilings: Ceilings) -> str:
    """Return the measured limits of the board: arithmetic per second, and bytes per second.

    >>> ceiling_words(Ceilings(26.9e9, 7e9, "2026-11-28T01:41:29Z", 364.7e9))
    '26.9 GFLOP/s (float32), 364.7 GOP/s (int8), 7.0 GB/s'
    """
    integer = ceilings.int8_flops_per_s
    of_int8 = "" if integer is None else f"{integer / 1e9:.1f} GOP/s (int8), "
    return f"{ceilings.flops_per_s / 1e9:.1f} GFLOP/s ({DTYPE}), {of_int8}{ceilings.bytes_per_s / 1e9:.1f} GB/s"


def rate_mark(not_measurable: str | None) -> str:
    """Return what a table shows in place of a bandwidth that cannot be measured: `<1us`, `>max` or `-`.

    `not_measurable` is the reason: TOO_SHORT, ABOVE_CEILING or another text. None means that the bandwidth is known,
    and the result is "".
    """
    return {None: "", TOO_SHORT: "<1us", ABOVE_CEILING: ">max"}.get(not_measurable, UNKNOWN)


def not_measurable_words(reasons: Sequence[str | None]) -> str:
    """Return how many operators have a bandwidth that cannot be measured, and why, or "" if there are none.

    `reasons` has a value for each operator: TOO_SHORT, ABOVE_CEILING or another text, or None if its bandwidth is
    known. Only operators with TOO_SHORT or ABOVE_CEILING are counted. Each reason begins with what tables show in place
    of the bandwidth, such as `<1us`.

    >>> not_measurable_words([None, ABOVE_CEILING, TOO_SHORT, TOO_SHORT])
    'not measurable: >max of 1 operator, whose bytes came from a cache; <1us of 2 operators, too short for the clock'
    """
    parts = [
        f"{rate_mark(reason)} of {formatting.quantity(number, 'operator')}, {why}"
        for reason, why in (
            (ABOVE_CEILING, "whose bytes came from a cache"), (TOO_SHORT, "too short for the clock")
        )
        if (number := list(reasons).count(reason))
    ]  # fmt: skip
    return f"not measurable: {'; '.join(parts)}" if parts else ""


def energy_unknown_words(unknown: NotTold) -> str:
    """Return why the energy of each operator cannot be determined.

    >>> energy_unknown_words(NotTold("slow-readings", interval_ns=100_000_000, latency_ns=4.2e6))
    'a reading each 100.0 ms is too slow to tell the parts of an inference of 4.200 ms'
    """
    if unknown.why == "slow-readings":
        interval, latency = (formatting.milliseconds(ns) for ns in (unknown.interval_ns, unknown.latency_ns))
        return f"a reading each {interval} ms is too slow to tell the parts of an inference of {latency} ms"
    if unknown.why == "few-readings":
        return f"only {formatting.quantity(unknown.readings, 'reading')}: it takes {LEAST_READINGS}"
    return _ENERGY_UNKNOWN[unknown.why]


def energy_cells(operators: Sequence[OperatorFigures]) -> list[str]:
    """Return the energy of each operator in mJ as text, such as `1.25`, or `-` if it is unknown.

    If only the total of a group of operators is known, each of them has this total, after a letter for the group:
    `a1.25`.
    """
    groups = [one.energy_group for one in operators]
    several = sorted({number for number in groups if number is not None and groups.count(number) > 1})
    letters = {number: chr(ord("a") + place % 26) for place, number in enumerate(several)}
    return [
        formatting.UNKNOWN
        if one.energy_mj is None or one.energy_group is None
        else f"{letters.get(one.energy_group, '')}{formatting.millijoules(one.energy_mj)}"
        for one in operators
    ]


def operator_energy_words(energies: OperatorEnergies, position: int) -> str:
    """Return the energy of one operator in an inference with its interval, or "" if it is unknown.

    `position` is the operator's position in run order, from 0. If only the sum over neighbouring operators is known,
    the text is about this sum, and says so.
    """
    group = next((one for one in energies.groups if one.first <= position <= one.last), None)
    if group is None:
        return ""
    low, high = (formatting.millijoules(end) for end in group.ci95_mj)
    others = group.last - group.first
    beside = f", together with {formatting.quantity(others, 'neighbour')}" if others else ""
    return f"{formatting.millijoules(group.energy_mj)} mJ an inference, 95 % {low} to {high}{beside}"


def energy_stands_out(operators: Sequence[OperatorFigures]) -> str:
    """Return a sentence about the operator whose share of the energy most exceeds its share of the time.

    Return "" if the two shares hardly differ for any operator. Operators whose energy is only known as a sum with that
    of others are left out.
    """
    groups = {one.energy_group: one.energy_mj for one in operators if one.energy_mj and one.energy_group is not None}
    whole, numbers = sum(groups.values()), [one.energy_group for one in operators]
    single = [one for one in operators if one.energy_mj and one.share and numbers.count(one.energy_group) == 1]
    most = max(single, key=lambda one: (one.energy_mj or 0.0) / whole - one.share, default=None)
    if most is None or most.energy_mj is None or most.energy_mj / whole < STANDS_OUT * most.share:
        return ""
    name = shortened(clean(most.origin or most.name), 40)
    return f"{name} takes {most.share:.0%} of the time and {most.energy_mj / whole:.0%} of the energy"


_WHY = {
    WhyNot.LEFT_OUT.value: "left out by the runtime, which cannot load it here",
    WhyNot.NO_OPERATORS.value: "loaded, but it has none of these operators",
}


def engine_providers_words(engine: EngineInfo, operators: Sequence[OperatorView]) -> str:
    """Return the providers of an engine (what runs operators, such as `CUDA`), joined by `+`.

    If there are several providers, each has its share of the time. `operators`: the profiled operators, from which the
    shares are computed. If it is empty, there are no shares.

    >>> engine = EngineInfo(providers=("CUDA", "CPU"))
    >>> engine_providers_words(engine, [])
    'CUDA+CPU'
    >>> shares = (("CUDA", 0.9), ("CPU", 0.1))
    >>> operators = [OperatorView(n, "", "Conv", name, 1.0, share, None) for n, (name, share) in enumerate(shares)]
    >>> engine_providers_words(engine, operators)
    'CUDA 90.0 % + CPU 10.0 %'
    """
    shares = provider_shares(engine, operators) if operators and len(engine.providers) > 1 else None
    known = [(one.name, one.share) for one in shares or () if one.share is not None]
    return " + ".join(f"{name} {percent(share)}" for name, share in known) or "+".join(engine.providers)


def provider_words(one: ProviderShare) -> str:
    """Return how many operators ran on one provider (such as a GPU), and their share of the time.

    For example: `CUDA: 52 operators, 97.0 % of the time`. If no operators ran on it, or if this is unknown, return why.
    """
    if one.why in _WHY:
        return f"{one.name}: requested, but {_WHY[one.why]}"
    if one.operators is None or one.share is None:
        return f"{one.name}: what ran on it is unknown, because operators were not profiled"
    types = ", ".join(f"{name} {count}" for name, count in (one.op_types or {}).items())
    # The runtime may have a better reason than that the provider lacks them.
    what = "which fell back" if one.reasons else "which the requested provider lacks"
    lacking = f", {what}: {types}" if one.fell_back else ""
    return f"{one.name}: {formatting.quantity(one.operators, 'operator')}, {percent(one.share)} of the time{lacking}"


def reason_words(reasons: Sequence[FallbackReason] | None) -> list[str]:
    """Return the runtime's reasons why operators fell back, each with the number of operators that it names.

    Return [] if `reasons` is None.

    >>> reason_words([FallbackReason(text="CUDA kernel not found for Op type: Pad", operators=2)])
    ['CUDA kernel not found for Op type: Pad (2 operators)']
    """
    return [fallback_text(one.text, one.operators) for one in reasons or ()]


def fallback_text(reason: str, operators: int | None) -> str:
    """Return `reason`, followed by a number of operators in brackets, such as `kernel not found (2 operators)`.

    `reason` is the runtime's reason why operators fell back to the CPU. `operators` is the number of operators that the
    runtime names with it. If it names none (None), only `reason` is returned.
    """
    return f"{reason} ({formatting.quantity(operators, 'operator')})" if operators else reason
