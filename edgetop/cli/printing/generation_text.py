"""The lines of a report about the requests and tokens of a language model."""

from collections.abc import Iterator

from edgetop import formatting
from edgetop.analysis.report_generation import GenerationFigures, TokenTimes
from edgetop.formatting import UNKNOWN

_TIMES = ("p50", "p90", "p99", "mean", "max")

_SEEN_BY = {
    "tool": "measured by another tool; a time between tokens is a mean",
    "client": "edgetop is a client of the server: times include the network and the queue",
    "server": "the server's own figures; a time between tokens is the mean of half a second",
    "batches": "from the batches of the program; an inference is a batch",
}


def generation_lines(figures: GenerationFigures | None, parallel: int = 1) -> Iterator[str]:
    """Yield lines about the requests and tokens of a language model. Yield nothing if `figures` is None.

    `parallel` is the largest number of requests at the same time.
    """
    if figures is None:
        return
    rates = f"prefill {_rate(figures.prefill_tok_s)}, decode {_rate(figures.decode_tok_s)}"
    context, counted = figures.context, formatting.quantity(figures.requests, "request")
    used = f"context {context.used_max} of {context.size or UNKNOWN} tokens"
    tokens = f"{formatting.quantity(figures.tokens_in, 'token')} in, {figures.tokens_out} out"
    yield f"tokens     {rates}; {counted}, {tokens}; {used}"
    if parallel > 1:
        yield f"           up to {parallel} requests at a time: {_rate(figures.total_tok_s)} in all"
    if note := _SEEN_BY.get(figures.seen_by):
        yield f"           {note}"
    yield f"           {'':<6}" + "".join(f"{name:>9}" for name in _TIMES) + " ms"
    for name, times in (("TTFT", figures.ttft), ("ITL", figures.itl)):
        yield f"           {name:<6}{_row(times)}"
    if figures.j_per_token is not None:
        per_wh = formatting.count(figures.tokens_per_wh or 0)
        yield f"           {figures.j_per_token:.3g} J/token, {per_wh} tokens/Wh"
    for name, phase in (("prefill", figures.prefill_energy), ("decode", figures.decode_energy)):
        if phase is not None:
            error = formatting.percent(phase.error)
            yield f"           {name:<8} {phase.j_per_token:.3g} J/token at {phase.mean_w:.3g} W, within {error}"


def _row(times: TokenTimes | None) -> str:
    if times is None:
        return UNKNOWN
    shown = []
    for name in _TIMES:
        value = getattr(times, f"{name}_ms")
        text = f"{UNKNOWN if value is None else formatting.milliseconds(value * 1e6):>8}"
        shown.append(formatting.doubted(text, settled=name != "p99" or times.settled, pad=" "))
    return "".join(shown).rstrip()


def _rate(per_s: float | None) -> str:
    return UNKNOWN if per_s is None else f"{formatting.rate(per_s)} tok/s"
