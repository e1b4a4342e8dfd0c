"""A process that has imported edgetop, and forks for each command that it is given: a start costs a tenth so.

A program of its own, which is given what it is to run: `commands`, or the `screen` of `screen_program`. Its standard
input is a socket, over which each command comes with its arguments, folder and environment as JSON, and with the
descriptors of its standard streams. Answers are lines: `started PID`, and when the command is over `ended PID STATUS`.
Several commands may run at once.
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import termios
import threading
import traceback

from edgetop import frozen


def load_commands():
    """The command line, and what it would import late: else each command spends more on that than on its work."""
    from textual.drivers import linux_driver  # noqa: F401

    import edgetop.cli
    import edgetop.recording
    import edgetop.runner
    import edgetop.sensors
    import edgetop.ui
    from edgetop.cli import main
    from tests.support import forked_helpers

    for package in (edgetop.cli, edgetop.recording, edgetop.runner, edgetop.sensors, edgetop.ui):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "edgetop.sensors.programs" not in module.name:
                importlib.import_module(module.name)
    forked_helpers.import_early()
    forked_helpers.install()
    compile_values()
    return main.main


def compile_values():
    """Compile what classes of values compile when they are first used: that is a fifth of a short command's time."""
    for module in [module for name, module in sys.modules.items() if name.startswith("edgetop.")]:
        for each in vars(module).values():
            if isinstance(each, type) and vars(each).get("__init__") is frozen._first_init:
                frozen._compiled(object.__new__(each), "__init__", frozen._init)


def load_late(arguments):
    """Import the charts of pages, which take half a second, before the first command that needs them is forked."""
    makes_page = arguments[:1] == ["bundle"] or any(one.startswith("--html") for one in arguments)
    if makes_page and "bokeh.plotting" not in sys.modules:
        import bokeh.embed
        import bokeh.plotting
        import bokeh.resources  # noqa: F401

        gc.freeze()


def load_screen():
    from textual.drivers import linux_driver  # noqa: F401

    from tests.support import screen_program

    compile_values()
    return lambda arguments: screen_program.main(arguments[0], int(arguments[1]))


def serve(channel: socket.socket, main) -> None:
    gc.freeze()  # what is imported stays: no command looks through it, which would copy it
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([channel, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            for pid, status in _ended():
                channel.sendall(f"ended {pid} {status}\n".encode())
        if channel in ready:
            request, streams, _, _ = socket.recv_fds(channel, 1 << 20, 3)
            if not request:
                return
            asked = json.loads(request)
            load_late(asked["arguments"])
            is_apart, apart = os.pipe()
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for end in (channel.detach(), woken, wake, is_apart):
                    os.close(end)
                _become(asked, streams, apart, main)
            for end in (*streams, apart):
                os.close(end)
            os.read(is_apart, 1)  # its end: the command has nothing of this process open any more
            os.close(is_apart)
            channel.sendall(f"started {pid}\n".encode())


def _ended():
    """The commands that are over by now: process id and exit status of each."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def _become(asked: dict, streams: list[int], apart: int, main) -> None:
    """Be the command, to its end. `apart` is closed as soon as nothing of the template is left."""
    if asked["is_session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if asked["has_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # its session's own (tty(4)), which then hears of a hang-up
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[1:] = asked["arguments"]
    os.close(apart)
    status = 1
    try:
        main(asked["arguments"])
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(0)), {"commands": load_commands, "screen": load_screen}[sys.argv[1]]())
