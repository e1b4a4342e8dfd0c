"""The part of a report about the tokens of a language model."""

from dataclasses import dataclass

from edgetop.analysis.energy import LEAST_INFERENCES, EnergyView
from edgetop.analysis.folds import Folds
from edgetop.analysis.statistics import SETTLED_COUNTS, Statistics
from edgetop.analysis.token_energy import PhaseEnergy
from edgetop.formatting import rounded, rounded_ms
from edgetop.session.manifest import Manifest

LEAST_TOKENS = LEAST_INFERENCES  # Number of tokens from which one of them has an energy.
_BOUNDED = (None, "few-inferences")  # reasons for which the energy of a request is unknown, but not that of the phase


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTimes:
    """The times to the first token, or between two tokens, in ms."""

    count: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    mean_ms: float | None
    max_ms: float | None
    settled: bool  # whether there are enough for p99


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFigures:
    size: int | None  # tokens; None if unknown
    used_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFigures:
    """The energy in J that the board takes for one token of a prompt, or for one generated token.

    It is computed from the mean power while prompts are processed, or while tokens are generated.
    """

    j_per_token: float
    mean_w: float
    error: float  # half width of the 95 % interval, as a share; the error of the meter comes on top


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationFigures:
    requests: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    ttft: TokenTimes | None
    itl: TokenTimes | None
    prefill_tok_s: float | None
    decode_tok_s: float | None  # of one request
    total_tok_s: float | None  # generated tokens of all requests, by the time of the measured phase
    j_per_token: float | None  # gross energy of the board in the measured phase, by generated tokens
    tokens_per_wh: float | None
    prefill_drift_ratio: (
        float | None
    )  # time of the last steady span by that of the first, at equal length; None: unknown
    prefill_energy: PhaseFigures | None  # for a token of a prompt; None if unknown
    decode_energy: PhaseFigures | None  # for a generated token; None if unknown
    context: ContextFigures
    # What measured the tokens: "engine", "client" of a server, "server", "batches" of a program, or another "tool".
    seen_by: str


def generation_figures(analysis: Folds, manifest: Manifest, energy: EnergyView) -> GenerationFigures | None:
    if manifest.generation is None:
        return None
    view = analysis.generation.view()
    context, seen_by = manifest.generation.context, _seen_by(manifest)
    if manifest.watched and not (view and view.tokens_out):
        return None
    if view is None:
        return GenerationFigures(
            requests=0, tokens_in=0, tokens_cached=0, tokens_out=0, ttft=None, itl=None, prefill_tok_s=None,
            decode_tok_s=None, total_tok_s=None, j_per_token=None, tokens_per_wh=None, prefill_drift_ratio=None,
            prefill_energy=None,
            decode_energy=None,
            context=ContextFigures(size=context, used_max=0),
            seen_by=seen_by,
        )  # fmt: skip
    phases, measured_ns = analysis.token_energy.view(), analysis.progress.view().measured_ns
    joules = joules_per_token(energy, view.tokens_out)
    return GenerationFigures(
        requests=view.requests,
        tokens_in=view.tokens_in,
        tokens_cached=view.tokens_cached,
        tokens_out=view.tokens_out,
        ttft=_times(view.ttft),
        itl=_times(view.itl),
        prefill_tok_s=rounded(view.prefill_per_s),
        decode_tok_s=rounded(view.decode_per_s),
        total_tok_s=rounded(view.tokens_out / measured_ns * 1e9) if measured_ns else None,
        j_per_token=None if joules is None else round(joules, 6),
        tokens_per_wh=3600 / joules if joules else None,
        prefill_drift_ratio=analysis.prefill.drift_ratio(),
        prefill_energy=_phase(phases.prefill),
        decode_energy=_phase(phases.decode),
        context=ContextFigures(size=context, used_max=view.used_max),
        seen_by=seen_by,
    )


def _seen_by(manifest: Manifest) -> str:
    generation = manifest.generation
    if manifest.was_imported:
        return "tool"
    if manifest.watched:
        return "batches"
    if generation is None or generation.url is None:
        return "engine"
    return "client" if generation.prompts else "server"


def _phase(of: PhaseEnergy | None) -> PhaseFigures | None:
    if of is None:
        return None
    return PhaseFigures(j_per_token=round(of.j_per_token, 6), mean_w=round(of.watts, 3), error=round(of.error, 3))


def _times(of: Statistics | None) -> TokenTimes | None:
    if of is None:
        return None
    return TokenTimes(
        count=of.count,
        p50_ms=rounded_ms(of.percentile_ns(0.5)),
        p90_ms=rounded_ms(of.percentile_ns(0.9)),
        p99_ms=rounded_ms(of.percentile_ns(0.99)),
        mean_ms=rounded_ms(of.mean_ns),
        max_ms=rounded_ms(of.max_ns),
        settled=of.count >= SETTLED_COUNTS[0.99],
    )


def joules_per_token(energy: EnergyView, tokens: int) -> float | None:
    """Return the energy of the board for one of `tokens` generated tokens in J, or None if it is unknown."""
    total = energy.total
    if total is None or tokens < LEAST_TOKENS or not total.covered:
        return None
    if (total.reason.code if total.reason else None) not in _BOUNDED:
        return None
    return total.rail.energy_j / total.covered / tokens or None
