"""The load, its deadline and their results in words, the same on the screen and in the report."""

from edgetop import formatting
from edgetop.session.manifest import Load


def load_words(load: Load) -> str:
    """Describe the arrival of inferences; "" where they come back to back, one at a time.

    >>> load_words(Load(mode="poisson", rate_hz=30.0, streams=2, duty_on_ns=2 * 10**9, duty_off_ns=8 * 10**9))
    '30 Hz at random in each of 2 streams, 2s on and 8s off'
    >>> load_words(Load(mode="replayed", rate_hz=28.4))
    '28.4 Hz as in another session'
    >>> load_words(Load(delay_ns=5 * 10**8))
    '500ms after each inference'
    """
    words = []
    each = f" in each of {load.streams} streams" if load.streams > 1 else ""
    if load.rate_hz is not None:
        how = {"poisson": "at random", "replayed": "as in another session"}.get(load.mode, "evenly")
        words.append(f"{_hz(load.rate_hz)} Hz {how}{each}")
    elif load.delay_ns:
        words.append(f"{formatting.span(load.delay_ns)} after each inference{each}")
    elif each:
        words.append(f"back to back{each}")
    if load.duty_on_ns and load.duty_off_ns:
        words.append(f"{formatting.span(load.duty_on_ns)} on and {formatting.span(load.duty_off_ns)} off")
    return ", ".join(words)


def _hz(asked_hz: float) -> str:
    """Format the requested rate.

    >>> _hz(30.0), _hz(0.1), _hz(33.333333), _hz(100_000.0)
    ('30', '0.1', '33.33', '100 k')
    """
    return f"{asked_hz:.4g}" if asked_hz < 9_999.5 else formatting.count(asked_hz)


def overload_words(asked_hz: float, done_hz: float) -> str:
    """
    >>> overload_words(30.0, 24.07)
    '30 Hz asked, 24.1 Hz done'
    """
    return f"{_hz(asked_hz)} Hz asked, {formatting.rate(done_hz)} Hz done"


def headroom_words(headroom_ms: float) -> str:
    """Describe the time between p99 and the deadline.

    >>> headroom_words(8.1), headroom_words(-2)
    ('p99 leaves 8.100 ms', 'p99 exceeds it by 2.000 ms')
    """
    ms = formatting.milliseconds(abs(headroom_ms) * 1e6)
    return f"p99 leaves {ms} ms" if headroom_ms >= 0 else f"p99 exceeds it by {ms} ms"


def max_rate_words(max_rate_hz: float) -> str:
    """
    >>> max_rate_words(41.23)
    'fits up to 41.2 Hz'
    """
    return f"fits up to {formatting.rate(max_rate_hz)} Hz"
