"""Reports calls, does then to its own ring what its argument says, and reports calls again. Prints how many it made."""

import os
import sys
import time
from pathlib import Path

from edgetop.probe import edgetop_probe as layout
from edgetop.probe import probe


def calls(count):
    for _ in range(count):
        with probe("model"):
            time.sleep(0.001)


def forge(sequence):
    ring = layout._tap.ring
    ring._numbers[(layout.HEADER_BYTES + 4_000 * layout.SLOT_BYTES) >> 3] = sequence


calls(30)
made, kind = 60, sys.argv[1]
if kind == "forks":
    for _ in range(600):
        if not os.fork():
            calls(2)
            os._exit(0)
        os.wait()
    made = 1_260
elif kind == "clock":
    now = time.time_ns()
    layout._tap.ring.put(now, now + 5_000_000, 0)
elif kind == "cut":
    os.truncate(next(Path(sys._edgetop_tap).glob("*.tap")), 0)
    print("made", 30, flush=True)
    os.kill(os.getpid(), 9)  # it would crash, as its memory is gone
else:
    forge(int(kind))
time.sleep(0.6)
calls(30)
print("made", made, flush=True)
