"""An interpreter for `--engine-python` whose engine reports inferences faster than any model could run.

It is the real engine but for the measured phase, in which nothing runs: inferences are made up at a given rate, and
their number is written into a file when the phase ends.
"""

import os
import runpy
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 4096
RECORD = np.dtype([
    ("t_ns", "<i8"), ("latency_ns", "<i8"), ("wait_ns", "<i8"),
    ("stream", "u1"), ("phase", "u1"), ("ok", "?"), ("variant", "u1"),
])  # fmt: skip


def interpreter(path: Path, rate_hz: float, counts: Path) -> str:
    """Make the interpreter at `path`. Each stream of its engines has that rate. `counts`: a folder for the numbers."""
    from tests.support.interpreters import shell

    words = " ".join(map(shlex.quote, (sys.executable, __file__)))
    return shell(path, f'FAST_RATE={rate_hz} FAST_COUNTS={shlex.quote(str(counts))} exec {words} "$@"')


def counted(counts: Path) -> int:
    """Return how many inferences all engines have reported."""
    return sum(int(line) for file in counts.iterdir() for line in file.read_text().splitlines())


def main() -> None:
    # Options of the interpreter come before the program's path.
    place = next(i for i, word in enumerate(sys.argv) if i and not word.startswith("-"))
    sys.argv = sys.argv[place:]
    namespace = runpy.run_path(sys.argv[0], run_name="edgetop_engine_main")
    if sys.argv[1:] and sys.argv[1].startswith("--control"):
        program = namespace["_import_module"]("child_program")
        sys.modules["edgetop_engine.loop"].Loop._repeat = _faster(sys.modules["edgetop_engine.loop"].Loop._repeat)
        sys.exit(program.main(sys.argv[1:]))
    sys.exit(namespace["main"]())


def _faster(repeat: Any) -> Any:
    step_ns = int(1e9 / float(os.environ["FAST_RATE"]))
    file = Path(os.environ["FAST_COUNTS"]) / f"{os.getpid()}"

    def fast(self: Any, phase: int, slowest: Any, **how: Any) -> str:
        if phase != 2:
            return str(repeat(self, phase, slowest, **how))
        return _measure(self, step_ns, file, **how)

    return fast


def _measure(loop: Any, step_ns: int, file: Path, *, announce: Any, duration_ns: int | None = None, **_: Any) -> str:
    records, count = np.zeros(BLOCK, RECORD), 0
    records["latency_ns"], records["phase"], records["ok"], records["stream"] = step_ns * 3 // 5, 2, True, loop._stream
    steps = np.arange(BLOCK) * step_ns
    announce()
    now = begun = time.monotonic_ns()
    until = 2**63 - 1 if duration_ns is None else begun + duration_ns
    pace = loop._make_pace()
    if pace is not None:
        now = pace.begin(now)
    try:
        while now < until and not loop._control.stop_requested:
            if (left_ns := now - time.monotonic_ns()) > 0:
                loop._outlet.sleep(min(left_ns / 1e9, 0.02))
                continue
            last_ns = min(now + 20_000_000, until)
            if pace is not None:
                last_ns = min(last_ns, pace._turns[pace._place][1])
            number = min(BLOCK, max(1, (last_ns - now) // step_ns))
            records["t_ns"] = now + steps
            done = now + number * step_ns
            now = done if pace is None else max(done, pace.after(done))
            loop._outlet.put(memoryview(records[:number]).cast("B"), number, loop._stream, now)
            count += number
    finally:
        with file.open("a") as counts:
            counts.write(f"{count}\n")
    return "stop" if loop._control.stop_requested else "duration"


if __name__ == "__main__":
    main()
