"""What a board's own commands print: by running them, or as a captured board has it.

In a capture, `commands/` holds the standard output of each, in a file named by the command
line with spaces as `_`; beside it, ending in `.exit`, the exit status where that is not 0.
Nothing of a capture is ever executed.
"""

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass

from edgetop.sensors.root import Root, parse_int

FOLDER = "commands"
TIMEOUT_S = 2.0
MAX_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Output:
    text: str  # standard output: firmware tools complain there too
    exit_status: int

    @property
    def first_line(self) -> str:
        return self.text.split("\n", 1)[0].strip()


def run_command(root: Root, *argv: str, timeout_s: float = TIMEOUT_S) -> Output:
    """Raises FileNotFoundError where there is no such command, and OSError (TimeoutError) where it cannot be run."""
    return _run(argv, timeout_s) if root.is_host else _replay(root, argv)


def _replay(root: Root, argv: tuple[str, ...]) -> Output:
    path = f"{FOLDER}/{file_name(argv)}"
    text = root.read_text(path)
    return Output(text, parse_int(root.read_text(f"{path}.exit").strip()) if root.exists(f"{path}.exit") else 0)


def file_name(argv: tuple[str, ...]) -> str:
    """
    >>> file_name(("vcgencmd", "measure_clock", "arm"))
    'vcgencmd_measure_clock_arm'
    """
    return " ".join(argv).replace("/", "_").replace(" ", "_")


def _run(argv: tuple[str, ...], timeout_s: float) -> Output:
    """In a process group of its own, so that what hangs is ended with all it started."""
    process = subprocess.Popen(  # noqa: S603  the commands are edgetop's own, their arguments constants
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise TimeoutError(f"{argv[0]} did not answer within {timeout_s:g} s") from None
    return Output(printed[:MAX_BYTES].decode("utf-8", "replace").rstrip("\n\0 "), process.returncode)
