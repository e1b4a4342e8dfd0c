"""The manifest of a session that has just begun."""

from edgetop.session.clock import Clock, anchor, format_utc
from edgetop.session.manifest import Board, ClockInfo, EngineInfo, Load, Manifest, Model, SensorInfo


def begun(
    clock: Clock, *, load: Load | None = None, sensors: tuple[SensorInfo, ...] = (), name: str = "test"
) -> Manifest:
    origin = clock.monotonic_ns()
    return Manifest(
        format_version=1,
        id="0b5f6f3e-8f0e-4c57-9f3c-6f5a4f1f2a31",
        name=name,
        state="live",
        edgetop_version="0.0.0",
        created_utc=format_utc(clock.utc()),
        clock=ClockInfo(origin, "boot", (anchor(clock, origin),)),
        board=Board(),
        model=Model("model.onnx"),
        engine=EngineInfo(),
        load=load or Load(),
        sensors=sensors,
    )
