"""Every check in its order, on this machine or on a captured board."""

import os
from collections.abc import Callable
from functools import partial

from edgetop.doctor import logout, machine, runtimes, settings, state
from edgetop.doctor.check import Check, Facts

Examine = Callable[[Facts], list[Check]]

OF_THE_BOARD: tuple[Examine, ...] = (
    settings.check_place, settings.check_governor, settings.check_power_mode, settings.check_clocks,
    state.check_heat, state.check_memory,
)  # fmt: skip

# They ask the machine that edgetop runs on, and would tell of the wrong one for a captured board.
OF_THIS_MACHINE: dict[str, Examine] = {
    state.BACKGROUND: state.check_background,
    machine.PERMISSIONS: machine.check_permissions,
    machine.UPROBES: machine.check_uprobes,
    runtimes.NAME: runtimes.check,
    machine.DISK: machine.check_disk,
    machine.CLOCK_SYNC: machine.check_clock,
    logout.NAME: partial(logout.check, uid=os.getuid()),
}


def examine(facts: Facts) -> list[Check]:
    """Run all checks. Nothing is changed."""
    checks = [*OF_THE_BOARD, *(OF_THIS_MACHINE.values() if facts.root.is_host else ())]
    return [found for check in checks for found in check(facts)]


def left_out(facts: Facts) -> list[str]:
    """The checks that make no sense on a captured board."""
    return [] if facts.root.is_host else list(OF_THIS_MACHINE)
