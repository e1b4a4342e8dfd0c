"""The shapes of all tensors of a TFLite model: `python child/__main__.py --tensor-shapes` prints them as JSON.

Some follow only from an inference, so one is made, by the runtime's own kernels: of tensors that a delegate took, an
interpreter has the shapes of the file. In a process of its own, so that the measured one stays as it is.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, Sequence

from .adapters import choose
from .errors import EngineError
from .shapes import bound


def main(argv: Sequence[str] = ()) -> int:  # noqa: ARG001  as the program has it
    """The spec comes on stdin, as the program's does by its control pipe. Exits with one line where it cannot be."""
    try:
        answer = tensor_shapes(json.loads(sys.stdin.readline()))
    except EngineError as error:
        sys.exit(error.message)
    print(json.dumps(answer))  # noqa: T201  this is what it is run for
    return 0


def tensor_shapes(spec: Dict[str, Any]) -> Dict[str, Any]:
    """{"runtime", "shapes": [[place in the file, shape], ...]}, with the inputs of `spec`. Raises EngineError."""
    adapter, _ = choose(spec["engine"], spec["format"])
    plain = dict(spec, threads=1, delegates=[], providers=[], profile_every_ns=0, xnnpack=False)
    infer = bound(adapter, plain)
    try:
        infer()
    except Exception as error:  # the runtime's own: any type it likes
        raise EngineError("first", str(error)) from None
    description = adapter.describe()
    return {"runtime": "%s %s" % (description["runtime"], description["version"]), "shapes": adapter.tensor_shapes()}
