"""Runs until it is asked to end, and does then what its argument says."""

import os
import signal
import sys
import time
from pathlib import Path

from edgetop.probe import probe

how = sys.argv[1]
if how != "at once":
    numbers = (signal.SIGTERM, signal.SIGUSR1)
    for number in numbers:
        signal.signal(number, lambda *_: os.write(2, b"asked\n"))
for _ in range(20):
    with probe("model"):
        time.sleep(0.001)
print("ready", os.getpid(), flush=True)
try:
    while True:
        with probe("model"):
            time.sleep(0.002)
        if how == "waits" and Path(sys.argv[2]).exists():
            break
except KeyboardInterrupt:
    print("interrupted")
print("done", flush=True)
