"""ncnn_calls.py MODEL OTHER: runs two models of one input `x`, the first with the outputs `y` and `z`, in ncnn.

It prints what it sees, as JSON: nothing of that depends on whether it is watched.
"""

import gc
import json
import sys
import threading
import weakref

import ncnn
import numpy as np

seen = {"status": []}


def loaded(path):
    net = ncnn.Net()
    seen["status"] += [net.load_param(path), net.load_model(path.replace(".param", ".bin"))]
    return net


def both(net):
    """One inference, of two outputs."""
    with net.create_extractor() as extractor:
        seen["status"].append(extractor.input("x", mat))
        return [np.array(extractor.extract(name)[1]).tolist() for name in ("y", "z")]


def one(net):
    """One inference, of which only one output is taken; that again is no further inference."""
    extractor = net.create_extractor()
    extractor.input(net.input_indexes()[0], mat)
    out = ncnn.Mat()
    seen["status"] += [extractor.extract("y", out), extractor.extract("y", out)]
    return np.array(out).tolist()


mat = ncnn.Mat(np.ones(8, np.float32)).clone()
first, second = loaded(sys.argv[1]), loaded(sys.argv[2])
results = [both(first) for _ in range(6)] + [one(first) for _ in range(5)] + [one(second) for _ in range(3)]
threads = [threading.Thread(target=one, args=(second,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

extractor = first.create_extractor()  # three inferences of one extractor
for _ in range(3):
    extractor.input("x", mat)
    results.append(np.array(extractor.extract("z")[1]).tolist())
extractor.clear()
failing = second.create_extractor()  # one that fails
failing.input("x", mat)
seen["missing"] = failing.extract("none")[0]
try:
    failing.extract(3.5, 4, 5)
except TypeError as error:
    seen["raised"] = str(error)[:60]
seen["results"] = results
weak = [weakref.ref(extractor), weakref.ref(first)]
del extractor, first
gc.collect()
seen["freed"] = [reference() is None for reference in weak]
seen["doc"] = ncnn.Extractor.extract.__doc__
print(json.dumps(seen))
