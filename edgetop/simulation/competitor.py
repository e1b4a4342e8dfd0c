"""A program that competes with the engine for a CPU. It needs only the standard library.

On its standard input, `+` makes the program busy, `-` makes it pause, and the end of the input ends it, so that it
never outlives edgetop. It is busy every other millisecond, which takes half of one core. It runs at the engine's
priority. A lower priority would not slow the engine: in a measurement, a nice value of 5 did not change the engine's
median.
"""

import os
import select
import sys
import time

NAME = "demo-rival"
BUSY_S = REST_S = 0.001


def main(cpus: str) -> None:
    os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    with open("/proc/self/comm", "w", encoding="ascii") as comm:  # noqa: PTH123  what `ps` and `top` call it
        comm.write(NAME)
    is_busy = False
    while True:
        if select.select([0], [], [], REST_S if is_busy else None)[0]:
            word = os.read(0, 1)
            if not word:
                return
            is_busy = word == b"+"
        if is_busy:
            until = time.monotonic() + BUSY_S
            while time.monotonic() < until:
                pass


if __name__ == "__main__":
    main(sys.argv[1])
