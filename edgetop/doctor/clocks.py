"""Whether the clocks are free, locked (as jetson_clocks leaves them), or held below what the chip can do."""

from edgetop.doctor.check import Check, ok, unknown, warning
from edgetop.doctor.facts import Facts, number, policies
from edgetop.sensors.chips import is_compatible
from edgetop.sensors.root import Root

NAME = "clocks"
SLACK = 0.98  # limits are moved to the nearest operating point


def check(facts: Facts) -> list[Check]:
    ranges = [(folder.rpartition("/")[2], *_range(facts.root, folder)) for folder in policies(facts.root)]
    known = [(name, low, high, top) for name, low, high, top in ranges if low and high]
    if not known or len(known) < len(ranges):
        return [unknown(NAME, "cpufreq does not tell the limits of every CPU")]
    if all(low == high for _, low, high, _ in known):
        told = ", ".join(f"{name} at {low / 1000:.0f} MHz" for name, low, _, _ in known)
        advice = "right only if production locks them too; another nvpmodel run or a reboot frees them silently"
        fix = "sudo jetson_clocks --restore" if is_compatible(facts.root, "nvidia,tegra") else None
        return [warning(NAME, f"locked: {told}", advice, fix)]
    held = [(name, high, top) for name, _, high, top in known if top and high < top * SLACK]
    if held and facts.board.power_mode is None:
        told = ", ".join(f"{name} at {high / 1000:.0f} of {top / 1000:.0f} MHz" for name, high, top in held)
        advice = "heat or somebody limits them; declare it in a note if production runs so"
        fix = "; ".join(f"echo {top} | sudo tee /{folder}/scaling_max_freq" for folder, top in _tops(facts.root, held))
        return [warning(NAME, f"held below their maximum: {told}", advice, fix)]
    told = ", ".join(f"{name} {low / 1000:.0f} to {high / 1000:.0f} MHz" for name, low, high, _ in known)
    return [ok(NAME, f"free: {told}")]


def _range(root: Root, folder: str) -> tuple[int | None, int | None, int | None]:
    """Lowest and highest allowed, and the highest there is, in kHz."""
    return (
        number(root, f"{folder}/scaling_min_freq"),
        number(root, f"{folder}/scaling_max_freq"),
        number(root, f"{folder}/cpuinfo_max_freq"),
    )


def _tops(root: Root, held: "list[tuple[str, int, int]]") -> list[tuple[str, int]]:
    tops = {name: top for name, _, top in held}
    return [(folder, tops[name]) for folder in policies(root) if (name := folder.rpartition("/")[2]) in tops]
