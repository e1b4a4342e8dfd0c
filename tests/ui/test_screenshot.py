"""What is taken away from the screen: an export of the session, a picture of what is seen."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetop.feeds.feed_protocol import Can
from edgetop.ui.dialogs import Dialog
from edgetop.ui.screenshot import picture, write_screenshot
from tests.support.screens import Opened, opened
from tests.support.scripts import measured

pytestmark = pytest.mark.slow


class PlannedExport:
    def __init__(self) -> None:
        self.end: tuple[bool, str] | None = None

    def result(self) -> tuple[bool, str] | None:
        return self.end


class PlannedExporter:
    """Exports nothing; ends when a test says so."""

    forms: Mapping[str, str] = {"csv": "a file a table", "parquet": "one wide table"}

    def __init__(self, refusal: OSError | None = None) -> None:
        self.begun: list[tuple[Path, str]] = []
        self.export = PlannedExport()
        self._refusal = refusal

    def begin(self, recording: Path, form: str) -> PlannedExport:
        if self._refusal:
            raise self._refusal
        self.begun.append((recording, form))
        return self.export


def asks(screen: Opened) -> bool:
    return isinstance(screen.app.screen, Dialog) and screen.app.screen.heading.startswith("Export")


async def test_e_asks_for_the_format_exports_and_says_where(tmp_path: Path) -> None:
    exporter = PlannedExporter()
    async with opened(
        measured(5), (120, 40), recording=tmp_path / "s.edgetop", exporter=exporter, notifications=True
    ) as screen:
        await screen.press("e")
        assert "parquet   one wide table" in screen.text
        await screen.press("2")
        assert exporter.begun == [(tmp_path / "s.edgetop", "parquet")]
        assert "exporting to parquet" in screen.text
        await screen.press("e")
        assert not asks(screen)
        assert "already running" in screen.text
        exporter.export.end = True, "wrote [b]s.parquet[/b] (3 KiB)"
        await screen.wait_for("wrote [b]s.parquet[/b] (3 KiB)")
        await screen.press("e")
        assert asks(screen)


async def test_an_export_that_fails_says_why(tmp_path: Path) -> None:
    exporter = PlannedExporter()
    async with opened(measured(5), (120, 40), recording=tmp_path, exporter=exporter, notifications=True) as screen:
        await screen.press("e", "1")
        exporter.export.end = False, "No space left on device\x1b[2J"
        await screen.wait_for("No space left on device\\x1b[2J")


async def test_an_export_that_cannot_begin_says_why(tmp_path: Path) -> None:
    exporter = PlannedExporter(OSError(12, "Cannot allocate memory"))
    async with opened(measured(5), (120, 40), recording=tmp_path, exporter=exporter, notifications=True) as screen:
        await screen.press("e", "1")
        await screen.wait_for("no export: the current folder: Cannot allocate memory")


@pytest.mark.parametrize("key", ["e", "q", "escape", "3"])
async def test_the_question_for_a_format_can_be_left_without_one(tmp_path: Path, key: str) -> None:
    exporter = PlannedExporter()
    async with opened(measured(5), recording=tmp_path, exporter=exporter) as screen:
        await screen.press("e", key)
        assert asks(screen) == (key == "3")
        assert exporter.begun == []


async def test_what_is_not_recorded_here_is_not_exported_here(tmp_path: Path) -> None:
    async with opened(measured(5), (120, 40), exporter=PlannedExporter(), notifications=True) as screen:
        await screen.press("e")
        assert "not recorded, so it cannot be exported" in screen.text
    async with opened(
        measured(5), (120, 40), exporter=PlannedExporter(), recording=tmp_path, recording_host="pi@board",
        more=Can.VISIT, notifications=True,
    ) as screen:  # fmt: skip
        await screen.press("e")
        assert "the recording is on pi@board" in screen.text


async def test_a_format_can_be_asked_for_in_the_palette(tmp_path: Path) -> None:
    exporter = PlannedExporter()
    async with opened(measured(5), recording=tmp_path, exporter=exporter) as screen:
        await screen.press("ctrl+p", *"export parquet", "enter")
        assert exporter.begun == [(tmp_path, "parquet")]


async def test_shift_s_saves_a_private_screenshot_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(measured(20), (120, 40), recording=tmp_path / "soak.edgetop", notifications=True) as screen:
        await screen.press("S")
        assert f"screenshot: {tmp_path}"[:40] in screen.text
        await screen.press("S")
    assert_private_pictures(tmp_path, ["soak-1.svg", "soak-2.svg"])


def assert_private_pictures(folder: Path, names: list[str]) -> None:
    """They show the session, and not the message that came after."""
    pictures = sorted(folder.glob("*.svg"))
    assert [path.name for path in pictures] == names
    assert {path.stat().st_mode & 0o777 for path in pictures} == {0o600}
    svg = pictures[0].read_text()
    assert svg.startswith("<svg")
    assert "MEASURING" in svg
    assert "picture" not in svg


async def test_a_picture_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    async with opened(measured(5), (120, 40), notifications=True) as screen:
        gone.rmdir()
        await screen.press("S")
        await screen.wait_for("no screenshot: the current folder: No such file or directory")
    exporter = PlannedExporter()
    async with opened(measured(5), (120, 40), recording=tmp_path, exporter=exporter, notifications=True) as screen:
        await screen.press("e")
        await screen.wait_for("no export: the current folder: No such file or directory")
        assert not asks(screen)


class _Screen:
    def export_screenshot(self, *, title: str) -> str:
        return (
            f"<text>{title}</text>"
            '<text class="t-r1" x="0" y="20" textLength="61" clip-path="url(#l)">&#160;\u28ff\u28ff&#160;&lt;</text>'
            '<text class="t-r2" x="61" y="20" textLength="36.6" clip-path="url(#l)">a&#160;b</text>'
        )


def test_glyphs_of_another_font_are_placed_apart_in_a_picture() -> None:
    assert re.findall(r'x="([^"]+)".*?textLength="([^"]+)".*?>([^<]+)<', picture(_Screen())) == [  # type: ignore[arg-type]
        ("12.2", "24.4", "\u28ff\u28ff"),
        ("48.8", "12.2", "&lt;"),
        ("61", "36.6", "a&#160;b"),
    ]


def test_a_picture_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "x-1.svg").symlink_to(tmp_path / "victim")
    assert write_screenshot("<svg/>", tmp_path, "x") == tmp_path / "x-2.svg"
    assert not (tmp_path / "victim").exists()
