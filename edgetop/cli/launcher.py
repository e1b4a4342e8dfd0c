"""The launcher: a small program for which the shell waits, while the run itself is another process.

`terminal.split` starts this file with `python -I -S`. It imports only `os`, `signal` and `sys`, so that the process
that waits for hours stays small. Its arguments are the process id of the run, the descriptor that says when to exit,
and the command line of the run, for `ps` to show.
"""

import os
import signal
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Signals that are blocked from the fork until the handlers are installed, so that none is lost.
BLOCKED = (*FORWARDED, signal.SIGCHLD, signal.SIGTSTP)


def wait_for_run(run: int, dismissed: int) -> None:
    """Wait for the process with the id `run`, and behave like that process, because the shell sees only this process.

    Signals are passed on to the run. When the run is stopped (SIGSTOP), this process stops too. When the run ends, this
    process exits with the same status. The function never returns. A byte from the file descriptor `dismissed` makes
    this process exit at once; the run continues.
    """
    ended: list[int] = []

    def on_child(*_: object) -> None:
        pid, status = (0, 0) if ended else os.waitpid(run, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            os.kill(os.getpid(), signal.SIGSTOP)
        elif pid:
            ended.append(status)

    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(run, number))
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # the run receives it too, and restores the terminal before it stops
    signal.signal(signal.SIGCHLD, on_child)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
    on_child()
    if os.read(dismissed, 1):
        os._exit(0)
    # Blocked, not reset: Python reports a signal on stderr if its handler is removed before it could run.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    status = ended[0] if ended else os.waitpid(run, 0)[1]
    if os.WIFSIGNALED(status):
        ended_by = os.WTERMSIG(status)
        if ended_by != signal.SIGKILL:
            signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    wait_for_run(int(sys.argv[1]), int(sys.argv[2]))
