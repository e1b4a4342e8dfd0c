"""The launcher: a small program for which the shell waits, while the run itself is another process.

`terminal.split` starts this file with `python -I -S`. It imports only `os`, `signal`, `sys` and `termios`, so that the
process that waits for hours stays small. Its arguments are the process id of the run, the descriptor that says when to
exit, and the command line of the run, for `ps` to show.
"""

import os
import signal
import sys
import termios

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Signals that are blocked from the fork until the handlers are installed, so that none is lost.
BLOCKED = (*FORWARDED, signal.SIGCHLD, signal.SIGTSTP)
# Turns off what a screen turned on (xterm's ctlseqs and Textual's LinuxDriver): the mouse, pasting in brackets, reports
# of the size, one frame at a time, and the keyboard protocol. Turns on the cursor and wrapping, on the usual screen.
RESTORED = b"".join(b"\x1b[?%dl" % mode for mode in (1000, 1002, 1003, 1006, 1015, 1016, 2004, 2048, 2026, 1049))
RESTORED += b"\x1b[<u\x1b[?7h\x1b[?25h"


def wait_for_run(run: int, dismissed: int) -> None:
    """Wait for the process with the id `run`, and behave like that process, because the shell sees only this process.

    Signals are passed on to the run. When the run is stopped (SIGSTOP), this process stops too. When the run ends, this
    process exits with the same status. The function never returns. A byte from the file descriptor `dismissed` makes
    this process exit at once; the run continues.
    """
    ended: list[int] = []
    before = _attributes()

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
    if before is not None:
        restore_terminal(before, status)
    if os.WIFSIGNALED(status):
        ended_by = os.WTERMSIG(status)
        if ended_by != signal.SIGKILL:
            signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
    os._exit(os.waitstatus_to_exitcode(status))


def _attributes() -> "list[object] | None":
    """Return the attributes of the terminal of standard input (termios(3)), or None if it is no terminal."""
    try:
        return termios.tcgetattr(0)
    except (termios.error, OSError):
        return None


def restore_terminal(before: "list[object]", status: int) -> None:
    """Restore the terminal if the run ended without doing so: it was killed, or its engine, a thread of it, ended it.

    `before` are the attributes of the terminal before the run, and `status` is the wait status of the run. Nothing is
    done if the run restored them, or if another program has the terminal.
    """
    if _attributes() in (before, None):
        return
    try:
        if os.tcgetpgrp(0) != os.getpgrp():
            return
        termios.tcsetattr(0, termios.TCSANOW, before)  # type: ignore[arg-type]
    except (termios.error, OSError):
        return
    killed = os.WIFSIGNALED(status)
    how = (
        f"was killed by signal {os.WTERMSIG(status)}"
        if killed
        else f"ended itself with status {os.WEXITSTATUS(status)}"
    )
    said = f"edgetop: the run {how}; what it recorded is kept, and edgetop sessions lists it\r\n".encode()
    try:
        os.write(next((fd for fd in (1, 2) if os.isatty(fd)), 2), RESTORED)
        os.write(2, said)
    except OSError:
        return


if __name__ == "__main__":
    wait_for_run(int(sys.argv[1]), int(sys.argv[2]))
