"""Find out whether a comparison is fair: its sessions should only differ in what is compared.

Each finding is a warning with its advice, as in a report. Properties that users usually compare on purpose are not
checked: the model, what runs it, its threads.
"""

from collections.abc import Callable, Iterator, Sequence

from edgetop.comparison.figures import ended_itself
from edgetop.comparison.meters import meter_of
from edgetop.comparison.sample import Group, Sample
from edgetop.frozen import frozen
from edgetop.session.events import Notice
from edgetop.session.quiet import BACKGROUND_PCT
from edgetop.wording.load_words import load_words
from edgetop.wording.notice_words import notice

# Difference of the temperatures at the start that is a warning. Choice: a clock step is farther away. Larger: unfair
# comparisons pass; smaller: every comparison gets a warning.
START_C = 2.0
# Difference of the rooms that is a warning. Choice: a board warms up by as much. Larger: unfair comparisons pass;
# smaller: a thermometer's error is a warning.
AMBIENT_C = 1.0
# Ratio of the longest to the shortest measurement that is a warning. Choice. Larger: unfair comparisons pass;
# smaller: stopping by hand is a warning.
TIMES = 1.25
# The same of warm-up runs. Choice: their number matters less. Larger: unfair comparisons pass; smaller: an engine
# that warms up by time gets a warning.
WARM_UP_TIMES = 2.0
# Difference of the caps of a clock, as a share, that is a warning. Choice: drivers round by less. Larger: unfair
# comparisons pass; smaller: rounding is a warning.
CAP = 0.01
# Greatest factor between the warmth of two sessions that is believed. Choice. Larger: a session that hardly warmed up
# doubts every difference; smaller: real doubts are cut.
WARMTH_MOST = 3.0

AB = "measure them in turns, so that heat and other processes affect both alike: edgetop ab"
AGAIN = "measure again under the same conditions"


def _load(one: Sample) -> str:
    load = one.session.load
    deadline = f", deadline {load.deadline_ns / 1e6:g} ms" if load.deadline_ns else ""
    return f"{load_words(load) or 'back to back'}, batch {load.batch or 1}{deadline}"


def _meter(one: Sample) -> str | None:
    """Return the meter of the total power and its sensor, such as "ina226 (power/5V-IN)", or None without a meter."""
    info = meter_of(one)
    return None if info is None else f"{info.meter.kind if info.meter else 'unknown meter'} ({info.id})"


@frozen
class Condition:
    """One condition that should be the same in all sessions, such as the power mode.

    `read` returns the condition's value in a session, or None if unknown.
    """

    code: str
    what: str
    read: Callable[[Sample], object]
    advice: str


CONDITIONS = (
    Condition("board-differs", "board", lambda one: one.session.board.model or one.session.board.cpu,
              "the ratio includes the difference of the boards"),
    Condition("meter-differs", "power meter", _meter, "the ratio of energies includes the difference of the meters"),
    Condition("simulated-differs", "kind of board", lambda one: "simulated" if one.session.board.simulated else "real",
              "compare real boards with real ones"),
    Condition("governor-differs", "governor", lambda one: one.session.board.governor, "set the same governor"),
    Condition("power-mode-differs", "power mode", lambda one: one.session.board.power_mode, "set the same power mode"),
    Condition("enclosure-differs", "enclosure", lambda one: one.session.methodology.enclosure,
              "measure in the same enclosure"),
    Condition("runtime-version-differs", "runtime version", lambda one: one.session.engine.version,
              "install the same version; otherwise the ratio includes the difference of the versions"),
    Condition("precision-differs", "precision of the runtime", lambda one: one.session.engine.settings.get("precision"),
              "set the same one, as with --provider CPU:INFERENCE_PRECISION_HINT=f32"),
    Condition("input-differs", "input", lambda one: one.session.load.fed or None,
              "use the same input for both: edgetop run --input"),
    Condition("load-differs", "load", _load, "use the same rate, batch, streams and deadline for both"),
    Condition("placement-differs", "isolation",
              lambda one: None if one.session.was_imported else one.session.engine.isolation,
              "run both in the same way: edgetop run --isolation"),
    Condition("placement-differs", "scheduler", lambda one: one.session.methodology.scheduler,
              "start both in the same way"),
    Condition("placement-differs", "number of CPUs", lambda one: one.session.constraints.cpus,
              "run both on as many CPUs: edgetop run --engine-cpus"),
    Condition("limit-differs", "limit", lambda one: one.session.constraints.words,
              "set the same limit for both: edgetop run --limit"),
    Condition("throttled-differs", "throttled", lambda one: one.report.throttled,
              "cool the board, or compare while both are throttled: a sustained figure with a sustained one"),
    Condition("edgetop-version-differs", "edgetop version", lambda one: one.session.edgetop_version, AGAIN),
)  # fmt: skip

# Warnings of a session's report that make a comparison unfair if only some sessions have them.
DOUBTS = frozenset(
    {
        "clock-source", "steal", "short-warmup", "overloaded", "governor-changed", "power-mode-changed",
        "cpus-changed", "clock-limit-changed", "still-warming", "records-lost", "recovered", "coarse-times",
        "tool-summary", "no-starts", "provider-dropped", "partly-accelerated", "monitor-cost", "inference-failed",
        "not-sustained",
    }
)  # fmt: skip


def fairness(groups: Sequence[Group]) -> tuple[Notice, ...]:
    """Return the warnings about differences between sessions that make a comparison unfair, the most severe first."""
    judges = (_sources, _alone, _start, _ambient, _background, _caps, _conditions, _lengths, _doubts)
    return tuple(notice for judge in judges for notice in judge(groups))


def warmth(sample: Sample, other: Sample) -> float:
    """Return how far apart two sessions' start temperatures are, as a share of the rise of temperature in `sample`.

    The share is at most WARMTH_MOST, and 0 if it is unknown or `sample` hardly warmed up.
    """
    apart, began = _start_apart(sample, other), sample.session.methodology.start_temperatures
    ends = ((name, zone.end) for name, zone in sample.report.temperature.items() if name in began)
    rise = max((end - began[name] for name, end in ends if end is not None), default=None)
    if apart is None or rise is None or abs(rise) < AMBIENT_C:
        return 0.0
    return min(abs(apart) / abs(rise), WARMTH_MOST)


def _start_apart(one: Sample, other: Sample) -> float | None:
    """Return by how many °C `one` started warmer than `other`, or None if unknown.

    The temperature zone with the largest difference counts.
    """
    mine, theirs = (sample.session.methodology.start_temperatures for sample in (one, other))
    return max((mine[name] - theirs[name] for name in mine.keys() & theirs.keys()), key=abs, default=None)


def _sources(groups: Sequence[Group]) -> Iterator[Notice]:
    """Yield warnings about sessions that are still running, incomplete or empty, or that are compared with themselves.

    An A/B session whose two variants are compared together gets a warning too.
    """
    everyone = [(group.name, one) for group in groups for one in group.samples]
    running = [
        one.session.name for _, one in everyone if one.session.end_reason is None and one.session.state == "live"
    ]
    if running:
        yield Notice(
            "still-running", f"{_named(running)}: is still running; its data so far are compared", "wait for its end"
        )
    lost = [f"{one.session.name} ({one.session.lost.words})" for _, one in everyone if one.session.lost]
    if lost:
        yield Notice("incomplete", f"the recording is incomplete: {_named(lost)}", AGAIN)
    empty = [
        one.session.name
        for _, one in everyone
        if not (one.report.latency.count or one.report.latency.told_by or (one.session.watched and one.report.usage))
    ]
    if empty:
        yield Notice("nothing-measured", f"{_named(empty)}: nothing was measured", "see edgetop report for why")
    mixed = [one.session.name for _, one in everyone if one.session.ab]
    if mixed:
        text = f"{_named(mixed)}: an A/B session, whose two variants are compared together"
        yield Notice("both-variants", text, "edgetop report shows the ratio of the variants")
    ids = [one.session.id for _, one in everyone]
    if len(set(ids)) < len(ids):
        yield Notice("same-session", "a session is compared with itself", "choose two sessions")


def _alone(groups: Sequence[Group]) -> Iterator[Notice]:
    if all(len(group.samples) == 1 for group in groups) and not _in_turns(groups):
        yield Notice(
            "one-session-each",
            "one session each: the variation between runs is only estimated from their drift",
            f"{AB}; or record five of each, and compare with --group-by",
        )


def _in_turns(groups: Sequence[Group]) -> bool:
    """Whether all samples are variants of one A/B session, so that all had the same board and other processes."""
    views = {id(one.in_turns) if one.in_turns else None for group in groups for one in group.samples}
    return len(views) == 1 and None not in views


def _start(groups: Sequence[Group]) -> Iterator[Notice]:
    base = groups[0].samples
    for group in groups[1:]:
        apart = [c for mine in base for theirs in group.samples if (c := _start_apart(theirs, mine)) is not None]
        mean = sum(apart) / len(apart) if apart else 0.0
        if abs(mean) > START_C:
            word = "warmer" if mean > 0 else "colder"
            yield Notice(
                "start-temperature-differs",
                f"{group.name} began {abs(mean):.1f} °C {word} than {groups[0].name}",
                f"cool down to the same temperature before each: --cooldown-to; or {AB}",
                {"apart_c": round(mean, 2)},
            )


def _ambient(groups: Sequence[Group]) -> Iterator[Notice]:
    found = [c for group in groups for one in group.samples if (c := one.session.methodology.ambient_c) is not None]
    if found and max(found) - min(found) > AMBIENT_C:
        text = f"ambient temperature differs: {min(found):g} to {max(found):g} °C"
        yield Notice("ambient-differs", text, "measure in the same room at the same time")


def _background(groups: Sequence[Group]) -> Iterator[Notice]:
    """Yield a warning if other processes used much CPU time during a session."""
    loads = [(one.others_pct, group.name) for group in groups for one in group.samples if one.others_pct is not None]
    if loads and max(loads)[0] >= BACKGROUND_PCT and not _in_turns(groups):
        each = "; ".join(f"{pct:.0f} % of a core beside {name}" for pct, name in sorted({min(loads), max(loads)}))
        yield Notice("background-load", f"other processes took {each}", f"stop them; or {AB}")


def _caps(groups: Sequence[Group]) -> Iterator[Notice]:
    everyone = [one.caps_mhz for group in groups for one in group.samples]
    for name in sorted(set.intersection(*map(set, everyone))):
        caps = [one[name] for one in everyone]
        if min(caps) < max(caps) * (1 - CAP):
            text = f"the limit of a clock differs: {name} {min(caps):.0f} to {max(caps):.0f} MHz"
            yield Notice("cap-differs", text, "remove the cap, or set the same cap for all")
            return


def _conditions(groups: Sequence[Group]) -> Iterator[Notice]:
    for condition in CONDITIONS:
        by_value: dict[object, list[str]] = {}
        for group in groups:
            for one in group.samples:
                if (value := condition.read(one)) is not None:
                    by_value.setdefault(value, []).append(group.name)
        runtimes = {one.session.engine.runtime for group in groups for one in group.samples}
        if condition.code == "runtime-version-differs" and len(runtimes) > 1:
            continue
        if len(by_value) > 1:
            each = "; ".join(f"{value} ({_named(names)})" for value, names in by_value.items())
            yield Notice(condition.code, f"{condition.what} differs: {each}", condition.advice)


def _lengths(groups: Sequence[Group]) -> Iterator[Notice]:
    seconds = [
        one.report.usage.total_time_ms / 1e3
        for group in groups for one in group.samples
        if one.report.usage and one.report.usage.total_time_ms and not ended_itself(one)
    ]  # fmt: skip
    if seconds and max(seconds) > TIMES * min(seconds):
        text = f"measured for {min(seconds):.0f} to {max(seconds):.0f} s: heat and tails depend on the duration"
        yield Notice("duration-differs", text, "measure all for as long")
    ours = [one for group in groups for one in group.samples if one.session.watched is None]  # the length is a choice
    runs = [n for one in ours if (n := one.session.methodology.warmup_runs) is not None]
    if runs and max(runs) > WARM_UP_TIMES * min(runs):
        yield Notice(
            "warm-up-differs",
            f"{min(runs)} to {max(runs)} warm-up runs",
            "use as many for all: edgetop run --warmup-runs",
        )


def _doubts(groups: Sequence[Group]) -> Iterator[Notice]:
    """Yield the warnings that the reports of some sessions have, and the reports of other sessions do not."""
    everyone = [one for group in groups for one in group.samples]
    found: dict[str, tuple[Notice, list[str]]] = {}
    for one in everyone:
        for finding in one.report.warnings:
            if finding.code in DOUBTS:
                found.setdefault(finding.code, (notice(finding), []))[1].append(one.session.name)
    for doubt, names in found.values():
        if len(set(names)) < len(everyone):
            yield Notice(doubt.code, f"{_named(names)} only: {doubt.message}", doubt.advice)


def _named(names: Sequence[str]) -> str:
    each = list(dict.fromkeys(names))
    return f"{', '.join(each[:3])} and {len(each) - 3} more" if len(each) > 4 else ", ".join(each)
