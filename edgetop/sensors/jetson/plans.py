"""Which rail of a Jetson is the total, and which are parts, by the names its device tree gives.

A role is claimed only for a rail whose place is known. Parts never overlap: a rail that is
fed by another part has no role. Names: NVIDIA's module data sheets and device trees
(tegra234-p3701.dtsi, tegra234-p3767.dtsi; Jetson Linux developer guide, "Power monitor").
"""

from dataclasses import dataclass

MODULE = "what goes into the module; the carrier board's own draw (USB, NVMe, fan) is not in it"
FED_BY_VIN = "fed by VIN_SYS_5V0, as far as is known: counted there already"


@dataclass(frozen=True, slots=True)
class RailPlan:
    """The rails of a family of modules. `total` None: no one rail is the whole."""

    total: str | None
    parts: tuple[str, ...]

    @property
    def is_summed(self) -> bool:
        """Whether the parts together are about the module, and nothing else tells that."""
        return self.total is None


PLANS = (
    # Orin Nano and NX, Xavier NX; then TX2. DDR and I/O are in VDD_IN and in no other rail.
    RailPlan("VDD_IN", ("VDD_CPU_GPU_CV", "VDD_SOC")),
    RailPlan("VDD_IN", ("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_SYS_CPU", "VDD_SYS_DDR", "VDD_4V0_WIFI")),
    RailPlan("POM_5V_IN", ("POM_5V_GPU", "POM_5V_CPU")),  # Nano
    RailPlan(None, ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")),  # AGX Orin
    RailPlan(None, ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")),  # AGX Xavier
)

NOTES = {"VDD_IN": MODULE, "POM_5V_IN": MODULE, "VDDQ_VDD2_1V8AO": FED_BY_VIN}


def plan_of(labels: set[str]) -> RailPlan | None:
    """The plan of a board with rails of these names; None where it is not known."""
    complete = (plan for plan in PLANS if labels.issuperset({*plan.parts, *filter(None, [plan.total])}))
    partial = (plan for plan in PLANS if plan.total in labels)
    return next(complete, None) or next(partial, None)


def role_of(label: str, plan: RailPlan | None) -> str | None:
    if plan is None:
        return None
    if label == plan.total:
        return "total"
    return "part" if label in plan.parts else None
