"""A pool of worker processes for each way that Python has to start them; then it executes itself, and does it again.

It prints how many inferences they made.
"""

import multiprocessing
import os
import sys

import numpy as np


def begin(model):
    global run  # noqa: PLW0603  of each worker
    import onnxruntime

    session = onnxruntime.InferenceSession(model)
    inputs = {
        one.name: np.zeros([d if isinstance(d, int) else 1 for d in one.shape], np.float32)
        for one in session.get_inputs()
    }
    run = lambda: session.run(None, inputs)  # noqa: E731


def work(_):
    run()
    return 1


if __name__ == "__main__":
    done = 0
    for way in ("fork", "spawn"):
        with multiprocessing.get_context(way).Pool(2, begin, (sys.argv[1],)) as pool:
            done += sum(pool.map(work, range(40), chunksize=1))
    done += int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if len(sys.argv) < 3:
        os.execv(sys.executable, [sys.executable, *sys.argv, str(done)])
    print("own", done, flush=True)
