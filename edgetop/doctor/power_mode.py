"""The power mode of a Jetson (nvpmodel), or the platform profile of a PC (sysfs-platform_profile).

MAXN lifts every limit: NVIDIA's guide calls it unconstrained, and it is throttled by
over-current and heat as the module allows, so that no figure from it can be relied upon
(docs.nvidia.com/jetson, Platform Power and Performance, "Supported Modes and Power Efficiency").
"""

import re

from edgetop.doctor.check import Check, ok, problem, unknown, warning
from edgetop.doctor.facts import Facts
from edgetop.sensors.chips import is_compatible

NAME = "power-mode"
CONF = "etc/nvpmodel.conf"
PROFILE = "sys/firmware/acpi/platform_profile"


def check(facts: Facts) -> list[Check]:
    """Nothing where the board has no such modes and none was declared."""
    profile = facts.root.line(PROFILE)
    mode = facts.board.power_mode or profile
    if mode is not None:
        return [_judge(facts, mode, is_profile=facts.board.power_mode is None)]
    if is_compatible(facts.root, "nvidia,tegra"):
        return [unknown(NAME, "nvpmodel does not tell which mode is set", "ask it as root", "sudo nvpmodel -q")]
    if facts.power_mode is not None:
        why = f"this board names no power mode, and {facts.power_mode} is declared"
        return [unknown(NAME, why, "--power-mode is for boards that have them")]
    return []


def _judge(facts: Facts, mode: str, *, is_profile: bool) -> Check:
    name = mode.partition(",")[0]
    ids = {} if is_profile else _ids(facts)
    declared = facts.power_mode
    if declared is not None and not _is_same(declared, name, ids):
        fix = _set_profile(declared) if is_profile else _set_mode(declared, ids)
        return problem(NAME, f"{mode}, but {declared} is declared", "measure in the mode that production runs", fix)
    if _plain(name).startswith("MAXN"):
        advice = "no limit is set, so over-current and heat throttle it: it cannot be sustained. Use a mode in watts"
        return warning(NAME, mode, advice, _set_mode("", ids))
    trouble = next((missing for missing in facts.missing if missing.what == "power mode"), None)
    if trouble is not None:
        return problem(NAME, mode, trouble.why, trouble.fix)
    if is_profile and name in ("low-power", "quiet", "cool"):
        advice = "the firmware holds the board below what it could do; declare it if production runs so"
        return warning(NAME, mode, advice, _set_profile("balanced"))
    if declared is None:
        return ok(NAME, mode, "if production runs another, say so with --power-mode NAME")
    return ok(NAME, f"{mode}, as declared")


def _ids(facts: Facts) -> dict[str, str]:
    """Name -> id of the modes that nvpmodel.conf defines: `< POWER_MODEL ID=0 NAME=15W >`."""
    try:
        text = facts.root.read_text(CONF)
    except OSError:
        return {}
    modes = re.findall(r"^<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=([\w-]+)\s*>", text, re.MULTILINE)
    return {name: number for number, name in modes}


def _is_same(declared: str, name: str, ids: dict[str, str]) -> bool:
    """By name, whatever its case, or by number."""
    return _plain(declared) in {_plain(name), ids.get(name, name)}


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).upper().removeprefix("MODE")


def _set_mode(declared: str, ids: dict[str, str]) -> str:
    known = {_plain(name): number for name, number in ids.items()} | {number: number for number in ids.values()}
    if _plain(declared) in known:
        return f"sudo nvpmodel -m {known[_plain(declared)]}"
    listed = ", ".join(f"{number} {name}" for name, number in ids.items())
    return f"sudo nvpmodel -m ID  ({listed or 'see /etc/nvpmodel.conf for the ids'})"


def _set_profile(profile: str) -> str:
    plain = "".join(c for c in profile if c.isalnum() or c in "_-")
    return f"echo {plain} | sudo tee /{PROFILE}"
