"""A program that is slower than a loop over its model, for one reason: slower SITUATION MODEL SECONDS."""

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnxruntime

from edgetop.probe import probe

LARGER = {"shapes": (1, 4, 1, 1, 6), "larger": (4,)}  # inputs in turn, as multiples of the loop's
situation, model, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
if situation == "memory":  # what the page cache holds of the weights counts where it was read
    options.add_session_config_entry("session.disable_prepacking", "1")
    with Path(model).with_suffix(".bin").open("rb") as weights:
        os.fsync(weights.fileno())
        os.posix_fadvise(weights.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
elif situation == "unknown":
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model, options)
(name,) = (one.name for one in session.get_inputs())
shape = [size if isinstance(size, int) else 1 for size in session.get_inputs()[0].shape]
if situation in LARGER:
    shape = [1, 3, 224, 224]
frame = np.random.default_rng(1).random(shape, np.float32)
frames = [np.concatenate([frame] * times, axis=-1) for times in LARGER.get(situation, (1,))]
until = time.monotonic() + seconds


def spin():
    while time.monotonic() < until:
        sum(range(1_000))


def loop():
    own = onnxruntime.InferenceSession(model, options)
    while time.monotonic() < until:
        own.run(None, {name: frame})


others = {"threads": [loop] * 7, "gil": [spin]}.get(situation, [])
threads = [threading.Thread(target=other) for other in others]
for thread in threads:
    thread.start()
count = 0
while time.monotonic() < until:
    if situation == "copies":
        with probe.stage("capture"):
            raw = (frame * 255).astype(np.uint8)
        for _ in range(20):
            raw = np.ascontiguousarray(raw[..., ::-1].astype(np.float64)).astype(np.uint8)
        frames = [raw.astype(np.float32) / 255]
    session.run(None, {name: frames[count % len(frames)]})
    count += 1
for thread in threads:
    thread.join()
