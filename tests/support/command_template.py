"""A process that has imported edgetop, and forks for each command that it is given: a start costs a tenth so.

A program of its own, which is given what it is to run: `commands`, or the `screen` of `screen_program`. Its standard
input is a socket, over which each command comes with its arguments, folder and
environment as JSON, and with the descriptors of its standard streams. Answers: its process id, then its exit status,
each as a line.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import threading
import traceback


def load_commands():
    """The command line, and what it would import late: else each command spends more on that than on its work."""
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    import edgetop.cli
    import edgetop.recording
    import edgetop.runner
    import edgetop.sensors
    from edgetop.cli import main

    for package in (edgetop.cli, edgetop.recording, edgetop.runner, edgetop.sensors):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "edgetop.sensors.programs" not in module.name:
                importlib.import_module(module.name)
    return main.main


def load_screen():
    from textual.drivers import linux_driver  # noqa: F401

    from tests.support import screen_program

    return lambda arguments: screen_program.main(arguments[0], int(arguments[1]))


def serve(channel: socket.socket, main) -> None:
    gc.freeze()  # what is imported stays: no command looks through it, which would copy it
    while True:
        request, streams, _, _ = socket.recv_fds(channel, 1 << 20, 3)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            channel.close()
            _become(json.loads(request), streams, main)
        for stream in streams:
            os.close(stream)
        channel.sendall(f"{pid}\n".encode())
        channel.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())


def _become(asked: dict, streams: list[int], main) -> None:
    """Be the command, to its end."""
    if asked["is_session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[1:] = asked["arguments"]
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
