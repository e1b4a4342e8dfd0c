"""The cpufreq governor (Documentation/admin-guide/pm/cpufreq.rst)."""

from edgetop.doctor.check import Check, ok, problem, unknown, warning
from edgetop.doctor.facts import Facts, policies
from edgetop.sensors.root import Root

NAME = "governor"
DYNAMIC = {"schedutil", "ondemand", "conservative", "interactive"}
FILE = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
# In their active mode these drivers scale the clock themselves under either of their two governors.
SELF_SCALING = {"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"}


def check(facts: Facts) -> list[Check]:
    found = {folder: facts.root.line(f"{folder}/scaling_governor") for folder in policies(facts.root)}
    if not found or None in found.values():
        why = "cpufreq does not tell; firmware or a hypervisor sets the clocks" if not found else "unreadable"
        advice = "clocks may change without a trace; compare the spread of several runs"
        return [unknown(NAME, why, advice)]
    names = sorted({name for name in found.values() if name})
    told = " and ".join(names)
    if facts.governor is not None:
        return [_declared(facts, facts.governor, names, told)]
    return [_undeclared(facts.root, names, told, next(iter(found)))]


def _declared(facts: Facts, declared: str, names: list[str], told: str) -> Check:
    if names == [declared]:
        return ok(NAME, f"{told}, as declared")
    offered = {word for folder in policies(facts.root) for word in _offered(facts.root, folder)}
    if offered and declared not in offered:
        return problem(NAME, f"{told}, but {declared} is declared", f"this kernel offers {', '.join(sorted(offered))}")
    advice = "measure under the governor that production runs"
    return problem(NAME, f"{told}, but {declared} is declared", advice, _fix(declared))


def _offered(root: Root, folder: str) -> list[str]:
    return (root.line(f"{folder}/scaling_available_governors") or "").split()


def _fix(governor: str) -> str:
    plain = "".join(c for c in governor if c.isalnum() or c in "_-")
    return f"echo {plain} | sudo tee {FILE}"


def _undeclared(root: Root, names: list[str], told: str, folder: str) -> Check:
    drives_itself = root.line(f"{folder}/scaling_driver") in SELF_SCALING
    if set(names) <= DYNAMIC or (drives_itself and names == ["powersave"]):
        return ok(NAME, told, "if production runs another, say so with --governor NAME")
    if names == ["performance"]:
        advice = "right only if production runs so too: then say --governor performance"
        return warning(NAME, told, advice, _usual(root, folder))
    if "powersave" in names and not drives_itself:
        return warning(NAME, f"{told}: the clock stays at its lowest", "declare it if production runs so",
                       _usual(root, folder))  # fmt: skip
    if "userspace" in names:
        advice = "the clock stays where a program put it; declare it if production runs so"
        return warning(NAME, told, advice, _usual(root, folder))
    return warning(NAME, told, "not a governor that is known here: say --governor NAME if production runs it")


def _usual(root: Root, folder: str) -> str | None:
    """The command for the governor that distributions ship, where this kernel has one."""
    usual = [name for name in ("schedutil", "ondemand", "powersave") if name in _offered(root, folder)]
    return _fix(usual[0]) if usual else None
