"""What the runtime knows of a model's shapes and its file does not say."""

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from edgetop.engines.process import CHILD
from edgetop.engines.spec import EngineSpec

if TYPE_CHECKING:
    from edgetop.models.inspection import RuntimeShapes

TIMEOUT_S = 300.0  # a cold start and an inference without any delegate, on a slow board that others keep busy


def measure_shapes(spec: EngineSpec, python: str | None = None, timeout_s: float = TIMEOUT_S) -> "RuntimeShapes | None":
    """The shape of each tensor, after one inference in a process of its own. None where the runtime cannot tell.

    `python`: the interpreter that has the runtime; edgetop's own by default. The process has the niceness of the thread
    that asks: beside an engine that is measured, the lowest priority.
    """
    from edgetop.models.inspection import RuntimeShapes  # noqa: PLC0415  a run imports it off its main thread

    try:
        done = subprocess.run(  # noqa: S603  the user's own interpreter and our own file
            [python or sys.executable, str(CHILD), "--tensor-shapes"],
            input=json.dumps(spec.to_json()) + "\n",
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        answer = json.loads(done.stdout.splitlines()[-1])  # what a runtime prints comes before
        shapes = {int(place): tuple(int(size) for size in shape) for place, shape in answer["shapes"]}
        return RuntimeShapes(str(answer["runtime"]), shapes)
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        return None  # without it there is what the file says, and what is not known is said to be so
