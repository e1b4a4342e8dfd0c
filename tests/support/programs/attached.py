"""Runs two sessions of MODEL until its input ends, one of which raises now and then: a program that is there already.

`fork` and `exec` on its input have it do just that. It appends a line for each call to LOG: process, session, begin and
end in ns; end 0 where it raised.
"""

import os
import select
import sys
import time

import numpy as np

model, log = sys.argv[1:3]
out = open(log, "a", buffering=1, encoding="ascii")  # noqa: PTH123, SIM115
if model.endswith(".onnx"):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = [onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]) for _ in range(2)]
    shapes = {one.name: [d if isinstance(d, int) else 1 for d in one.shape] for one in sessions[0].get_inputs()}
    good = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    bad = {name: np.zeros((1, 2, 3, 4, 5, 6), np.float32) for name in shapes}
    runs = [lambda values, session=session: session.run(None, values) for session in sessions]
else:
    from ai_edge_litert.interpreter import Interpreter

    interpreters = [Interpreter(model, num_threads=1) for _ in range(2)]
    good = bad = None
    for one in interpreters:
        one.allocate_tensors()
    runs = [lambda _, one=one: one.invoke() for one in interpreters]


def call(number, values):
    begin = time.monotonic_ns()
    try:
        runs[number](values)
        end = time.monotonic_ns()
    except Exception:  # noqa: BLE001
        end = 0
    out.write(f"{os.getpid()} {number} {begin} {end}\n")


def turn():
    call(0, good)
    call(0, good)
    call(1, good)
    call(1, bad)
    time.sleep(0.005)


while True:
    turn()
    if select.select([0], [], [], 0)[0]:
        order = os.read(0, 5).decode().strip()
        if order == "fork":
            if os.fork() == 0:
                for _ in range(5):
                    turn()
                os._exit(0)
            os.wait()
            out.write("forked\n")
        elif order == "exec":
            os.execv(sys.executable, [sys.executable, *sys.argv])
        else:
            break
