"""What a session was measured under, in four lines: without it a figure is not worth quoting."""

from collections.abc import Iterator
from typing import Any

from edgetop import formatting
from edgetop.formatting import UNKNOWN, clean
from edgetop.session.manifest import IMPORTED, from_json

NS = 1e9


def method_lines(session: dict[str, Any]) -> Iterator[str]:
    """Always as many, so that what is not known is seen to be missing. `session`: the manifest as JSON."""
    yield ""
    yield f"method     {_runs(session)}"
    yield f"           {_place(session['methodology'])}"
    yield f"           {_neighbours(session)}"
    yield f"           {_declared(session)}"


def _runs(session: dict[str, Any]) -> str:
    method = session["methodology"]
    input_ = "" if from_json(session).was_imported else session["load"]["input"]
    parts = [f"input {clean(input_) or UNKNOWN}"]
    warm_up = UNKNOWN if method["warmup_runs"] is None else method["warmup_runs"]
    measured = UNKNOWN if method["measure_runs"] is None else formatting.count(method["measure_runs"])
    parts.append(f"{measured} inferences after {warm_up} of warm-up")
    for key, what in (("cooldown_s", "a cool-down"), ("idle_baseline_s", "an idle baseline")):
        parts.append(f"{what} of {formatting.span(method[key] * NS)}" if method[key] else f"without {what}")
    return ", ".join(parts)


def _place(method: dict[str, Any]) -> str:
    """How warm it was when measuring began, and what the user says of the room and the case."""
    began = [f"{clean(sensor)} {celsius:.1f} °C" for sensor, celsius in _hottest_first(method["start_temperatures"])]
    more = f" and {len(began) - 2} more" if len(began) > 2 else ""
    warm = f"began at {', '.join(began[:2])}{more}" if began else "how warm the board was as it began is not known"
    ambient = (
        "ambient not declared" if method["ambient_c"] is None else f"ambient {method['ambient_c']:g} °C as declared"
    )
    case = f"enclosure {clean(method['enclosure'])}" if method["enclosure"] else "enclosure not declared"
    return f"{warm}; {ambient}, {case}"


def _hottest_first(temperatures: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(temperatures.items(), key=lambda pair: (-pair[1], pair[0]))


def _neighbours(session: dict[str, Any]) -> str:
    """Where the engine could run and with what priority, and who ran beside it."""
    method, cpus = session["methodology"], session["constraints"]["cpus"]
    on = UNKNOWN if cpus is None else f"{cpus:g}"
    of = f" of {session['board']['cores']}" if session["board"]["cores"] else ""
    others = ", ".join(f"{clean(one['name'])} {one['cpu_pct']:.0f} %" for one in method["background"])
    if not others:
        others = "none took 5 % of a core" if method["scheduler"] and session["end_reason"] else UNKNOWN
    return f"engine on {on}{of} CPUs, {clean(method['scheduler'] or UNKNOWN)}; other processes: {others}"


def _declared(session: dict[str, Any]) -> str:
    labels = [f"{clean(key)}={clean(value)}" for key, value in session["labels"].items() if key != IMPORTED]
    notes = [clean(note) for note in session["methodology"]["notes"]]
    if not labels and not notes:
        return "no label or note"
    return "; ".join([*([f"labels {', '.join(labels)}"] if labels else []), *(f"note: {note}" for note in notes)])
