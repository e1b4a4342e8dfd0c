"""How two sessions or groups differ, in one sentence: what differs, by how much, and what is not certain."""

from collections.abc import Sequence

from edgetop import formatting
from edgetop.frozen import frozen
from edgetop.wording.ab_words import change_text

MOST_FIGURES = 6  # in a sentence


@frozen
class Compared:
    """One figure, such as p50, of a session or group, compared with the same figure of the baseline."""

    label: str
    verdict: str  # slower, faster, higher, lower, same or unknown
    value: float | None  # ratio; None if the figure is compared as a difference, or unknown
    ci95: tuple[float, float] | None
    needs_sessions: int | None = None
    needs_s: float | None = None
    is_lone: bool = False  # whether both sides are one session each, so that the spread between runs is not measured


def difference_sentence(name: str, base: str, figures: Sequence[Compared]) -> str:
    """Return one sentence about how `name` differs from `base`. Both are names of sessions or groups.

    The first of `figures` decides whether `name` is called faster or slower. Each figure is shown with its change in
    percent and, in brackets, the 95 % interval. Figures without a certain difference come last; if no difference is
    certain, only the first figure is shown. A second sentence says how much measuring would make a difference certain,
    if this is known. The second example shows only the text after the colon.

    >>> p50 = Compared("p50", "faster", 0.69, (0.67, 0.71))
    >>> difference_sentence("int8", "fp32", [p50, Compared("p99", "unknown", 0.95, (0.8, 1.1))])
    'int8 is faster than fp32: p50 -31.0 % (-33.0 to -29.0); cannot tell: p99 -5.0 % (-20.0 to 10.0).'
    >>> difference_sentence("b", "a", [Compared("p50", "unknown", 0.95, (0.8, 1.1), 7, 840.0)]).partition(": ")[2]
    'p50 -5.0 % (-20.0 to 10.0). p50 needs 7 sessions of each (14m00s in all).'
    """
    known = [one for one in figures if one.value is not None]
    if not known:
        return f"{name} and {base} have no figure in common that can be compared."
    lead, parts = known[0], []
    told = [one for one in known if one.verdict not in ("same", "unknown")]
    same = [one for one in known if one.verdict == "same"]
    unknown = [one for one in known if one.verdict == "unknown"]
    if told:
        parts.append(_listed([f"{one.label} {change_text(one.value or 0.0, one.ci95)}" for one in told]))
    if same:
        parts.append(f"no difference in {_listed([_same(one) for one in same])}")
    if unknown and not parts:
        parts.append(_unknown(lead))  # of the figures without a certain difference, the table has the others
    elif unknown:
        parts.append(f"cannot tell: {_listed([_unknown(one) for one in unknown])}")
    return f"{_claim(lead, told, name, base)}: {'; '.join(parts)}.{_needed(unknown)}"


def _claim(lead: Compared, told: Sequence[Compared], name: str, base: str) -> str:
    if lead.verdict in ("slower", "faster"):
        return f"{name} is {lead.verdict} than {base}"
    if lead.verdict == "same":
        return f"{name} is as fast as {base}" + (", but differs" if told else "")
    other = ", but they differ" if told else ""
    return f"It is not known whether {name} is faster or slower than {base}{other}"


def _listed(words: Sequence[str]) -> str:
    more = len(words) - MOST_FIGURES
    return ", ".join([*words[:MOST_FIGURES], *([f"and {more} more"] if more > 0 else [])])


def _same(one: Compared) -> str:
    if one.ci95 is None:
        return one.label
    return f"{one.label} (within {max(abs(end - 1) for end in one.ci95) * 100:.1f} %)"


def _unknown(one: Compared) -> str:
    return f"{one.label} {change_text(one.value or 0.0, one.ci95)}"


def _needed(unknown: Sequence[Compared]) -> str:
    """Return a sentence on how much measuring would make the difference of a figure certain, or "" if unknown.

    The sentence is about the first figure in `unknown` for which this is known.
    """
    for one in unknown:
        if needs := needs_text(one.needs_sessions, one.needs_s, is_lone=one.is_lone):
            return f" {one.label} needs {needs}."
    return ""


def needs_text(sessions: int | None, seconds: float | None, *, is_lone: bool = False) -> str:
    """Return how much measuring in total would make a difference certain, or "" if this is unknown.

    `sessions` is how many sessions each side of the comparison needs, and `seconds` how long the sessions of both sides
    last together. `is_lone`: whether each side has only one session now, so that `sessions` is a lower limit.

    >>> needs_text(7, 840.0), needs_text(5, None, is_lone=True), needs_text(None, 90.0), needs_text(None, None)
    ('7 sessions of each (14m00s in all)', 'at least 5 sessions of each', '1m30s of measuring in all', '')
    """
    time = "" if seconds is None else formatting.duration(seconds * 1e9)
    if sessions is not None:
        least = "at least " if is_lone else ""
        return f"{least}{sessions} sessions of each" + (f" ({time} in all)" if time else "")
    return f"{time} of measuring in all" if time else ""
