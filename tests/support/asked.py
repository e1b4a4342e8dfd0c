"""A session that keeps what it is asked to do."""


class Asked:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str | bool | None]] = []

    def stop(self) -> None:
        self.asked.append(("stop", None))

    def mark(self, note: str) -> None:
        self.asked.append(("mark", note))

    def pause_recording(self, paused: bool) -> None:
        self.asked.append(("pause", paused))

    def profile(self) -> None:
        self.asked.append(("profile", None))
