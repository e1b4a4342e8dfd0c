"""The speed at which a language model generates tokens, in a few words for lines without room for a table."""

from edgetop import formatting
from edgetop.analysis.token_figures import GenerationView
from edgetop.formatting import UNKNOWN, milliseconds, or_unknown


def token_words(view: GenerationView) -> str:
    """Return the speed of token generation in words, such as `12.4 tok/s TTFT 812.0 ITL 80.10 ms`.

    The rate and ITL (the time between tokens) cover the last ten seconds. TTFT (the time to the first token) covers all
    requests.
    """
    rate = or_unknown(view.recent_decode_per_s, formatting.rate)
    ttft = milliseconds(view.ttft.percentile_ns(0.5)) if view.ttft else UNKNOWN
    return f"{rate} tok/s TTFT {ttft} ITL {or_unknown(view.recent_itl_ns, milliseconds)} ms"
