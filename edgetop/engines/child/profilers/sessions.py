"""The engine's session once more, in a helper process: the same model, options, shapes and inputs."""

from __future__ import annotations

from typing import Any, Callable, Dict


def bound(adapter: Any, spec: Dict[str, Any], opened: Callable[[], None] = lambda: None) -> Any:
    """The call that runs the model with the inputs that the engine begins with.

    `opened` is called when there is an interpreter or a session, and nothing is allocated yet.
    """
    from ..inputs import make_inputs  # noqa: PLC0415
    from ..shapes import resolve_shapes  # noqa: PLC0415

    adapter.open(spec)
    opened()
    shapes, _ = resolve_shapes(adapter.inputs, spec["shapes"], spec["batch"], spec["inputs"])
    adapter.reshape(shapes)
    return adapter.bind(make_inputs(adapter.inputs, shapes, spec["inputs"], spec["seed"]).first())
