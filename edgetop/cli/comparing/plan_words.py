"""Describes the plan of a sweep in words: what is going to run, how often and for how long."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from edgetop import formatting
from edgetop.cli.comparing.sweep_program import filled
from edgetop.formatting import clean, quantity
from edgetop.sweep_plan import Plan

STARTING_S = 10.0  # rough time to start a run: interpreter, runtime, model and warm-up


def plan_words(
    plan: Plan, folder: Path | None, heat: tuple[str, float] | None, *, each: Sequence[str] | None = None
) -> str:
    """Return lines of text about the runs that are left, their duration and their folder.

    `folder` is None in a dry run, which does not look at the board. `heat` is the hottest sensor and its temperature in
    °C, or None. If `each` is not None, each run is listed too: `each` is the command of the watched program with
    placeholders, or () for models.
    """
    left = sum(one.state == "planned" for one in plan.runs)
    combinations, repetitions = len(plan.combinations), max(one.repetition for one in plan.runs)
    times = "once" if repetitions == 1 else f"{repetitions} times"
    runs, kinds = quantity(len(plan.runs), "run"), quantity(combinations, "combination")
    lines = [f"{left} of {runs} to go: {kinds}, {times} each, in random order"]
    cools = folder is None or plan.cooldown_to_c is not None
    if plan.duration_s is None:
        why = (
            "lasts as long as the program" if plan.program is not None else "ends after a number of inferences (--runs)"
        )
        lines.append(f"  duration unknown, because each run {why}")
    else:
        least_s = left * (plan.duration_s + STARTING_S + plan.rest_s)
        each_s, about, most = (
            formatting.stopwatch(s * 1e9) for s in (plan.duration_s, least_s, least_s + left * plan.cooldown_max_s)
        )
        lines.append(f"  {each_s} each: about {about}" + (f" without cool-downs, {most} at most" if cools else ""))
    if folder:
        now = f"; {clean(heat[0])} is at {heat[1]:.1f} °C now" if heat else ""
        target = "no cool-down, because no temperature can be read"
        if plan.cooldown_to_c is not None:
            target = f"cool-down before each to {plan.cooldown_to_c:.1f} °C{now}"
        rest = [f"  rest of {plan.rest_s:g} s before each"] if plan.rest_s else []
        lines += [*rest, f"  {target}", f"  in {clean(str(folder))}"]
    if each is not None:
        commands = (clean(shlex.join(filled(each, one.settings))) for one in plan.runs)
        names = (f"  {one.repetition}  {clean(plan.name_of(one.settings))}" for one in plan.runs)
        lines += [f"{name}: {words}" if words else name for name, words in zip(names, commands, strict=True)]
    return "\n".join(lines)
