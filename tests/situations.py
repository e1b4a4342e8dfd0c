"""Draws twelve situations of a run as pictures at three sizes: python -m tests.situations FOLDER

A stranger looks at each picture for two seconds and says: how fast is it now, is that all right, since when not, why,
and what to do. The files are FOLDER/SITUATION-SIZE.png; the picture itself does not name its situation.
"""

import asyncio
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.strip import Strip

from edgetop.analysis.ab_quads import QuadEvents
from edgetop.analysis.analysis import Analysis
from edgetop.session.batch import Batch, merge
from edgetop.session.load_settings import Load
from edgetop.session.manifest import EngineInfo, Watched, WatchedStream
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.ui.app import EdgetopApp, monitor
from edgetop.ui.screen_settings import ScreenSettings
from edgetop.ui.text import cells_of
from tests.analysis.test_ab import TURNS, batches_of, over_loads, run_of
from tests.analysis.test_streams import calls
from tests.support.scripts import ListFeed, Script, inferences, manifest, sensor

SIZES = ((80, 24), (120, 40), (200, 60))
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono{}.ttf"
FONT_PX, CELL = 15, (9, 18)
BACKGROUND, FOREGROUND = (18, 18, 20), (212, 212, 212)
RATE = 50.0

SENSORS = (
    sensor("temp/cpu-thermal", trips={"passive": 85.0, "critical": 110.0}),
    sensor("freq/cpu0", max=2400.0),
    sensor("freqcap/cpu0", max=2400.0),
    sensor("cooling/0-cpufreq-cpu0", throttles=True, max_state=10),
    *map(
        sensor,
        (
            "throttle/thermal", "throttle/under-voltage", "throttle/over-current", "volt/EXT5V", "load/cpu",
            "load/engine", "load/edgetop", "load/others", "rate/run-queue-wait", "rate/major-faults", "rate/swap-in",
            "pressure/cpu-some", "pressure/memory-some", "mem/rss", "mem/system-available", "mem/edgetop",
            "mem/cgroup", "mem/cgroup-limit", "mem/cgroup-left",
        ),
    ),
    sensor("power/VDD_IN", role="total", accuracy="on-board-monitor", averages=True),
)  # fmt: skip

Readings = Mapping[str, float]
Colour = tuple[int, int, int]
Font = ImageFont.FreeTypeFont


def usual(second: float) -> dict[str, float]:
    """Everything is well: a warm board at its full clock."""
    heat = 40 + 22 * (1 - math.exp(-second / 90)) + 0.4 * math.sin(second / 3)
    return {
        "temp/cpu-thermal": round(heat, 1), "freq/cpu0": 2400, "freqcap/cpu0": 2400, "cooling/0-cpufreq-cpu0": 0,
        "throttle/thermal": 0, "throttle/under-voltage": 0, "throttle/over-current": 0,
        "volt/EXT5V": round(5.06 + 0.01 * math.sin(second), 3), "load/cpu": 28.0, "load/engine": 92.0,
        "load/edgetop": 1.1, "load/others": 4.0, "rate/run-queue-wait": 6.0, "rate/major-faults": 0.0,
        "rate/swap-in": 0.0, "pressure/cpu-some": 1.5, "pressure/memory-some": 0.0, "mem/rss": 96.5,
        "mem/system-available": 3100.0 + 20 * math.sin(second / 20), "mem/edgetop": 62.0,
        "power/VDD_IN": round(7.2 + 0.3 * math.sin(second / 7), 2),
    }  # fmt: skip


def between(begin_s: float, end_s: float, changes: Callable[[float], Readings]) -> Callable[[float], Readings]:
    """Return readings that are usual except from `begin_s` to `end_s`, where `changes` gives some anew."""
    return lambda second: usual(second) | (dict(changes(second)) if begin_s <= second < end_s else {})


def run(
    weather: Callable[[float], Readings] = usual, load: Load | None = None, *, total_s: float | None = None
) -> Script:
    whole = manifest(sensors=SENSORS, load=load or Load())
    whole = replace(
        whole, board=replace(whole.board, model="NVIDIA Jetson Orin Nano", memory_bytes=4 * 2**30, power_mode="15W")
    )
    begun = {} if total_s is None else {"duration_ns": int(total_s * 1e9)}
    return Script(whole, weather).load().warm_up(median_ms=14.2).begin(**begun)


def healthy() -> Script:
    return run(total_s=3600).measure(900, rate_hz=RATE, median_ms=14.2)


def hot(second: float) -> Readings:
    cap = 2400 if second < 300 else 1900 if second < 360 else 1500
    heat = min(85.6, 62 + (second - 200) * 0.25) + 0.3 * math.sin(second)
    return {
        "temp/cpu-thermal": round(heat, 1), "freq/cpu0": cap, "freqcap/cpu0": cap,
        "cooling/0-cpufreq-cpu0": 0 if second < 300 else 4, "throttle/thermal": float(second >= 300),
        "power/VDD_IN": 7.2 if second < 300 else 5.6,
    }  # fmt: skip


def throttled_now() -> Script:
    script = run(between(200, 9e9, hot)).measure(297, rate_hz=RATE, median_ms=14.2)
    return script.measure(60, rate_hz=RATE, median_ms=17.6).measure(190, rate_hz=RATE * 0.9, median_ms=20.9)


def throttled_before() -> Script:
    script = run(between(200, 480, hot)).measure(297, rate_hz=RATE, median_ms=14.2)
    script.measure(60, rate_hz=RATE, median_ms=17.6).measure(120, rate_hz=RATE * 0.9, median_ms=20.9)
    return script.measure(400, rate_hz=RATE, median_ms=14.2)


def power_cap() -> Script:
    changes = {"throttle/over-current": 1.0, "freq/cpu0": 1700.0, "freqcap/cpu0": 1700.0, "power/VDD_IN": 14.8}
    script = run(between(400, 9e9, lambda _: changes)).measure(397, rate_hz=RATE, median_ms=14.2)
    return script.measure(140, rate_hz=RATE, median_ms=18.9)


def under_voltage() -> Script:
    changes = {"throttle/under-voltage": 1.0, "freq/cpu0": 1500.0, "volt/EXT5V": 4.52}
    script = run(between(500, 9e9, lambda _: changes)).measure(497, rate_hz=RATE, median_ms=14.2)
    return script.measure(75, rate_hz=RATE, median_ms=21.8)


def contention() -> Script:
    changes = {
        "load/others": 96.0, "load/cpu": 96.0, "load/engine": 61.0, "rate/run-queue-wait": 380.0,
        "pressure/cpu-some": 44.0,
    }  # fmt: skip
    script = run(between(300, 9e9, lambda _: changes)).measure(297, rate_hz=RATE, median_ms=14.2)
    for _ in range(210):
        script.tell("competing", "info", "system", "", name="apt-get", cpu_pct=94.0, pid=2211)
        script.measure(1, rate_hz=RATE * 0.8, median_ms=22.6)
    return script


def memory_pressure() -> Script:
    def changes(second: float) -> Readings:
        return {
            "rate/major-faults": 310.0 + 40 * math.sin(second), "rate/swap-in": 1240.0, "pressure/memory-some": 38.0,
            "mem/system-available": 84.0,
        }  # fmt: skip

    script = run(between(350, 9e9, changes)).measure(347, rate_hz=RATE, median_ms=14.2)
    script.tell("memory-taken", "info", "system", "", name="chromium", rss_mib=2410.0, grew_mib=2230.0)
    return script.measure(130, rate_hz=RATE * 0.6, median_ms=31.0)


def overload() -> Script:
    """60 a second are asked for, of which 48 are done: the queue grows from the beginning."""
    script = run(load=Load(mode="fixed", rate_hz=60.0, deadline_ns=33_000_000))
    for second in range(100):
        begin_ns, late_s = script.now_ns, second * 0.2  # 48 of 60 are done in each second
        records = inferences(begin_ns, begin_ns + 10**9, 48, 20.5)
        records["wait_ns"] = ((records["t_ns"] - begin_ns) * 0.2 + late_s * 1e9).astype(np.int64)
        script.now_ns += 10**9
        script._add(records=records)
    return script


def leak() -> Script:
    return run(
        lambda second: (
            usual(second) | {"mem/rss": round(96.5 + second * 0.11, 1), "mem/system-available": 900 - second / 9}
        )
    ).measure(1500, rate_hz=20, median_ms=14.2)


def engine_died() -> Script:
    """The engine has a cgroup of 512 MiB, which it fills."""

    def fills(second: float) -> Readings:
        held = round(96.5 + max(0, second - 200) * 1.83, 1)
        limits = {"mem/cgroup": held, "mem/cgroup-limit": 512.0, "mem/cgroup-left": 512.0 - held}
        return usual(second) | {"mem/rss": held} | limits

    script = run(fills)
    script.measure(420, rate_hz=RATE, median_ms=14.2)
    script.tell("engine-died", "critical", message="SIGKILL, out of memory at 498 MiB, limit 512 MiB")
    return script.end("engine-died")


def two_variants() -> list[Batch]:
    """Two models in turns, of which the second takes 8 % longer. The turns go on."""
    quads, made = QuadEvents(), []
    engine = EngineInfo(runtime="onnxruntime", version="1.23.2", providers=("CPU",))
    for batch in batches_of(TURNS, run_of(TURNS, 1.08)):
        whole = batch.manifest and replace(batch.manifest, engine=engine)
        made.append(replace(batch, manifest=whole, events=(*batch.events, *over_loads(quads.fold(batch)))))
    return [merge(made[: len(made) * 7 // 10])]


def two_models() -> list[Batch]:
    """A program with a detector and a classifier. Both become slower after four minutes."""
    watched = Watched(
        ("python3", "camera.py"), ("hook",),
        streams=(WatchedStream("/m/detector.onnx"), WatchedStream("/m/classifier.onnx")),
    )  # fmt: skip
    changes = {"throttle/thermal": 1.0, "temp/cpu-thermal": 85.4, "freq/cpu0": 1500.0, "freqcap/cpu0": 1500.0}
    script = run(between(240, 9e9, lambda _: changes))
    script.manifest = replace(script.manifest, watched=watched, model=replace(script.manifest.model, path="camera.py"))
    script._aggregator = SecondAggregator(None, split_by="stream")
    script._add(manifest=script.manifest)
    begin_s, end_s = 240.0, 390.0
    parts = [
        calls(stream, since_s, until_s, every_ms, ms, 0.04)
        for stream, every_ms, usual_ms in ((0, 50, 21.0), (1, 100, 4.6))
        for since_s, until_s, ms in ((3, begin_s, usual_ms), (begin_s, end_s, usual_ms * 1.42))
    ]
    runs = np.concatenate(parts)
    runs = runs[np.argsort(runs["t_ns"], kind="stable")]
    for second in range(3, int(end_s)):
        within = (runs["t_ns"] >= second * 10**9) & (runs["t_ns"] < (second + 1) * 10**9)
        script.now_ns = (second + 1) * 10**9
        script._add(records=runs[within])
    return [script.whole()]


SITUATIONS: Mapping[str, Callable[[], Script | list[Batch]]] = {
    "healthy": healthy, "throttled-now": throttled_now, "throttled-before": throttled_before, "power-cap": power_cap,
    "under-voltage": under_voltage, "contention": contention, "memory-pressure": memory_pressure,
    "overload": overload, "leak": leak, "engine-died": engine_died, "a-b": two_variants, "two-models": two_models,
}  # fmt: skip


async def drawn(batches: list[Batch], size: tuple[int, int], *, ends: bool) -> list[Strip]:
    """Return the lines of the screen, as a terminal with box drawing shows them."""
    settings = ScreenSettings(refresh_s=3600.0, first_line_s=3600.0, theme="dark", recording=Path("soak-42.edgetop"))
    app = EdgetopApp(monitor(ListFeed(batches, ends=ends), Analysis(), settings), settings)
    async with app.run_test(size=size) as pilot:
        for _ in batches:
            app.hosted.tick()
        app.hosted.use_characters(replace(app.hosted.characters, boxes=True))
        app.hosted.redraw_all()
        await pilot.pause()
        return app.screen._compositor.render_strips()


THEME = TerminalTheme(BACKGROUND, FOREGROUND, [(0, 0, 0)] * 8)


def painted(strips: list[Strip]) -> Image.Image:
    """Return the lines as a picture, one cell of the same size for each character."""
    wide, high = CELL
    image = Image.new("RGB", (max(strip.cell_length for strip in strips) * wide, len(strips) * high), BACKGROUND)
    draw = ImageDraw.Draw(image)
    fonts = {bold: ImageFont.truetype(FONT.format("-Bold" if bold else ""), FONT_PX) for bold in (False, True)}
    for y, strip in enumerate(strips):
        x = 0
        for text, style, _ in strip:
            front, back = colours(style or Style())
            for character in text:
                place = x * wide, y * high
                draw.rectangle((*place, place[0] + wide - 1, place[1] + high - 1), back)
                paint(draw, character, place, front, fonts[bool(style and style.bold)])
                x += cells_of(character)
    return image


def paint(draw: ImageDraw.ImageDraw, character: str, place: tuple[int, int], colour: Colour, font: Font) -> None:
    """Draw a character. Blocks fill their part of the cell exactly, as terminals draw them."""
    (wide, high), (x, y) = CELL, place
    code = ord(character)
    if character == "\u2580":
        draw.rectangle((x, y, x + wide - 1, y + high // 2 - 1), colour)
    elif 0x2581 <= code <= 0x2588:
        draw.rectangle((x, y + high - high * (code - 0x2580) // 8, x + wide - 1, y + high - 1), colour)
    elif 0x2589 <= code <= 0x258F:
        draw.rectangle((x, y, x + wide * (0x2590 - code) // 8 - 1, y + high - 1), colour)
    elif 0x2800 <= code <= 0x28FF:
        for bit, (column, row) in enumerate([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]):
            if code >> bit & 1:
                left, top = x + 1 + column * 4, y + 2 + row * 4
                draw.rectangle((left, top, left + 1, top + 1), colour)
    elif character != " ":
        draw.text((x, y), character, colour, font)


def colours(style: Style) -> tuple[Colour, Colour]:
    """Return the colours of the text and of its background."""
    front, back = FOREGROUND, BACKGROUND
    if style.color and not style.color.is_default:
        front = style.color.get_truecolor(THEME)
    if style.bgcolor and not style.bgcolor.is_default:
        back = style.bgcolor.get_truecolor(THEME, foreground=False)
    if style.dim:
        front = (front[0] + back[0]) // 2, (front[1] + back[1]) // 2, (front[2] + back[2]) // 2
    return (back, front) if style.reverse else (front, back)


def main() -> None:
    folder, chosen = Path(sys.argv[1]), sys.argv[2:] or SITUATIONS
    folder.mkdir(exist_ok=True)
    for name in chosen:
        made = SITUATIONS[name]()
        batches = [made.whole()] if isinstance(made, Script) else made
        for size in SIZES:
            strips = asyncio.run(drawn(list(batches), size, ends=name == "engine-died"))
            path = folder / f"{name}-{size[0]}x{size[1]}.png"
            painted(strips).save(path)
            sys.stdout.write(f"{path}\n{strips[0].text}\n{strips[1].text}\n{strips[2].text}\n")


if __name__ == "__main__":
    main()
