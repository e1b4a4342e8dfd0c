"""The lines of a summary about the board, and about how the session was measured."""

from collections.abc import Iterator

from edgetop import formatting
from edgetop.analysis.session_report import Report
from edgetop.cli.printing.board_text import energy_lines, heat_lines, in_mib, memory_lines, power_lines
from edgetop.cli.printing.usage_text import usage_lines, usage_summary
from edgetop.comparison.usage_table import usage_row
from edgetop.formatting import UNKNOWN, clean, or_unknown
from edgetop.session.manifest import IMPORTED, Manifest, Methodology
from edgetop.wording.counter_words import counter_words
from edgetop.wording.forecast_words import left, outlook
from edgetop.wording.load_words import unseen_words

WIDTH, BRIEF_LINES = 80, 23
NS = 1e9


def board_lines(report: Report) -> Iterator[str]:
    phases, overhead = report.phases, report.overhead
    yield ""
    is_program = report.session.watched and not report.latency.count and not report.latency.errors
    warmup = f"warm-up {formatting.quantity(phases.warmup.runs, 'run')} of {ms_or_unknown(phases.warmup.mean_ms)} ms"
    if not is_program:
        load, first = ms_or_unknown(phases.init_ms), ms_or_unknown(phases.first_ms)
        part = "" if phases.compile_ms is None else f" ({ms_or_unknown(phases.compile_ms)} ms to compile)"
        yield f"start      load {load} ms{part}, first inference {first} ms, {warmup}"
    yield from heat_lines(report)
    view = report.forecast
    if forecast := ", ".join(filter(None, (outlook(view), left(view)))):
        yield f"           from there on {clean(view.sensor.id if view.sensor else UNKNOWN)}: {forecast}"
    yield from power_lines(report.power)
    yield from energy_lines(report)
    if "memory" not in (report.unavailable or {}):
        yield from memory_lines(report)
    if report.session.watched and (row := usage_row(report.session.name, [report.usage])):
        yield from usage_lines([row], WIDTH)
        yield ""
    elif report.usage:
        yield from usage_summary(report)
    if counted := counter_words(report.counters):
        yield f"counted    {counted}; of an inference"
    cost = or_unknown(overhead.cpu_pct, lambda load: f"{load:.1f} % of a core")
    yield f"edgetop    {cost}, {in_mib(overhead.rss_mib)}"


def method_lines(session: Manifest) -> Iterator[str]:
    """Yield the conditions of the measurement, always in four lines, so that readers notice what is unknown."""
    yield ""
    yield f"method     {_runs(session)}"
    yield f"           {_place(session.methodology)}"
    yield f"           {_neighbours(session)}"
    yield f"           {_declared(session)}"


def _runs(session: Manifest) -> str:
    method = session.methodology
    warm_up, measured = or_unknown(method.warmup_runs, str), or_unknown(method.measure_runs, formatting.count)
    phases = ((method.cooldown_s, "a cool-down"), (method.idle_baseline_s, "an idle baseline"))
    rests = ", ".join(f"{what} of {formatting.span(s * NS)}" if s else f"without {what}" for s, what in phases)
    given = UNKNOWN if session.was_imported else clean(session.load.fed) or UNKNOWN
    return f"input {given}, {measured} inferences after {warm_up} of warm-up, {rests}"


def _place(method: Methodology) -> str:
    """Return as text: the two highest temperatures when measuring began, the room temperature, and the enclosure."""
    hottest_first = sorted(method.start_temperatures.items(), key=lambda pair: (-pair[1], pair[0]))
    began = [f"{clean(sensor)} {celsius:.1f} °C" for sensor, celsius in hottest_first]
    more = f" and {len(began) - 2} more" if len(began) > 2 else ""
    warm = f"began at {', '.join(began[:2])}{more}" if began else "start temperature not known"
    told = f"as measured by {clean(method.ambient_sensor)}" if method.ambient_sensor else "as declared"
    silent = f"unknown: {clean(method.ambient_sensor)} gave no reading" if method.ambient_sensor else "not declared"
    ambient = silent if method.ambient_c is None else f"{method.ambient_c:g} °C {told}"
    return f"{warm}; ambient {ambient}, enclosure {clean(method.enclosure or 'not declared')}"


def _neighbours(session: Manifest) -> str:
    """Return as text: the CPUs and the priority of the engine, and the other processes that took CPU time."""
    method, cpus = session.methodology, session.constraints.cpus
    on = or_unknown(cpus, "{:g}".format)
    of = f" of {session.board.cores}" if session.board.cores else ""
    others = ", ".join(f"{clean(one.name)} {one.cpu_pct:.0f} %" for one in method.background)
    unseen = unseen_words(method.background_unseen)
    if not others:
        none = "none that can be seen took 5 % of a core" if unseen else "none took 5 % of a core"
        others = none if method.scheduler and session.end_reason else UNKNOWN
    others += f" ({unseen})" if unseen else ""
    limits = f", {words}" if (words := session.constraints.words) else ""
    who = "program" if session.watched else "engine"
    return f"{who} on {on}{of} CPUs{limits}, {clean(method.scheduler or UNKNOWN)}; other processes: {others}"


def _declared(session: Manifest) -> str:
    labels = ", ".join(f"{clean(key)}={clean(value)}" for key, value in session.labels.items() if key != IMPORTED)
    said = [*([f"labels {labels}"] if labels else []), *(f"note: {clean(note)}" for note in session.methodology.notes)]
    return "; ".join(said) or "no label or note"


def ms_or_unknown(value: float | None) -> str:
    return or_unknown(value, lambda ms: formatting.milliseconds(ms * 1e6))
