"""Event hooks: commands of the user that run at events such as throttling (`--on-event`).

Each hook has its own thread, so the session never waits for it. What a command prints becomes an event of the session.
A hook runs at most once a minute, for at most half a minute, and at a lower priority than the engine. Events in between
are skipped, and the next run or the end of the session reports their number.
"""

import contextlib
import json
import os
import queue
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from edgetop.analysis.alerts.alert import AlertNews
from edgetop.cli.output import print_text
from edgetop.frozen import frozen
from edgetop.session.clock import Clock, format_utc
from edgetop.session.events import Body, Severity
from edgetop.session.typed_json import Document
from edgetop.wording.alert_names import ANY
from edgetop.wording.alert_words import alert_document, problem_words

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis
    from edgetop.runner.session_state import SessionState

EACH = ("throttled",)  # alerts that run the hook each time they begin
MOST_CHARACTERS = 4_000  # longest message; the last output of an engine may be longer
APART_NS = 60_000_000_000
TIMEOUT_S = 30.0
GRACE_S = 5.0  # time for hooks that still run when the session ends
NICENESS = 5
OUTPUT_CHARS = 1_000  # how much of the end of the output is recorded
POLL_S = 0.1
CHUNK_BYTES, PIPE_BYTES = 65_536, 2**20  # size of a read, and the most that a pipe holds (pipe(7), pipe-max-size)
MOST_BYTES = 2**20

NOT_STARTED = 127  # the exit code that shells use


@frozen
class Hook:
    event: str  # a name from edgetop.analysis.alerts.alert, or ANY
    command: tuple[str, ...]  # an existing program and its arguments

    @property
    def label(self) -> str:
        return f"{self.event}={os.path.basename(self.command[0])}"  # noqa: PTH119  a name, not a file


class AddEvent(Protocol):
    def __call__(self, body: Body, severity: Severity, source: str, message: str) -> None: ...


class _Worker:
    """One hook (a command of the user for an event), with the thread that runs the command."""

    def __init__(self, hook: Hook, add_event: AddEvent, timeout_s: float) -> None:
        self.hook = hook
        self.skipped = 0  # events since the last run
        self.ran_ns: int | None = None
        self._last_skipped: Document | None = None
        self._add_event = add_event
        self._timeout_s = timeout_s
        self._given: queue.SimpleQueue[Document | None] = queue.SimpleQueue()
        self._until_s: float | None = None  # when the grace period ends
        self.thread = threading.Thread(target=self._work, name="hook", daemon=True)
        self.thread.start()

    def give(self, document: Document) -> None:
        self._given.put({**document, "skipped": self.skipped})
        self.skipped, self._last_skipped = 0, None

    def skip(self, document: Document) -> None:
        self.skipped, self._last_skipped = self.skipped + 1, document

    def end(self, until_s: float) -> None:
        """Accept no more events. Run the hook once more if events were skipped.

        The command is killed if it still runs at `until_s`, a time of `time.monotonic`.
        """
        if self._last_skipped is not None:
            self.skipped -= 1
            self.give(self._last_skipped)
        self._until_s = until_s
        self._given.put(None)

    def _work(self) -> None:
        with contextlib.suppress(OSError):  # without the permission it runs at normal priority
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # applies to this thread and to the processes that it starts
        while (document := self._given.get()) is not None:
            begin_s = time.monotonic()
            if self._is_late(begin_s + self._timeout_s):
                continue
            code, output = self._run(json.dumps(document).encode() + b"\n", begin_s + self._timeout_s)
            self._report(str(document["event"]), code, output, time.monotonic() - begin_s)

    def _run(self, given: bytes, until_s: float) -> tuple[int | None, str]:
        """Run the hook's command. Return `(exit code, end of its output)`.

        The code is None if the command took too long. `given` is its standard input. The command is killed at
        `until_s`, a time of `time.monotonic`.
        """
        try:
            process = subprocess.Popen(  # noqa: S603  the user's own command, split by himself
                self.hook.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return NOT_STARTED, str(error.strerror)
        assert process.stdin
        with process, contextlib.suppress(BrokenPipeError):  # closing the pipe can raise it as well
            with contextlib.suppress(BrokenPipeError):  # the hook need not read its input
                process.stdin.write(given)  # never blocks: a pipe holds more
                process.stdin.close()
            output = self._output_of(process, until_s)
            was_killed = process.poll() is None
            if was_killed:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        text = output.decode(errors="replace").strip()[-OUTPUT_CHARS:]
        return None if was_killed else process.returncode, text

    def _output_of(self, process: "subprocess.Popen[bytes]", until_s: float) -> bytes:
        """Return the end of what the process prints, read until it ends or until `until_s`, a time of `time.monotonic`.

        After 1 MiB, the output is read slowly, so that endless output costs little.
        """
        assert process.stdout
        output, count = b"", 0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while process.poll() is None and not self._is_late(until_s):
                if not selector.get_map() or count > MOST_BYTES:
                    time.sleep(POLL_S)
                if selector.get_map() and selector.select(POLL_S):
                    chunk = os.read(process.stdout.fileno(), CHUNK_BYTES)
                    output, count = (output + chunk)[-4 * OUTPUT_CHARS :], count + len(chunk)
                    if not chunk:
                        selector.unregister(process.stdout)
            for _ in range(PIPE_BYTES // CHUNK_BYTES):  # the rest in the pipe, no more
                if not (selector.get_map() and selector.select(0)):
                    break
                chunk = os.read(process.stdout.fileno(), CHUNK_BYTES)
                output = (output + chunk)[-4 * OUTPUT_CHARS :]
                if not chunk:
                    break
        return output

    def _is_late(self, until_s: float) -> bool:
        return time.monotonic() > (until_s if self._until_s is None else min(until_s, self._until_s))

    def _report(self, event: str, code: int | None, output: str, took_s: float) -> None:
        from edgetop.session.event_kinds import HookDone  # noqa: PLC0415  not for --help

        said = f": {output}" if output else ""
        if code == 0:
            body = HookDone("hook-ran", event, code, output)
            self._add_event(body, "info", "hook", f"{self.hook.label} ran{said}")
            return
        if code is None:
            why = f"was killed after {took_s:.0f} s"
        elif code == NOT_STARTED:
            why = "could not be started"
        else:
            signal_name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            why = f"ended by {signal_name}" if code < 0 else f"ended with exit code {code}"
        body = HookDone("hook-failed", event, code, output)
        self._add_event(body, "warning", "hook", f"{self.hook.label} {why}{said}")


class EventHooks:
    """Runs the hooks of a session (commands of the user for events), each on its own thread. `offer` never waits."""

    def __init__(
        self, hooks: Sequence[Hook], session_state: "SessionState", clock: Clock,
        session: Callable[[], Document], *, timeout_s: float = TIMEOUT_S,
    ) -> None:  # fmt: skip
        """Start a thread for each hook.

        Each command receives the description of the session that `session()` returns. `session_state` receives the
        events about the hooks, with times of `clock`. `timeout_s` is how many seconds a command may run.
        """
        self._session_state = session_state
        self._clock = clock
        self._session = session
        self._workers = [_Worker(hook, self._report, timeout_s) for hook in hooks]
        self._news = AlertNews(each=EACH)
        self._late: list[str] = []  # messages that came after the end of the recording

    def observe(self, analysis: "Analysis") -> None:
        for alert in self._news.due(analysis.alerts_view()):
            document = alert_document(alert)
            document["message"] = problem_words(alert)[:MOST_CHARACTERS]
            about = {"time_utc": format_utc(self._clock.utc()), "session": self._session()}
            self.offer(alert.name, {**document, **about})

    def offer(self, event: str, document: Document) -> None:
        """Run the hooks for `event`, such as `throttled`. A hook that ran within the last minute is skipped.

        `document` describes the event. The command receives it as JSON.
        """
        now_ns = self._clock.monotonic_ns()
        for worker in self._workers:
            if worker.hook.event not in (event, ANY):
                continue
            if worker.ran_ns is not None and now_ns - worker.ran_ns < APART_NS:
                worker.skip(document)
                continue
            worker.ran_ns = now_ns
            worker.give(document)

    def finish(self, grace_s: float = GRACE_S) -> None:
        """Wait up to `grace_s` seconds for commands that still run.

        Print failures that came too late to be recorded.
        """
        until_s = time.monotonic() + grace_s
        for worker in self._workers:
            worker.end(until_s)
        for worker in self._workers:
            worker.thread.join()
        for message in self._late:
            print_text(f"edgetop: {message}", err=True)

    def _report(self, body: Body, severity: Severity, source: str, message: str) -> None:
        """Add an event to the session. The parameters are the fields of the event.

        Once the session is over, only failures are kept, to be printed later.
        """
        if not self._session_state.has_ended:
            self._session_state.add_event(body, severity, source, message)
        elif severity != "info":
            self._late.append(message)
