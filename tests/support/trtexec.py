"""Files as trtexec writes them: an object a line, numbers as C++ streams print floats, names as they are."""

import numpy as np

LAYERS = (
    ("Reformatting CopyNode for Input Tensor 0 to conv1 + relu1", 0.25),
    ("conv1 + relu1", 1.5),
    ("PWN(sigmoid)", 0.25),
)


def _number(value):
    return f"{np.float32(value):.6g}"


def _lines(objects):
    return "[\n  " + "\n, ".join(f"{{ {body} }}" for body in objects) + "\n]\n"


def _times(fields):
    return ", ".join(f'"{name}" : {_number(value)}' for name, value in fields)


def times(
    count=1000, *, compute_ms=2.0, h2d_ms=0.25, d2h_ms=0.125, begin_ms=200.0, every_ms=2.5, version=10, spread=0.0
):
    """Inferences that begin one after another; their computing takes from `compute_ms` to that and `spread`."""
    copies = ("In", "Out") if version < 8 else ("H2d", "D2h")
    objects = []
    for i in range(count):
        start = begin_ms + i * every_ms
        took = compute_ms + spread * i / count
        compute, end = start + h2d_ms, start + h2d_ms + took + d2h_ms
        enqueue, copy = (start - 0.5, start - 0.25), (start, start + h2d_ms)
        if version < 8:  # its mistake
            enqueue, copy = copy, enqueue
        fields = [
            ("startEnqMs", enqueue[0]), ("endEnqMs", enqueue[1]),
            (f"start{copies[0]}Ms", copy[0]), (f"end{copies[0]}Ms", copy[1]),
            ("startComputeMs", compute), ("endComputeMs", compute + took),
            (f"start{copies[1]}Ms", compute + took), (f"end{copies[1]}Ms", end),
            (f"{copies[0].lower()}Ms", h2d_ms), ("computeMs", took), (f"{copies[1].lower()}Ms", d2h_ms),
            ("latencyMs", h2d_ms + took + d2h_ms),
        ]  # fmt: skip
        objects.append(_times([*fields, ("endToEndMs", end - start)] if version < 8.4 else fields))
    return _lines(objects)


def profile(layers=LAYERS, *, count=400, version=10):
    """`layers`: names, and what each takes in one inference, in ms."""
    total = sum(ms for _, ms in layers) * count
    objects = [f'"count" : {count}']
    for name, ms in layers:
        fields = [("timeMs", ms * count), ("averageMs", ms), ("medianMs", ms), ("percentage", 100 * ms * count / total)]
        numbers = _times(field for field in fields if version >= 8.4 or field[0] != "medianMs")
        objects.append(f'"name" : "{name}", {numbers}')
    return _lines(objects)
