"""Reports how large the inputs of some inferences were, if the inputs of `edgetop run` differ in size.

The inferences are chosen at random. The engine reports the input sizes of one cycle of its inputs. The engine's records
come in the order of the inferences, so the position of a record in the cycle gives the size of its input. For a
language model, the length of a prompt is reported with the time of its prefill.
"""

from dataclasses import replace

import numpy as np

from edgetop.engines.engine_protocol import Engine, EngineUpdate, Loaded, Message, RecordsLost, Sampled
from edgetop.session.distinct import distinct
from edgetop.session.records import MEASURE
from edgetop.session.sized_calls import PREFILL, SizedCalls

MOST_A_STEP = 24  # sampled calls; steps of the conductor are longer than those for a watched program by as much


class SizedInputs:
    """Wraps an engine, and reports the input sizes of some of its inferences as samples, if inputs differ in size."""

    def __init__(self, engine: Engine) -> None:
        self.isolation = engine.isolation
        self._engine = engine
        self._cycle = np.empty(0)  # elements of each input of a cycle; empty if all have one size, or if unknown
        self._counts = np.zeros(256, np.int64)  # records so far, by stream of the engine
        self._calls = SizedCalls()
        self.start, self.stop, self.profile, self.close = engine.start, engine.stop, engine.profile, engine.close

    def poll(self) -> EngineUpdate:
        update = self._engine.poll()
        for message in update.messages:
            match message:
                case Loaded():
                    self._cycle = np.array(message.input_elements, np.float64)
                case RecordsLost():  # From here on, the number of a record is unknown.
                    self._cycle = np.empty(0)
        if len(update.tokens):
            update = replace(update, messages=(*self._prompts(update), *update.messages))
        if not len(self._cycle) or not len(update.records):
            return update
        return replace(update, messages=(*self._samples(update), *update.messages))

    def _prompts(self, update: EngineUpdate) -> list[Message]:
        """Return samples of the length and the prefill time of a language model's prompts in `update`."""
        ended = update.tokens[update.tokens["is_prompt"] & (update.tokens["phase"] == MEASURE)]
        lengths = ended["position"].astype(np.float64)
        samples = self._calls.sample(PREFILL, ended["t_ns"], ended["gap_ns"], lengths, MOST_A_STEP)
        return [Sampled(sensor, tuple(values)) for sensor, values in samples.items()]

    def _samples(self, update: EngineUpdate) -> list[Message]:
        records = update.records
        number = np.empty(len(records), np.int64)
        for stream in distinct(records["stream"]).tolist():
            own = records["stream"] == stream
            number[own] = self._counts[stream] + np.arange(np.count_nonzero(own))
            self._counts[stream] += np.count_nonzero(own)
        is_used = (records["phase"] == MEASURE) & records["ok"]
        elements = self._cycle[number[is_used] % len(self._cycle)]
        used = records[is_used]
        # All streams of an engine run one model, so their calls are those of stream 0.
        samples = self._calls.sample(0, used["t_ns"], used["latency_ns"], elements, MOST_A_STEP)
        return [Sampled(sensor, tuple(values)) for sensor, values in samples.items()]
