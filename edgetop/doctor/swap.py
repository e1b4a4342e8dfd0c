"""Swap and free memory: a model that is swapped out is measured by its disk (proc(5), meminfo)."""

from edgetop.doctor.check import Check, ok, unknown, warning
from edgetop.doctor.facts import Facts, number
from edgetop.formatting import size
from edgetop.sensors.memory import read_meminfo

NAME = "swap"
USED_KIB = 16 * 1024  # less is what was put there once and never asked for again
LOW_SHARE = 0.1


def check(facts: Facts) -> list[Check]:
    fields = read_meminfo(facts.root)
    return [_swap(facts, fields), _memory(fields)]


def _swap(facts: Facts, fields: "dict[str, int]") -> Check:
    total, free = fields.get("SwapTotal"), fields.get("SwapFree")
    if total is None or free is None:
        return unknown(NAME, "/proc/meminfo does not tell")
    if total == 0:
        return ok(NAME, "none: what does not fit is killed, not slowed")
    used, swappiness = total - free, number(facts.root, "proc/sys/vm/swappiness")
    told = f"{size(used * 1024)} of {size(total * 1024)} used"
    if swappiness is not None:
        told += f", swappiness {swappiness}"
    if used > USED_KIB:
        advice = "pages of the model may have to come back from disk; turn it off only if production has none"
        return warning(NAME, told, advice, "sudo swapoff -a && sudo swapon -a  (empties it)")
    return ok(NAME, told, "watch rate/swap-in during the run")


def _memory(fields: "dict[str, int]") -> Check:
    total, available = fields.get("MemTotal"), fields.get("MemAvailable")
    if not total or available is None:
        return unknown("memory", "/proc/meminfo does not tell")
    told = f"{size(available * 1024)} of {size(total * 1024)} available"
    if available < total * LOW_SHARE:
        return warning("memory", told, "a model that fits barely is slowed by reclaim before it is killed")
    return ok("memory", told)
