"""openvino_calls.py MODEL OTHER: runs two models of one input `x` in every way of OpenVINO's Python API.

It prints what it sees, as JSON: nothing of that depends on whether it is watched.
"""

import gc
import inspect
import json
import sys
import threading
import weakref

import numpy as np
import openvino as ov

seen = {}


class Request(ov.InferRequest):
    """A program may have a class of its own."""

    def infer(self, inputs=None, **options):
        seen["own"] = seen.get("own", 0) + 1
        return super().infer(inputs, **options)


def error_of(call):
    try:
        call()
    except Exception as error:  # noqa: BLE001
        frames, trace = [], error.__traceback__
        while trace:
            frames.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        return type(error).__name__, str(error), error.__context__ is None, frames[-1] != "timed"
    return None


x = np.ones((1, 8), np.float32)
core = ov.Core()
first = core.compile_model(core.read_model(sys.argv[1]), "CPU")
second = ov.compile_model(sys.argv[2], "CPU")

# 3 calls of the first model, and 2 by new requests
results = [first(x)[0], first([x])[0], first({"x": x}, share_outputs=True)[0]]
results += [first.infer_new_request({0: x})[0], first.infer_new_request({first.input(0): x})[0]]

# 5 by one request, of which 1 fails; 4 by the program's own class
request = first.create_infer_request()
results += [request.infer({"x": x}, share_inputs=True)[0] for _ in range(4)]
seen["unknown input"] = error_of(lambda request=request: request.infer({"none": x}))
own = Request(first.create_infer_request())
results += [own.infer(x)[0] for _ in range(4)]

# 6 asynchronous ones: 3 with `wait`, 2 with `wait_for`, 1 that the next start ends
latencies = []
for _ in range(3):
    request.start_async(x)
    seen["waited"] = request.wait()
    latencies.append(request.latency)
for _ in range(2):
    request.start_async({"x": x}, userdata="mine")
    while not request.wait_for(1000):
        pass
    latencies.append(request.latency)
request.start_async(x)
while True:  # it has ended, but the program never waits
    try:
        results.append(request.results[0])
        break
    except RuntimeError:
        pass
request.start_async(x)
request.wait()
seen["latencies"] = all(0 < latency < 60_000 for latency in latencies)

# 5 of the second model with a callback, started by two threads
called = []
requests = [second.create_infer_request() for _ in range(2)]
for number, each in enumerate(requests):
    each.set_callback(called.append, ["data", number])


def work(each, count):
    for _ in range(count):
        each.start_async(x)
        each.wait()


threads = [threading.Thread(target=work, args=(each, count)) for each, count in zip(requests, (2, 3), strict=True)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
seen["called back"] = sorted(map(str, called))

# 8 of the second model by a queue without, 7 by one with a callback
plain, calling, got = ov.AsyncInferQueue(second, 2), ov.AsyncInferQueue(second, jobs=3), []
for number in range(8):
    plain.start_async(x, number)
plain.wait_all()
results += [plain[0].get_output_tensor(0).data.copy(), plain[1].get_output_tensor(0).data.copy()]
calling.set_callback(lambda request, userdata: got.append((userdata, request.get_output_tensor(0).data.tolist())))
for number in range(7):
    calling.start_async(inputs={0: x}, userdata=number)
calling.wait_all()
seen["queue"] = sorted(got)

seen["results"] = [array.tolist() for array in results]
functions = (ov.Core.compile_model, ov.InferRequest.infer, ov.InferRequest.start_async, ov.AsyncInferQueue.start_async)
seen["signatures"] = [str(inspect.signature(each)) for each in functions]
seen["no signature"] = [error_of(lambda each=each: inspect.signature(each))[0] for each in (ov.InferRequest.wait,)]
seen["documented"] = [ov.InferRequest.wait.__doc__, ov.AsyncInferQueue.wait_all.__doc__, ov.InferRequest.infer.__name__]
weak = [weakref.ref(each) for each in (request, requests[0], calling)]
del request, requests, calling, each, work, threads, thread
gc.collect()
seen["freed"] = [reference() is None for reference in weak]
print(json.dumps(seen))
