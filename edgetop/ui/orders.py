"""What a user tells the session from its screen: marks, a profile, a pause of the recording, and its end."""

from edgetop.analysis.analysis import MonitorView
from edgetop.feeds.protocol import Can
from edgetop.formatting import clean
from edgetop.session.orders import Order
from edgetop.ui.dialogs import LeaveDialog, NoteDialog, RecordingDialog, StopDialog
from edgetop.ui.timeline import TimelineScreen


class OrdersScreen(TimelineScreen):
    _live: MonitorView  # of now, also where the screen stands

    def action_profile(self) -> None:
        if not self._live.operators.way:
            text = self._live.operators.reason or "they are not profiled: --profile-every 0"
            self.notify(f"operators: {clean(text)}", timeout=5, markup=False)
            return
        self._feed.order(Order("profile"))

    def action_mark(self) -> None:
        self.app.push_screen(NoteDialog(), lambda note: self._feed.order(Order("mark", note)) if note else None)

    def action_recording(self) -> None:
        can_pause = Can.PAUSE_RECORDING in self._feed.can and self._settings.recording is not None
        dialog = RecordingDialog(
            self._settings.recording_now,
            self._settings.recording_host,
            self._look,
            paused=self._live.recording_paused,
            can_pause=can_pause,
        )
        self.app.push_screen(dialog, self._pause_recording)

    def _pause_recording(self, paused: bool | None) -> None:
        if paused is not None:
            self._feed.order(Order("pause" if paused else "resume"))

    def action_leave(self) -> None:
        if self._analysis.progress.view().phase == "over" or Can.STOP not in self._feed.can:
            self.app.exit()
            return
        self.app.push_screen(LeaveDialog(can_detach=Can.DETACH in self._feed.can), self._leave)

    def _leave(self, choice: str | None) -> None:
        if choice == "stop":
            self.action_stop_and_leave()
        elif choice == "go on":
            self.app.exit()

    def action_stop_and_leave(self) -> None:
        if Can.STOP in self._feed.can:
            self._feed.order(Order("stop"))
        self.app.exit()

    def action_stop(self) -> None:
        self.app.push_screen(StopDialog(), lambda sure: self._feed.order(Order("stop")) if sure else None)

    def action_detach(self) -> None:
        self.app.exit()

    def action_depart(self) -> None:
        self.app.exit()
