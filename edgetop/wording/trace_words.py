"""The result of a power trace from a fast external meter: a JSON document, and lines of text."""

from collections.abc import Iterator, Sequence

from edgetop import formatting
from edgetop.analysis.energy import LEAST_INFERENCES
from edgetop.analysis.report_operators import OperatorFigures
from edgetop.analysis.trace_alignment import LEAST_CONFIDENCE, Alignment
from edgetop.analysis.trace_cut import LEAST_SAMPLES, PHASES, TraceView
from edgetop.formatting import clean, rounded, rounded_mj
from edgetop.session.seconds import NS
from edgetop.session.typed_json import Document


def _not_aligned_words(alignment: Alignment) -> str:
    told = "edgetop trace --offset or --marker tells"
    if alignment.rivals_s:
        places = " and ".join(formatting.clock_time(round(s * NS)) for s in alignment.rivals_s)
        return f"the session fits several runs in the log, which begin at {places} of its time; {told} which one it is"
    if alignment.is_foreign:
        why = "inferences in the log take other times than those of the session, so it is probably the log of another"
        return f"{why} run; edgetop trace --offset or --marker cuts it all the same"
    confidence, needed = formatting.percent(alignment.confidence or 0.0), formatting.percent(LEAST_CONFIDENCE)
    return (
        f"the trace does not fit the inferences: {confidence} of its windows agree, and {needed} must; {told} where it "
        "begins"
    )


def trace_unknown_words(view: TraceView, reversing: str = "") -> str:
    """Return why a power trace gives no figures, or "" if it gives figures.

    `reversing`: the option of `edgetop trace` that reverses the sign of the power.
    """
    match view.unknown:
        case "not-aligned":
            return _not_aligned_words(view.alignment)
        case "few-inferences":
            return f"it covers {formatting.quantity(view.inferences, 'inference')}, and it takes {LEAST_INFERENCES}"
        case "negative":
            why = "its power is negative on average, so the probe is reversed: connect it the other way round"
            return f"{why}; edgetop trace {reversing} reads this log all the same" if reversing else why
        case "few-samples":
            return f"it has less than {LEAST_SAMPLES:g} samples in an inference"
        case None:
            return ""


def trace_document(view: TraceView, operators: Sequence[OperatorFigures], reversing: str = "") -> Document:
    """Return the result of a power trace as JSON. `operators`: the model's operators in the order in which they run.

    `reversing`: the option of `edgetop trace` that reverses the sign of the power.
    The keys must stay the same, because programs of users read them (`edgetop help power`).
    """
    alignment, energy, peak = view.alignment, view.energy_j, view.peak
    ends = None if energy is None else (energy.value - energy.half_width, energy.value + energy.half_width)
    names = [(clean(one.name), one.op_type) for one in operators]
    return {
        "alignment": {
            "how": alignment.how,
            "offset_s": round(alignment.offset_s, 9),
            "drift_ppm": round(alignment.drift * 1e6, 3),
            "confidence": rounded(alignment.confidence, 4),
            "unique": alignment.is_unique if alignment.how == "pattern" else None,
            "windows": alignment.windows,
            "rivals_s": [round(s, 3) for s in alignment.rivals_s],
            "foreign": alignment.is_foreign if alignment.how == "pattern" else None,
            "pattern": None if alignment.pattern is None else _pattern_document(alignment.pattern),
        },
        "samples": view.samples,
        "interval_us": rounded(view.interval_s and view.interval_s * 1e6),
        "inferences": view.inferences,
        "inferences_recorded": view.of,
        "energy_mj": None if energy is None else rounded_mj(energy.value),
        "energy_ci95_mj": ends and [rounded_mj(end) for end in ends],
        "mean_w": rounded(view.mean_w),
        "between_w": rounded(view.between_w),
        "peak": peak and {
            "watts": rounded(peak.watts), "t_s": round(peak.t_s, 9), "inference": peak.inference,
            "phase": round(peak.phase, 4), "operator": None if peak.operator is None else names[peak.operator][0],
        },
        "usual_peak_w": rounded(view.usual_peak_w),
        "usual_peak_phase": rounded(view.usual_peak_phase, 4),
        "waveform": {
            "phases": PHASES,
            "mean_w": [rounded(watts) for watts in view.waveform_w],
            "max_w": [rounded(watts) for watts in view.waveform_max_w],
        } if view.waveform_w else None,
        "operators": [
            {
                "position": one.position, "name": names[one.position][0], "op_type": names[one.position][1],
                "energy_mj": rounded_mj(one.energy_mj / 1e3), "mean_w": rounded(one.mean_w),
                "max_w": rounded(one.max_w),
            }
            for one in view.operators
        ],
        "unknown": trace_unknown_words(view, reversing) or None,
    }  # fmt: skip


def _pattern_document(pattern: Alignment) -> Document:
    return {
        "offset_s": round(pattern.offset_s, 9),
        "drift_ppm": round(pattern.drift * 1e6, 3),
        "confidence": rounded(pattern.confidence, 4),
        "windows": pattern.windows,
    }


def alignment_words(alignment: Alignment) -> str:
    if alignment.how != "pattern":
        return f"by the {alignment.how}: log time 0 is at {alignment.offset_s:.6f} s"
    confidence = formatting.percent(alignment.confidence or 0.0)
    drift = f"drift {alignment.drift * 1e6:+.1f} ppm"
    agree = f"confidence {confidence}, {formatting.quantity(alignment.windows, 'window')}"
    alike = "" if alignment.is_unique else "; inferences are so regular that it may be off by a whole number of them"
    return f"by the pattern of inferences: log time 0 is at {alignment.offset_s:.6f} s, {drift}; {agree}{alike}"


def trace_lines(view: TraceView, operators: Sequence[OperatorFigures], reversing: str = "") -> Iterator[str]:
    """Yield the result of a power trace as lines of text.

    `operators`: the model's operators in the order in which they run. `reversing`: the option of `edgetop trace` that
    reverses the sign of the power.
    """
    if view.unknown == "negative":  # The pattern of a reversed power says nothing about the alignment.
        yield f"energy     not known: {trace_unknown_words(view, reversing)}"
        return
    yield f"aligned    {alignment_words(view.alignment)}"
    if view.alignment.pattern:
        yield f"           it contradicts the inferences; {alignment_words(view.alignment.pattern)}"
    if view.unknown or view.energy_j is None:
        yield f"energy     not known: {trace_unknown_words(view)}"
        return
    energy, peak = view.energy_j, view.peak
    mj, half = formatting.millijoules(energy.value * 1e3), formatting.millijoules(energy.half_width * 1e3, 2)
    count = formatting.quantity(view.inferences, "inference")
    yield f"energy     {mj} ± {half} mJ an inference; 95 %, precision only, {count}"
    between = "" if view.between_w is None else f", {_w(view.between_w)} W between inferences"
    yield f"power      {_w(view.mean_w)} W in inferences{between}"
    if peak:
        at = formatting.percent(peak.phase)
        name = "" if peak.operator is None else f", in {clean(operators[peak.operator].name)}"
        yield f"peak       {_w(peak.watts)} W at {at} of inference {peak.inference}{name}"
        usual = formatting.percent(view.usual_peak_phase or 0.0)
        yield f"           usually {_w(view.usual_peak_w)} W, at {usual} of an inference (medians)"
    if view.operators:
        yield ""
        yield "        mJ    mean W  operator"
    for one in sorted(view.operators, key=lambda part: -part.energy_mj)[:MOST_OPERATORS]:
        mj = formatting.millijoules(one.energy_mj)
        yield f"{mj:>10}  {_w(one.mean_w):>8}  {clean(operators[one.position].name)}"


MOST_OPERATORS = 20


def _w(watts: float | None) -> str:
    return formatting.reading(watts, "W")
