"""Who turns the journal into tables: for a run that lasts, a process of its own.

Arrow takes 40 MiB, which a run of days would hold for work of seconds. The process lives for one order: it gets it over
a pipe, answers over another, and ends with whoever started it. It has the writer's lock too, so that nobody
takes the session for left while it writes. Killed at any moment, it leaves what a writer that was killed leaves.
"""

import os
import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Protocol

from edgetop.recording.files import HeldFolder, WriterLock
from edgetop.recording.journal import Missing
from edgetop.recording.packing import Tally
from edgetop.session import helper_load
from edgetop.session.manifest import Manifest

NICENESS = 10
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from edgetop.recording.compaction import main; main()"
_LEAN = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}


@dataclass(frozen=True, slots=True)
class Done:
    """What has become table rows by now."""

    tally: Tally | None = field(default_factory=Tally)  # of it; None: not known
    missing: Missing = field(default_factory=Missing)  # of what was journalled
    dropped_bytes: int = 0  # of inferences, to keep the limit
    manifest: Manifest | None = None  # the last one, with what is lost: all is done


@dataclass(frozen=True, slots=True)
class Order:
    before: int  # the number of the first segment that is still written
    done: Done = field(default_factory=Done)
    piece_bytes: int | None = None  # from where on inferences go into another piece of their table; None: never
    room_bytes: int | None = None  # the journal's folder: the oldest single inferences go until it is that small
    manifest: Manifest | None = None  # the last one: publish the tables


class TableWriter(Protocol):
    def prepare(self, folder: HeldFolder, lock: WriterLock) -> None:
        """An order will come soon."""

    def begin(self, folder: HeldFolder, lock: WriterLock, order: Order) -> None:
        """Raises OSError where it cannot begin."""

    def result(self, *, wait: bool) -> Done | None:
        """Of the order that was given, once; None: there is none yet.

        Raises OSError: what was not done stays in the journal. InterruptedError: it was killed, and may be asked again.
        """

    @property
    def is_busy(self) -> bool: ...

    def close(self) -> None:
        """Whatever it does."""


class ChildTableWriter:
    """In a process for each order, which gives way to the model while the run goes on."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.is_busy = False

    def prepare(self, folder: HeldFolder, lock: WriterLock) -> None:
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter and our own program
                [sys.executable, "-I", "-S", "-c", _PROGRAM, *filter(None, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(folder.fd, lock.fd),
                env={**os.environ, **_LEAN},
                start_new_session=True,  # neither Ctrl+C nor a terminal that hangs up ends it
            )

    def begin(self, folder: HeldFolder, lock: WriterLock, order: Order) -> None:
        self.prepare(folder, lock)
        process = self._process
        assert process
        assert process.stdin
        self.is_busy = True
        if order.manifest is None:
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        try:
            pickle.dump((str(folder.path), order), process.stdin)
            process.stdin.flush()
        except BrokenPipeError:  # it was killed, as its result will say
            return

    def result(self, *, wait: bool) -> Done | None:
        process = self._process
        if process is None or not self.is_busy:
            return None
        if not wait and process.poll() is None:
            return None
        assert process.stdout
        assert process.stderr
        answer, words = process.stdout.read(), process.stderr.read()  # both are short
        status = self._end(process)
        if not answer:
            raise _death(status, words)
        done, cpu_s = pickle.loads(answer)  # noqa: S301  of our own process
        helper_load.add(cpu_s)
        if isinstance(done, OSError):
            raise done
        assert isinstance(done, Done)
        return done

    def _end(self, process: "subprocess.Popen[bytes]") -> int:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                try:
                    pipe.close()
                except OSError:  # an order that it did not read any more
                    continue
        self._process, self.is_busy = None, False
        return process.wait()

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._end(self._process)


def _death(status: int, words: bytes) -> OSError:
    last = words.decode("utf-8", "replace").strip().splitlines()[-1:]
    how = f"killed by {signal.Signals(-status).name}" if status < 0 else "ended by itself"
    return InterruptedError(": ".join([f"the process that writes the tables was {how}", *last]))
