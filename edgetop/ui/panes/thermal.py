"""Heat, clocks and limits: what throttles, every zone with its distance to its trip, every clock with its cap."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from rich.cells import cell_len

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.forecast.forecast import left, outlook, time_left
from edgetop.analysis.thermal import ClockView, LimitView, ThermalView, headroom_c
from edgetop.analysis.tracks import TrackView
from edgetop.formatting import UNKNOWN
from edgetop.ui.characters import frame_characters
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.panes.sensor_series import (
    SIDE_BY_SIDE_CELLS,
    SIDE_CELLS,
    Block,
    is_flat,
    last,
    stacked,
    timeline,
    with_axis,
)
from edgetop.ui.text import BLANK, Column, Line, Piece, Span, as_fits, beside, fit, line, table, width, wrapped

ZONE_FIGURES = (Column("C", 6), Column("max", 6), Column("trip", 6), Column("below", 6))
ZONE_CELLS = (18, 28)  # of a zone's name, as the longest needs
CLOCK_COLUMNS = (
    Column("clock", 8, right=False),
    Column("MHz", 6),
    Column("cap", 6),
    Column("best", 6),
    Column("max", 6),
)
CLOSE_C = 5.0  # this near to its trip, a zone is shown as a warning
CHART_MIN_ROWS = 4
DETAIL_ROWS = 10  # of a pane that is alone, for the charts of each zone and clock
NAMED_IN_LINE = 2  # of the limits in force, where the pane is one line


def title(view: MonitorView, area: Area) -> str:
    thermal = view.thermal
    zone = thermal.zone
    if zone is None or zone.value is None or zone.is_lost:
        return ""
    left = "" if thermal.trip_c is None else f", {_headroom(thermal.trip_c - zone.value)} of {thermal.trip_c:g}"
    ahead = "".join(f", {text}" for text in (time_left(view.forecast),) if text)
    return f"{last(view)}{_celsius(zone.value)} C{left}{ahead}   {_name(zone, area)}"


def one_line(view: MonitorView, area: Area) -> Line:
    thermal, zone = view.thermal, view.thermal.zone
    pieces: list[Piece] = [("heat     ", "dim")]
    if zone is None or zone.value is None or zone.is_lost:
        pieces.append((_why_no_heat(view, area), "dim"))
        if width(line(*pieces)) > area.width:  # words may be cut, and nothing behind them is seen
            return fit(line(*pieces), area.width)
    else:
        pieces.append(f"{last(view)}{_celsius(zone.value)} C {_name(zone, area)}")
        if thermal.trip_c is not None:
            left = thermal.trip_c - zone.value
            pieces.append((f", {_headroom(left)} of {thermal.trip_c:g} C", _level(left)))
    if words := _clock_words(view, area):
        pieces.append(f"  {words} MHz")
    if text := time_left(view.forecast):
        pieces.append((f"   {text}", _outlook_style(view)))
    in_force = _in_force(thermal, area)
    if in_force:
        more = f" +{len(in_force) - NAMED_IN_LINE}" if len(in_force) > NAMED_IN_LINE else ""
        pieces.append((f"   limits: {', '.join(in_force[:NAMED_IN_LINE])}{more}", "critical"))
    return as_fits(area.width, *pieces)


def _headroom(celsius: float) -> str:
    return f"{_celsius(abs(celsius))} {'below' if celsius >= 0 else 'above'} its trip"


def _level(headroom: float | None) -> str:
    if headroom is None:
        return "text"
    return "critical" if headroom <= 0 else "warning" if headroom < CLOSE_C else "text"


def _in_force(thermal: ThermalView, area: Area) -> list[str]:
    """Limits that slow the board now."""
    return [area.clean(limit.label) for limit in thermal.limits if limit.is_in_force]


def _limits(thermal: ThermalView, area: Area) -> list[Line]:
    """Return what throttles now and what has throttled before, on as many lines as it takes."""
    in_force, cooling = _in_force(thermal, area), _cooling(thermal.cooling, area)
    groups = [
        ("THROTTLING ", [*in_force, *cooling], "critical"),
        ("earlier: ", _names(thermal, area, lambda limit: limit.was_in_force and not limit.is_in_force), "warning"),
        ("before this session: ", _names(thermal, area, lambda limit: limit.was_before), "dim"),
    ]
    said = [(f"{word}{', '.join(names)}", style) for word, names, style in groups if names]
    if not thermal.reports_limits:
        said = [(f"{UNKNOWN} no sensor reports throttling", "dim")]
    elif not in_force and not cooling:
        unknown = _names(thermal, area, lambda limit: limit.is_in_force is None)
        now = f"{UNKNOWN} not known now: {', '.join(unknown)}" if unknown else "no throttling now"
        said = [(now, "dim" if unknown else "text"), *said]
    return [row for text, style in said for row in wrapped(text, area.width, style)]


def _names(thermal: ThermalView, area: Area, claim: Callable[[LimitView], bool | None]) -> list[str]:
    return [area.clean(limit.label) for limit in thermal.limits if claim(limit)]


def _cooling(devices: Sequence[TrackView], area: Area) -> list[str]:
    """`cpufreq-cpu4 5/11`: the state of each, of its highest; `8x Processor 3/10` where several are alike."""
    said: Counter[str] = Counter()
    for device in devices:
        kind = area.clean(_NUMBER.sub("", device.info.label))
        of = "" if device.info.max_state is None else f"/{device.info.max_state}"
        said[f"{kind} {device.value:.0f}{of}"] += 1
    return [text if count == 1 else f"{count}x {text}" for text, count in said.items()]


_NUMBER = re.compile(r"^\d+-")  # of the device: another one after the next boot


def _why_no_heat(view: MonitorView, area: Area) -> str:
    if view.thermal.zones:
        return f"{UNKNOWN} {area.clean(view.thermal.zones[0].reason)}"
    return _why_none(view, "temperature", area)


def _why_none(view: MonitorView, what: str, area: Area) -> str:
    found = [missing.why for missing in view.missing if missing.what == what]
    return f"{UNKNOWN} {area.clean(found[0]) if found else 'not read yet'}"


def _mhz(value: float | None) -> str:
    return UNKNOWN if value is None else formatting.reading(value, "MHz")


def _now(clock: ClockView) -> str:
    return UNKNOWN if clock.mhz.is_lost else _mhz(clock.mhz.value)


def _label(clock: ClockView, area: Area) -> str:
    return area.clean(clock.label)


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    if area.is_stacked:
        return _charts(view, area)
    if view.sensor_series and area.height >= DETAIL_ROWS:
        return _detailed(view, area)
    has_chart = any(has_charts(view))
    if has_chart and area.width >= SIDE_BY_SIDE_CELLS and area.height >= CHART_MIN_ROWS:
        left = area.width - SIDE_CELLS - 2
        tables = _squeezed(*_tables(view, area.resized(width=SIDE_CELLS)), area.height)
        drawn = with_axis(view, area.resized(width=left), lambda of: _charts(view, of))
        return beside(((drawn, left), (tables, SIDE_CELLS)))
    zones, clocks = _tables(view, area)
    room = area.height - len(zones) - 1 - len(clocks)
    if has_chart and room < CHART_MIN_ROWS:  # the title tells what is ahead too
        zones, clocks = _tables(view, area, ahead=False)
        room = area.height - len(zones) - 1 - len(clocks)
    if not has_chart or room < CHART_MIN_ROWS:
        return _squeezed(zones, clocks, area.height)
    drawn = with_axis(view, area.resized(height=room), lambda of: _charts(view, of))
    return [*drawn, *zones, BLANK, *clocks]


def _detailed(view: MonitorView, area: Area) -> list[Line]:
    """The pane alone: every zone and every clock with its own chart, a clock under its cap."""
    # By the highest ever seen, which seldom changes: a chart that moves with every breath cannot be read.
    ranked = sorted(view.thermal.zones, key=lambda zone: -(zone.max or 0.0))
    zones = [
        Block(
            _zone_figures(zone, area),
            view.sensor_series.get(zone.info.id),
            "C",
            limit=zone.trip_c,
        )
        for zone in ranked
    ]
    clocks = [
        Block(
            _clock_figures(clock, area),
            view.sensor_series.get(clock.mhz.info.id),
            "MHz",
            limit=view.sensor_series.get(f"freqcap/{clock.mhz.info.label}"),
        )
        for clock in view.thermal.clocks
    ]
    limits = _limits(view.thermal, area)
    sensor_series = stacked(view, [*zones, *clocks], area.resized(height=max(0, area.height - len(limits))))
    return [*limits, *sensor_series][: area.height]


def _zone_figures(zone: TrackView, area: Area) -> Line:
    margin = headroom_c(zone)
    name = (f"{_name(zone, area):<{ZONE_CELLS[0]}} ", "text")
    if zone.value is None or zone.is_lost:
        return line(name, (f"{UNKNOWN} {area.clean(zone.reason)}", "dim"))
    trip = f", {_headroom(margin)} at {_celsius(zone.trip_c)}" if margin is not None else ""
    return as_fits(
        area.width, name, (f"{_celsius(zone.value):>6} C", _level(margin)), (f"  max {_celsius(zone.max)}", "dim"),
        (trip, _level(margin)),
    )  # fmt: skip


def _clock_figures(clock: ClockView, area: Area) -> Line:
    cap, style = _capped(clock)
    figures = (f"  max {_mhz(clock.max_mhz)}, best seen {_mhz(clock.best_mhz)}", "dim")
    name = (f"{_label(clock, area):<{ZONE_CELLS[0]}} ", "text")
    return as_fits(area.width, name, f"{_now(clock):>6} MHz", (f"  cap {cap}", style), figures)


def _tables(view: MonitorView, area: Area, *, ahead: bool = True) -> tuple[list[Line], list[Line]]:
    """Return the lines of the zones, below what throttles and what will, and of the clocks; or why there are none."""
    zones = _zones(view.thermal.zones, area) or wrapped(_why_none(view, "temperature", area), area.width, "dim")
    zones = [*_limits(view.thermal, area), *(_forecast(view, area) if ahead else ()), *zones]
    clocks = _clocks(view.thermal.clocks, area) or wrapped(_why_none(view, "CPU clocks", area), area.width, "dim")
    return zones, clocks


def _forecast(view: MonitorView, area: Area) -> list[Line]:
    """Return the forecast of the temperature; no line where it is unknown."""
    words = ", ".join(text for text in (outlook(view.forecast), left(view.forecast)) if text)
    return wrapped(words, area.width, _outlook_style(view)) if words else []


def _outlook_style(view: MonitorView) -> str:
    return "warning" if view.forecast.will_throttle else "text"


def _squeezed(zones: Sequence[Line], clocks: Sequence[Line], height: int) -> list[Line]:
    """Both tables in too few rows: the hottest zones, and the clocks after them."""
    gap = [BLANK] if len(zones) + len(clocks) < height else []
    room = max(2, height - len(clocks) - len(gap))
    return [*zones[:room], *gap, *clocks][:height]


def has_charts(view: MonitorView) -> tuple[bool, bool]:
    """Whether heat, and the clock, are worth a chart: what is flat is a number."""
    thermal = view.thermal
    return not is_flat(thermal.hottest_points, "C"), not is_flat(thermal.clock_points, "MHz")


def _charts(view: MonitorView, area: Area) -> list[Line]:
    """Temperature with its trip, and under a rule of its own the clock with its cap."""
    thermal = view.thermal
    has_heat, has_clock = has_charts(view)
    rule = [_clock_rule(view, area)] if has_clock else []
    charts = (has_heat + has_clock) or 1
    rows = max(1, (area.height - len(rule)) // charts)
    lines: list[Line] = []
    if has_heat and thermal.hottest_points:
        heat = area.resized(height=area.height - len(rule) - rows * has_clock)
        lines += timeline(view, thermal.hottest_points, "C", heat, limit=thermal.trip_c)
    lines += rule
    if has_clock and thermal.clock_points:
        lines += timeline(view, thermal.clock_points, "MHz", area.resized(height=rows), limit=thermal.cap_points)
    if not has_clock:
        return lines
    return lines[: area.height]


def _clock_rule(view: MonitorView, area: Area) -> Line:
    """A line of the frame between the two, with the clock as it is now."""
    rule = frame_characters(area.characters).rule
    said = f" {_clock_words(view, area)}{_cap_words(view)} "
    name = " clock MHz "
    dashes = max(1, area.width - len(name) - len(said) - 2)
    return fit((Span(rule, "frame"), Span(name, "title"), Span(rule * dashes, "frame"), Span(said, "dim"),
                Span(rule, "frame")), area.width, "frame")  # fmt: skip


def _clock_words(view: MonitorView, area: Area) -> str:
    leading = view.thermal.leading
    if leading is None:
        return ""
    now = UNKNOWN if leading.is_lost else _mhz(leading.value)
    return f"{area.clean(leading.info.label)} {now} of {_mhz(leading.max)}"


def _cap_words(view: MonitorView) -> str:
    points = view.thermal.cap_points
    if points is None or points.is_empty:
        return ""
    return f", cap {_mhz(float(points.middle[~np.isnan(points.middle)][-1]))}"


def _zones(zones: Sequence[TrackView], area: Area) -> list[Line]:
    if not zones:
        return []
    longest = max(cell_len(_name(zone, area)) for zone in zones)
    columns = (Column("zone", min(max(longest, ZONE_CELLS[0]), ZONE_CELLS[1]), right=False), *ZONE_FIGURES)
    return table(columns, [_zone(zone, area) for zone in zones], area.width)


def _name(zone: TrackView, area: Area) -> str:
    return area.clean(zone.info.label)


def _zone(zone: TrackView, area: Area) -> list[Piece]:
    name = _name(zone, area)
    if zone.value is None or zone.is_lost:
        reason = area.clean(zone.reason)
        return [(name, "dim"), UNKNOWN, _celsius(zone.max), (reason, "dim")]
    headroom = headroom_c(zone)
    return [
        name,
        (_celsius(zone.value), _level(headroom)),
        _celsius(zone.max),
        _celsius(zone.trip_c),
        (_celsius(headroom), _level(headroom)),
    ]


def _celsius(value: float | None) -> str:
    return UNKNOWN if value is None else formatting.reading(value, "°C")


def _clocks(clocks: Sequence[ClockView], area: Area) -> list[Line]:
    rows: list[list[Piece]] = [
        [_label(clock, area), _now(clock), _capped(clock), _mhz(clock.best_mhz), _mhz(clock.max_mhz)]
        for clock in clocks
    ]
    return table(CLOCK_COLUMNS, rows, area.width) if clocks else []


def _capped(clock: ClockView) -> tuple[str, str]:
    """The cap, as a warning where it is below what the hardware can do."""
    is_below = clock.cap_mhz is not None and clock.max_mhz is not None and clock.cap_mhz < clock.max_mhz
    return (_mhz(clock.cap_mhz), "warning" if is_below else "text")


THERMAL = Drawing("heat", title, body, line=one_line, details=("temp", "freq", "freqcap"), unit="C")
