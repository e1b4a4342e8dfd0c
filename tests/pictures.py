"""Makes the pictures of the documentation anew, from real runs on the virtual board: python -m tests.pictures

It writes edgetop/docs/screens/LAYOUT-SIZE.svg, the picture at the head of README.md, which shows the middle of a
throttle, and an animated one of the minute around it.
"""

import asyncio
import dataclasses
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgetop.analysis.analysis import Analysis
from edgetop.recording.reader import Recording
from edgetop.session.batch import Batch, merge
from edgetop.ui import screenshot
from edgetop.ui.app import EdgetopApp, monitor
from edgetop.ui.layout import LAYOUTS
from edgetop.ui.screen_settings import ScreenSettings
from tests.support.commands import edgetop
from tests.support.scripts import ListFeed

DOCS = Path(__file__).parents[1] / "edgetop" / "docs"
SIZES = ((80, 24), (120, 40), (200, 60))
RUN = ("demo", "--headless", "--speed", "20x", "--duration", "45s", "--deadline", "6ms")
THROTTLED_S = 31  # of this run: in the middle of the throttle
FRAMES = range(9, 45, 3)
FRAME_S = 0.9


def main() -> None:
    (DOCS / "screens").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        done = edgetop(*RUN, "-o", "detector", home=home)
        sys.stdout.write(done.stdout)
        live = as_live(Path(home) / "detector.edgetop")
        for layout in LAYOUTS:
            for size in SIZES:
                name = f"{layout}-{size[0]}x{size[1]}.svg"
                _write(DOCS / "screens" / name, picture(until(live, THROTTLED_S), size, layout))
        _write(DOCS / "screen.svg", picture(until(live, THROTTLED_S), (120, 40), "overview"))
        frames = [picture(until(live, second), (120, 40), "overview") for second in FRAMES]
        _write(DOCS / "screen-animated.svg", animated(frames))


def as_live(recording: Path) -> list[Batch]:
    """Second by second, as it was while it ran."""
    batches = Recording(recording).play(step_s=1, inferences=True)
    return [dataclasses.replace(batch, manifest=_live(batch)) for batch in batches]


def _live(batch: Batch) -> object:
    """As the manifest was while the session ran."""
    if batch.manifest is None:
        return None
    return dataclasses.replace(batch.manifest, state="live", end_reason=None, duration_ns=None)


def until(batches: Sequence[Batch], second: float) -> Batch:
    """The session up to that second of it."""
    return merge([batch for batch in batches if batch.until_ns <= second * 1e9])


def picture(batch: Batch, size: tuple[int, int], layout: str, theme: str = "dark") -> str:
    """The screen as SVG, as a terminal with box drawing shows it."""
    return asyncio.run(_picture(batch, size, layout, theme))


async def _picture(batch: Batch, size: tuple[int, int], layout: str, theme: str) -> str:
    recording = Path("detector.edgetop")
    settings = ScreenSettings(refresh_s=3600.0, first_line_s=3600.0, theme=theme, layout=layout, recording=recording)
    app = EdgetopApp(monitor(ListFeed([batch]), Analysis(), settings), settings)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        app.hosted.use_characters(dataclasses.replace(app.hosted.characters, boxes=True))
        app.hosted.redraw_all()
        await pilot.pause()
        return screenshot.picture(app)


def animated(frames: Sequence[str]) -> str:
    """One SVG that shows the frames in turn, for ever."""
    whole = len(frames) * FRAME_S
    share = 100 / len(frames)
    opening = re.match(r"<svg[^>]*>", frames[0])
    assert opening
    style = (
        f".frame {{ visibility: hidden; animation: frame {whole:g}s steps(1) infinite }}"
        f" @keyframes frame {{ 0% {{ visibility: visible }} {share:.3f}% {{ visibility: hidden }} }}"
    )
    return "\n".join([opening[0], f"<style>{style}</style>", *_delayed(frames), "</svg>\n"])


def _delayed(frames: Sequence[str]) -> Iterator[str]:
    for number, frame in enumerate(frames):
        body = re.sub(r"^<svg[^>]*>|</svg>\s*$", "", frame)
        yield f'<g class="frame" style="animation-delay: {number * FRAME_S:g}s">{body}</g>'


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{os.path.relpath(path)}  {len(text) // 1024} KiB\n")


if __name__ == "__main__":
    main()
