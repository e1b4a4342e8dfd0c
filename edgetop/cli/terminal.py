"""A run and its terminal: how the run releases it and continues, and how the user comes back to it.

A shell waits for the process that it started until that ends. So a run that may be left is split in two before it has
any thread: the launcher, which does nothing but wait, and the run, its child. When the run lets go it enters a session
of its own (setsid(2), which a process that the shell started could not: it leads its group), sends its output to a
file, and makes the launcher end. The shell has its prompt again, and the terminal does not affect the run any more. If
the launcher is killed (SIGKILL, the OOM killer), the run behaves as if its terminal had hung up.

On a machine where logging out ends the processes of the user, the run is started in a scope of the user's own
systemd manager (systemd-run(1)), whose processes are not those of the session that ends. The manager itself
ends with the user's last session unless lingering is enabled (loginctl(1)).
"""

import contextlib
import ctypes
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from edgetop.cli import launcher
from edgetop.cli.launcher import BLOCKED
from edgetop.cli.output import print_text
from edgetop.doctor.check import BOOTED
from edgetop.doctor.logout import ask, lingers
from edgetop.errors import EdgetopError, InputError
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.sensors.root import Root

MAX_LOG_BYTES, KEPT_LOG_BYTES = 1024 * 1024, 256 * 1024
_PR_SET_PDEATHSIG = 1  # prctl(2)
IN_SCOPE = "EDGETOP_IN_SCOPE"  # in the environment of a run that was started so
PROBE_TIMEOUT_S = 10.0
LINGER = "loginctl enable-linger"
_PROGRAM = str(Path(__file__).parents[1] / "__main__.py")


def edgetop_command(*arguments: str) -> list[str]:
    """The command line that runs this very edgetop in another process, whatever lies in the current folder."""
    return [sys.executable, _PROGRAM, *arguments]


class Terminal:
    """The terminal of this process, until it is released."""

    def __init__(self, launcher: int | None = None, launcher_fd: int | None = None) -> None:
        """`launcher`: its process id; `launcher_fd`: written to when it can end."""
        self._launcher = launcher
        self._launcher_fd = launcher_fd
        self._files = {_identity(fd) for fd in (0, 1, 2) if os.isatty(fd)}

    @property
    def has_lost_launcher(self) -> bool:
        return self._launcher_fd is not None and os.getppid() != self._launcher

    def release(self, log: Path, *, pipes_too: bool = False) -> None:
        """Release it, and write to `log` from now on; `pipes_too`: release redirected standard streams as well.

        Raises OSError where the log cannot be written; everything is as it was then.
        """
        from edgetop.files import open_regular  # noqa: PLC0415  the launcher needs none of it

        to = open_regular(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nowhere = os.open(os.devnull, os.O_RDWR)
        ends = {0, sys.stdout.fileno(), sys.stderr.fileno()} if pipes_too else set()
        left = {*_held(self._files), *ends}
        _flush()
        _point(left, nowhere)
        _flush()  # what a terminal that is gone has not taken (of a screen: escape sequences) is not for the log
        _point(left - {0}, to)
        os.close(to)
        os.close(nowhere)
        with contextlib.suppress(PermissionError):  # without a launcher it may lead its group
            os.setsid()
        if self._launcher_fd is not None:
            signal_at_parents_end(0)
            with contextlib.suppress(OSError):  # it was killed
                os.write(self._launcher_fd, b"x")
            os.close(self._launcher_fd)
            self._launcher_fd = None


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None:  # as it is where its descriptor was closed
            with contextlib.suppress(OSError, EdgetopError):  # it is gone
                stream.flush()


def _point(fds: set[int], to: int) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.dup2(to, fd, inheritable=fd <= 2)


def _held(files: set[tuple[int, int]]) -> list[int]:
    """The descriptors of these files. (isatty(3) is false for a terminal that has hung up.)"""
    fds = []
    with contextlib.suppress(OSError):
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):  # the one of this very listing
                if _identity(int(path.name)) in files:
                    fds.append(int(path.name))
    return fds


def split() -> Terminal:
    """Leave a launcher behind, for the shell to wait for; returns in its child.

    Only before any thread is started: fork(2) copies the one that calls it alone.
    """
    pipe = os.pipe()
    # No standard stream that was closed.
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
    """Replace this process by the launcher, which needs 6 MiB less; where that fails, act as the launcher here."""
    program = Path(launcher.__file__)
    if sys.executable and program.is_file():
        os.set_inheritable(dismissed, True)
        order = [sys.executable, "-I", "-S", str(program), str(child), str(dismissed), *sys.argv[1:]]
        with contextlib.suppress(OSError):
            os.execv(sys.executable, order)  # noqa: S606  no shell is meant
    launcher.wait_for_run(child, dismissed)
    raise AssertionError("unreachable")


def signal_at_parents_end(number: int) -> None:
    """Make the kernel send this signal when the parent ends; 0: none."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def trim_log(log: Path) -> None:
    """Keep the end of a log that has become long: the run writes on at its end (O_APPEND)."""
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
    """Prepare a run that may outlive its terminal. Call this before anything else is loaded."""
    has_screen = not headless and sys.stdin.isatty() and sys.stderr.isatty()
    if not is_recorded or not (detach or has_screen):
        return Terminal()
    effect = logout_effect(Root(), os.geteuid())
    if effect.message:
        print_text(f"edgetop: {effect.message}", err=True)
    if effect.command:
        move_into_scope(effect.command)
    return split()


def move_into_scope(command: tuple[str, ...]) -> None:
    """Become the same command line, started by `command`; the terminal and the streams stay. Raises OSError."""
    interpreter = sys.executable or str(Path(sys.orig_argv[0]))
    os.execve(  # noqa: S606  no shell is meant
        command[0], [*command, interpreter, *sys.orig_argv[1:]], {**os.environ, IN_SCOPE: "1"}
    )


@frozen
class LogoutEffect:
    """The effect that a logout would have on the run."""

    command: tuple[str, ...] = ()  # the prefix to start it again with; (): as it is
    message: str = ""  # for the user; "": all is well


def logout_effect(root: Root, uid: int, environment: Mapping[str, str] = os.environ) -> LogoutEffect:
    """`root`: of the machine that the run is on, never a captured board."""
    if uid == 0 or environment.get(IN_SCOPE) or not root.exists(BOOTED) or not ask(root):
        return LogoutEffect()
    if "/user@" in root.text("proc/self/cgroup"):  # the user's own manager started it
        return LogoutEffect()
    stays = lingers(root, uid)
    program = shutil.which("systemd-run", path=environment.get("PATH"))
    if program is None:
        why = "a logout ends this run (KillUserProcesses=yes), and there is no systemd-run to prevent it"
        return LogoutEffect(message=f"{why}: stay logged in, or set KillUserProcesses=no in /etc/systemd/logind.conf")
    scope = (program, "--user", "--scope", "--quiet", "--collect")
    if not _works(scope, environment):
        why = "a logout ends this run (KillUserProcesses=yes), and systemd-run --user --scope fails here"
        return LogoutEffect(message=f"{why}: {LINGER}, log in anew and start it again")
    manager = "" if stays else f"; it ends with your last session, unless you linger: {LINGER}"
    message = f"started under your own systemd manager, since a logout ends every process of a session{manager}"
    return LogoutEffect((*scope, "--"), message)


def _works(scope: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Whether a scope can be created, before this process is given up for one."""
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


def how_to_come_back(folder: Path) -> str:
    """Three lines that say how to attach to a run that continues, and how to stop it."""
    from edgetop.paths import recordings_home  # noqa: PLC0415  the launcher needs none of it
    from edgetop.recording.registry import locate  # noqa: PLC0415
    from edgetop.recording.session_folder import SUFFIX  # noqa: PLC0415

    name = folder.name.removesuffix(SUFFIX)
    try:
        is_unique = not name.startswith("-") and locate(name, recordings_home()).resolve() == folder.resolve()
    except InputError:
        is_unique = False
    shown = clean(shlex.quote(name if is_unique else str(folder)))
    return (
        f"edgetop: the run goes on, recorded in {clean(str(folder))}\n"
        f"  edgetop attach {shown}   shows it again\n"
        f"  edgetop stop {shown}     ends it"
    )
