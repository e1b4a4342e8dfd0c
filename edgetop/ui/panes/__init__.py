"""The panes: what each draws of a frozen view, in a given size. Functions, nothing else."""

from edgetop.ui.panes.events import EVENTS
from edgetop.ui.panes.latency import LATENCY
from edgetop.ui.panes.memory import MEMORY
from edgetop.ui.panes.operators import OPERATORS
from edgetop.ui.panes.power import POWER
from edgetop.ui.panes.sensors import SENSORS
from edgetop.ui.panes.session import SESSION
from edgetop.ui.panes.thermal import THERMAL

DRAWINGS = {drawing.name: drawing for drawing in (LATENCY, THERMAL, POWER, MEMORY, EVENTS, SENSORS, SESSION, OPERATORS)}
