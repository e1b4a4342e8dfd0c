"""A plain loop that makes the same timed call as the engine. It shows how much edgetop slows inferences down.

It runs as a script, in a separate process: bare_loop.py MODEL SECONDS THREADS OUT.npy
"""

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

MAX_INFERENCES = 10_000_000
WARMUP_RUNS = 50


def onnx_call(model: str, threads: int) -> Callable[[], Any]:
    """Return a function that runs an ONNX model once on the CPU. `model` is the file's path."""
    import onnxruntime  # noqa: PLC0415  only one of the runtimes may be there

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    rng = np.random.RandomState(0)
    feeds = {node.name: rng.random_sample(node.shape).astype(np.float32) for node in session.get_inputs()}
    return lambda: session.run(None, feeds)


def tflite_call(model: str, threads: int) -> Callable[[], Any]:
    """Return a function that runs a TFLite model once, on LiteRT or else on tflite-runtime.

    `model` is the file's path.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415
    except ImportError:
        from tflite_runtime.interpreter import Interpreter  # noqa: PLC0415

    interpreter = Interpreter(model_path=model, num_threads=threads)
    interpreter.allocate_tensors()
    rng = np.random.RandomState(0)
    for tensor in interpreter.get_input_details():
        interpreter.set_tensor(tensor["index"], rng.random_sample(tensor["shape"]).astype(np.float32))
    call: Callable[[], Any] = interpreter.invoke
    return call


def openvino_call(model: str, threads: int) -> Callable[[], Any]:
    """Return a function that runs a model once in OpenVINO on the CPU. `model` is the path of an IR."""
    import openvino  # noqa: PLC0415

    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    request = openvino.Core().compile_model(model, "CPU", config).create_infer_request()
    rng = np.random.RandomState(0)
    arrays = [rng.random_sample(tuple(one.shape)).astype(one.element_type.to_dtype()) for one in request.model_inputs]
    tensors = [openvino.Tensor(array, shared_memory=True) for array in arrays]
    for place, tensor in enumerate(tensors):
        request.set_input_tensor(place, tensor)
    return lambda: (request.infer(share_outputs=True), tensors)[0]


def ncnn_call(model: str, threads: int) -> Callable[[], Any]:
    """Return a function that runs a model once in ncnn.

    `model` is the path of a param file that gives the input shapes in full.
    """
    import ncnn  # noqa: PLC0415

    net = ncnn.Net()
    net.opt.num_threads = threads
    net.load_param(model)
    net.load_model(model[: -len(".param")] + ".bin")
    shapes = {}
    with open(model, encoding="utf-8") as file:  # noqa: PTH123
        for fields in (line.split() for line in file if line.startswith("Input")):
            sizes = dict(pair.split("=") for pair in fields[5:])
            shapes[fields[4]] = [int(sizes[key]) for key in ("2", "1", "0") if key in sizes]
    rng = np.random.RandomState(0)
    mats = {name: ncnn.Mat(rng.random_sample(shape).astype(np.float32)).clone() for name, shape in shapes.items()}
    names = net.output_names()

    def infer() -> list[Any]:
        with net.create_extractor() as extractor:
            for name, mat in mats.items():
                extractor.input(name, mat)
            return [extractor.extract(name)[1] for name in names]

    return infer


CALLS = {".tflite": tflite_call, ".xml": openvino_call, ".param": ncnn_call}


def main() -> None:
    model, seconds, threads, out = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    run = CALLS.get(os.path.splitext(model)[1], onnx_call)(model, threads)  # noqa: PTH122
    for _ in range(WARMUP_RUNS):
        run()
    gc.disable()
    latencies = np.zeros(MAX_INFERENCES, np.int64)
    now, count = time.perf_counter_ns, 0
    until = now() + int(seconds * 1e9)
    while count < MAX_INFERENCES:
        begin = now()
        run()
        end = now()
        latencies[count] = end - begin
        count += 1
        if end >= until:
            break
    np.save(out, latencies[:count])


if __name__ == "__main__":
    main()
