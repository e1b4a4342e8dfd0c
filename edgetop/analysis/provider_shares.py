"""The providers of a session: which were requested, and the number and time of the operators that each of them ran."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from edgetop.analysis.operator_shares import OperatorView
from edgetop.session.engine_events import FallbackReasons
from edgetop.session.manifest import EngineInfo
from edgetop.session.operators import OUTSIDE_TYPE, hosts

MOST_TYPES = 8  # types of operators that fell back, the most frequent first


class WhyNot(Enum):
    """Why a provider ran no operators although the user requested it, or ran operators that another provider lacks."""

    LEFT_OUT = "left-out"  # The runtime left the provider out of the session.
    NO_OPERATORS = "no-operators"  # The session has the provider, but no operator ran on it.
    OTHERS_LACKED = "others-lacked"  # These operators fell back: the requested provider does not have them.


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackReason:
    """Why operators fell back, in the runtime's own words. The field names are keys of the report's JSON document."""

    text: str
    operators: int | None  # Number of operators that it names; None if it names none.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderShare:
    """What the user requested of one provider, and which operators it ran.

    The field names are keys of the report's JSON document.
    """

    name: str
    asked: bool  # Whether the user requested it.
    operators: int | None  # Number of operators that ran on it; None if operators were not profiled.
    share: float | None  # Their share of the operators' time.
    fell_back: bool  # Whether it ran operators that were requested of another provider.
    op_types: Mapping[str, int] | None  # Types of operators that fell back to it; None if none did.
    why: str | None  # A value of WhyNot; None if it did what was requested.
    # Why it was left out, or why operators fell back to it. Empty if the runtime gives no reason; None if nothing needs
    # one, or if the runtime was not asked.
    reasons: tuple[FallbackReason, ...] | None = None


def provider_shares(
    engine: EngineInfo, views: Sequence[OperatorView], fallback: FallbackReasons | None = None
) -> tuple[ProviderShare, ...] | None:
    """Return, for each provider, whether the user requested it and what it ran, or None if no provider is known.

    Requested providers come first. `views`: the operators over all profiling rounds; empty if they were not profiled.
    `fallback`: the runtime's reasons why operators fell back; None if the runtime was not asked. Names of providers are
    compared without regard to case. If the user requested one delegate, all operators that did not fall back to the CPU
    are listed under this delegate.
    """
    fell_to = hosts(engine.preferred) if engine.asked else frozenset()
    delegates = [name for name in engine.asked if "/" in name]
    owner = delegates[0] if len(delegates) == 1 else None
    ran: dict[str, list[OperatorView]] = {}
    for view in views:
        ran.setdefault((view.provider if owner is None or view.provider in fell_to else owner).upper(), []).append(view)
    written = {name.upper(): name for name in (*(view.provider for view in views), *engine.asked, *engine.providers)}
    names = dict.fromkeys(name.upper() for name in (*engine.asked, *engine.providers, *sorted(ran)))
    asked, have = ({name.upper() for name in each} for each in (engine.asked, engine.providers))
    found = []
    for key in names:
        own = ran.get(key, [])
        fell_back = key not in asked and key in fell_to and bool(own)
        why = _why(own, is_asked=key in asked, is_there=key in have, fell_back=fell_back, is_profiled=bool(views))
        found.append(
            ProviderShare(
                name=written[key],
                asked=key in asked,
                operators=sum(view.op_type != OUTSIDE_TYPE for view in own) if views else None,
                share=round(sum(view.share for view in own), 6) if views else None,
                fell_back=fell_back,
                op_types=dict(Counter(view.op_type for view in own).most_common(MOST_TYPES)) if fell_back else None,
                why=why,
                reasons=None if fallback is None else _reasons(why, fallback),
            )
        )
    return tuple(found) or None


def _why(
    own: Sequence[OperatorView], *, is_asked: bool, is_there: bool, fell_back: bool, is_profiled: bool
) -> str | None:
    """Return why a provider ran no operators although the user requested it, or ran operators that another one lacks.

    The result is a value of WhyNot, or None if there is nothing to explain, or if the reason is unknown. `own`: the
    operators that ran on the provider. `is_asked`: whether the user requested the provider. `is_there`: whether the
    runtime has loaded it. `fell_back`: whether operators ran on it that were meant for another provider. `is_profiled`:
    whether it is known which operators ran on it.
    """
    if fell_back:
        return WhyNot.OTHERS_LACKED.value
    if not is_asked or own:
        return None
    if not is_there:
        return WhyNot.LEFT_OUT.value
    return WhyNot.NO_OPERATORS.value if is_profiled else None


def _reasons(why: str | None, fallback: FallbackReasons) -> tuple[FallbackReason, ...] | None:
    """Return the reasons in `fallback` that explain `why`, a value of WhyNot. If `why` is None, return None."""
    if why is None:
        return None
    if why == WhyNot.LEFT_OUT.value:
        return (FallbackReason(text=fallback.left_out, operators=None),) if fallback.left_out else ()
    return tuple(FallbackReason(text=text, operators=count) for text, count in fallback.counts())


def fallback_share(shares: Sequence[ProviderShare] | None) -> float | None:
    """Return the share of the operators' time, 0 to 1, in which they ran elsewhere than requested.

    The result is 1 if the runtime left every requested provider out, and None if the share is unknown or if no provider
    was requested.
    """
    asked = [one for one in shares or () if one.asked]
    if shares is None or not asked:
        return None
    if all(one.why == WhyNot.LEFT_OUT.value for one in asked):
        return 1.0
    known = [one.share for one in shares if one.fell_back and one.share is not None]
    return sum(known) if any(one.share is not None for one in shares) else None
