"""Whole screens as they were last looked at and found right, as text at three sizes.

`pytest tests/ui/test_screens.py --update-snapshots` stores what they show now; look at the difference.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.scenes import died, limited, profiled, throttled
from tests.support.screens import opened
from tests.support.scripts import Script, leaking, measured_with_power, paced
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "snapshots"
SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x60": (200, 60)}
SCENES: dict[str, tuple[Callable[[], Script], tuple[str, ...], dict[str, object]]] = {
    "steady": (lambda: measured_with_power(75), (), {}),
    "throttled": (throttled, (), {}),
    "limited": (limited, ("v", "v"), {}),
    "missing": (lambda: paced(60), (), {}),
    "leaking": (leaking, (), {}),
    "died": (died, (), {"ends": True}),
    "hotspots": (profiled, ("v", "v", "v"), {}),
    "ascii": (throttled, (), {"ascii_only": True, "theme": "dark"}),
}


@pytest.mark.parametrize("size", mostly_thorough(SIZES, "80x24", "200x60"))
@pytest.mark.parametrize("scene", SCENES)
async def test_the_screen_is_as_it_was_found_right(scene: str, size: str, request: pytest.FixtureRequest) -> None:
    script, keys, options = SCENES[scene]
    async with opened(script(), SIZES[size], **options) as screen:  # type: ignore[arg-type]
        await screen.press(*keys)
        shown = "\n".join(row.rstrip() for row in screen.rows) + "\n"
    stored = FOLDER / f"{scene}-{size}.txt"
    if request.config.getoption("--update-snapshots"):
        FOLDER.mkdir(exist_ok=True)
        stored.write_text(shown, encoding="utf-8")
    assert shown == stored.read_text(encoding="utf-8")


def test_no_picture_is_left_of_a_screen_that_is_gone() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {f"{scene}-{size}" for scene in SCENES for size in SIZES}
