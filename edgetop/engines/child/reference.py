"""The shapes of all tensors of a TFLite model: `python child/__main__.py --tensor-shapes` prints them as JSON.

Some follow from nothing but an inference, which is made once, by the runtime's own kernels: what a delegate took,
an interpreter tells as the file has it. In a process of its own, that ends with it; the measured one stays as it is.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, Sequence

from .adapters import choose
from .errors import EngineError
from .shapes import bound

NICENESS = 19


def main(argv: Sequence[str] = ()) -> int:  # noqa: ARG001  as the program has it
    """The spec comes on stdin, as the program's does by its control pipe. Exits with one line where it cannot be."""
    os.nice(NICENESS)
    try:
        answer = tensor_shapes(json.loads(sys.stdin.readline()))
    except EngineError as error:
        sys.exit(error.message)
    print(json.dumps(answer))  # noqa: T201  this is what it is run for
    return 0


def tensor_shapes(spec: Dict[str, Any]) -> Dict[str, Any]:
    """{"runtime", "shapes": [[place in the file, shape], ...]}, with the inputs of `spec`. Raises EngineError."""
    adapter, _ = choose(spec["engine"], spec["format"])
    infer = bound(adapter, dict(spec, delegates=[], providers=[], profile_every_ns=0, xnnpack=False))
    try:
        infer()
    except Exception as error:  # the runtime's own: any type it likes
        raise EngineError("first", str(error)) from None
    told = adapter.describe()
    return {"runtime": "%s %s" % (told["runtime"], told["version"]), "shapes": adapter.tensor_shapes()}
