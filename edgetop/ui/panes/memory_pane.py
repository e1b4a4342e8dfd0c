"""The memory pane: the engine's memory, its limit, and the signs of memory pressure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.memory_use import MemoryView
from edgetop.analysis.timeline import Points
from edgetop.analysis.tracks import TrackView
from edgetop.formatting import or_unknown
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.panes.sensor_series import SIDE_BY_SIDE_CELLS, Block, is_flat, last, stacked, with_chart, with_figures
from edgetop.ui.text import Line, Piece, as_fits, fit, line, width
from edgetop.wording.memory_words import leak_ends
from edgetop.wording.sensor_words import no_reading_words

DETAIL_ROWS = 24  # from this height on, a pane that is alone shows more timelines than that of the engine
LOW_ROWS = 3  # up to this height, the pane has a chart without figures
LABEL_CELLS = 12
GIB_FROM = 1000  # values from this many MiB on are shown in GiB
NS = 1e9
SETTLING_S = 5.0  # the memory of the loaded model is read only every few seconds, so the first ones do not count
SCARCE = 0.1  # warn if less than this share of the limit or of the board's memory is left

STAGE_NAMES = {"interpreter": "start", "runtime": "runtime", "model": "model", "first": "first run", "steady": "steady"}


def title(view: MonitorView, _: Area) -> str:
    memory = view.memory
    held, left = f"{_whose(memory)} {_mib(memory.application or memory.rss)}", f"{_sized(memory.room)} left"
    if shows_what_is_left(view):
        return f"{last(view)}{left} in {_holder(memory)}, shown below; {held}"
    return f"{last(view)}{held}, {_holder(memory)} {left}"


def _whose(memory: MemoryView) -> str:
    """Return whose memory is shown: "program" for a program that edgetop watches, else "engine".

    The memory of a program includes that of all its child processes.
    """
    return "program" if memory.application else "engine"


def one_line(view: MonitorView, area: Area) -> Line:
    memory = view.memory
    application = memory.application
    peak = or_unknown(application.max if application else memory.peak_mib, _scaled)  # of what stands before it
    gpu = f", GPU{'' if memory.accelerator else ' of all'} {_mib(memory.gpu)}" if memory.gpu else ""
    return as_fits(
        area.width,
        ("memory   ", "dim"),
        f"{last(view)}{_whose(memory)} {_sized(application or memory.rss)}",
        gpu,
        f", peak {peak}",
        (f"   {_holder(memory)} has {_sized(memory.room)} left", _level(memory)),
    )


def _holder(memory: MemoryView) -> str:
    """Return what runs out of memory first: "its cgroup" (the group of processes of the engine) or "system"."""
    return "its cgroup" if memory.room is not None and memory.room == memory.cgroup_left else "system"


def _level(memory: MemoryView) -> str:
    room, limit = memory.room, memory.board_mib
    if room is not None and room == memory.cgroup_left and memory.cgroup_limit:
        limit = memory.cgroup_limit.value
    left = room.now if room else None
    return "warning" if left is not None and limit is not None and left < SCARCE * limit else "text"


def _mib(track: TrackView | None) -> str:
    return or_unknown(track.now if track else None, _scaled)


def _scaled(mib: float) -> str:
    """Return a size as text: a number of MiB, such as `512.0`, or with a unit from 1000 MiB on, such as `2.1 GiB`.

    >>> _scaled(512), _scaled(2150)
    ('512.0', '2.1 GiB')
    """
    return formatting.reading(mib, "MiB") if abs(mib) < GIB_FROM else formatting.size(mib * 2**20)


def _cell(track: TrackView | None) -> str:
    """Return the present value of `track` as text, or a dash for None. It is padded to align with other lines."""
    return _aligned(track.now if track else None)


def _aligned(mib: float | None) -> str:
    number, _, unit = or_unknown(mib, _scaled).partition(" ")
    return f"{number:>9} {unit}".rstrip()


def _sized(track: TrackView | None) -> str:
    return f"{shown} MiB" if (shown := _mib(track))[-1].isdigit() else shown


def _timeline_figures(name: str, track: TrackView) -> Line:
    least, most = (or_unknown(mib, _scaled) for mib in (track.min, track.max))
    return line((f"{name:<{LABEL_CELLS}}", "dim"), _cell(track), (f"  min {least}, max {most}", "dim"))


def has_chart(view: MonitorView) -> bool:
    """Whether memory has changed enough for a chart."""
    return _chart(view) is not None


def shows_what_is_left(view: MonitorView) -> bool:
    """Whether the chart shows the memory that is left, instead of the memory of the engine."""
    return _chart(view) is not None and _chart(view) is view.memory.room_points


def _chart(view: MonitorView) -> Points | None:
    """Return the timeline to draw, or None if memory has hardly changed since measuring began.

    This is the timeline of the engine's memory. If the engine's memory has hardly changed but little memory is left, it
    is the timeline of the memory that is left.
    """
    memory, measured_ns = view.memory, view.progress.measured_ns
    if measured_ns is None:
        return None
    since_s = (view.progress.now_ns - measured_ns) / NS + SETTLING_S
    if not is_flat(memory.rss_points, "MiB", since_s):  # its rise while the model was loaded does not count
        return memory.rss_points
    is_scarce = _level(memory) != "text"
    return memory.room_points if is_scarce and not is_flat(memory.room_points, "MiB", since_s) else None


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    if view.sensor_series and area.height >= DETAIL_ROWS:
        return _detailed(view, area)
    points = _chart(view)
    if area.height <= LOW_ROWS:  # the title has the figures, and the chart of latency the times
        area = replace(area, is_stacked=True)
    return with_chart(view, points, "MiB", partial(_rows, view.memory), area)


def _detailed(view: MonitorView, area: Area) -> list[Line]:
    """Return the lines of the pane when it is shown alone: figures, and timelines of the main figures."""
    memory = view.memory
    shown = (("program", memory.application),
             ("engine RSS", memory.rss), ("PSS", memory.pss), ("GPU", memory.gpu), ("cgroup", memory.cgroup),
             ("system left", memory.available))  # fmt: skip
    blocks = [
        Block(_timeline_figures(name, track), points, "MiB")
        for name, track in shown
        if track and (points := view.sensor_series.get(track.info.id)) is not None
    ]
    if area.width >= SIDE_BY_SIDE_CELLS:
        return with_figures(partial(stacked, view, blocks), partial(_rows, memory), area)
    return stacked(view, blocks, area, _rows(memory, area))


def _rows(memory: MemoryView, area: Area) -> list[Line]:
    figures = list(_figures(memory, area))
    growth = _growth(memory, area)
    lines = [*figures[:1], *growth, *figures[1:], *_traffic(memory, area), *_stages(memory, area)]
    return lines[: area.height]


def _growth(memory: MemoryView, area: Area) -> list[Line]:
    """Return a line with how fast the engine's memory grows, with its 95 % interval.

    Return [] if that is not known yet.
    """
    growth = memory.growth
    is_noise = growth.mib_per_h is not None and growth.mib_per_h.low <= 0 and growth.is_leak is None
    if growth.mib_per_h is None or is_noise:  # in the first two minutes only a growth that is none by chance
        return []
    slope, style = growth.mib_per_h, "warning" if growth.is_leak else "text"
    unit, scale = ("GiB/h", 1024) if abs(slope.value) >= GIB_FROM else ("MiB/h", 1)
    rate = f"{round(slope.value / scale, 1) + 0.0:>9.1f}"  # adding 0.0 turns -0.0 into 0.0
    pieces: list[Piece] = [(f"{'growth':<{LABEL_CELLS}}", "dim"), (rate, style), (f"  {unit}", "dim")]
    if growth.is_leak:
        pieces.append((" LEAKING", style))
    pieces.append((f"  95 %: {slope.low / scale:.1f} to {slope.high / scale:.1f}", "dim"))
    if ends := leak_ends(growth):
        pieces.append((f"  {_holder(memory)} is {ends}", style))
    return [as_fits(area.width, *pieces)]


def _figures(memory: MemoryView, area: Area) -> Iterator[Line]:
    """Yield the lines with figures, the most important first, because a small screen leaves out the last ones."""
    board = or_unknown(memory.board_mib, lambda mib: formatting.size(mib * 2**20))
    if memory.application:
        yield _line(area, "program", memory.application, "all its processes")
    yield _line(area, "engine RSS", memory.rss, *_made_of(memory))
    if memory.peak_mib is None:
        yield _line(area, "peak", memory.peak)
    else:
        yield line((f"{'peak':<{LABEL_CELLS}}", "dim"), _aligned(memory.peak_mib))
    yield _line(area, "PSS", memory.pss, f"USS {_mib(memory.uss)}", f", swapped out {_mib(memory.swap)}")
    if memory.accelerator:
        yield _line(area, "GPU part", memory.accelerator, "not part of RSS")
    elif memory.system_accelerator:
        yield _line(area, "GPU, all", memory.system_accelerator, "of all processes, not part of RSS")
    if memory.cgroup:
        yield _line(area, "cgroup", memory.cgroup, *_limit(memory))
    style = _level(memory) if memory.room == memory.available else "text"
    unit = "MiB " if _cell(memory.available)[-1].isdigit() else ""
    yield _line(area, "system left", memory.available, f"{unit}of {board}", style=style)
    if memory.system_swap:
        yield _line(area, "swap in use", memory.system_swap, "by all processes")


def _made_of(memory: MemoryView) -> Iterator[str]:
    parts = (("anon", memory.anon), ("file", memory.file), ("shared", memory.shmem))
    for i, (name, track) in enumerate((name, track) for name, track in parts if track is not None and track.value):
        yield f"{', ' if i else ''}{name} {_mib(track)}"


def _limit(memory: MemoryView) -> Iterator[Piece]:
    if memory.oom_kills and memory.oom_kills.max:
        yield ("OOM killer struck  ", "critical")
    if memory.cgroup_limit is None:
        yield "no limit"
    else:
        style = _level(memory) if memory.room == memory.cgroup_left else "text"
        yield (f"{_mib(memory.cgroup_left)} below", style if style != "text" else "dim")
        yield f" its limit of {_mib(memory.cgroup_limit)}"


def _line(area: Area, name: str, track: TrackView | None, *notes: Piece, style: str = "text") -> Line:
    """Return a line of the pane: the name of a figure, its present value, and `notes`.

    `track` is the sensor with the value, or None if there is no such sensor. Without a value, the line says why there
    is none, instead of `notes`. If the line is too long, the last notes are left out; a single note is cut instead.
    """
    if track is None:
        notes = ("no such sensor",)
    elif track.now is None:
        notes = (area.clean(no_reading_words(track)),)
    pieces = [(note, "dim") if isinstance(note, str) else note for note in notes]
    start = line((f"{name:<{LABEL_CELLS}}", "dim"), (_cell(track), style), "  ")
    whole = line(*start, *pieces)
    if width(whole) <= area.width:
        return whole
    return fit(whole, area.width) if len(pieces) == 1 else as_fits(area.width, *start, *pieces)


def _traffic(memory: MemoryView, area: Area) -> list[Line]:
    """Return a line with the signs of memory pressure: swapping and major page faults, each per second.

    Return [] if the board reports neither.
    """
    rates = (("swap in", memory.swap_in), ("out", memory.swap_out), ("major faults", memory.major_faults))
    read = [(name, track) for name, track in rates if track is not None]
    if not read:
        return []
    pieces = [
        (f"{', ' if i else ''}{name} {formatting.reading(track.now, '1/s')}", "warning" if track.value else "text")
        for i, (name, track) in enumerate(read)
    ]
    return [as_fits(area.width, (f"{'per second':<{LABEL_CELLS + 2}}", "dim"), *pieces)]


def _stages(memory: MemoryView, area: Area) -> list[Line]:
    """Return lines with the engine's memory after each step of its start: runtime, model, first run, steady."""
    lines: list[Line] = []
    label = "by stage"
    pieces: list[str] = []
    for stage in memory.stages:
        name = STAGE_NAMES.get(stage.stage) or area.clean(stage.stage)
        piece = f"{', ' if pieces else ''}{name} {_scaled(stage.rss_mib)}"
        if pieces and LABEL_CELLS + 2 + width(line(*pieces, piece)) > area.width:
            lines.append(line((f"{label:<{LABEL_CELLS + 2}}", "dim"), *pieces))
            label, pieces, piece = "", [], piece.removeprefix(", ")
        pieces.append(piece)
    if pieces:
        lines.append(as_fits(area.width, (f"{label:<{LABEL_CELLS + 2}}", "dim"), *pieces))
    return lines


MEMORY = Drawing("memory", title, body, line=one_line, details=("mem",), unit="MiB", parts=("memory",))
