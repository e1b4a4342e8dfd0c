"""What each pane shows and how to read it. The key `?` shows the text, so the most important comes first."""

from collections.abc import Mapping

EXPLANATIONS: Mapping[str, str] = {
    "latency": """\
The map shows every inference. Time runs to the right and latency upwards, on a logarithmic axis. The colour of a cell \
is the share of the column's inferences that took so long.
p50 is the light line: half of the inferences are faster. p99 is the orange line: one in a hundred is slower. A "?" \
behind a percentile means too few inferences. The deadline is a red dashed line.
A band that climbs in steps is throttling. A second band above the first one is another program, or a second mode of \
the model. A comb is a stall that recurs. The top row has all longer latencies, with the greatest beside it.
The lowest row is red while the board throttled, and yellow while the model was slower for another reason.
"burst" is the first steady half minute, "sustained" the last steady minutes.
Keys: + - zoom the axis, y response or service time, left right read a moment, g zoom to it, w window, M next model.""",
    "heat": """\
The hottest zone, with its distance to the temperature at which the board throttles (its trip, the dashed line), and \
the clock under its cap.
A clock below its best while the zone is at its trip is thermal throttling. A cap that falls without heat is a power \
or current limit.
Shaded time: the board reported throttling. Red flags hold now, "sticky" ones since the board started.
Keys: 2 every zone, clock and limit, z Z zoom in time, left right read a moment.""",
    "power": """\
The power of the whole board if a sensor measures it, otherwise of a part, which the title says. Energy per inference \
is gross; net leaves out the idle power, and needs --idle-baseline.
Keys: 3 every rail, z Z zoom in time.""",
    "memory": """\
"engine" is the memory of the process that runs the model: resident (RSS), its peak, and its proportional part of \
shared pages (PSS). "system" is what the board has left before it swaps or kills.
A growth per hour is shown with its interval; LEAKING in line 1 means that it is certain.
Keys: 4 the memory by part, and its timelines.""",
    "events": """\
What happened, newest first. "!" is a warning, "X" is critical. The start, and lines that a source writes within a \
second, are folded into one row: Enter opens it.
Keys: up down choose, Enter open (a replay goes there), / filter, ! severity, c copy, m mark this moment.""",
    "sensors": """\
Every sensor with its value, its age and the share of readings that are missing. "-" is a missing reading; the reason \
stands beside it.
Keys: s sort by name, age or value, / filter, Enter all about a sensor.""",
    "session": """\
What runs, how and where: model, runtime, load and board, and warnings about the measurement, each with what to do.
Keys: j k scroll.""",
    "hotspots": """\
Operators by their share of the time of an inference. "ms" is that share of p50, and "change" compares the last \
profiles with the first ones. "?" marks a share that too few profiles support.
The runtime is profiled in short bursts, whose inferences are not measured.
Keys: s sort by share, run order or change, / filter, Enter all about an operator, p profile now.""",
}
