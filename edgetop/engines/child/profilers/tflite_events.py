"""Convert the events of the profilers of TensorFlow Lite and LiteRT to times of operators.

The event types are those of `Profiler::EventType` (tensorflow/lite/core/api/profiler.h). If a delegate reports its own
operators, the delegate itself is not counted, so that no time counts twice.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from . import Profile

RUNTIME, OPERATOR, DELEGATE, INSIDE_DELEGATE = 1, 2, 4, 8


class Event(NamedTuple):
    """What a profiler reports about one operator, or about a span of time such as a delegate's run.

    Profilers report the events in the order in which the operators and spans began.
    """

    kind: int
    tag: str
    node: int
    subgraph: int
    ns: int
    within: Optional[int] = None  # place of the operator's or delegate's event that contains it; None if unknown
    begin_ns: Optional[int] = None  # on any clock; None if unknown


XNNPACK = "XNNPACK"
NameOf = Callable[[int, str], str]  # takes a node's number and type, returns the operator's name


def add_events(profile: Profile, events: List[Event], name_of: NameOf) -> None:
    """Add the operators of one run to `profile`. `name_of` returns an operator's name from its number and type.

    Only the main graph counts, because the time of a WHILE includes the time of its body. Some delegates report only
    their operators and no event for the whole delegate. These operators count as XNNPACK's.
    """
    inside = [event for event in events if event.kind == INSIDE_DELEGATE]
    telling = {event.within for event in inside}
    times: Dict[str, int] = {}
    for place, (event, begin_ns) in enumerate(zip(events, _begins(events))):
        tag = event.tag
        if event.kind == INSIDE_DELEGATE:
            # The index is that of the operator in its delegate, so two partitions may have the same one.
            name = "%s:%d" % (tag, event.node)
            times[name] = times.get(name, 0) + 1
            name = name if times[name] == 1 else "%s/%d" % (name, times[name])
            provider = XNNPACK if event.within is None else short_delegate(events[event.within].tag)
            profile.add(name, tag, provider, event.ns, begin_ns)
        elif event.subgraph != 0 or event.kind not in (OPERATOR, DELEGATE):
            continue
        elif event.kind == DELEGATE or tag.endswith("Delegate"):
            provider = short_delegate(tag)
            if place not in telling and not (None in telling and provider == XNNPACK):
                profile.add(name_of(event.node, tag), "DELEGATE", provider, event.ns, begin_ns)
        else:
            profile.add(name_of(event.node, tag), tag, "CPU", event.ns, begin_ns)


def _begins(events: List[Event]) -> List[Optional[int]]:
    """Return when each event began, in ns, or None where that is unknown.

    XNNPACK does not report when its operators began. They run one after another, so each begins when the previous
    operator ends. The first one begins when the run or the delegate begins.
    """
    begins: List[Optional[int]] = []
    end_ns: Optional[int] = None
    for event in events:
        begin_ns = event.begin_ns
        if event.kind in (OPERATOR, DELEGATE, INSIDE_DELEGATE) and event.subgraph == 0:
            begin_ns = end_ns if begin_ns is None else begin_ns
            is_around = event.kind == DELEGATE or event.tag.endswith("Delegate")
            end_ns = None if begin_ns is None else begin_ns + (0 if is_around else event.ns)
        elif event.tag == "Invoke" and event.kind == RUNTIME:
            end_ns = begin_ns
        begins.append(begin_ns)
    return begins


def short_delegate(tag: str) -> str:
    """Return a delegate's short name.

    >>> short_delegate("TfLiteXNNPackDelegate")
    'XNNPACK'
    """
    short = tag[6:] if tag.startswith("TfLite") else tag
    short = short[:-8] if short.endswith("Delegate") else short
    return {"XNNPack": "XNNPACK"}.get(short, short or tag)


def names_of(interpreter: Any) -> NameOf:
    """Return a function that names an operator by its number and type.

    Operators have no names in TFLite. The name is that of the first tensor that the operator writes, as in other tools.
    """
    names: Dict[int, str] = {}
    try:
        tensors = {detail["index"]: detail["name"] for detail in interpreter.get_tensor_details()}
        for operator in interpreter._get_ops_details():  # noqa: SLF001
            outputs = [int(i) for i in operator["outputs"]]
            names[int(operator["index"])] = tensors.get(outputs[0], "") if outputs else ""
    except Exception:  # a private call: absent or changed in some version
        names = {}
    return lambda index, tag: names.get(index) or "%s:%d" % (tag, index)
