"""Running an engine from a test: everything it said, in order, until it is over."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from edgetop.engines.child.message_frames import FrameReader
from edgetop.engines.decode import InOrder, decode
from edgetop.engines.engine_protocol import BurstTaken, Died, Ended, Engine, Failed, LogLine, Message
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spawn import CHILD
from edgetop.engines.spec import EngineSpec
from edgetop.session.records import NO_INFERENCES, PHASES, Inferences
from tests.support import batch_program
from tests.support.waiting import wait_until

M = TypeVar("M", bound=Message)


@dataclass
class Heard:
    """What came from an engine so far."""

    messages: list[Message] = field(default_factory=list)
    batches: list[Inferences] = field(default_factory=list)

    def listen(self, engine: Engine) -> bool:
        """Poll once; whether the engine is over."""
        update = engine.poll()
        self.messages.extend(update.messages)
        if len(update.records):
            self.batches.append(update.records)
        return self.is_over

    @property
    def is_over(self) -> bool:
        return any(isinstance(message, Ended | Failed | Died) for message in self.messages)

    @property
    def records(self) -> Inferences:
        return np.concatenate(self.batches) if self.batches else NO_INFERENCES

    def in_phase(self, phase: str) -> Inferences:
        records = self.records
        chosen: Inferences = records[records["phase"] == PHASES.index(phase)]
        return chosen

    def all(self, kind: type[M]) -> list[M]:
        return [message for message in self.messages if isinstance(message, kind)]

    def one(self, kind: type[M]) -> M:
        """The only message of its kind."""
        found = self.all(kind)
        assert len(found) == 1, self.messages
        return found[0]

    @property
    def said(self) -> list[Message]:
        """The messages without what the runtime prints."""
        return [message for message in self.messages if not isinstance(message, LogLine)]


def hear_out(engine: Engine, heard: Heard | None = None) -> Heard:
    """Listen to a started engine until it is over."""
    heard = heard or Heard()
    wait_until(lambda: heard.listen(engine))
    return heard


def run_whole(engine: Engine) -> Heard:
    """Start it, hear it out and close it."""
    try:
        engine.start()
        return hear_out(engine)
    finally:
        engine.close()


def run_until_a_burst(spec: EngineSpec) -> Heard:
    """Run the engine until a burst of instrumented inferences has come, then stop it, and return what it said.

    No duration bounds the run, since a slow first burst postpones the next one.
    """
    engine = ProcessEngine(spec)
    try:
        engine.start()
        heard = hear_until_measuring(engine)
        take_burst(engine, heard)
        engine.stop()
        return hear_out(engine, heard)
    finally:
        engine.close()


def hear_batch(python: str, specs: Mapping[str, EngineSpec]) -> Iterator[tuple[str, Heard]]:
    """What the engine's program says of each spec, all in one process of that interpreter."""
    command = [python, "-I", batch_program.__file__, str(CHILD.parent)]
    lines = "".join(json.dumps(spec.to_json()) + "\n" for spec in specs.values()).encode()
    done = subprocess.run(command, input=lines, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    pairs: list[tuple[int, bytes]] = []
    asked = iter(specs.items())
    for kind, payload in FrameReader().feed(done.stdout):
        if kind == batch_program.END:
            name, spec = next(asked)
            update = InOrder(spec.streams).release(decode(pairs))
            yield name, Heard(list(update.messages), [update.records])
            pairs = []
        else:
            pairs.append((kind, payload))


def hear_until_measuring(engine: Engine) -> Heard:
    """Listen until an inference of the measured phase has come."""
    heard = Heard()
    wait_until(lambda: heard.listen(engine) or len(heard.in_phase("measure")))
    assert not heard.is_over, heard.messages
    return heard


def take_burst(engine: Engine, heard: Heard) -> None:
    """Ask for a burst and listen until it has come."""
    had = len(heard.all(BurstTaken))
    engine.profile()
    wait_until(lambda: heard.listen(engine) or len(heard.all(BurstTaken)) > had)
    assert not heard.is_over, heard.messages


def hear_more(engine: Engine, heard: Heard) -> None:
    """Listen until another inference has come: it goes on."""
    records = len(heard.records)
    wait_until(lambda: heard.listen(engine) or len(heard.records) > records)
    assert not heard.is_over, heard.messages


def spec_for(model: Path, **options: Any) -> EngineSpec:
    """What to ask of an engine: few warm-up runs and, where nothing else is said, a handful of measured ones."""
    fields: dict[str, Any] = {"warmup_runs": 2, "runs": 5, **options}
    formats = {".onnx": "onnx", ".tflite": "tflite", ".param": "ncnn", ".xml": "openvino"}
    return EngineSpec(str(model), formats[model.suffix], **fields)
