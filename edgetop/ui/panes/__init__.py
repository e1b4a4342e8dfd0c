"""The panes. Each is a set of functions that draw a part of the results in a given size."""

from edgetop.ui.panes.events_pane import EVENTS
from edgetop.ui.panes.latency_pane import LATENCY
from edgetop.ui.panes.memory_pane import MEMORY
from edgetop.ui.panes.operators_pane import OPERATORS
from edgetop.ui.panes.power_pane import POWER
from edgetop.ui.panes.sensors_pane import SENSORS
from edgetop.ui.panes.session_pane import SESSION
from edgetop.ui.panes.thermal_pane import THERMAL

DRAWINGS = {drawing.name: drawing for drawing in (LATENCY, THERMAL, POWER, MEMORY, EVENTS, SENSORS, SESSION, OPERATORS)}
