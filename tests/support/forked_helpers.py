"""Forks what a forked command starts (an engine, a table writer, a command of edgetop) instead of starting Python anew.

An interpreter that imports NumPy and a runtime, or Arrow, takes ten times as long as what a test has it do. Everything
else is as `subprocess` does it: a process of its own, with the same pipes, environment, session and exit status.
Engines and table writers in interpreters of their own are tested where `start_python` begins a command, where
`--engine-python` names an interpreter, and by `ProcessEngine` and `ChildTableWriter` in the process of the test.
Commands in interpreters of their own are tested by `ChildRun` in the process of the test (tests/cli/test_child_run.py).
"""

import atexit
import contextlib
import faulthandler
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from edgetop.cli.terminal import edgetop_command
from edgetop.engines.spawn import CHILD

ROOT = Path(__file__).parents[2]
NAME = "edgetop-engine"  # of a forked engine, in /proc/PID/comm
TABLES = "edgetop.recording.compaction"
COMMAND = edgetop_command()  # interpreter and file


def is_engine(pid: int | str) -> bool:
    """Whether this process is an engine, forked or executed."""
    place = Path(f"/proc/{pid}")
    return (place / "comm").read_text().strip() == NAME or str(CHILD) in (place / "cmdline").read_text()


def import_early() -> None:
    """Import what engines and table writers would import."""
    import numpy as np  # noqa: F401
    import onnxruntime  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    from edgetop.recording import compaction  # noqa: F401


def install() -> None:
    """Have `subprocess` fork these processes from now on, if nothing in their environment is meant for Python."""
    start = subprocess.Popen
    python = _of_python(os.environ)

    class Popen(start):  # type: ignore[misc, valid-type]
        def __init__(self, args: Any, *more: Any, env: Any = None, pass_fds: Any = (), **how: Any) -> None:
            given = os.environ if env is None else env
            if (run := _program(args)) and _of_python(given) == python:
                prepare = how.get("preexec_fn") or (lambda: None)
                how["preexec_fn"] = partial(
                    _become, run, prepare, list(map(str, args[1:])), dict(given), {0, 1, 2, *pass_fds}, start
                )
            super().__init__(args, *more, env=env, pass_fds=pass_fds, **how)

    subprocess.Popen = Popen  # type: ignore[misc]


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    own = ("PYTHONFAULTHANDLER", "PYTHONUNBUFFERED")  # which an engine always has
    return {name: value for name, value in environment.items() if name.startswith("PYTHON") and name not in own}


def _program(args: Any) -> Callable[[], object] | None:
    """Return what the process of this command line runs, or None for another program."""
    if not isinstance(args, Sequence) or isinstance(args, str) or len(args) < 3 or args[0] != sys.executable:
        return None
    if args[1] == str(CHILD) and args[2] == "--control":
        return _run_engine
    if list(args[:2]) == COMMAND:
        return _run_command
    return _write_tables if TABLES in str(args[min(4, len(args) - 1)]) else None


def _run_engine() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(NAME, encoding="ascii")
    sys.path[:] = [str(CHILD.parent), *(place for place in sys.path if place not in ("", str(ROOT)))]
    runpy.run_path(str(CHILD), run_name="__main__")


def _run_command() -> None:
    from edgetop.cli.main import main

    install()  # for its own engine and table writer
    try:
        main(sys.argv[1:])
    finally:
        threading._shutdown()  # type: ignore[attr-defined]


def _write_tables() -> None:
    from edgetop.recording.compaction import main

    main()


def _become(
    run: Callable[[], object],
    prepare: Callable[[], object],
    argv: list[str],
    environment: dict[str, str],
    keep: set[int],
    start: Any,
) -> None:
    """Be that process to its end: `subprocess` calls this where it would execute the program."""
    status = 1
    try:
        prepare()
        _forget(argv, environment, keep, start)
        run()
        status = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  as the interpreter does
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
            sys.stdout.flush()
        os._exit(status)


def _forget(argv: list[str], environment: dict[str, str], keep: set[int], start: Any) -> None:
    """Leave nothing of the command that a program which is executed would not have."""
    atexit._clear()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            if signal.getsignal(number) not in (signal.SIG_IGN, signal.SIG_DFL):
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as Python does when it starts
        signal.signal(number, signal.SIG_IGN)
    for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if fd not in keep:
            with contextlib.suppress(OSError):  # that by which the folder was read
                os.close(fd)
    os.environ.clear()
    os.environ.update(environment)
    subprocess.Popen = start  # type: ignore[misc]
    sys.argv[:] = argv
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if "PYTHONFAULTHANDLER" in environment:
        faulthandler.enable(file=2)
