"""Running the jobs that move the journal into tables: for long runs in another process, for short runs in this one.

Arrow takes 40 MiB, which a run of days would hold for seconds of work, so the other process lives for one job. This
process gets the job over one pipe, answers over another, and ends when its parent ends. It inherits the writer's lock,
so that nobody else recovers the session meanwhile. If killed, it leaves the same state as a writer that was killed.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys

from edgetop.recording.journal import Progress, TableJob
from edgetop.recording.session_folder import FolderHandle, WriterLock
from edgetop.session import helper_load

NICENESS = 10
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from edgetop.recording.compaction import main; main()"
_LEAN = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}


class InlineTableWriter:
    """A table writer that runs each job in this process, at once."""

    is_busy = False

    def __init__(self) -> None:
        self._done: Progress | None = None

    def prepare(self, folder: FolderHandle, lock: WriterLock) -> None:
        """Do nothing: a job in this process needs no preparation."""

    def begin(self, folder: FolderHandle, lock: WriterLock, job: TableJob) -> None:  # noqa: ARG002  it is held
        """Run the job in this process, and return when it is done. Raises OSError if it fails."""
        from edgetop.recording.compaction import run_job  # noqa: PLC0415  loads Arrow

        self._done = run_job(folder.path, job)

    def result(self, *, wait: bool) -> Progress | None:  # noqa: ARG002  the job has ended
        done, self._done = self._done, None
        return done

    def close(self) -> None:
        """Do nothing: no job is running."""


class ChildTableWriter:
    """A table writer that runs each job in another process, with low priority while the session goes on."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.is_busy = False

    def prepare(self, folder: FolderHandle, lock: WriterLock) -> None:
        """Start the process, because the caller will have a job for it soon."""
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

    def begin(self, folder: FolderHandle, lock: WriterLock, job: TableJob) -> None:
        """Start a job in the other process, without waiting. Raises OSError if the process cannot be started."""
        self.prepare(folder, lock)
        process = self._process
        assert process
        assert process.stdin
        self.is_busy = True
        if job.manifest is None:
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        try:
            pickle.dump((str(folder.path), job), process.stdin)
            process.stdin.flush()
        except BrokenPipeError:  # it was killed; `result` reports that
            return

    def result(self, *, wait: bool) -> Progress | None:
        """Return the result of the job once, or None if there is no result yet. With `wait`, wait for the job.

        Raises OSError if the job failed; rows that are not in the tables stay in the journal. Raises InterruptedError
        if the process was killed; the job can then be tried again.
        """
        process = self._process
        if process is None or not self.is_busy or (not wait and process.poll() is None):
            return None
        assert process.stdout
        assert process.stderr
        answer, errors = process.stdout.read(), process.stderr.read()  # both are short
        status = self._end(process)
        if not answer:
            how = f"killed by {signal.Signals(-status).name}" if status < 0 else "ended by itself"
            last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise InterruptedError(": ".join([f"the process that writes the tables was {how}", *last]))
        done, cpu_s = pickle.loads(answer)  # noqa: S301  of our own process
        helper_load.add(cpu_s)
        if isinstance(done, OSError):
            raise done
        assert isinstance(done, Progress)
        return done

    def _end(self, process: "subprocess.Popen[bytes]") -> int:
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            with contextlib.suppress(OSError):  # closing flushes, and fails if the process did not read its job
                pipe.close()
        self._process, self.is_busy = None, False
        return process.wait()

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._end(self._process)


TableWriter = InlineTableWriter | ChildTableWriter
