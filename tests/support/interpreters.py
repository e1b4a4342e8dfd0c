"""Programs to be given as --engine-python: real ones with a runtime of the test's own, and some that only pretend."""

import sys
import textwrap
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]

RUNTIME = '''
"""As much of ONNX Runtime as the engine asks of it: one input, and a run that the test wrote."""

import os, signal, subprocess, sys, time, warnings

{on_import}

__version__ = "0.test"


class SessionOptions:
    pass


class Node:
    name, type, shape = "x", "tensor(float)", [1, 4]


def get_available_providers():
    return ["CPUExecutionProvider"]


get_all_providers = get_available_providers


class InferenceSession:
    def __init__(self, path, options, providers):
        self.number = -1
{on_load}

    def disable_fallback(self):
        pass

    def get_providers(self):
        return ["CPUExecutionProvider"]

    def get_inputs(self):
        return [Node()]

    def get_outputs(self):
        return [Node()]

    def run(self, outputs, feeds):
        self.number += 1
        number = self.number
{on_run}
'''

TALKER = """
import fcntl, os, signal, sys, time
sys.path.insert(0, {repository!r})
from edgetop.engines.child import message_frames as frames

control, data = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--control", "--data"))


def say(kind, **message):
    os.write(data, frames.pack_message(kind, message))


def hello():
    say(frames.HELLO, pid=os.getpid(), python="0", numpy="0")


def pack(*starts):
    packed = b"".join(frames.RECORD.pack(start, 1, 0, 0, 2, True) for start in starts)
    return frames.HEADER.pack(frames.MAGIC, frames.VERSION, frames.RECORDS, len(packed)) + packed


{body}
"""


def script(path: Path, interpreter: str, body: str) -> str:
    """An executable file; its path, as the command line gives it."""
    path.write_text(f"#!{interpreter}\n{textwrap.dedent(body)}")
    path.chmod(0o755)
    return str(path)


def shell(path: Path, body: str) -> str:
    """A shell script; "$PYTHON" is the interpreter of the tests."""
    return script(path, "/bin/sh", f"PYTHON='{sys.executable}'\n{body}\n")


def talker(path: Path, body: str) -> str:
    """Not an engine at all, but it can `say` things to the conductor, with file descriptors `control` and `data`."""
    return script(path, sys.executable, TALKER.format(repository=str(REPOSITORY), body=textwrap.dedent(body)))


def fake_runtime(folder: Path, on_run: str = "pass", on_load: str = "pass", on_import: str = "pass") -> None:
    """A module `onnxruntime` in the folder. `on_run` knows the `number` of the run, from 0, the first one included."""
    (folder / "onnxruntime.py").write_text(
        RUNTIME.format(
            on_import=textwrap.dedent(on_import),
            on_load=textwrap.indent(textwrap.dedent(on_load), " " * 8),
            on_run=textwrap.indent(textwrap.dedent(on_run), " " * 8),
        )
    )


def with_runtime(folder: Path, **does: str) -> str:
    """The engine's own program in the tests' interpreter, with a `fake_runtime` that does what the test wrote."""
    package = folder / "runtime"
    package.mkdir()
    fake_runtime(package, **does)
    return shell(folder / "python", f'PYTHONPATH=\'{package}\' exec "$PYTHON" "$@"')
