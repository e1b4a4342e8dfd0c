"""`edgetop demo`: run a real model on a simulated board that gets hot."""

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click import BadParameter

from edgetop.cli import completion
from edgetop.cli.companions import PATH, Given, Value, option
from edgetop.cli.grouped_help import GroupedCommand
from edgetop.cli.running import run
from edgetop.errors import InputError
from edgetop.nearest import nearest_hint
from edgetop.simulation.scenarios import DEFAULT, SCENARIOS, Scenario

if TYPE_CHECKING:
    from edgetop.cli.running.run_request import RunRequest

EXAMPLES = """\b
Examples:
  edgetop demo                                      a stuck fan: heat, throttling, recovery
  edgetop demo --scenario under-voltage             a supply voltage that sags
  edgetop demo --speed 60x --headless --duration 40s --json > result.json
  edgetop help demo                                 what each scenario shows
"""

SLOWEST, FASTEST = 0.1, 1000.0

# Options of `run` that concern a real board or its wiring, and that `demo` therefore lacks.
_NOT_OF_DEMO = {
    "preset",
    *("sysroot", "i2c"),
    *("power_log", "power_log_format", "power_volts", "power_log_offset", "power_log_interval"),
}


def scenario(text: str) -> Scenario:
    if text not in SCENARIOS:
        raise BadParameter(f"{text!r}: {nearest_hint(text, SCENARIOS)}")
    return SCENARIOS[text]


def speed(text: str) -> float:
    """Parse a speed such as `20x` or `20`: the simulated seconds per real second. Raises BadParameter.

    >>> speed("20x"), speed("0.5")
    (20.0, 0.5)
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)x?", text.strip())
    value = float(match[1]) if match else 0.0
    if not SLOWEST <= value <= FASTEST:
        raise BadParameter(f"{text!r} is not a speed; write 20x, from {SLOWEST:g}x to {FASTEST:g}x")
    return value


PARAMS = (
    option(
        "--scenario", type=scenario, default=DEFAULT, show_default=True, metavar="NAME",
        shell_complete=completion.scenarios,
        help=f"Scenario: {', '.join(SCENARIOS)}.",
    ),
    option(
        "--speed", type=speed, default="20x", show_default=True, metavar="20x",
        help="Simulated seconds of heating and cooling per real second.",
    ),
    option("--board-state", type=PATH, hidden=True, help="File that keeps the heat of the board between sessions."),
    *(param for param in run.command.params if param.name not in _NOT_OF_DEMO),
)  # fmt: skip


GROUPS = {"Virtual board": ("scenario", "speed"), **run.GROUPS}


@click.command("demo", cls=GroupedCommand, params=list(PARAMS), groups=GROUPS, epilog=EXAMPLES)
def command(**options: Value) -> int:
    """Watch real inference on a virtual board, whose simulated heat really slows the model down.

    Without MODEL, run the built-in demo model with one thread, which leaves a core to the screen.
    Every session is marked SIMULATED, and is recorded like any other.
    """
    return run.run_model(demo_request(options))


def demo_request(options: Given) -> "RunRequest":
    """Return the request to run a demo session, made from the command-line options of `edgetop demo`.

    Raises InputError for options that cannot be used together.
    """
    if options["isolation"] != "process":
        raise InputError("--isolation thread: the virtual board can slow or crash only an engine in its own process")
    from edgetop.cli.running.run_request import DemoSubject, ModelChoice  # noqa: PLC0415  --help needs none of it

    chosen: Scenario = options["scenario"]
    model = ModelChoice.of(options)
    # On a machine with many CPUs the competing process would not disturb the engine, so both share one CPU.
    rival_cpus = (max(os.sched_getaffinity(0)),) if chosen.competes else ()
    model = replace(model, threads=model.threads or 1, cpus=model.cpus or rival_cpus)
    ambient_c, enclosure = options["ambient"], options["enclosure"]
    if isinstance(ambient_c, str):
        raise InputError("--ambient: the virtual board has no sensor of the air", "give its temperature, such as 35C")
    return run.request_of(
        options,
        DemoSubject(model, chosen, options["speed"], options["board_state"]),
        labels=(("scenario", chosen.name), ("speed", f"{options['speed']:g}x"), *options["labels"]),
        ambient_c=chosen.ambient_c if ambient_c is None else ambient_c,
        enclosure=chosen.enclosure if enclosure is None else enclosure,
    )
