"""The terminal of a run: how the run releases it and continues, and how the user returns to the run.

A shell waits for the process that it started. So a run that may be left in the background is split in two before it has
any thread: the launcher, which only waits, and its child, the run. To release the terminal, the run does three things.
It enters its own session by setsid(2). (The process that the shell started could not call this, because it leads its
process group.) It sends its output to a file. It makes the launcher exit. The shell then shows its prompt again, and
the terminal no longer affects the run. If the launcher is killed (SIGKILL, the OOM killer), the run behaves as if its
terminal had hung up.

On a machine where logging out ends the processes of the user, the run is started in a scope of the user's systemd
manager (systemd-run(1)), because that scope does not belong to the login session. The manager itself ends with the
user's last session unless lingering is enabled (loginctl(1)).
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from edgetop import standard_streams
from edgetop.cli import launcher
from edgetop.cli.launcher import BLOCKED
from edgetop.cli.output import print_text, wrapped
from edgetop.cli.shell_words import session_word
from edgetop.doctor.check import BOOTED
from edgetop.doctor.logout import ask, lingers
from edgetop.errors import EdgetopError
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.sensors.root import Root

MAX_LOG_BYTES, KEPT_LOG_BYTES = 1024 * 1024, 256 * 1024
_PR_SET_PDEATHSIG = 1  # prctl(2)
IN_SCOPE = "EDGETOP_IN_SCOPE"  # environment variable of a run that was started in a scope
PROBE_TIMEOUT_S = 10.0
LINGER = "loginctl enable-linger"
_PROGRAM = str(Path(__file__).parents[1] / "__main__.py")


def edgetop_command(*arguments: str) -> list[str]:
    """Return the words of a command line that runs this same installation of edgetop with `arguments`."""
    return [sys.executable, _PROGRAM, *arguments]


class Terminal:
    """The terminal of this process, until the process releases it."""

    def __init__(self, launcher: int | None = None, launcher_fd: int | None = None) -> None:
        """Take the terminal of this process.

        `launcher` is the process id of the launcher, for which the shell waits; None without a launcher. A byte written
        to the descriptor `launcher_fd` makes the launcher exit.
        """
        self._launcher = launcher
        self._launcher_fd = launcher_fd
        self._files = {_identity(fd) for fd in (0, 1, 2) if os.isatty(fd)}

    @property
    def has_lost_launcher(self) -> bool:
        return self._launcher_fd is not None and os.getppid() != self._launcher

    def release(self, log: Path, *, pipes_too: bool = False) -> None:
        """Release the terminal, and write output to the file `log` from now on.

        `pipes_too` also redirects standard streams that are pipes. Raises OSError if the log cannot be written; the
        terminal is then kept.
        """
        from edgetop.files import open_regular  # noqa: PLC0415  the launcher needs none of it

        to = open_regular(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nowhere = os.open(os.devnull, os.O_RDWR)
        ends = {0, sys.stdout.fileno(), sys.stderr.fileno()} if pipes_too else set()
        left = {*_held(self._files), *ends}
        _flush()
        _point(left, nowhere)
        _flush()  # remaining output of the screen (escape sequences) must not end up in the log
        _point(left - {0}, to)
        os.close(to)
        os.close(nowhere)
        with contextlib.suppress(PermissionError):  # without a launcher this process may lead its group
            os.setsid()
        if self._launcher_fd is not None:
            signal_at_parents_end(0)
            with contextlib.suppress(OSError):  # the launcher was killed
                os.write(self._launcher_fd, b"x")
            os.close(self._launcher_fd)
            self._launcher_fd = None


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None:  # None if its descriptor was closed at the start
            with contextlib.suppress(OSError, EdgetopError):  # its reader is gone
                stream.flush()


def _point(fds: set[int], to: int) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.dup2(to, fd, inheritable=fd <= 2)


def _held(files: set[tuple[int, int]]) -> list[int]:
    """Return the open file descriptors of this process that lead to `files`, which are `(device, inode)` pairs.

    isatty(3) cannot find the descriptors of a terminal, because it is false after a hang-up.
    """
    fds = []
    with contextlib.suppress(OSError):
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):  # the descriptor that listed the folder is closed by now
                if _identity(int(path.name)) in files:
                    fds.append(int(path.name))
    return fds


def split() -> Terminal:
    """Split this process in two. Return the terminal in the child; the parent becomes the launcher and never returns.

    The shell waits for the launcher. Call this before any thread is started, because fork(2) copies only the calling
    thread.
    """
    pipe = os.pipe()
    # Use descriptors from 3 on, even if a standard stream is closed.
    read_end, write_end = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in pipe)
    for fd in pipe:
        os.close(fd)
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    child = os.fork()
    if child:
        os.close(write_end)
        _become_launcher(child, read_end)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(read_end)
    signal_at_parents_end(signal.SIGHUP)
    if os.getppid() != parent:
        os._exit(1)
    return Terminal(parent, write_end)


def _become_launcher(child: int, dismissed: int) -> NoReturn:
    """Replace this process by the launcher's program, to save 6 MiB. If that fails, act as the launcher here.

    `child` is the process id of the run. A byte from the descriptor `dismissed` makes the launcher exit.
    """
    program = Path(launcher.__file__)
    if sys.executable and program.is_file():
        os.set_inheritable(dismissed, True)
        order = [sys.executable, "-I", "-S", str(program), str(child), str(dismissed), *sys.argv[1:]]
        with contextlib.suppress(OSError):
            os.execv(sys.executable, order)  # noqa: S606  no shell is meant
    launcher.wait_for_run(child, dismissed)
    raise AssertionError("unreachable")


def signal_at_parents_end(number: int) -> None:
    """Make the kernel send the signal `number` to this process when its parent ends. 0 means no signal."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def trim_log(log: Path) -> None:
    """Cut a log of more than 1 MiB to its last 256 KiB. The run may append to the log meanwhile (O_APPEND)."""
    from edgetop.files import open_regular  # noqa: PLC0415  the launcher needs none of it

    with contextlib.suppress(OSError):
        fd = open_regular(log, os.O_RDWR)
        with os.fdopen(fd, "r+b") as file:
            if os.fstat(fd).st_size <= MAX_LOG_BYTES:
                return
            file.seek(-KEPT_LOG_BYTES, os.SEEK_END)
            kept = file.read().partition(b"\n")[2]
            file.truncate(0)
            file.seek(0)
            file.write(kept)


def terminal_for(*, headless: bool, detach: bool, is_recorded: bool) -> Terminal:
    """Return the terminal of a run. If the run may outlive its terminal, this process is split in two first.

    `headless` and `detach` are whether the run has these options. `is_recorded` is whether the run makes a recording.
    Call this before anything else is loaded.
    """
    has_screen = not headless and standard_streams.has_screen()
    if not is_recorded or not (detach or has_screen):
        return Terminal()
    effect = logout_effect(Root(), os.geteuid())
    if effect.message:
        print_text(f"edgetop: {effect.message}", err=True)
    if effect.command:
        move_into_scope(effect.command)
    return split()


def move_into_scope(command: tuple[str, ...]) -> None:
    """Restart this process through `command`, such as systemd-run, with the same command line.

    Raises OSError if that fails.
    """
    interpreter = sys.executable or str(Path(sys.orig_argv[0]))
    os.execve(  # noqa: S606  no shell is meant
        command[0], [*command, interpreter, *sys.orig_argv[1:]], {**os.environ, IN_SCOPE: "1"}
    )


@frozen
class LogoutEffect:
    """What happens to a run when its user logs out.

    `message` tells the user about it. `command` restarts the run so that the run survives the logout.
    """

    command: tuple[str, ...] = ()  # prefix of the command line to start the run again; () to leave it
    message: str = ""  # message for the user; "" if a logout does no harm


def logout_effect(root: Root, uid: int, environment: Mapping[str, str] = os.environ) -> LogoutEffect:
    """Return how a logout of the user with the id `uid` affects the run.

    `root` is where this machine's files are read. `environment` holds the environment variables.
    """
    if uid == 0 or environment.get(IN_SCOPE) or not root.exists(BOOTED) or not ask(root):
        return LogoutEffect()
    if "/user@" in root.text("proc/self/cgroup"):  # the user's systemd manager already started this process
        return LogoutEffect()
    stays = lingers(root, uid)
    program = shutil.which("systemd-run", path=environment.get("PATH"))
    if program is None:
        why = "a logout ends this run (KillUserProcesses=yes), and systemd-run, which could prevent it, is missing"
        return LogoutEffect(message=f"{why}: stay logged in, or set KillUserProcesses=no in /etc/systemd/logind.conf")
    scope = (program, "--user", "--scope", "--quiet", "--collect")
    if not _works(scope, environment):
        why = "a logout ends this run (KillUserProcesses=yes), and systemd-run --user --scope fails here"
        return LogoutEffect(message=f"{why}: {LINGER}, log in again and restart the run")
    manager = "" if stays else f"; it ends with your last login session unless lingering is enabled: {LINGER}"
    message = f"started under your systemd manager, because a logout would end the run{manager}"
    return LogoutEffect((*scope, "--"), message)


def _works(scope: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Return whether systemd can run a command in a scope. `scope` are the words before that command.

    This is tested before this process is replaced.
    """
    try:
        done = subprocess.run(  # noqa: S603  the user's own systemd-run
            [*scope, "--", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
            env=dict(environment),
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


# If the launcher is killed, the shell shows its prompt at once, on the screen of the run, and it disappears with the
# screen. A shell draws it again only after a key, or if the terminal has another size.
PROMPT_HINT = "  press Enter for the prompt of your shell"


def how_to_come_back(folder: Path) -> str:
    """Return three lines of text: where the run is recorded, how to attach to it, and how to stop it.

    On a narrow terminal there are more lines. Paths and commands are on one line, to be copied.
    """
    shown = session_word(folder)
    lines = {
        f"edgetop: the run continues, recorded in {clean(str(folder))}": clean(str(folder)),
        f"  edgetop attach {shown}   shows it again": f"edgetop attach {shown}",
        f"  edgetop stop {shown}     ends it": f"edgetop stop {shown}",
    }
    return "\n".join(part for line, whole in lines.items() for part in wrapped(line, whole))
