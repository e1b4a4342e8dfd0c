"""Events as plain data and back: types are checked, and what is not understood is kept as it came."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetop.session.engine_events import EngineMemory, ProfileBurst, QuadDone, QuadFigures, TurnsBegan
from edgetop.session.event_codec import data_of, decoded, sound_data
from edgetop.session.event_kinds import KINDS, PhaseBegan, Remark, SensorMissing, SessionOver, ToolSummary, UnknownEvent
from edgetop.session.events import Body
from edgetop.session.operators import ThreadUse
from edgetop.session.turns import Plan

SIDE = QuadFigures(9, 1, 5.0, 6.0, 7.0, 100.0, None, "1,2")
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
KEYS = sorted({field.name for of in KINDS.values() for field in dataclasses.fields(of)})


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (PhaseBegan("first"), {"phase": "first"}),
        (PhaseBegan("idle", duration_ns=5), {"phase": "idle", "duration_ns": 5}),
        (PhaseBegan("warmup", 3), {"phase": "warmup", "runs": 3}),
        (PhaseBegan("measure"), {"phase": "measure", "runs": None, "duration_ns": None}),
        (Remark("mark"), {}),
        (SensorMissing(), {"fix": None}),
        (EngineMemory("model", 57.5, 26.0), {"stage": "model", "rss_mib": 57.5, "anon_mib": 26.0}),
        (
            SessionOver("ended", "runs", 7, None, 3),
            {"reason": "runs", "last_end_ns": 7, "warmup_runs": None, "warmup_ns": 3},
        ),
        (TurnsBegan(Plan(1, 2, "ABBA")), {"begin_ns": 1, "turn_ns": 2, "order": "ABBA"}),
        (ToolSummary("trtexec", {"p50_ms": 1.5}), {"tool": "trtexec", "p50_ms": 1.5}),
        (
            QuadDone(0, "ABBA", alone=False, a=SIDE, b=SIDE, p50_ratio=1.0),
            {
                "quad": 0, "order": "ABBA", "alone": False,
                **{f"{side}_{key}": value for side in "ab" for key, value in dataclasses.asdict(SIDE).items()},
                "p50_ratio": 1.0,
            },
        ),
    ],
)  # fmt: skip
def test_an_event_is_written_with_the_keys_of_the_format_and_comes_back(body: Body, data: dict[str, Any]) -> None:
    assert list(data_of(body).items()) == list(data.items())
    back = decoded(body.kind, json.loads(json.dumps(data)))
    assert (back, back.kind) == (body, body.kind)
    assert data_of(back) == data


def test_the_threads_of_a_burst_have_keys_of_their_own() -> None:
    threads = ThreadUse(2, 100, 10, 1, "conv", 7)
    data = data_of(ProfileBurst(burst=3, threads=threads))
    assert {key: value for key, value in data.items() if key.startswith("thread_")} == threads.to_json()
    back = decoded("profile-burst", data)
    assert isinstance(back, ProfileBurst)
    assert back.threads == threads
    assert "thread_count" not in data_of(ProfileBurst())


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("unheard-of", {"a": [1, {"b": None}], "n": 2**70, "x": 1.0}),
        ("phase", {"phase": "cooling"}),
        ("phase", {}),
        ("phase", {"phase": "measure", "runs": "many"}),
        ("phase", {"phase": "measure", "runs": True}),
        ("profile-burst", {"duration_ns": 1.5}),
        ("profile-burst", {"duration_ns": 2**62}),
        ("profile-burst", {"thread_count": 2}),
        ("slow-inference", {"preempted": 1}),
        ("ab-turns", {"begin_ns": 1, "turn_ns": "2", "order": "ABBA"}),
        ("competing", {"name": None, "cpu_pct": 3}),
        ("gpu-competing", {"name": "blender", "gpu_pct": "all"}),
    ],
)
def test_what_is_not_known_or_does_not_fit_is_kept_as_it_came(kind: str, data: dict[str, Any]) -> None:
    body = decoded(kind, sound_data(data))
    assert body == UnknownEvent(kind, data)
    assert json.dumps(data_of(body)) == json.dumps(data)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("mark", {"weight": 3, "colour": [1, 2]}),
        ("phase", {"later": "x", "phase": "measure", "runs": 5}),
        ("ended", {"warmup_ns": 1, "reason": "runs", "why": {"a": 1}}),
        ("throttle-begin", {"sensor": "s", "cause": "thermal", "room_c": 21}),
    ],
)
def test_keys_of_a_later_version_survive_a_copy_and_a_change(kind: str, data: dict[str, Any]) -> None:
    body = decoded(kind, data)
    assert not isinstance(body, UnknownEvent)
    assert json.dumps(data_of(body)) == json.dumps(data)
    if isinstance(body, SessionOver):
        moved: Any = dataclasses.replace(body, warmup_ns=9)
        assert data_of(moved) == {**data, "warmup_ns": 9}


@given(st.sampled_from(sorted(KINDS)), st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), VALUES))
def test_any_data_of_any_kind_survives(kind: str, data: Mapping[str, Any]) -> None:
    sound = sound_data(dict(data))
    body = decoded(kind, sound)
    assert body.kind == kind
    assert json.dumps(data_of(body)) == json.dumps(sound)


def test_every_kind_of_a_class_is_its_own() -> None:
    for kind, of in KINDS.items():
        assert issubclass(of, Body)
        required = {field.name for field in dataclasses.fields(of)}
        assert "read_from" in required
        if "kind" not in required:
            assert vars(of)["kind"] == kind
