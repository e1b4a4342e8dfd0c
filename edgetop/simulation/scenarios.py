"""The scenarios of the virtual board. Each scenario except "healthy" is a fault that occurs on real boards.

The module is imported to list the names of the scenarios, so it imports next to nothing. Times are simulated seconds.
"""

from collections.abc import Mapping

from edgetop.frozen import frozen

KIB = 1024


@frozen
class Scenario:
    name: str
    family: str = "jetson"  # family of boards whose files are simulated: "jetson" or "raspberry-pi"
    enclosure: str = "open, with a fan"
    ambient_c: float = 25.0
    begins: str = ""  # messages when the fault begins, and when it ends
    ends: str = ""
    calm_s: float = 400.0  # time before the first fault
    trouble_s: float = 600.0  # length of a fault once it has an effect
    rest_s: float = 600.0  # time between faults
    # The kind of fault. Without any, the scenario has none.
    fan_sticks: bool = False
    over_current_hz: float = 0.0  # events, each slowing the board for a millisecond; per real second
    supply_sags: bool = False
    competes: bool = False  # whether another process competes for the engine's CPU
    leaks_bytes: int = 0  # memory that each inference leaks
    crashes: bool = False


_ALL = (
    Scenario("healthy", trouble_s=0.0),
    Scenario(
        "thermal",
        enclosure="a closed box",
        ambient_c=35.0,
        begins="the fan is stuck: heat builds up",
        ends="the fan runs again",
        calm_s=0.0,
        fan_sticks=True,
    ),
    Scenario(
        "power-cap",
        begins="the supply gives in at each peak: over-current protection slows the board",
        ends="the supply holds again",
        over_current_hz=600.0,
    ),
    Scenario(
        "under-voltage",
        family="raspberry-pi",
        enclosure="open, with a fan, on a long thin USB cable",
        begins="the 5 V input sags: the firmware caps the clock",
        ends="the 5 V input is back",
        supply_sags=True,
    ),
    Scenario(
        "contention",
        begins="another process (demo-rival) takes its share of the engine's CPU: a real one",
        ends="the other process rests",
        competes=True,
    ),
    Scenario(
        "leak",
        begins="each inference keeps 1 KiB: really",
        calm_s=0.0,
        trouble_s=float("inf"),
        leaks_bytes=KIB,
    ),
    Scenario(
        "crash",
        begins="the engine is about to crash: really",
        trouble_s=float("inf"),
        crashes=True,
    ),
)

SCENARIOS: Mapping[str, Scenario] = {scenario.name: scenario for scenario in _ALL}
DEFAULT = "thermal"
