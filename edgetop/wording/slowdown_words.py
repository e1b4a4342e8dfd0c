"""Slowdowns in words. The words are the same on screen, in the report, in alerts and in the event log."""

from collections.abc import Sequence

from edgetop.analysis.input_shapes import InputSizes
from edgetop.analysis.slowdowns.slowdown import Slowdown, Then, is_throttling
from edgetop.formatting import clean, count, duration, quantity
from edgetop.session.seconds import NS
from edgetop.wording.clue_words import clue_words

_AFTER: dict[Then, str] = {"": "full speed again after", "slower": "slower still after", "faster": "less slow after"}


def slower_words(slowdown: Slowdown) -> str:
    """Return by how much the model is slower during a slowdown.

    >>> slower_words(Slowdown(0, None, "thermal", 1.314, 0.9, ()))
    '31 % slower'
    """
    return "slower" if slowdown.latency_ratio is None else f"{(slowdown.latency_ratio - 1) * 100:.0f} % slower"


def cause_words(slowdown: Slowdown) -> str:
    """Return the cause of a slowdown with the first piece of evidence in brackets, or `unknown cause`.

    For example: `thermal (the thermal flag was in force already)`.
    """
    if slowdown.cause == "unknown":
        return "unknown cause"
    if not slowdown.evidence:
        return slowdown.cause
    return f"{slowdown.cause} ({clue_words(slowdown.evidence[0], slowdown.start_ns // NS)})"


def sizes_words(sizes: InputSizes) -> str:
    """Return a sentence that says why early and late inferences cannot be compared: their inputs differ in size.

    >>> sizes_words(InputSizes(3_600.0, 21_500.0))
    'inputs had 3600 elements on average then, and 21.5 k later'
    """
    return f"inputs had {quantity(sizes.burst, 'element')} on average then, and {count(sizes.later)} later"


def slowdown_words(slowdown: Slowdown) -> str:
    """Return by how much the model is slower during a slowdown, and why.

    >>> from edgetop.analysis.slowdowns.clue import Clue
    >>> slowdown_words(Slowdown(0, None, "thermal", 1.314, 0.9, (Clue("in-force", "throttle/thermal"),)))
    '31 % slower: thermal (the thermal flag was in force already)'
    """
    if slowdown.from_start and not is_throttling(slowdown):
        begin = slowdown.start_ns // NS
        who = clue_words(slowdown.evidence[0], begin) if slowdown.evidence else slowdown.cause
        return f"contended from the start: {who}"
    if slowdown.from_start:
        return f"throttled from the start: {cause_words(slowdown)}"
    named = f"{streams_words(slowdown.streams)} " if slowdown.streams else ""
    return f"{named}{slower_words(slowdown)}: {cause_words(slowdown)}"


def streams_words(names: Sequence[str]) -> str:
    """Return the names of streams (models that run side by side), shortened if there are more than two.

    >>> streams_words(("yolo.onnx", "cls.onnx", "rec.onnx")), streams_words(("yolo.onnx", "cls.onnx"))
    ('yolo.onnx and 2 more', 'yolo.onnx and cls.onnx')
    """
    name, *more = names
    if len(more) == 1:
        return f"{clean(name)} and {clean(more[0])}"
    return f"{clean(name)}{f' and {len(more)} more' if more else ''}"


def slowdown_end_words(slowdown: Slowdown) -> str:
    """Return the message at the end of a slowdown: the new state, how long the slowdown lasted, and its cause.

    >>> slowdown_end_words(Slowdown(0, 20 * 10**9, "thermal", 1.314, 0.9, (), then="slower"))
    'slower still after 20.0s (thermal)'
    """
    lasted_ns = 0 if slowdown.end_ns is None else slowdown.end_ns - slowdown.start_ns
    return f"{_AFTER[slowdown.then]} {duration(lasted_ns)} ({slowdown.cause})"
