"""Live recordings that a test writes, relays that stream them, and links that a test can break."""

import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from edgetop.analysis.slowdowns.slowdowns import judged
from edgetop.control.control_socket import Answer
from edgetop.errors import InputError
from edgetop.feeds.remote import LinkEndedError
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import FolderHandle
from edgetop.relay import serve
from edgetop.relay.past import past_frames
from edgetop.relay.relay_frames import Frame
from edgetop.relay.serve import Give
from edgetop.relay.serve import serve as serve_link
from edgetop.session.batch import Batch
from edgetop.session.clock import SystemClock
from edgetop.session.events import Order
from edgetop.session.seconds import NS
from edgetop.wording.board_summary import Summaries
from tests.support.recordings import kill
from tests.support.waiting import PATIENCE_S, wait_until


class LiveRecording:
    """A session whose writer is this process; what a test puts in is in the journal at once."""

    def __init__(self, folder: Path, batches: Sequence[Batch] = ()) -> None:
        self.folder = folder
        self._recorder: Recorder | None = None
        self.last: Batch | None = None
        self.put(*batches)

    def put(self, *batches: Batch) -> None:
        for batch in batches:
            if self._recorder is None:
                assert batch.manifest
                self._recorder = Recorder(self.folder, batch.manifest)
            self._recorder.write(batch)
            self.last = batch
        if self._recorder and self._recorder._waiting:
            self._recorder._journal()

    def finish(self, *batches: Batch) -> None:
        """With the last of them, which has the last manifest."""
        self.put(*batches)
        assert self._recorder
        assert self.last
        assert self.last.manifest
        self._recorder.finish(self.last.manifest)

    def die(self) -> None:
        """As a writer does that is killed."""
        assert self._recorder
        kill(self._recorder)

    def __del__(self) -> None:
        if self._recorder:
            kill(self._recorder)


def past_of(folder: FolderHandle) -> Iterator[Frame]:
    """In this process, where a relay starts another one."""
    try:
        yield from past_frames(folder.path, judged)
    except InputError as error:
        raise InputError(folder.with_name(str(error)), folder.why_gone) from None


class PipeLink:
    """A relay in a thread of this process, at the end of two pipes. `cut` breaks them."""

    def __init__(self, folder: Path, give: Give, patience_ns: int = serve.PATIENCE_NS) -> None:
        there, self._sink = os.pipe()
        self._source, back = os.pipe()
        self.received = 0
        self._thread = threading.Thread(target=self._serve, args=(folder, give, there, back), daemon=True)
        self._thread.start()

    def _serve(self, folder: Path, give: Give, source: int, sink: int) -> None:
        link = serve.Link(source, sink, SystemClock())
        serve_link(link, lambda: folder, give, past_of, SystemClock(), NS // 50, Summaries)
        link.close()
        os.close(source)
        os.close(sink)

    def answered(self) -> None:
        pass

    def read(self, timeout_s: float | None) -> bytes:
        poll = select.poll()  # unlike select, for descriptors above 1023, of which a process with many tests has some
        poll.register(self._source, select.POLLIN)
        if not poll.poll(None if timeout_s is None else timeout_s * 1000):
            raise TimeoutError
        data = os.read(self._source, 65_536)
        self.received += len(data)
        if not data:
            raise LinkEndedError
        return data

    def write(self, data: bytes) -> None:
        try:
            os.write(self._sink, data)
        except OSError:
            raise LinkEndedError from None

    def hang_up(self) -> None:
        """The relay's standard input ends, and with it the relay."""
        sink, self._sink = self._sink, -1
        if sink >= 0:
            os.close(sink)

    def close(self) -> str:
        self.hang_up()
        source, self._source = self._source, -1
        if source >= 0:
            os.close(source)
        self._thread.join(PATIENCE_S)
        return ""


class Pipes:
    """A `Connect` to relays of one folder; `refusals` says how many attempts fail first."""

    def __init__(self, folder: Path, give: Give | None = None) -> None:
        self.folder = folder
        self.given: list[Order] = []
        self.links: list[PipeLink] = []
        self.asked_for: list[str | None] = []
        self.attended: list[bool] = []
        self.live: LiveRecording | None = None
        self._give = give or self._keep

    def _keep(self, _: Path, order: Order) -> Answer:
        self.given.append(order)
        return Answer()

    def __call__(self, session: str | None, attended: bool) -> PipeLink:
        self.asked_for.append(session)
        self.attended.append(attended)
        self.links.append(PipeLink(self.folder, self._give))
        return self.links[-1]


def plant_program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


# Does what sshd does with a command: the user's shell runs it. Its own id is left where a test can kill it.
FAKE_SSH = """#!/bin/sh
printf '%s\\n' "$@" >> "$FAKE_SSH/arguments"
echo $$ > "$FAKE_SSH/pid"
for last; do :; done
exec sh -c "exec $last"
"""


class FakeSsh:
    """An `ssh` on PATH that runs the remote command here, and an `edgetop` beside it."""

    def __init__(self, folder: Path, program: str = FAKE_SSH) -> None:
        self.folder = folder
        plant_program(folder, "ssh", program)
        plant_program(folder, "edgetop", f'#!/bin/sh\nexec {sys.executable} -m edgetop "$@"\n')

    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.folder}:{os.environ['PATH']}", "FAKE_SSH": str(self.folder)}

    @property
    def arguments(self) -> list[str]:
        return (self.folder / "arguments").read_text().splitlines()

    @property
    def pid(self) -> int:
        return int((self.folder / "pid").read_text())


def read_until(
    feed: object, fold: Callable[[Batch], None], enough: Callable[[], object], timeout_s: float = 30
) -> None:
    """Fold what a feed gives until that is enough."""

    def step() -> bool:
        batch = feed.read()  # type: ignore[attr-defined]
        if batch is not None:
            fold(batch)
        return bool(enough())

    wait_until(step, timeout_s)
