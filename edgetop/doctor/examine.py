"""Every check in its order, on this machine or on a captured board."""

import os
from collections.abc import Callable
from functools import partial

from edgetop.doctor import (
    background,
    clock_sync,
    clocks,
    disk,
    governor,
    heat,
    logout,
    permissions,
    place,
    power_mode,
    runtimes,
    swap,
)
from edgetop.doctor.check import Check
from edgetop.doctor.facts import Facts

Examine = Callable[[Facts], list[Check]]

OF_THE_BOARD: tuple[Examine, ...] = (
    place.check, governor.check, power_mode.check, clocks.check, heat.check, swap.check,
)  # fmt: skip

# They ask the machine that edgetop runs on, and would tell of the wrong one for a captured board.
OF_THIS_MACHINE: dict[str, Examine] = {
    background.NAME: background.check,
    permissions.NAME: permissions.check,
    runtimes.NAME: runtimes.check,
    disk.NAME: disk.check,
    clock_sync.NAME: clock_sync.check,
    logout.NAME: partial(logout.check, uid=os.getuid()),
}


def examine(facts: Facts) -> list[Check]:
    """What every check finds. Nothing is changed."""
    checks = [*OF_THE_BOARD, *(OF_THIS_MACHINE.values() if facts.root.is_host else ())]
    return [found for check in checks for found in check(facts)]


def left_out(facts: Facts) -> list[str]:
    """The checks that make no sense on a captured board."""
    return [] if facts.root.is_host else list(OF_THIS_MACHINE)
