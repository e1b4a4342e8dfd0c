"""A recorder on a thread of its own: an SD card that stalls for seconds holds up nothing but itself."""

import queue
import threading
from dataclasses import replace
from typing import Literal, Protocol

from edgetop.errors import RecordingError
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.manifest import Lost, Manifest, lost_in_all
from edgetop.session.records import NO_INFERENCES
from edgetop.session.seconds import NS

MAX_WAITING_INFERENCES = 1_000_000  # 28 MB; beyond that the seconds are kept, and not each inference


class Recorder(Protocol):
    def write(self, batch: Batch) -> tuple[Event, ...]: ...

    def prepare_end(self) -> None: ...

    def finish(self, manifest: Manifest) -> Lost | None: ...

    def discard(self) -> None: ...


class BackgroundRecorder:
    """The same calls as the recorder it has, which come back at once; `finish` and `discard` wait."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._queue: queue.SimpleQueue[Batch | Literal["prepare"] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_inferences = self._last_ns = 0
        self._behind = self._given_up = self._given_up_ns = 0  # inferences: since the disk fell behind; in all
        self._news: list[Event] = []
        self._defect: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def write(self, batch: Batch) -> tuple[Event, ...]:
        """What is to be told about the recording is that of earlier batches. Raises what the recorder raised."""
        with self._lock:
            self._news += self._fitting(batch)
            defect, self._defect = self._defect, None
            if defect:
                raise defect
            news, self._news = self._news, []
        return tuple(news)

    def _fitting(self, batch: Batch) -> list[Event]:
        """Hand it on, without its inferences where too many wait."""
        news = []
        if self._waiting_inferences + len(batch.inferences) > MAX_WAITING_INFERENCES:
            if not self._behind:
                text = "the disk is too slow: inferences are not recorded until it has caught up; all seconds are"
                why = {"why": "the disk is too slow"}
                news.append(Event(batch.until_ns, "recording-behind", "critical", "edgetop", text, why))
            self._behind += len(batch.inferences)
            self._given_up += len(batch.inferences)
            self._given_up_ns += batch.until_ns - self._last_ns
            batch = replace(batch, inferences=NO_INFERENCES)
        elif self._behind and len(batch.inferences):
            text = f"the disk has caught up: {self._behind} inferences are missing"
            data = {"count": self._behind}
            news.append(Event(batch.until_ns, "recording-caught-up", "warning", "edgetop", text, data))
            self._behind = 0
        self._last_ns = batch.until_ns
        self._waiting_inferences += len(batch.inferences)
        self._queue.put(batch)
        return news

    def _run(self) -> None:
        while (batch := self._queue.get()) is not None:
            if batch == "prepare":
                self._recorder.prepare_end()
                continue
            news: tuple[Event, ...] = ()
            try:
                news = self._recorder.write(batch)
            except Exception as error:  # noqa: BLE001  a defect of ours: told by the next write, and recording goes on
                self._defect = error
            with self._lock:
                self._news.extend(news)
                self._waiting_inferences -= len(batch.inferences)

    def prepare_end(self) -> None:
        """The end is near: what `finish` needs is started ahead."""
        self._queue.put("prepare")

    def _end(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def finish(self, manifest: Manifest) -> Lost | None:
        """What is not in the recording. Raises RecordingError where something could not be written."""
        self._end()
        if self._news:  # nobody will ask for them any more, but the recording shall tell
            self._recorder.write(Batch(self._last_ns, events=tuple(self._news)))
        here = Lost(self._given_up_ns / NS, self._given_up, "the disk was too slow") if self._given_up else None
        lost = self._recorder.finish(replace(manifest, lost=lost_in_all(manifest.lost, here)))
        if here:
            failure = RecordingError(f"{here.why}: {here.inferences} inferences are missing", "the run itself went on")
            failure.lost = lost
            raise failure
        return lost

    def discard(self) -> None:
        self._end()
        self._recorder.discard()
