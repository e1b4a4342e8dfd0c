"""The arena of a TFLite interpreter: the memory that it really takes for the tensors of its graph.

The interpreter does not report the size of its arena (tensorflow/lite/arena_planner.h). It only reports where each
tensor lies. So the arena is computed as the memory that the tensors cover, each byte counted once. Weights do not
count: they lie in the mapped file. A delegate, such as XNNPACK, places the tensors between its own operators itself,
and does not report its memory. With a delegate, the arena is how much the anonymous memory of the process grew while
tensors were allocated. That includes all that the delegate allocated, such as repacked weights.
"""

from __future__ import annotations

import bisect
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

MAPS = "/proc/self/maps"
TENSORS, GROWTH = "tensors", "growth"


def covered_bytes(spans: List[Tuple[int, int]]) -> int:
    """Return how many bytes the spans cover, each byte once. A span is (address, length).

    >>> covered_bytes([(100, 50), (120, 10), (140, 20), (300, 1)])
    61
    """
    covered = end = 0
    for address, length in sorted(spans):
        covered += max(0, address + length - max(address, end))
        end = max(end, address + length)
    return covered


def placed_bytes(interpreter: Any, maps: str = MAPS) -> Optional[int]:
    """Return how many bytes the tensors of the first graph cover outside of files, or None if that is unknown.

    Call it after the tensors were allocated, and only if no delegate runs a part of the model. `maps` is the path of
    the kernel's file of memory mappings.
    """
    try:
        with open(maps, encoding="utf-8", errors="replace") as lines:
            in_files = sorted(_file_spans(lines))
        spans = [span for span in (_span(interpreter, one) for one in interpreter.get_tensor_details()) if span]
    except Exception:  # a version without one of these calls, or no /proc
        return None
    begins = [begin for begin, _ in in_files]
    outside = [span for span in spans if not _is_within(span[0], in_files, begins)]
    if len(outside) == len(spans):  # the weights were copied into memory, too, and cannot be told from the rest
        return None
    return covered_bytes(outside)


def _file_spans(lines: Any) -> List[Tuple[int, int]]:
    """Return (begin, end) of each mapping of a file, from lines of /proc/PID/maps (proc(5))."""
    spans = []
    for line in lines:
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/"):
            begin, _, end = fields[0].partition("-")
            spans.append((int(begin, 16), int(end, 16)))
    return spans


def _is_within(address: int, spans: List[Tuple[int, int]], begins: List[int]) -> bool:
    place = bisect.bisect_right(begins, address) - 1
    return place >= 0 and address < spans[place][1]


def _span(interpreter: Any, detail: Dict[str, Any]) -> Optional[Tuple[int, int]]:
    """Return (address, length in bytes) of a tensor, or None if it has no memory or its elements are text.

    `detail` is the interpreter's description of the tensor. The interpreter crashes if it is asked for a tensor of text
    that has not been filled yet.
    """
    if not np.issubdtype(detail["dtype"], np.number) and detail["dtype"] is not np.bool_:
        return None
    try:
        array = interpreter.tensor(detail["index"])()  # must be gone before the next inference
        return int(array.ctypes.data), int(array.nbytes)
    except ValueError:  # the graph does not use it, or its size is only known after an inference
        return None
