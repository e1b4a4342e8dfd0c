"""Makes gates and alert rules from texts such as `p99>33ms`. An error message says what to write instead."""

from typing import TYPE_CHECKING

from edgetop.analysis.refused_rule import Flaw, RefusedRuleError
from edgetop.analysis.session_gates import METRICS, Gate, parse_gate
from edgetop.nearest import nearest_hint

if TYPE_CHECKING:
    from edgetop.analysis.alerts.alert_rules import AlertRule


def gate_of(text: str, noun: str = "a gate") -> Gate:
    """Return the gate (a condition on a session) that a text such as `p99>33ms` describes.

    `noun` is what an error message calls the text. Raises ValueError with a message that shows how to write a gate.
    """
    try:
        return parse_gate(text)
    except RefusedRuleError as refused:
        raise ValueError(refusal_words(refused, noun)) from None


def rule_of(text: str) -> "AlertRule":
    """Return the alert rule that a text such as `p99>33ms` describes.

    Raises ValueError with a message that shows how to write a rule.
    """
    from edgetop.analysis.alerts.alert_rules import parse_rule  # noqa: PLC0415  A command line with a gate needs none.

    try:
        return parse_rule(text)
    except RefusedRuleError as refused:
        raise ValueError(refusal_words(refused, "a rule")) from None


def refusal_words(refused: RefusedRuleError, noun: str) -> str:
    """Return what is wrong with the text of a gate or rule, and what to write instead.

    `noun` is what the message calls the text, such as `a gate`.

    >>> refusal_words(RefusedRuleError("p99>33mJ", Flaw.WRONG_UNIT, "p99", "mJ"), "a gate")
    "'p99>33mJ': mJ is no unit of p99; it is given in ms, us, µs, ns, s, as in p99>33ms"
    """
    if refused.flaw is Flaw.NO_RULE:
        return f"{refused.text!r} is not {noun}; write NAME>LIMIT, as in p99>33ms"
    return f"{refused.text!r}: {_flaw_words(refused)}"


def _flaw_words(refused: RefusedRuleError) -> str:  # noqa: C901, PLR0911, PLR0912  a sentence for each flaw
    name, value, metric = refused.name, refused.value, METRICS.get(refused.name)
    example = metric.example if metric else ""
    units = ", ".join(unit for unit in metric.units if unit) or "no unit" if metric else ""
    streams = f"a stream is named for one of {', '.join(refused.offered)}, as in p99[detector]>33ms"
    match refused.flaw:
        case Flaw.NO_RULE:
            return "it has no name"
        case Flaw.UNKNOWN_NAME:
            return f"no value is called {name} ({nearest_hint(name, refused.offered)})"
        case Flaw.EMPTY_STREAM:
            return f"the brackets hold no name; {streams}"
        case Flaw.NOT_PER_STREAM:
            return f"{name} is of the whole board; {streams}"
        case Flaw.NO_LIMIT:
            return f"give a limit, as in {example}"
        case Flaw.NEEDS_NO_LIMIT:
            return f"{name} is a condition by itself; write {name}"
        case Flaw.WRONG_UNIT:
            return f"{value} is no unit of {name}; it is given in {units}, as in {example}"
        case Flaw.NO_UNIT:
            return f"the unit is missing; it is given in {units}, as in {example}"
        case Flaw.BUILT_IN:
            what = "a leak" if name == "leak" else "a slowdown or throttling"
            return f"edgetop reports {what} by itself"
        case Flaw.OF_WHOLE_SESSION:
            return f"{name} is known only of a whole session; make it a gate: --fail-if"
        case Flaw.ONCE_AND_REPEAT:
            return "once and repeat= contradict each other"
        case Flaw.UNKNOWN_WORD:
            return f"{name}= is not known ({nearest_hint(name, refused.offered)})"
        case Flaw.GIVEN_TWICE:
            return f"{name} is given twice"
        case Flaw.NO_TIME:
            return f"{name}={value} is not longer than zero"
        case Flaw.UNTIL_WITHOUT_LIMIT:
            return "until= needs a limit to come back from"
        case Flaw.UNTIL_UNIT:
            return f"give until= in {value or 'no unit'}, like the limit"
        case Flaw.UNTIL_SIDE:
            return f"until={value} is on the wrong side of the limit"
