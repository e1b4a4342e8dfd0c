"""The energy of one token of a prompt, and of one generated token.

The readings of the board's total power say how much the board draws in each second. The tokens say how the second was
divided into processing prompts, generating, and the rest. The power of each activity is the least-squares solution of

    power = prefill_w * share of prefill + decode_w * share of decode + rest_w * share of the rest

over all seconds. Activities that are shorter than the interval of the readings can be told apart if their shares differ
from second to second. Otherwise the error is large, and there is no figure.

The processing of a prompt ends with the first token of the answer. It is taken to fill the part of that second in which
no tokens were generated and, if it takes longer, the same part of each second before.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgetop.analysis.energy import WIDEST
from edgetop.analysis.tracks import LATE_S
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import NS

# Number of seconds from which a token has an energy. Choice: three unknowns, with some readings each. Larger: short
# sessions have no figure; smaller: the stated error is itself rough.
LEAST_SECONDS = 20
# Total time of prompts, or of generating, from which its tokens have an energy. Choice: two readings a second apart lie
# in it. Larger: short prompts have none; smaller: a few readings decide.
LEAST_PHASE_S = 2.0
MOST_PENDING = 600  # seconds that wait for the end of a prompt; the prefill of a long prompt takes minutes
MOST_W = 1e6

Floats = npt.NDArray[np.float64]
PREFILL, DECODE = 0, 1


@frozen
class PhaseEnergy:
    """The energy in J of one token, either of a prompt that is processed or of generated text, with the power in W."""

    watts: float
    j_per_token: float
    error: float  # half width of the 95 % interval, as a share


@frozen
class TokenEnergyView:
    prefill: PhaseEnergy | None  # None if unknown
    decode: PhaseEnergy | None


@dataclass(slots=True)
class TokenEnergy:
    """Divides the energy of the board between processing prompts and generating tokens."""

    _sensor: int = -1  # place of the total's sensor in the manifest; -1: there is none
    _lag_ns: int = 0  # half the interval of readings that are means of the time before them
    _power: dict[int, tuple[float, int]] = field(default_factory=dict)  # by second: sum in W and number of readings
    _pending: list[tuple[int, float, float]] = field(default_factory=list)  # second, seconds of prefill and of decode
    _products: Floats = field(default_factory=lambda: np.zeros((3, 3)))  # of the shares
    _powers: Floats = field(default_factory=lambda: np.zeros(3))  # of the shares and the power
    _squares: float = 0.0  # of the power
    _count: int = 0  # number of seconds in the sums
    _shares: Floats = field(default_factory=lambda: np.zeros(3))  # total seconds of each activity
    _times_ns: Floats = field(default_factory=lambda: np.zeros(2))  # of prefill and of generation, over the whole phase
    _to_first_ns: float = 0.0  # sum of the times to first tokens
    _tokens: Floats = field(default_factory=lambda: np.zeros(2))  # of prompts, and generated after the first

    def fold(self, batch: Batch) -> None:
        if batch.manifest is not None:
            self._find_total(batch.manifest)
        tokens = batch.seconds.tokens
        if self._sensor < 0:
            return
        readings = batch.readings[batch.readings["sensor"] == self._sensor]
        for t_ns, watts in zip(readings["t_ns"].tolist(), readings["value"].tolist(), strict=True):
            if 0 <= watts <= MOST_W:
                total, count = self._power.get(second := (t_ns - self._lag_ns) // NS, (0.0, 0))
                self._power[second] = total + watts, count + 1
        if tokens is not None:
            for place, second in enumerate((batch.seconds.rows["t_ns"] // NS).tolist()):
                row = tokens.rows[place]
                itl, to_first_ns = tokens.itl.rows[place], int(tokens.ttft.rows["sum_ns"][place])
                self._times_ns += (int(row["prefill_ns"]), int(itl["sum_ns"]))
                self._tokens += (int(row["tokens_in"]) - int(row["tokens_cached"]), int(itl["count"]))
                self._to_first_ns += to_first_ns
                self._divide(second, min(1.0, int(itl["sum_ns"]) / NS), to_first_ns)
        self._settle(batch.until_ns // NS - LATE_S)

    def _find_total(self, manifest: Manifest) -> None:
        self._sensor = -1
        for place, info in enumerate(manifest.sensors if manifest.generation else ()):
            if info.kind == "power" and info.role == "total":
                self._sensor, self._lag_ns = place, NS // 2 if info.averages else 0
                return

    def _divide(self, second: int, decode_s: float, to_first_ns: int) -> None:
        """Add a session second, and spread the processing of prompts that ended in it over this and earlier seconds.

        `decode_s`: for how many seconds tokens were generated in this second. `to_first_ns`: the sum of the times to
        the first tokens that came in this second, in ns.
        """
        self._pending.append((second, 0.0, decode_s))
        prefill_ns = float(self._times_ns[PREFILL])  # without the wait, which the time to a first token includes
        share = min(1.0, prefill_ns / self._to_first_ns) if prefill_ns and self._to_first_ns else 1.0
        left_s = to_first_ns / NS * share
        for place in range(len(self._pending) - 1, -1, -1):
            if left_s <= 0:
                break
            at, has_s, decodes_s = self._pending[place]
            fits_s = min(left_s, max(0.0, 1.0 - decodes_s - has_s))
            self._pending[place] = at, has_s + fits_s, decodes_s
            left_s -= fits_s

    def _settle(self, until_s: int) -> None:
        """Add the seconds before `until_s` to the sums, except for seconds whose division may still change."""
        last = max((place for place, (_, _, decode_s) in enumerate(self._pending) if decode_s), default=-1)
        final = max(last, len(self._pending) - MOST_PENDING)
        ready = [one for one in self._pending[:final] if one[0] < until_s]
        self._pending = self._pending[len(ready) :]
        for second, prefill_s, decode_s in ready:
            total, count = self._power.pop(second, (0.0, 0))
            if count:
                shares = np.array([prefill_s, decode_s, max(0.0, 1.0 - prefill_s - decode_s)])
                watts = total / count
                self._products += np.outer(shares, shares)
                self._powers += shares * watts
                self._squares += watts * watts
                self._shares += shares
                self._count += 1
        if ready:
            for second in [second for second in self._power if second < ready[0][0]]:
                del self._power[second]
        while len(self._power) > 2 * MOST_PENDING:
            del self._power[min(self._power)]

    def view(self) -> TokenEnergyView:
        """Return the energy of one token of a prompt and of one generated token. Each is None if it is unknown."""
        used = self._shares > 0.01 * max(1, self._count)
        if self._count < LEAST_SECONDS or not used[DECODE]:
            return TokenEnergyView(None, None)
        kept = np.flatnonzero(used)
        products = self._products[np.ix_(kept, kept)]
        try:
            inverse = np.linalg.inv(products)
        except np.linalg.LinAlgError:
            return TokenEnergyView(None, None)
        watts = inverse @ self._powers[kept]
        left = max(0.0, self._squares - float(watts @ self._powers[kept]))
        spread = np.sqrt(np.maximum(0.0, np.diag(inverse)) * left / max(1, self._count - len(kept)))
        found: list[PhaseEnergy | None] = [None, None]
        for phase in (PREFILL, DECODE):
            place = np.flatnonzero(kept == phase)
            if not len(place) or self._shares[phase] < LEAST_PHASE_S or not self._tokens[phase]:
                continue
            power, error = float(watts[place[0]]), 1.96 * float(spread[place[0]])
            if power > 0 and error <= WIDEST * power:
                token_s = float(self._times_ns[phase]) / NS / float(self._tokens[phase])
                found[phase] = PhaseEnergy(power, power * token_s, error / power)
        return TokenEnergyView(*found)
