"""The sensors of a running session: how sources that replace others get into it, and limits that are not set."""

from edgetop.engines.spec import EngineSpec
from edgetop.runner.session_sensors import SessionSensors
from edgetop.runner.session_state import SessionState
from edgetop.sensors.sampler import Sampler
from edgetop.sensors.sensor_protocol import Change, Found, Reader, SensorEvent, sensor
from edgetop.session.event_kinds import Remark
from tests.support.clocks import ManualClock
from tests.support.sessions import make_manifest

HELD, LEFT = (sensor("mem", label, "here") for label in ("cgroup", "cgroup-left"))


def reader(value: float, *infos: object) -> Reader:
    return Reader(tuple(infos), lambda: [value] * len(infos))  # type: ignore[arg-type]


def test_sources_of_a_changed_cgroup_replace_those_of_the_last_one() -> None:
    clock = ManualClock()
    state = SessionState(make_manifest(), EngineSpec("m.onnx", "onnx"), clock)
    more = Found((reader(2.0, HELD), reader(3.0, LEFT)), unset=("pressure/cpu-quota",))
    changes = [Change(more, SensorEvent(Remark("cgroup-moved"), "moved"))]
    watches = (lambda: changes.pop() if changes else None,)
    found = Found((reader(1.0, HELD),), unset=(LEFT.id, "pressure/cpu-quota"), watches=watches)
    sampler = Sampler((), clock, 0)
    sensors = SessionSensors(sampler, Found(), lambda _: found, state)
    sensors.of_engine(1)
    assert [info.id for info in state.manifest.sensors] == [HELD.id]
    assert state.manifest.unset_limits == (LEFT.id, "pressure/cpu-quota")
    sensors.drain()
    assert [info.id for info in state.manifest.sensors] == [HELD.id, LEFT.id]
    assert state.manifest.unset_limits == ("pressure/cpu-quota",)
    assert [(event.body, event.message) for event in state.take_events()] == [(Remark("cgroup-moved"), "moved")]
    changes.append(Change(Found((reader(2.0, HELD), reader(3.0, LEFT)))))  # in a cgroup that cannot be read
    sensors.drain()
    assert state.manifest.unset_limits == ()
    changes.append(Change(Found((reader(2.0, HELD), reader(3.0, LEFT)), unset=("pressure/cpu-quota",))))  # back again
    sensors.drain()
    assert state.manifest.unset_limits == ()
    assert [entry.source.read() for entry in sampler._schedule.entries] == [[2.0], [3.0]]
