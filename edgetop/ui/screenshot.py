"""Exports and screenshots of the session. The screen shows the path of each file that is written."""

import contextlib
import errno
import html
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from textual.app import App
from textual.screen import Screen
from textual.timer import Timer

from edgetop.formatting import clean
from edgetop.ui.characters import CharacterSet
from edgetop.ui.screen_settings import Export, ScreenSettings
from edgetop.ui.text import cells_of

POLL_S = 0.25
REPORT_S = 8  # how long the path is shown
SCREENSHOT_MODE = 0o600  # as for recordings, since a screenshot may show private names
MAX_SCREENSHOTS = 10_000


class Exports:
    """Starts exports, each in its own process, and checks from time to time whether they are done."""

    def __init__(self, screen: Screen[None], settings: ScreenSettings, characters: CharacterSet) -> None:
        self._screen = screen
        self._settings = settings
        self._characters = characters
        self._export: Export | None = None
        self._timer: Timer | None = None

    @property
    def forms(self) -> Mapping[str, str]:
        """Return the description of each export format by name, such as `csv`.

        Return {} if the session is not recorded, or is recorded on another machine.
        """
        settings = self._settings
        can_export = settings.recording and settings.exporter and not settings.recording_host
        return settings.exporter.forms if settings.exporter and can_export else {}

    def open(self) -> None:
        from edgetop.ui.dialogs import export_dialog  # noqa: PLC0415  not before it is opened

        if self._settings.recording_host:
            self._report(f"the recording is on {self._settings.recording_host}: edgetop export there", is_failure=True)
        elif not self.forms:
            self._report("this session is not recorded, so it cannot be exported", is_failure=True)
        elif self._export:
            self._report("an export is already running")
        else:
            with self._reported("no export"):
                where = clean(str(Path.cwd()), ascii_only=self._characters.ascii_only)
                self._screen.app.push_screen(export_dialog(self.forms, where), self.begin)

    def begin(self, form: str | None) -> None:
        """Start an export in a format, such as `csv`. Do nothing if `form` is None, or if an export runs already."""
        recording, exporter = self._settings.recording_now, self._settings.exporter
        if form is None or recording is None or exporter is None or self._export:
            return
        with self._reported("no export"):
            self._export = exporter.begin(recording, form)
            self._report(f"exporting to {form}; it continues when you leave")
            self._timer = self._screen.set_interval(POLL_S, self._poll)

    def _poll(self) -> None:
        result = self._export.result() if self._export else None
        if result is not None and self._timer:
            self._timer.stop()
            self._export = self._timer = None
            is_done, words = result
            self._report(words, is_failure=not is_done)

    def save_screenshot(self) -> None:
        svg = picture(self._screen.app)
        recording = self._settings.recording_now
        with self._reported("no screenshot"):
            path = write_screenshot(svg, Path.cwd(), recording.stem if recording else "edgetop")
            self._report(f"screenshot: {path}")

    @contextlib.contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Context manager that shows an OSError as a message, such as "no export: /data: Permission denied".

        `what` is the beginning of the message.
        """
        try:
            yield
        except OSError as error:
            where = "the current folder" if error.filename is None else error.filename
            self._report(f"{what}: {where}: {error.strerror}", is_failure=True)

    def _report(self, text: str, *, is_failure: bool = False) -> None:
        text = clean(text, ascii_only=self._characters.ascii_only)
        self._screen.notify(text, severity="error" if is_failure else "information", timeout=REPORT_S, markup=False)


_TEXT = re.compile(r'(<text class="[^"]*-r\d+" x=")([\d.]+)(" y="[\d.]+" textLength=")([\d.]+)("[^>]*>)([^<]*)</text>')
_CHARACTER = re.compile(r"&[^;]+;|.", re.DOTALL)


def picture(app: App[None]) -> str:
    """Return a picture of the screen as SVG text, with each character in its cell.

    A browser takes braille and blocks from another font than letters, with another width. In one text element,
    characters would move out of their cells. So letters and other characters get separate elements.
    """
    return _TEXT.sub(_split, app.export_screenshot(title="edgetop"))


def _split(text: re.Match[str]) -> str:
    begin, x, middle, length, end, content = text.groups()
    characters = _CHARACTER.findall(content)
    cells = [cells_of(html.unescape(character)) for character in characters]
    plain = map(html.unescape, characters)
    kinds = ["blank" if of.isspace() else "letter" if of.isascii() else "glyph" for of in plain]
    if "glyph" not in kinds or len(set(kinds)) == 1:
        return text[0]
    wide, places = float(length) / sum(cells), itertools.accumulate(cells, initial=0)
    texts = []
    for kind, group in itertools.groupby(zip(kinds, places, cells, characters, strict=False), key=lambda item: item[0]):
        run = list(group)
        where, wanted = float(x) + run[0][1] * wide, sum(item[2] for item in run) * wide
        if kind != "blank":
            shown = "".join(item[3] for item in run)
            texts.append(f"{begin}{where:.1f}{middle}{wanted:.1f}{end}{shown}</text>")
    return "".join(texts)


def write_screenshot(svg: str, folder: Path, name: str) -> Path:
    """Write `svg` to a new file `NAME-NUMBER.svg` in `folder`, with the first free number, and return its path.

    Only its owner can read the file. Raises OSError if it cannot be written.
    """
    for number in range(1, MAX_SCREENSHOTS):
        path = folder / f"{name}-{number}.svg"
        with contextlib.suppress(FileExistsError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, SCREENSHOT_MODE)
            with os.fdopen(file, "w", encoding="utf-8") as stream:
                stream.write(svg)
            return path
    raise FileExistsError(errno.EEXIST, "the folder has too many screenshots", str(folder))
