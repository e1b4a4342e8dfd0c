"""Whether what happens is recorded, as the session's events tell."""

from edgetop.session.events import Event

# Events between which nothing, or not everything, is recorded: whether it begins.
_TROUBLE = {
    "recording-failed": True,
    "recording-restored": False,
    "recording-behind": True,
    "recording-caught-up": False,
}


class RecordingState:
    def __init__(self) -> None:
        self.is_paused = False  # by the user
        self.trouble = ""  # why not all is recorded; "": it is

    def on_event(self, event: Event) -> None:
        if event.kind in ("recording-paused", "recording-resumed"):
            self.is_paused = event.kind == "recording-paused"
        elif event.kind in _TROUBLE:
            why = str(event.data.get("why") or event.message)
            self.trouble = why if _TROUBLE[event.kind] else ""
