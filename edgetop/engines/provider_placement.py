"""Ask ONNX Runtime which provider would run which operators of a model, and why not the requested one.

Another process loads the model and ends without an inference.
"""

import json
import subprocess
import sys
from collections.abc import Mapping

from edgetop.engines.decode import fallback_of
from edgetop.engines.spawn import CHILD
from edgetop.engines.spec import EngineSpec
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.session.engine_events import FallbackReasons

TIMEOUT_S = 600.0  # some providers compile the whole model for their device while it is loaded
MOST_TYPES = 10_000


@frozen
class Placement:
    """Which provider takes which operators of a model. No inference has run."""

    runtime: str  # with its version, such as "onnxruntime 1.32.0"
    operators: Mapping[str, Mapping[str, int]]  # number of operators by provider and type
    why: FallbackReasons  # why a provider was left out, and why operators are not on the requested provider


def placement(spec: EngineSpec, python: str | None = None, timeout_s: float = TIMEOUT_S) -> Placement:
    """Load the model of `spec` with its providers in another process, and return which provider takes which operators.

    `python` is the path of an interpreter that has ONNX Runtime, by default edgetop's own. Raises InputError if the
    model cannot be loaded there within `timeout_s` seconds.
    """
    try:
        done = subprocess.run(  # noqa: S603  the user's interpreter and edgetop's own file
            [python or sys.executable, str(CHILD), "--placement"],
            input=json.dumps(spec.to_json()) + "\n",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{spec.model}: is not loaded after {timeout_s:g} s") from None
    except OSError as error:
        raise InputError(f"--engine-python {python}: cannot be run: {error.strerror or error}") from None
    try:
        answer = json.loads(done.stdout.splitlines()[-1])  # lines before it may come from the runtime
        operators = {
            str(provider): {str(kind): int(count) for kind, count in list(types.items())[:MOST_TYPES]}
            for provider, types in answer["operators"].items()
        }
        why = fallback_of({"reasons": answer["reasons"], "left_out": answer["left_out"]})
        return Placement(f"{answer['runtime']} {answer['version']}", operators, why or FallbackReasons())
    except (ValueError, LookupError, TypeError, AttributeError):
        words = done.stderr.strip().splitlines()
        raise InputError(words[-1] if words else f"the runtime ended with status {done.returncode}") from None
