"""Sessions of a model whose operators draw known power, with readings that are means since the reading before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from edgetop.analysis.operator_energy import OperatorEnergies, PhasePower
from edgetop.analysis.operator_shares import OperatorView
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Manifest
from tests.support.sessions import make_inferences, make_manifest, make_readings, make_sensor

MS = 1e6  # in ns
TOTAL = "power/VDD_IN"


def metered(*, averages: bool | None = True, **load: object) -> Manifest:
    sensor = replace(make_sensor(TOTAL, role="total"), averages=averages)
    return make_manifest(sensor, load=Load(**load))  # type: ignore[arg-type]


@dataclass
class Metered:
    """A session; times in ms, power in W."""

    seed: int
    latency: float
    every: float  # From one reading to the next.
    minutes: float
    shares: Sequence[float]
    watts: Sequence[float]  # Of the operators.
    idle: float = 2.0
    period: float | None = None  # None: back to back.
    lag: float = 0.0  # By which share of `every` readings are older than their stamps.
    noise: float = 0.15
    jitter: float = 0.03
    share_error: float = 0.02  # Of the shares that are known from profiling rounds.
    drift: float = 0.0  # Amplitude of a slow change.

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        length = self.minutes * 60e3
        count = int(length / (self.period or self.latency)) + 1
        self.true_shares = np.array(self.shares, float) / sum(self.shares)
        self.lengths = self.latency * random.lognormal(0, self.jitter, count)
        ends = np.cumsum(self.lengths + 0.02)
        self.starts = np.arange(count) * self.period if self.period else np.concatenate([[0], ends[:-1]])
        at = np.cumsum(random.uniform(0.8, 1.2, int(length / self.every)) * self.every)
        self.at = at[at < length - 50]
        spent = np.diff(self._spent(self.at - self.lag * self.every), axis=0) / np.diff(self.at)[:, np.newaxis]
        watts = spent @ np.array(self.watts, float) + self.idle * (1 - spent.sum(axis=1))
        self.values = watts + random.normal(0, self.noise, len(watts)) + self.drift * np.sin(self.at[1:] / 60e3)
        known = self.true_shares * random.lognormal(0, self.share_error, len(self.true_shares))
        self.operators = [
            OperatorView(
                place, f"op{place}", "Conv", "CPU", 1.0, float(share), None,
                share_ci95=tuple(float(share * (1 + side * 1.96 * self.share_error)) for side in (-1, 1)),  # type: ignore[arg-type]
            )
            for place, share in enumerate(known / known.sum())
        ]  # fmt: skip

    def _spent(self, at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """How long each operator has run up to these times, shape (times, operators)."""
        borders = np.concatenate([[0], np.cumsum(self.true_shares)])
        edges = self.starts[:, np.newaxis] + self.lengths[:, np.newaxis] * borders
        columns = []
        for place in range(len(self.true_shares)):
            begins, ends = edges[:, place], edges[:, place + 1]
            done = np.cumsum(ends - begins)
            times, values = np.stack([begins, ends], 1).ravel(), np.stack([done - (ends - begins), done], 1).ravel()
            columns.append(np.interp(at, times, values))
        return np.stack(columns, 1)

    @property
    def true_mj(self) -> npt.NDArray[np.float64]:
        """Energy of each operator in an inference of mean length."""
        return np.asarray(np.array(self.watts) * self.true_shares * self.lengths.mean())

    def batches(self, manifest: Manifest, events: Sequence[Event] = ()) -> Iterator[Batch]:
        until = 0.0
        while until < self.minutes * 60e3:
            since, until = until, until + 5_000.0
            runs = (self.starts >= since) & (self.starts < until)
            reads = (self.at[1:] >= since) & (self.at[1:] < until)
            rows = zip(self.at[1:][reads].tolist(), self.values[reads].tolist(), strict=True)
            yield Batch(
                int(until * MS),
                make_inferences((self.starts[runs] * MS).astype(np.int64), (self.lengths[runs] * MS).astype(np.int64)),
                readings=make_readings(*((int(t * MS), 0, value) for t, value in rows)),
                events=tuple(event for event in events if since <= event.t_ns / MS < until),
                manifest=manifest if since == 0 else None,
            )

    def result(self, events: Sequence[Event] = (), manifest: Manifest | None = None) -> OperatorEnergies:
        fold = PhasePower()
        for batch in self.batches(manifest or metered(), events):
            fold.fold(batch)
        return fold.view(self.operators)
