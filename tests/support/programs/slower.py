"""A program that is slower than a loop over its model, for one reason: slower SITUATION MODEL SECONDS."""

import subprocess
import sys
import threading
import time

import numpy as np
import onnxruntime

from edgetop.probe import probe

situation, model, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(model, options)
(name,) = (one.name for one in session.get_inputs())
shape = [size if isinstance(size, int) else 1 for size in session.get_inputs()[0].shape]
frame = np.random.default_rng(1).random(shape, np.float32)
until = time.monotonic() + seconds


def spin():
    while time.monotonic() < until:
        sum(range(1_000))


def loop():
    own = onnxruntime.InferenceSession(model, options)
    while time.monotonic() < until:
        own.run(None, {name: frame})


if situation == "threads":
    others = [threading.Thread(target=loop) for _ in range(7)]
elif situation == "gil":
    others = [threading.Thread(target=spin)]
else:
    others = []
busy = "import time\nwhile True: sum(range(1000))"
rivals = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(6)] if situation == "rival" else []
for thread in others:
    thread.start()
try:
    while time.monotonic() < until:
        if situation == "copies":
            with probe.stage("capture"):
                raw = (frame * 255).astype(np.uint8)
            for _ in range(20):
                raw = np.ascontiguousarray(raw[..., ::-1].astype(np.float64)).astype(np.uint8)
            frame = raw.astype(np.float32) / 255
        session.run(None, {name: frame})
finally:
    for rival in rivals:
        rival.kill()
for thread in others:
    thread.join()
