"""`edgetop demo`: real inference on a virtual board."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click import BadParameter

from edgetop.cli import completion
from edgetop.cli.companions import PATH, option
from edgetop.cli.running import run
from edgetop.errors import InputError
from edgetop.nearest import nearest_hint
from edgetop.simulation.scenarios import DEFAULT, SCENARIOS, Scenario

if TYPE_CHECKING:
    from edgetop.cli.running.run_request import RunRequest

EXAMPLES = """\b
Examples:
  edgetop demo                                      a fan sticks: heat, throttling, and its end
  edgetop demo --scenario under-voltage             a supply that sags
  edgetop demo --speed 60x --headless --duration 40s --json > result.json
  edgetop help demo                                 what each scenario shows, and when
"""

SLOWEST, FASTEST = 0.1, 1000.0

# Options of `run` about a real board or wiring.
_NOT_OF_DEMO = {
    *("sysroot", "i2c"),
    *("power_log", "power_log_format", "power_volts", "power_log_offset", "power_log_interval"),
}


def scenario(text: str) -> Scenario:
    if text not in SCENARIOS:
        raise BadParameter(f"{text!r}: {nearest_hint(text, SCENARIOS)}")
    return SCENARIOS[text]


def speed(text: str) -> float:
    """`20x` or `20`: simulated seconds in a real one."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)x?", text.strip())
    value = float(match[1]) if match else 0.0
    if not SLOWEST <= value <= FASTEST:
        raise BadParameter(f"{text!r} is no speed; write 20x, from {SLOWEST:g}x to {FASTEST:g}x")
    return value


PARAMS = (
    option(
        "--scenario", type=scenario, default=DEFAULT, show_default=True, metavar="NAME",
        shell_complete=completion.scenarios,
        help=", ".join(SCENARIOS) + ".",
    ),
    option(
        "--speed", type=speed, default="20x", show_default=True, metavar="20x",
        help="How many seconds of heat pass in one of yours.",
    ),
    option("--board-state", type=PATH, hidden=True, help="The board's heat, from one session to the next."),
    *(param for param in run.command.params if param.name not in _NOT_OF_DEMO),
)  # fmt: skip


@click.command("demo", params=list(PARAMS), epilog=EXAMPLES)
def command(**options: Any) -> int:
    """Watch real inference on a virtual board: its heat is simulated, and really slows the model.

    Without MODEL: the built-in demo model, with one thread, which leaves the screen a core.
    Every session is marked SIMULATED, and is recorded like any other.
    """
    return run.run_model(demo_request(options))


def demo_request(options: Mapping[str, Any]) -> "RunRequest":
    """Return the request that the options of `demo` make. Raises InputError where they cannot be used together."""
    if options["isolation"] != "process":
        raise InputError("--isolation thread: the virtual board slows an engine, and lets it crash, as a process only")
    from edgetop.cli.running.run_request import DemoSubject, ModelChoice  # noqa: PLC0415  --help needs none of it

    chosen: Scenario = options["scenario"]
    model = ModelChoice.of(options)
    # With many CPUs the rival would not disturb the engine, so both share one.
    rival_cpus = (max(os.sched_getaffinity(0)),) if chosen.competes else ()
    model = replace(model, threads=model.threads or 1, cpus=model.cpus or rival_cpus)
    ambient_c, enclosure = options["ambient"], options["enclosure"]
    return run.request_of(
        options,
        DemoSubject(model, chosen, options["speed"], options["board_state"]),
        labels=(("scenario", chosen.name), ("speed", f"{options['speed']:g}x"), *options["labels"]),
        ambient_c=chosen.ambient_c if ambient_c is None else ambient_c,
        enclosure=chosen.enclosure if enclosure is None else enclosure,
    )
