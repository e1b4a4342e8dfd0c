"""The yardstick: the same timed call in the plainest loop there is. Run as a script.

python bare_loop.py MODEL.onnx SECONDS THREADS OUT.npy
"""

import gc
import sys
import time

import numpy as np
import onnxruntime


def main() -> None:
    model, seconds, threads, out = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    rng = np.random.RandomState(0)
    feeds = {node.name: rng.random_sample(node.shape).astype(np.float32) for node in session.get_inputs()}
    for _ in range(50):
        session.run(None, feeds)
    gc.disable()
    latencies = np.zeros(10_000_000, np.int64)
    run, now, count = session.run, time.perf_counter_ns, 0
    until = now() + int(seconds * 1e9)
    while True:
        begin = now()
        run(None, feeds)
        end = now()
        latencies[count] = end - begin
        count += 1
        if end >= until:
            break
    np.save(out, latencies[:count])


if __name__ == "__main__":
    main()
