"""What is taken away from the screen: the session in another format, and a picture of what is seen.

Both say in a line where they are. An export goes on in a process of its own; the screen only asks now and then
whether it is over.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from textual.timer import Timer

from edgetop.formatting import clean
from edgetop.ui.dialogs import ExportDialog
from edgetop.ui.look import Look
from edgetop.ui.playback import PlaybackScreen
from edgetop.ui.settings import Export, ScreenSettings

ASKED_EVERY_S = 0.25
SHOWN_S = 8  # a line that says where something lies
PICTURE_MODE = 0o600  # as that of recordings: it may show names that are nobody else's business
MOST_PICTURES = 10_000


class ScreenshotScreen(PlaybackScreen):
    _settings: ScreenSettings
    _look: Look
    _export: Export | None = None
    _asking: Timer | None = None

    @property
    def export_forms(self) -> Mapping[str, str]:
        """What can be made of this session, here: of one on another machine, or that is not kept, nothing."""
        settings = self._settings
        can_export = settings.recording and settings.exporter and not settings.recording_host
        return settings.exporter.forms if settings.exporter and can_export else {}

    def action_export(self) -> None:
        if self._settings.recording_host:
            self._tell(f"the recording is on {self._settings.recording_host}: edgetop export there", is_failure=True)
        elif not self.export_forms:
            self._tell("this session is not recorded: there is nothing to export", is_failure=True)
        elif self._export:
            self._tell("an export is under way already")
        else:
            with self._told("no export"):
                where = clean(str(Path.cwd()), ascii_only=self._look.ascii_only)
                self.app.push_screen(ExportDialog(self.export_forms, where), self.export_to)

    def export_to(self, form: str | None) -> None:
        recording, exporter = self._settings.recording_now, self._settings.exporter
        if form is None or recording is None or exporter is None or self._export:
            return
        with self._told("no export"):
            self._export = exporter.begin(recording, form)
            self._tell(f"exporting to {form}; it goes on when you leave")
            self._asking = self.set_interval(ASKED_EVERY_S, self._ask)

    def _ask(self) -> None:
        """Whether the export is over, and how it ended."""
        result = self._export.result() if self._export else None
        if result is not None and self._asking:
            self._asking.stop()
            self._export = self._asking = None
            is_done, said = result
            self._tell(said, is_failure=not is_done)

    def action_screenshot(self) -> None:
        picture = self.app.export_screenshot(title="edgetop")
        recording = self._settings.recording_now
        with self._told("no picture"):
            path = write_picture(picture, Path.cwd(), recording.stem if recording else "edgetop")
            self._tell(f"picture: {path}")

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """What the system refuses is told in a line."""
        try:
            yield
        except OSError as error:
            where = "the current folder" if error.filename is None else error.filename
            self._tell(f"{what}: {where}: {error.strerror}", is_failure=True)

    def _tell(self, text: str, *, is_failure: bool = False) -> None:
        text = clean(text, ascii_only=self._look.ascii_only)
        self.notify(text, severity="error" if is_failure else "information", timeout=SHOWN_S, markup=False)


def write_picture(svg: str, folder: Path, name: str) -> Path:
    """Under the first number that is free; only its owner may read it. Raises OSError."""
    for number in range(1, MOST_PICTURES):
        path = folder / f"{name}-{number}.svg"
        with contextlib.suppress(FileExistsError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PICTURE_MODE)
            with os.fdopen(file, "w", encoding="utf-8") as stream:
                stream.write(svg)
            return path
    raise FileExistsError(errno.EEXIST, "too many pictures lie here", str(folder))
