"""The heat pane: throttling, the temperatures with their distance to the limits, and the clocks with their caps."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
from rich.cells import cell_len

from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.heat import ClockView, ThermalView, headroom_c
from edgetop.analysis.tracks import TrackView
from edgetop.formatting import UNKNOWN, reading
from edgetop.ui.characters import border_characters
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.panes.sensor_series import (
    CHART_MIN_ROWS,
    SIDE_BY_SIDE_CELLS,
    Block,
    is_flat,
    last,
    stacked,
    timeline,
    with_axis,
    with_figures,
)
from edgetop.ui.text import BLANK, Column, Line, Piece, Span, as_fits, fit, line, table, width, wrapped
from edgetop.wording.clue_words import clue_words
from edgetop.wording.forecast_words import left, outlook, time_left
from edgetop.wording.sensor_words import no_reading_words

ZONE_FIGURES = (Column("C", 6), Column("max", 6), Column("trip", 6), Column("below", 6))
ZONE_CELLS = (18, 28)  # least and greatest width of zone names
CLOCK_COLUMNS = (
    Column("clock", 8, right=False), Column("MHz", 6), Column("cap", 6), Column("best", 6), Column("max", 6),
)  # fmt: skip
CLOSE_C = 5.0  # a zone this close to its trip point is shown as a warning
DETAIL_ROWS = 10  # from this height on, a pane that is alone shows a chart per zone and clock
NAMED_IN_LINE = 2  # number of limits that a one-line pane names

_celsius, _mhz = partial(reading, unit="°C"), partial(reading, unit="MHz")


def title(view: MonitorView, area: Area) -> str:
    zone, trip_c, ahead = view.thermal.zone, view.thermal.trip_c, time_left(view.forecast)
    if zone is None or zone.now is None:
        return ""
    headroom = "" if trip_c is None else f", {_headroom(trip_c - zone.now)} of {trip_c:g}"
    return f"{last(view)}{_celsius(zone.now)} C{headroom}{ahead and f', {ahead}'}   {area.clean(zone.info.label)}"


def one_line(view: MonitorView, area: Area) -> Line:
    thermal, zone = view.thermal, view.thermal.zone
    pieces: list[Piece] = [("heat     ", "dim")]
    if zone is None or zone.now is None:
        reason = (
            area.clean(no_reading_words(thermal.zones[0])) if thermal.zones else _why_none(view, "temperature", area)
        )
        pieces.append((f"{UNKNOWN} {reason}", "dim"))
        if width(line(*pieces)) > area.width:  # the line is full
            return fit(line(*pieces), area.width)
    else:
        pieces.append(f"{last(view)}{_celsius(zone.now)} C {area.clean(zone.info.label)}")
        if thermal.trip_c is not None:
            headroom = thermal.trip_c - zone.now
            pieces.append((f", {_headroom(headroom)} of {thermal.trip_c:g} C", _level(headroom)))
    if words := _clock_words(view, area):
        pieces.append(f"  {words} MHz")
    if text := time_left(view.forecast):
        pieces.append((f"   {text}", _outlook_style(view)))
    if in_force := [area.clean(limit.label) for limit in thermal.limits if limit.is_in_force]:
        more = f" +{len(in_force) - NAMED_IN_LINE}" if len(in_force) > NAMED_IN_LINE else ""
        pieces.append((f"   limits: {', '.join(in_force[:NAMED_IN_LINE])}{more}", "critical"))
    return as_fits(area.width, *pieces)


def _headroom(celsius: float) -> str:
    return f"{_celsius(abs(celsius))} {'below' if celsius >= 0 else 'above'} its trip"


def _level(headroom: float | None) -> str:
    if headroom is None:
        return "text"
    return "critical" if headroom <= 0 else "warning" if headroom < CLOSE_C else "text"


def _limits(thermal: ThermalView, area: Area) -> list[Line]:
    """Return lines with the limits that slow the board now, and with those that did so before."""
    named = [(limit, area.clean(limit.label)) for limit in thermal.limits]
    throttling = [*(name for limit, name in named if limit.is_in_force), *_cooling(thermal.cooling, area)]
    groups = [
        ("THROTTLING ", throttling, "critical"),
        ("earlier: ", [name for limit, name in named if limit.was_in_force and not limit.is_in_force], "warning"),
        ("before this session: ", [name for limit, name in named if limit.was_before], "dim"),
    ]
    said = [(f"{word}{', '.join(names)}", style) for word, names, style in groups if names]
    if not thermal.reports_limits:
        said = [(f"{UNKNOWN} no sensor reports throttling", "dim")]
    elif not throttling:
        unknown = [name for limit, name in named if limit.is_in_force is None]
        now = f"{UNKNOWN} not known now: {', '.join(unknown)}" if unknown else "no throttling now"
        said = [(now, "dim" if unknown else "text"), *said]
    return [row for text, style in said for row in wrapped(text, area.width, style)]


def _cooling(devices: Sequence[TrackView], area: Area) -> list[str]:
    """Return a text per cooling device, with its state and its highest state: `cpufreq-cpu4 5/11`.

    Devices of the same kind and state share a text: `8x Processor 3/10`.
    """
    said: Counter[str] = Counter()
    for device in devices:
        kind = area.clean(_NUMBER.sub("", device.info.label))
        of = "" if device.info.max_state is None else f"/{device.info.max_state}"
        said[f"{kind} {device.value:.0f}{of}"] += 1
    return [text if count == 1 else f"{count}x {text}" for text, count in said.items()]


_OF_PROCESS = ("process", "process-now")  # kinds of evidence that name a process
_NUMBER = re.compile(r"^\d+-")  # number of the device, which changes with each boot


def _why_none(view: MonitorView, what: str, area: Area) -> str:
    return next((area.clean(missing.why) for missing in view.missing if missing.what == what), "not read yet")


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    if area.is_stacked:
        return _charts(view, area)
    if view.sensor_series and area.height >= DETAIL_ROWS:
        return _detailed(view, area)
    has_chart = any(has_charts(view))
    if has_chart and area.width >= SIDE_BY_SIDE_CELLS and area.height >= CHART_MIN_ROWS:
        return with_figures(
            lambda room: with_axis(view, room, partial(_charts, view)),
            lambda room: _squeezed(*_tables(view, room), area.height),
            area,
        )
    zones, clocks = _tables(view, area)
    room = area.height - len(zones) - 1 - len(clocks)
    if has_chart and room < CHART_MIN_ROWS:  # the title shows the forecast as well
        zones, clocks = _tables(view, area, ahead=False)
        room = area.height - len(zones) - 1 - len(clocks)
    if not has_chart or room < CHART_MIN_ROWS:
        return _squeezed(zones, clocks, area.height)
    return [*with_axis(view, area.resized(height=room), partial(_charts, view)), *zones, BLANK, *clocks]


def _detailed(view: MonitorView, area: Area) -> list[Line]:
    """Return the lines of the pane when it is shown alone: a chart for each temperature zone and for each clock.

    The chart of a clock also has the highest clock that is allowed now (the cap).
    """
    series = view.sensor_series
    # Sort by the highest temperature so far, which seldom changes, so that charts stay in place.
    ranked = sorted(view.thermal.zones, key=lambda zone: -(zone.max or 0.0))
    zones = [Block(_zone_figures(zone, area), series.get(zone.info.id), "C", zone.trip_c) for zone in ranked]
    clocks = [
        Block(_clock_figures(clock, area), series.get(of.id), "MHz", series.get(f"freqcap/{of.label}"))
        for clock in view.thermal.clocks
        for of in (clock.mhz.info,)
    ]
    return stacked(view, [*zones, *clocks], area, _limits(view.thermal, area))


def _zone_figures(zone: TrackView, area: Area) -> Line:
    margin = headroom_c(zone)
    name = f"{area.clean(zone.info.label):<{ZONE_CELLS[0]}} "
    if zone.now is None:
        return line(name, (f"{UNKNOWN} {area.clean(no_reading_words(zone))}", "dim"))
    trip = f", {_headroom(margin)} at {_celsius(zone.trip_c)}" if margin is not None else ""
    return as_fits(
        area.width, name, (f"{_celsius(zone.now):>6} C", _level(margin)), (f"  max {_celsius(zone.max)}", "dim"),
        (trip, _level(margin)),
    )  # fmt: skip


def _clock_figures(clock: ClockView, area: Area) -> Line:
    cap, style = _capped(clock)
    figures = (f"  max {_mhz(clock.max_mhz)}, best seen {_mhz(clock.best_mhz)}", "dim")
    name = f"{area.clean(clock.label):<{ZONE_CELLS[0]}} "
    return as_fits(area.width, name, f"{_mhz(clock.mhz.now):>6} MHz", (f"  cap {cap}", style), figures)


def _tables(view: MonitorView, area: Area, *, ahead: bool = True) -> tuple[list[Line], list[Line]]:
    """Return two tables as lines: throttling and temperature zones, then clocks. An empty table says why it is empty.

    `ahead` tells whether the forecast of throttling is included.
    """
    thermal = view.thermal
    longest = max((cell_len(area.clean(zone.info.label)) for zone in thermal.zones), default=0)
    columns = (Column("zone", min(max(longest, ZONE_CELLS[0]), ZONE_CELLS[1]), right=False), *ZONE_FIGURES)
    zones = _table_or_why(columns, [_zone(zone, area) for zone in thermal.zones], view, "temperature", area)
    words = ", ".join(text for text in (outlook(view.forecast), left(view.forecast)) if text) if ahead else ""
    forecast = wrapped(words, area.width, _outlook_style(view)) if words else []
    rows = [
        (area.clean(clock.label), _mhz(clock.mhz.now), _capped(clock), _mhz(clock.best_mhz), _mhz(clock.max_mhz))
        for clock in thermal.clocks
    ]
    return [*_limits(thermal, area), *forecast, *zones], _table_or_why(CLOCK_COLUMNS, rows, view, "CPU clocks", area)


def _table_or_why(
    columns: Sequence[Column], rows: Sequence[Sequence[Piece]], view: MonitorView, what: str, area: Area
) -> list[Line]:
    why = f"{UNKNOWN} {_why_none(view, what, area)}"
    return table(columns, rows, area.width) if rows else wrapped(why, area.width, "dim")


def _outlook_style(view: MonitorView) -> str:
    return "warning" if view.forecast.will_throttle else "text"


def _squeezed(zones: Sequence[Line], clocks: Sequence[Line], height: int) -> list[Line]:
    """Return the lines of the temperature zones, then those of the clocks, cut to at most `height` lines.

    The last zones are cut first.
    """
    gap = [BLANK] if len(zones) + len(clocks) < height else []
    room = max(2, height - len(clocks) - len(gap))
    return [*zones[:room], *gap, *clocks][:height]


def has_charts(view: MonitorView) -> tuple[bool, bool, bool]:
    """Return whether each of three quantities needs a chart: (temperature, clock, CPU use of other processes).

    Temperature and clock need a chart if they have changed enough. The CPU use of other processes needs one if it
    slowed the model.
    """
    thermal = view.thermal
    is_contended = any(of.cause == "contention" for of in view.slowdowns.slowdowns) or view.slowdowns.contended_now
    has_others = bool(is_contended) and view.others_points is not None and not view.others_points.is_empty
    return not is_flat(thermal.hottest_points, "C"), not is_flat(thermal.clock_points, "MHz"), has_others


def _charts(view: MonitorView, area: Area) -> list[Line]:
    """Return the charts of the temperature and of the clock, one below the other, with their limits.

    A quantity that has hardly changed has no chart.
    """
    thermal = view.thermal
    has_heat, *has_others = has_charts(view)
    below = sum(has_others)
    rows = max(1, (area.height - below) // ((has_heat + below) or 1))
    lines: list[Line] = []
    if has_heat and thermal.hottest_points:
        heat = area.resized(height=area.height - (1 + rows) * below)
        lines = timeline(view, thermal.hottest_points, "C", heat, limit=thermal.trip_c)
    room = area.resized(height=rows)
    if has_others[0] and thermal.clock_points:
        lines += [_clock_rule(view, area), *timeline(view, thermal.clock_points, "MHz", room, limit=thermal.cap_points)]
    if has_others[1] and view.others_points:
        lines += [_others_rule(view, area), *timeline(view, view.others_points, "%", room)]
    return lines[: area.height]


def _clock_rule(view: MonitorView, area: Area) -> Line:
    """Return the line above the chart of the clock, with the present clock and its cap in MHz."""
    caps = view.thermal.cap_points
    caps_mhz = [] if caps is None or caps.is_empty else caps.middle[~np.isnan(caps.middle)].tolist()
    said = f"{_clock_words(view, area)}{f', cap {_mhz(caps_mhz[-1])}' if caps_mhz else ''}"
    return _rule("clock MHz", said, area)


def _others_rule(view: MonitorView, area: Area) -> Line:
    """Return the line above the chart of the CPU use of others, with the process that takes most, if it is known."""
    clues = (clue for of in reversed(view.slowdowns.slowdowns) for clue in of.evidence if clue.kind == "process")
    who = next((of for of in (view.slowdowns.contended_now, *clues) if of and of.kind in _OF_PROCESS), None)
    return _rule("CPU of others %", area.clean(clue_words(who)) if who else "100 % is a core", area)


def _rule(name: str, said: str, area: Area) -> Line:
    """Return the line above a further chart of the pane: its name at the left, and the text `said` at the right."""
    rule, name, said = border_characters(area.characters).rule, f" {name} ", f" {said} "
    dashes = max(1, area.width - len(name) - len(said) - 2)
    return fit((Span(rule, "frame"), Span(name, "title"), Span(rule * dashes, "frame"), Span(said, "dim"),
                Span(rule, "frame")), area.width, "frame")  # fmt: skip


def _clock_words(view: MonitorView, area: Area) -> str:
    leading = view.thermal.leading
    if leading is None:
        return ""
    return f"{area.clean(leading.info.label)} {_mhz(leading.now)} of {_mhz(leading.max)}"


def _zone(zone: TrackView, area: Area) -> list[Piece]:
    name, headroom = area.clean(zone.info.label), headroom_c(zone)
    if zone.now is None:
        return [(name, "dim"), UNKNOWN, _celsius(zone.max), (area.clean(no_reading_words(zone)), "dim")]
    now, below = ((_celsius(value), _level(headroom)) for value in (zone.now, headroom))
    return [name, now, _celsius(zone.max), _celsius(zone.trip_c), below]


def _capped(clock: ClockView) -> tuple[str, str]:
    """Return (text, style) of the present cap on a clock, in MHz. The style warns if the hardware could go higher."""
    is_below = clock.cap_mhz is not None and clock.max_mhz is not None and clock.cap_mhz < clock.max_mhz
    return (_mhz(clock.cap_mhz), "warning" if is_below else "text")


THERMAL = Drawing("heat", title, body, line=one_line, details=("temp", "freq", "freqcap"), unit="C", parts=("thermal",))
