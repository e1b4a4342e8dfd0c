"""The slowest inferences (the tail) and their causes, in words."""

from collections.abc import Sequence

from edgetop import formatting
from edgetop.analysis.slowdowns.slow_inferences import SlowInference, TailPart, TailView
from edgetop.formatting import clean
from edgetop.session.seconds import NS
from edgetop.session.typed_json import Document

NAMED = 3  # of those who took the CPU

# In words, and in brief.
TAIL_CAUSES = {
    "contention": ("while another process took the CPU", "{who} took the CPU"),
    "cpu-quota": ("while its CPU quota was used up", "CPU quota used up"),
    "fewer-cpus": ("while the engine might use fewer CPUs", "the engine had fewer CPUs"),
    "small-cores": ("on a slower core than usual", "slower cores"),
    "cache-misses": ("with more cache misses than usual", "cache misses"),
    "migration": ("after a move to another CPU", "moved to another CPU"),
    "beside": ("while another process was busy", "{who} was busy"),
    "garbage-collection": ("during garbage collection", "garbage collection"),
    "page-faults": ("with page faults", "page faults"),
    "stopped": ("while the engine neither ran nor waited for a CPU", "the engine stood still"),
    "burst": ("just after instrumented inferences", "operators profiled"),
    "sensor-read": ("during a slow read of a sensor", "slow sensor reads"),
    "slowdown": ("within a slowdown", "in a slowdown"),
    "memory-pressure": ("while memory was short", "memory was short"),
    "limit": ("while the board was limited", "the board was limited"),
    "clock": ("while the clock was low", "the clock was low"),
    "input": ("with an input array that takes longer", "input {who} takes longer"),
    "operator": ("with an operator that sometimes takes longer", "{who} took longer"),
    "unexplained": ("unexplained", ""),
}


def part_words(part: TailPart) -> str:
    """Return how many of the slowest inferences have one cause, followed by this cause.

    >>> part_words(TailPart("contention", 22, (("stress-ng", 20),)))
    '22 while another process took the CPU (stress-ng)'
    """
    who = ", ".join(name for name, _ in part.who[:NAMED])
    return f"{part.count} {TAIL_CAUSES[part.cause][0]}{f' ({who})' if who else ''}"


def cause_words(part: TailPart) -> str:
    """Return a cause of slow inferences, with the number of inferences for each process or other thing that caused it.

    >>> cause_words(TailPart("contention", 22, (("stress-ng", 20),)))
    'while another process took the CPU (stress-ng 20)'
    """
    who = ", ".join(f"{name} {count}" for name, count in part.who[:NAMED])
    return clean(f"{TAIL_CAUSES[part.cause][0]}{f' ({who})' if who else ''}")


def tail_words(parts: Sequence[TailPart]) -> str:
    """Return all causes of the slowest inferences in one line, each with its number of inferences.

    Return "" if there are no slow inferences.
    """
    return ", ".join(map(part_words, parts))


def inference_words(one: SlowInference) -> str:
    """Return why one inference was slow, and for which share of the lost time the cause is responsible.

    The lost time is that by which the inference was slower than usual. If the session has several streams (models of
    one program), the name of the inference's stream comes last.

    >>> inference_words(SlowInference(0, 50_000_000, "contention", "stress-ng", True, "det.onnx", 0.85))
    'while another process took the CPU (stress-ng), which took 85.0 % of the lost time, det.onnx'
    >>> inference_words(SlowInference(0, 50_000_000, "page-faults", share=0.6, also=(("contention", 0.3),)))
    'with page faults, which took 60.0 % of the lost time, and while another process took the CPU (30.0 %)'
    >>> inference_words(SlowInference(0, 50_000_000, "page-faults", share=0.6, at_most=("page-faults",)))
    'with page faults, which took at most 60.0 % of the lost time'
    """
    who = f" ({one.who}{', which had just begun' if one.began else ''})" if one.who else ""
    share = (
        ""
        if one.share is None
        else f", which took {_most(one, one.cause)}{formatting.percent(one.share)} of the lost time"
    )
    also = "".join(
        f", and {TAIL_CAUSES[cause][0]} ({_most(one, cause)}{formatting.percent(part)})" for cause, part in one.also
    )
    return clean(f"{TAIL_CAUSES[one.cause][0]}{who}{share}{also}{f', {one.stream}' if one.stream else ''}")


def _most(one: SlowInference, cause: str) -> str:
    """Return the words before the share of `cause` that say whether the share is an upper limit."""
    return "at most " if cause in one.at_most else ""


def tail_lines(tail: TailView, most: int) -> list[str]:
    """Return the lines of two tables: the causes of the slowest inferences, and the slowest inferences themselves.

    `most` is the largest number of inferences in the second table, the slowest first.
    """
    count = len(tail.slowest)
    lines = [f"the {count} slowest inferences, one a second at most", "", " share  inferences  cause"]
    lines += [
        f"{formatting.percent(part.count / count):>6}  {part.count:>10}  {cause_words(part)}" for part in tail.parts
    ]
    lines += ["", "   latency  at        cause"]
    for one in tail.slowest[:most]:
        took, at = f"{formatting.milliseconds(one.latency_ns)} ms", formatting.clock_time(one.t_ns)
        lines.append(f"{took:>10}  {at}  {inference_words(one)}")
    return lines


def tail_document(tail: TailView) -> Document:
    """Return the slowest inferences and their causes as JSON.

    The keys must stay the same, because programs of users read them.
    """
    count = len(tail.slowest)
    shares = {part.cause: round(part.count / count, 4) for part in tail.parts}
    unexplained = shares.pop("unexplained", 0.0) if count else None
    return {
        "slowest": [_inference_document(one) for one in tail.slowest],
        "causes": [
            {"cause": part.cause, "share": shares[part.cause], "evidence": _evidence(part, tail)}
            for part in tail.parts
            if part.cause in shares
        ],
        "unexplained": unexplained,
    }


def _inference_document(one: SlowInference) -> Document:
    cause = {"cause": one.cause, **_share(one, one.cause, one.share), "who": one.who or None, "proven": one.is_proven}
    if one.began:
        cause["began"] = True
    others = [{"cause": other, **_share(one, other, part), "who": None, "proven": True} for other, part in one.also]
    return {
        "t_s": round(one.t_ns / NS, 9),
        "latency_ms": round(one.latency_ns / 1e6, 6),
        "stream": one.stream or None,
        "causes": [] if one.cause == "unexplained" else [cause, *others],
    }


def _share(one: SlowInference, cause: str, share: float | None) -> Document:
    """Return the share of `cause` as JSON: `share`, or `share_at_most` beside a `share` of null for an upper limit."""
    rounded = None if share is None else round(share, 4)
    return {"share": None, "share_at_most": rounded} if cause in one.at_most else {"share": rounded}


def _evidence(part: TailPart, tail: TailView) -> list[str]:
    """Return the pieces of evidence for one cause of slow inferences, such as `measured around 20 of 22`."""
    of_cause = [one for one in tail.slowest if one.cause == part.cause]
    proven = sum(one.is_proven for one in of_cause)
    shares = sorted(one.share for one in of_cause if one.share is not None)
    lines = [f"{name}: {count} of {part.count}" for name, count in part.who]
    if proven:
        lines.append(f"measured around {proven} of {part.count}")
    if shares:
        most = "at most " if any(part.cause in one.at_most for one in of_cause) else ""
        lines.append(f"it took {most}{formatting.percent(shares[len(shares) // 2])} of the lost time in the median")
    if proven < part.count:
        lines.append(f"{part.count - proven} of {part.count} coincided with it")
    return lines
