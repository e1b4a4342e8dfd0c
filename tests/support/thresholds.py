"""The thresholds of all judgements, with what the comment above each says of it.

A threshold is a constant whose comment has this form, in one paragraph:

    # What it is. Choice: why. Larger: what it costs; smaller: what that costs.

Instead of a choice it may come from a measurement, a calculation, statistics, a paper, a data sheet or the kernel.
`python -m tests.support.thresholds` writes the table of all of them into `edgetop help slowdowns`.
"""

import math
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tests.support.moved_thresholds import path_of, threshold_names

ANALYSIS = "edgetop.analysis"
SLOWDOWNS = f"{ANALYSIS}.slowdowns"
FORECAST = f"{ANALYSIS}.forecast"
ALERTS = f"{ANALYSIS}.alerts"
COMPARISON = "edgetop.comparison"
TOPIC = Path("edgetop/docs/slowdowns.md")
TITLE, RULER = "## Thresholds", "| --- | --- | --- | --- | --- |"
INTRODUCTION = """\
Every number that decides a judgement, with what a larger or a smaller one would cost. A log-likelihood ratio says by
how much a change explains the latencies better than chance does. Tests hold each number on both of its sides."""

SECTIONS = {
    "The burst": (f"{SLOWDOWNS}.baseline",),
    "Slowdowns": (f"{SLOWDOWNS}.detector", f"{SLOWDOWNS}.slow_span", f"{SLOWDOWNS}.judgement", f"{SLOWDOWNS}.slowdown"),
    "Noise": (f"{SLOWDOWNS}.levels",),
    "Causes": (
        f"{SLOWDOWNS}.evidence", f"{SLOWDOWNS}.cause_finding", f"{SLOWDOWNS}.clock_parts", f"{SLOWDOWNS}.signals",
        f"{SLOWDOWNS}.mix", f"{ANALYSIS}.event_index",
    ),
    "A second cause": (f"{SLOWDOWNS}.stages",),
    "Limits and contention from the start": (f"{SLOWDOWNS}.from_start",),
    "Slow inferences": (
        f"{SLOWDOWNS}.slow_inferences", f"{SLOWDOWNS}.counted_causes", f"{ANALYSIS}.longer_operators",
        f"{ANALYSIS}.slow_inputs",
    ),
    "The risk of a miss": (f"{ANALYSIS}.miss_risk", "edgetop.wording.risk_words"),
    "Throttling": (f"{SLOWDOWNS}.throttle_spans", "edgetop.session.trips", f"{ANALYSIS}.tracks"),
    "The verdict and the vital signs": (
        f"{ANALYSIS}.verdict", f"{ANALYSIS}.rolling_latency", f"{ANALYSIS}.progress", f"{ANALYSIS}.vitals",
        f"{ANALYSIS}.heat",
    ),
    "Equal size": (f"{SLOWDOWNS}.equal_size", f"{ANALYSIS}.input_shapes"),
    "Equal position in the context": (f"{SLOWDOWNS}.equal_position",),
    "Several models": (f"{ANALYSIS}.streams", f"{ANALYSIS}.stream_verdicts", f"{ANALYSIS}.statistics"),
    "Precision": (f"{ANALYSIS}.precision", f"{ANALYSIS}.steady"),
    "Warnings": (
        f"{ANALYSIS}.notices", "edgetop.session.quiet", f"{ANALYSIS}.operator_hints", f"{ANALYSIS}.operator_bounds",
        f"{ANALYSIS}.hotspots", "edgetop.session.operators", f"{ANALYSIS}.operator_shares",
    ),
    "Deadline and load": (f"{ANALYSIS}.deadline", f"{ANALYSIS}.late_starts", f"{ANALYSIS}.overload"),
    "Memory and counters": (f"{ANALYSIS}.memory_use", f"{ANALYSIS}.usage", f"{ANALYSIS}.event_counts"),
    "Energy": (
        f"{ANALYSIS}.energy", f"{ANALYSIS}.rail_energy", f"{ANALYSIS}.meter_errors", f"{ANALYSIS}.token_energy",
        f"{ANALYSIS}.operator_energy", "edgetop.wording.operator_words",
    ),
    "Power traces": (
        f"{ANALYSIS}.trace_places", f"{ANALYSIS}.trace_overview", f"{ANALYSIS}.trace_alignment",
        f"{ANALYSIS}.trace_cut",
    ),
    "The forecast": (f"{FORECAST}.heat_forecast", f"{FORECAST}.steady_load", f"{FORECAST}.elsewhere"),
    "Alerts": (f"{ALERTS}.alerts", f"{ALERTS}.alert", f"{ALERTS}.alert_rules", f"{ALERTS}.values"),
    "A and B": (f"{ANALYSIS}.ab_figures", f"{ANALYSIS}.ab_quads", f"{ANALYSIS}.paired"),
    "Comparisons": tuple(
        f"{COMPARISON}.{name}"
        for name in ("figures", "student", "ratios", "fairness", "device_fit", "application_gap", "input_sizes")
    ),
    "Readings that are believed": ("edgetop.sensors.plausible",),
}  # fmt: skip

# Numbers in the modules of judgements that are no thresholds, as `module.NAME`, by the reason. No judgement changes if
# such a number is a fifth larger or smaller.
NO_THRESHOLDS = {
    "bounds of what is stored, searched or reported": """
        alert.MAX_ALERTS alert_rules.MAX_VALUE alerts.MAX_BURSTS alerts.MAX_RULES gap_evidence.MOST_WAITED
        blocks.MOST_BLOCKS detector.LEAST_REACH detector.MAX_POINTS detector.MAX_WINDOWS slow_span.RECENT
        equal_position.MAX_CURVES equal_position.MAX_RANGES equal_position.MAX_SPANS equal_size.HELD_S
        equal_size.LARGEST equal_size.LATEST_S equal_size.MOST_HELD_S
        equal_size.MOST_MS event_index.EVIDENCE_S event_index.FAR_BACK_S event_index.MAX_NAMES
        event_index.NAMED evidence._HUGE faults.MAX_FRAMES faults.MAX_STORED figures.MOST_OPERATORS
        figures.MOST_SETTINGS figures.MOST_STREAMS hotspots.MAX_NAMED hotspots.MAX_UNMATCHED hotspots.MOST_RECENT_BURSTS
        input_shapes.LARGEST input_shapes.MOST_MS judged_past.MAX_LEVEL judgement.MAX_ROWS latency_heat.MOST_BINS
        latency_heat.MOST_KEPT latest.EXACT_INFERENCES latest._LEAST_ROOM latest._MOST_PARTS latest._TOO_LARGE
        levels.MAX_LEVELS longer_operators.MOST_NAMES operator_counts.MOST_OPERATORS operator_energy.LEAST_AT_ONCE
        operator_energy.MOST_OPERATORS
        operator_energy.MOST_PENDING operators.MOST_EVENTS
        operator_energy.MOST_RATE operator_energy.MOST_W operator_energy.WAIT_NS operator_shares.MAX_OPERATORS
        operator_shares.MOST_GROUPS
        overload.MAX_SPANS overload.MAX_STEPS pair_order.MOST_MODELS paired.MOST_OF_A_SIDE paired.MOST_PAIRS
        prefill_slowdowns.MOST_MS prefill_slowdowns.MOST_WAITING_S program_frames.MAX_VALUE provider_shares.MOST_TYPES
        rail_energy.BATCH_READINGS rail_energy.KEPT_READINGS rail_energy.MOST_W recent_events.MAX_EVENTS
        recent_events.MAX_LASTING serialization.MAX_ITEMS serialization.MAX_NUMBER serialization.MAX_TEXT
        slow_inferences.KEPT slow_inferences.KEPT_RECENT slow_inputs.MOST_INPUTS
         slowdown.MAX_SLOWDOWNS slowdowns.PAUSED_S stages.DEEPEST
        stages.LONGEST stages.NAMED_EVERY stages.NAMED_FROM throttle_spans.COUNTED throttle_spans.MAX_SPANS
        throttles.MAX_RECORDED token_energy.MOST_PENDING token_energy.MOST_W trace_overview.LEAST_BIN_S
        trace_overview.MOST_BINS trace_overview.MOST_POINTS trace_places.MOST_COMPARED trace_places.MOST_PLACES
        trace_alignment.MOST_PERIODS trace_overview.MOST_WINDOWS tracks.LATE_S
        tracks.SECONDS usage.MOST_EARLY""",
    "how often something is done, and in which steps or spans": """
        baseline.EDGE_POINTS baseline.EDGE_S detector.CHECK_EVERY detector.LEAVE_EVERY equal_position.SPEED_S
        equal_size.RECENT_S folds.VIEWED_AT_ONCE latency_heat.BIN_S
        levels.SIZES precision.LEAST_AGE_S precision.MOST_AGE_S
        precision.ROWS_AT_ONCE rail_energy.SETTLED_AT_ONCE rail_energy.STRIPS_AT_ONCE rolling_latency.RECENT_SECONDS
        slow_inferences.RECENT_S slow_inferences.USUAL_S slowdowns.SETTLED_AT_ONCE_S slowdowns.STEP_S steady.LENGTHS_S
        steady.STEP_S throttles.CHECK_EVERY_NS throttles.SETTLED_AT_ONCE_NS timeline.RECENT_SECONDS
        token_figures.RECENT_S tracks.BRIDGED_S
        tracks.FOLDED_AT_ONCE_S""",
    "constants of a statistical method or of a numeric solution": """
        ab_quads.SETTLING_QUADS ab_quads.SHARES agreement.MOST_EXACT baseline.LEAST_SCATTER blocks.LEAST_BATCHES
        blocks.LEAST_FREEDOM blocks.MOST_BATCHES blocks.T_975 clock_parts.LEAST_LEVEL detector.WILD_DENSITY
        device_fit.MOST_LOG energy.DUST equal_size.BEYOND
        equal_size.LARGEST_LOG heat_forecast.PACES_S heat_forecast.RUNNING_S heat_forecast.SLOWEST_S
        input_shapes.QUANTILES latency_heat.LEAST_INFERENCES levels.OF_FIVE levels.OF_MEDIANS levels.SURE
        levels._PER_MAD memory_use.RUNNING_S memory_use.Z_975 meter_errors.COVERAGE miss_risk.ENDS
        miss_risk.LEAST_BLOCKS miss_risk.MOST_SHAPE miss_risk.RESAMPLES operator_counts.NORMAL_95
        operator_energy.BETWEEN operator_energy.BLOCKS operator_energy.BORDER
        operator_energy.DRAWS operator_energy.LEARNED operator_energy.PHASES operator_energy.T_7
        operators.BASELINE_BURSTS operators.LEAST_NEIGHBOURS operators.NEIGHBOURS operators.RESOLUTION_NS
        paired.EXACT_PAIRS paired.SMALLEST paired.STUDENT precision.COARSE precision.CUT precision.LEAST_BLOCKS
        precision.LEAST_WAVES
        precision.MOST_BLOCKS precision.MOST_WAVES precision.WAVES_A_BLOCK program_frames.QUANTILES
        rail_energy.LEARNED_INTERVALS sample.QUARTERS steady.LEVELS steady_load.ALTERNATES_AT steady_load.BLOCKS
        steady_load.WIDTHS_S student._LEAST_SESSIONS student._MOST_FREEDOM student._MOST_SESSIONS student._PLACES
        trace_alignment.AGREES trace_alignment.COARSE trace_alignment.LEAST_CONTRAST
        trace_alignment.LEAST_EXPLAINED trace_alignment.MOST_DRIFT trace_overview.PHASES
        trace_overview.POINTS trace_places.SEARCHED_INFERENCES trace_places.SEARCHED_S
        trace_alignment.NEARER trace_places.BLURRED_PERIODS
        trace_alignment.SURE trace_overview.WINDOW_INFERENCES trace_alignment.ORDERS trace_cut.BLOCKS
        trace_cut.PHASES trace_cut.T_19""",
    "the prior and the noise of the thermal model, which only scores of many generated boards can judge": """
        model.AMBIENT_C model.APART model.BALANCE_C model.CONTINUED model.FLAT model.HIGH model.LEAST_NOISE_C
        model.LEAST_OFF model.LEAST_RANGE_S model.LOW model.MOST_CORRELATED model.MOST_OFF model.NEVER model.RISE_C
        model.ROUNDS model.SPREAD_FAST_RISE_C model.SPREAD_RISE_C model.SPREAD_SLOW model.STRAIGHT model.TERMS
        model.TRIAL_NOISE_C2 model.USUAL_SHARES model.USUAL_SLOW_S model.WEIGHTY model.WITHIN""",
    "ends of a confidence, from none to certain": """
        cause_finding.ALL_SEEN cause_finding.LEAST_CONFIDENCE cause_finding.MOST_CONFIDENCE cause_finding.NOTHING_SEEN
        from_start.MOST_CONFIDENCE""",
    "units, marks, versions and places": """
        ab_figures.METRICS alert_rules.SET comparison_gates._PERCENT comparison_gates._UNITS judged_past.VERSION
        operator_regression.PER_MJ
        levels.NEPER memory_use.HOUR_S output_agreement.CHANNELS_FIRST output_agreement.CHANNELS_LAST
        plausible._UNKNOWN_SPEEDS rolling_latency.LATEST_NS rolling_latency.NEVER_NS session_gates.ENERGY_UNITS
        session_gates._COUNT session_gates._GROWTH session_gates._PER_TOKEN session_gates._RATE session_gates._SHARE
        session_gates._SIZE session_gates._TIME signals.PRESSURE_PER_STALLED_MS signals.SET signals._PER_STALLED_MS
        stalls.SECOND_MS tally.NEVER throttle_spans.MOST_LEVEL throttle_spans.NEVER throttles.VERSION
        token_energy.DECODE token_energy.PREFILL tracks.LARGEST""",
    "what a maker or a paper states of a meter": """
        meter_errors.PMIC_FROM_W meter_errors.PMIC_OFFSET_W meter_errors.PMIC_RESIDUAL_W meter_errors.PMIC_SLOPE
        meter_errors.PMIC_TO_W meter_errors.SHARES meter_errors.STATED_AT_V""",
    "how figures are written and charts are drawn": """
        event_counts.RARE_DIGITS
        figures.STREAM_CELLS heat.GROUPED_FROM heat._UNREAD latency_heat.ABOVE_GREATEST latency_heat.BELOW_LEAST
        latency_heat.DEADLINE_WITHIN latency_heat.LEAST_RATIO memory_use.GIB_FROM memory_use.WHOLE_FROM
        output_agreement.MOST_CLASS_AXES output_agreement.TOP timeline.COARSE_BINS timeline.COLUMNS timeline.COLUMNS_S
        timeline.FIRST_BINS timeline.LEAST_COLUMN_S timeline.LEAST_SPAN_S timeline.LEAST_STEP_S timeline.PANS
        timeline.POINTS timeline.STEPS timeline.USUAL_SPAN_S timeline.ZOOMS_S""",
}


def excused() -> set[str]:
    """Return the labels of the numbers that are no thresholds, such as `alert.MAX_ALERTS`."""
    return {label for labels in NO_THRESHOLDS.values() for label in labels.split()}


def judging_modules() -> list[str]:
    """Return the modules whose numbers need a reason: those of the table, of analysis/ and of comparison/."""
    folders = (Path("edgetop/analysis"), Path("edgetop/comparison"))
    found = {".".join(path.with_suffix("").parts) for folder in folders for path in folder.rglob("[!_]*.py")}
    return sorted(found | {module for modules in SECTIONS.values() for module in modules})


_FORM = re.compile(
    r"(?P<what>.+?)\. (?P<source>(?:Choice|Measured|Computed|Statistics|Paper|Datasheet|Kernel)\b.*?)\. "
    r"Larger: (?P<larger>.+?); smaller: (?P<smaller>.+)\."
)
_UNITS = (
    ("MIB_PER_H", "MiB/h"), ("_MIB", "MiB"), ("_PER_S", "/s"), ("_PCT", "%"), ("_MS", "ms"), ("_S", "s"), ("_C", "°C"),
    ("_V", "V"), ("OVER_CURRENT_PERCENT", "%"),
)  # fmt: skip


class Threshold(NamedTuple):
    module: str
    constant: str
    what: str
    source: str
    larger: str
    smaller: str

    @property
    def label(self) -> str:
        return f"{self.module.rpartition('.')[2]}.{self.constant}"

    @property
    def numbers(self) -> list[str]:
        """Return `NAME`, or `NAME[key]` for each number in a tuple or a dictionary."""
        return [name for name in threshold_names(self.module) if name.partition("[")[0] == self.constant]

    @property
    def value(self) -> object:
        return getattr(import_module(self.module), self.constant)


def thresholds_of(module: str) -> Iterator[Threshold]:
    comment: list[str] = []
    for line in path_of(module).read_text().splitlines():
        if line.startswith("# "):
            comment.append(line[2:])
            continue
        if "Larger: " in " ".join(comment):
            found, name = _FORM.fullmatch(" ".join(comment)), re.match(r"(_?[A-Z][A-Z0-9_]*)(: .+?)? = ", line)
            assert found, f"{module}: {line} {comment}"
            assert name, f"{module}: {line} {comment}"
            yield Threshold(module, name[1], **found.groupdict())
        comment = []


def all_thresholds() -> Iterator[Threshold]:
    """Yield the thresholds of all judgements, in the order of the table."""
    for modules in SECTIONS.values():
        for module in modules:
            yield from thresholds_of(module)


def value_words(threshold: Threshold) -> str:
    """Return the value with its unit, as the table shows it."""
    value = threshold.value
    if isinstance(value, dict):
        return ", ".join(f"{key} {number:g}" for key, number in value.items())
    if isinstance(value, tuple):
        return ", ".join(f"{number:g}" for number in value)
    assert isinstance(value, (int, float))
    if threshold.constant.endswith("_NS"):
        return f"{value / 1e9:g} s" if value >= 1e9 else f"{value / 1e6:g} ms" if value >= 1e6 else f"{value:g} ns"
    unit = next((unit for end, unit in _UNITS if threshold.constant.endswith(end)), "")
    if unit:
        return f"{value:g} {unit}"
    if "NEPER)" in _definition(threshold):
        return f"{math.expm1(value / 1e6) * 100:.3g} %"
    return f"{value * 100:g} %" if "hare" in threshold.what and value < 1 else f"{value:g}"


def _definition(threshold: Threshold) -> str:
    lines = path_of(threshold.module).read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{threshold.constant} = "))


def table() -> str:
    """Return the last section of the topic."""
    lines = [TITLE, "", INTRODUCTION]
    for title, modules in SECTIONS.items():
        lines += ["", f"### {title}", "", "| what | value | where it comes from | larger | smaller |", RULER]
        for threshold in (one for module in modules for one in thresholds_of(module)):
            value = "see Signals" if threshold.constant == "_COUNTS" else value_words(threshold)
            source = threshold.source[0].lower() + threshold.source[1:]
            lines.append(f"| {threshold.what} | {value} | {source} | {threshold.larger} | {threshold.smaller} |")
    return "\n".join([*lines, *_counts(), ""])


def _counts() -> Iterator[str]:
    yield from ("", "### Signals", "")
    yield "| signal | cause | change beyond its usual range | and share of it | how well it proves its cause alone |"
    yield RULER
    for name, (cause, least, share, weight, unit) in import_module(f"{SLOWDOWNS}.signals")._COUNTS.items():
        proof = "by its clock" if weight is None else f"{weight:g}"
        yield f"| `{name}` | `{cause}` | {least:g} {unit} | {share * 100:g} % | {proof} |"


def topic() -> str:
    """Return the topic as it should be."""
    return TOPIC.read_text(encoding="utf-8").partition(TITLE)[0] + table()


if __name__ == "__main__":
    TOPIC.write_text(topic(), encoding="utf-8")
