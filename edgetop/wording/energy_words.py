"""Why a figure of energy is unknown, and the error of power meters, in words."""

from edgetop import formatting
from edgetop.analysis.energy import LEAST_INFERENCES, WIDEST, EnergyUnknown
from edgetop.analysis.meter_errors import USUAL_TOLERANCE, MeterUnknown
from edgetop.analysis.report_uncertainty import Uncertainty

_MORE = "run longer, or read more often (edgetop run --hz)"


def unknown_words(unknown: EnergyUnknown | None) -> str:  # noqa: C901, PLR0911, PLR0912  a sentence for each reason
    """Return a sentence that says why a figure of energy is unknown, or "" if `unknown` is None.

    >>> unknown_words(EnergyUnknown("few-inferences", count=99))
    'only 99 inferences: it takes 100'
    >>> unknown_words(EnergyUnknown("rate-too-high", rate_hz=20.0, most_hz=10.53))
    '20.0 Hz cannot be kept up: at most 10.5 Hz'
    """
    if unknown is None:
        return ""
    widest = formatting.percent(WIDEST)
    match unknown.code:
        case "no-total":
            return "no sensor here tells what the whole board draws"
        case "nothing-measured":
            return "nothing was measured yet"
        case "few-inferences":
            return f"only {formatting.quantity(unknown.count, 'inference')}: it takes {LEAST_INFERENCES}"
        case "little-covered":
            return f"readings cover only {formatting.percent(unknown.covered or 0.0)} of the measured phase"
        case "in-step":
            period = formatting.milliseconds(unknown.period_ns or 0.0)
            beside = f"beside a load that rests every {period} ms: at which phase is not known"
            return f"read evenly {_interval(unknown)} {beside}"
        case "few-readings":
            return f"too few readings, one {_interval(unknown)}: {_MORE}"
        case "scattered":
            return f"readings scatter by more than {widest}: {_MORE}"
        case "short-baseline":
            return "the idle baseline had too few readings: 30s or more, or --hz"
        case "rough-net":
            left = "what is left of the power without the idle baseline"
            return f"{left} is not known to {widest}: make both longer, or --hz"
        case "no-power":
            return "the board draws nothing"
        case "rough-rate":
            return f"what the board draws at that rate is not known to {widest}"
        case "rate-too-high":
            asked, most = formatting.rate(unknown.rate_hz or 0.0), formatting.rate(unknown.most_hz or 0.0)
            return f"{asked} Hz cannot be kept up: at most {most} Hz"
        case "other-rate":
            return "it ran at another rate: edgetop run --idle-baseline 30s tells what the board draws in between"


def _interval(unknown: EnergyUnknown) -> str:
    return "only" if unknown.interval_s is None else f"every {formatting.span(unknown.interval_s * 1e9)}"


def meter_unknown_words(unknown: MeterUnknown | None) -> str:
    """Return a sentence that says why the error of a power meter is unknown, or "" if `unknown` is None.

    >>> meter_unknown_words(MeterUnknown("no-meter"))
    'the recording does not name the meter'
    """
    if unknown is None:
        return ""
    kind = unknown.meter.kind if unknown.meter else ""
    match unknown.why:
        case "no-meter":
            return "the recording does not name the meter"
        case "no-statement":
            return f"no limits of its error are known for {_METERS.get(kind, kind)}"
        case "no-shunt":
            return f"the shunt of the {_METERS.get(kind, kind)} is not known"
        case "no-volts":
            return f"the voltage at the {_METERS.get(kind, kind)} is not known"
        case "no-power":
            return "the mean power is not known"


_METERS = {
    "rapl": "RAPL's counters",
    "rpi5-pmic": "the power chip of the Raspberry Pi 5",
    "ppk2": "the PPK2",
    "monsoon": "the Monsoon",
    "csv": "the instrument that wrote the log",
    "nvml": "NVML",
}


def meter_name(kind: str | None) -> str:
    """Return the name of a power meter as users know it, such as `INA226`, or `meter` if `kind` is None."""
    return "meter" if kind is None else _METERS.get(kind, kind.upper()).removeprefix("the ")


def meter_parts_words(uncertainty: Uncertainty) -> str:
    """Return the parts of a power meter's error in mJ, the largest first, such as `shunt 1.2, gain 0.30`.

    Return "" if the error is unknown.
    """
    of = uncertainty.parts
    if of is None:
        return ""
    shunt = f"shunt ({formatting.percent(USUAL_TOLERANCE)} assumed)" if uncertainty.shunt_tolerance_assumed else "shunt"
    parts = {shunt: of.shunt_mj, "gain": of.gain_mj, "offset": of.offset_mj, "steps": of.quantisation_mj}
    known = sorted(((mj, name) for name, mj in parts.items() if mj is not None), reverse=True)
    return ", ".join(f"{name} {formatting.millijoules(mj, 2)}" for mj, name in known)
