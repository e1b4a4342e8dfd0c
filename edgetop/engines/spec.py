"""The specification of an engine: all that it needs, as plain JSON values."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edgetop.engines.child.adapters import RUNTIMES
from edgetop.errors import InputError
from edgetop.nearest import nearest_hint

DEFAULT_WARMUP_RUNS = 50


@dataclass(frozen=True, slots=True)
class EngineSpec:
    model: str  # path
    format: str  # "onnx" or "tflite"
    engine: str = "auto"  # a name of the registry, or "auto"
    threads: int = 0  # 0: the runtime's default
    batch: int | None = None
    providers: tuple[tuple[str, Mapping[str, str]], ...] = ()  # name, options
    delegates: tuple[tuple[str, Mapping[str, str]], ...] = ()  # path, options
    xnnpack: bool = True  # False: a TFLite runtime goes without its default delegate
    whole: bool = False  # the requested providers run all of the model, or the engine refuses it where it can see that
    inputs: Mapping[str, str] = field(default_factory=dict)  # input name, or "" for all: source
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seed: int = 0
    idle_ns: int = 0  # rest after the first inference, for what the board draws when idle; 0: none
    warmup_runs: int = DEFAULT_WARMUP_RUNS
    warmup_ns: int = 0
    warmup_until_steady: bool = False
    runs: int | None = None  # None: no limit
    duration_ns: int | None = None  # of the measured phase; None: no limit
    profile_every_ns: int = 0  # between bursts of instrumented inferences; 0: none
    rate_hz: float | None = None  # of each stream; None: the next when the one before is done
    arrivals: str = "fixed"  # or "poisson", or "replayed"
    starts_ns: tuple[int, ...] = ()  # replayed in a loop: ascending from 0; the last is the loop's length
    streams: int = 1  # at once
    delay_ns: int = 0  # after each inference, without a rate
    duty_ns: tuple[int, int] | None = None  # work and rest, in turn
    in_turns: bool = False  # with another engine, at times that it is given (engines/turn_engine.py)
    cpus: tuple[int, ...] = ()  # pin the engine there; empty: anywhere
    keep_outputs: int = 0  # of so many inferences before the warm-up
    outputs_file: str = ""  # where to
    end_note: str = ""  # where the engine notes how far it came, if its conductor dies; "": nowhere
    virtual_board: str | None = None  # path of the page of one that it runs on (child/board_page.py)

    @property
    def requested(self) -> tuple[str, ...]:
        """The requested providers, or paths of delegates, first choice first."""
        return tuple(name for name, _ in (*self.providers, *self.delegates))

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return fields


ALIASES = {"onnx": "onnxruntime", "ort": "onnxruntime", "ai-edge-litert": "litert", "tflite_runtime": "tflite-runtime"}


def engine_for(name: str | None, model_format: str) -> str:
    """The engine's canonical name, or "auto". Raises InputError for an unknown or unfit one."""
    if name is None or name in ("auto", model_format):
        return "auto"
    canonical = ALIASES.get(name.lower(), name.lower())
    if canonical not in RUNTIMES:
        raise InputError(f"--engine {name}: unknown", nearest_hint(canonical, RUNTIMES))
    if RUNTIMES[canonical][0] != model_format:
        fitting = ", ".join(engine for engine, runtime in RUNTIMES.items() if runtime[0] == model_format)
        raise InputError(f"--engine {name} does not run {model_format} models", f"use {fitting}")
    return canonical
