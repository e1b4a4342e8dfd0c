"""A program that makes RUNS inferences of MODEL back to back, and prints the p50 and p99 of its own times in us."""

import sys
import time

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
shapes = {one.name: [d if isinstance(d, int) else 1 for d in one.shape] for one in session.get_inputs()}
inputs = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
took = []
for _ in range(int(sys.argv[2])):
    begin = time.monotonic_ns()
    session.run(None, inputs)
    took.append((time.monotonic_ns() - begin) / 1e3)
took = took[len(took) // 10 :]
print("own", *np.percentile(took, [50, 99]))
