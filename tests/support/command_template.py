"""A process that has imported edgetop, and forks for each command that it is given: a start costs a tenth so.

A program of its own: its standard input is a socket, over which each command comes with its arguments, folder and
environment as JSON, and with the descriptors of its standard streams. Answers: its process id, then its exit status,
each as a line.
"""

import atexit
import importlib
import json
import os
import signal
import socket
import sys
import threading
import traceback


def serve(channel: socket.socket) -> None:
    import numpy as np  # noqa: F401  with those that are imported late, for most commands need them
    import pyarrow.parquet  # noqa: F401

    from edgetop.cli import commands, headless, live_session, main  # noqa: F401
    from edgetop.recording import reader, recorder  # noqa: F401

    for module, *_ in commands.COMMANDS.values():
        importlib.import_module(module)
    while True:
        request, streams, _, _ = socket.recv_fds(channel, 1 << 20, 3)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            channel.close()
            _become(json.loads(request), streams, main.main)
        for stream in streams:
            os.close(stream)
        channel.sendall(f"{pid}\n".encode())
        channel.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())


def _become(asked: dict, streams: list[int], main) -> None:
    """Be the command, to its end."""
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
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001  as the interpreter does
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(0)))
