"""Every span in which a board of the demo says that it is throttled is found, recorded and told, at any speed.

The board is simulated as fast as can be: what its sensors read comes at the times at which a session reads them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from edgetop.analysis.alerts.alert import AlertNews
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.throttles import ThrottleEvents
from edgetop.cli.event_hooks import EACH
from edgetop.sensors.discovery import discover_hardware
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap
from edgetop.session.batch import Batch, merge
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.records import Readings
from edgetop.session.seconds import NS, SECOND, Seconds
from edgetop.simulation.board_files import FAMILIES
from edgetop.simulation.board_physics import new_machine
from edgetop.simulation.scenarios import SCENARIOS
from edgetop.simulation.virtual_board import BoardFolder, marked
from edgetop.wording.report_document import report_document
from tests.support.sessions import ended_event, make_manifest, make_readings, phase_event

pytestmark = pytest.mark.slow

# Real seconds: at the higher speeds trouble comes and goes several times. At 1x it begins after seven minutes.
LENGTH_S = {1.0: 440, 20.0: 130, 60.0: 60, 120.0: 40}
THROTTLING = ("thermal", "power-cap", "under-voltage")
KINDS = {"throttle", "cooling", "freq", "freqcap", "temp", "pressure"}
TICK_S = {1.0: 1.0}  # else 0.25: what nothing happens in is gone through faster


class Simulated:
    """A session on the virtual board, whose engine keeps a core busy."""

    def __init__(self, scenario: str, speed: float, place: Path) -> None:
        self._speed, self._tick_s = speed, TICK_S.get(speed, 0.25)
        self._machine = new_machine(SCENARIOS[scenario])
        self._family = FAMILIES[SCENARIOS[scenario].family]
        self._folder = BoardFolder(place)
        self._folder.link(self._family.links)
        self._folder.write({**self._family.fixed, **self._family.files(self._machine)})
        found = marked(discover_hardware(Root(self._folder.tree)))
        self._sources = [source for source in found.sources if {info.kind for info in source.sensors} & KINDS]
        self.sensors: tuple[SensorInfo, ...] = tuple(info for source in self._sources for info in source.sensors)

    def readings(self, length_s: int) -> Iterator[Readings]:
        """As a session reads them: each source at its own pace, in a piece for each tick."""
        tick_s = self._tick_s
        due = [0.1 + 0.01 * place for place in range(len(self._sources))]
        for tick in range(round(length_s / tick_s)):
            self._machine = self._machine.after(tick_s, self._speed, busy=1.0)
            self._folder.write(self._family.files(self._machine))
            rows: list[tuple[int, int, float]] = []
            place = 0
            for number, source in enumerate(self._sources):
                if due[number] <= tick * tick_s:
                    rows += _read(source, tick * tick_s + 0.001 * number, place)
                    due[number] += source.cadence_s
                place += len(source.sensors)
            yield make_readings(*rows) if rows else make_readings()


def _read(source: object, second: float, place: int) -> list[tuple[int, int, float]]:
    values = read_source(source)  # type: ignore[arg-type]
    if isinstance(values, Gap):
        return []
    return [
        (round(second * NS), place + at, float(value)) for at, value in enumerate(values) if not isinstance(value, Gap)
    ]


def batches(manifest: Manifest, pieces: Sequence[Readings], tick_s: float) -> Iterator[Batch]:
    """Measured from the first second on, at a speed that does not change: what is told is what the board says."""
    for tick, rows in enumerate(pieces):
        now_ns = round((tick + 1) * tick_s * NS)
        events: tuple[Event, ...] = (phase_event(NS // 10, "measure"),) if not tick else ()
        is_last = tick == len(pieces) - 1
        if is_last:
            events = (*events, ended_event(now_ns, "duration", last_end_ns=now_ns))
        yield Batch(
            until_ns=now_ns,
            manifest=None if tick else manifest,
            readings=rows,
            seconds=_second(now_ns - NS) if not now_ns % NS else Batch().seconds,
            events=events,
        )


def _second(t_ns: int) -> Seconds:
    row = np.zeros(1, SECOND)
    row["t_ns"], row["count"], row["p50_ns"], row["sum_ns"] = t_ns, 100, 10_000_000, NS
    for name in ("deadline_misses", "miss_run_first", "miss_run_last", "miss_run_longest"):
        row[name] = -1
    return Seconds(row, np.array([0, 1], np.int32), np.array([500], np.int16), np.array([100], np.int32))


def flags_up(manifest: Manifest, readings: Readings) -> list[tuple[str, float, float]]:
    """Each time in which a flag that is not sticky was up: which, its first and its last such reading."""
    found = []
    for place, info in enumerate(manifest.sensors):
        if info.kind != "throttle" or info.label.endswith("-sticky"):
            continue
        mine = readings[readings["sensor"] == place]
        is_up = np.concatenate([[False], mine["value"] == 1, [False]])
        for begin, end in np.flatnonzero(np.diff(is_up)).reshape(-1, 2):
            found.append((info.id, mine["t_ns"][begin] / NS, mine["t_ns"][end - 1] / NS))
    return found


CASES = [(scenario, speed) for scenario in SCENARIOS for speed in (LENGTH_S if scenario in THROTTLING else (60.0,))]


@pytest.mark.parametrize(
    ("scenario", "speed"),
    [pytest.param(*case, marks=[] if case[1] == 20 else [pytest.mark.thorough]) for case in CASES],
    ids=[f"{scenario}-{speed:g}x" for scenario, speed in CASES],
)
def test_every_span_is_in_view_report_events_alerts_and_news(scenario: str, speed: float, tmp_path: Path) -> None:
    board = Simulated(scenario, speed, tmp_path)
    manifest, pieces = make_manifest(*board.sensors), list(board.readings(LENGTH_S[speed]))
    told = list(batches(manifest, pieces, TICK_S.get(speed, 0.25)))
    live, recorder, news = Analysis(), ThrottleEvents(), AlertNews(EACH)
    events: list[Event] = []
    heard = []
    for number, batch in enumerate(told):
        live.fold(batch)
        events += recorder.fold(batch)
        if number % 4 == 3 or batch is told[-1]:
            heard += [alert for alert in news.due(live.alerts_view()) if alert.name == "throttled"]
    up = flags_up(manifest, np.concatenate(pieces))
    assert bool(up) == (scenario in THROTTLING)
    view = live.throttles.view()
    spans = [(span.start_ns / NS, (span.end_ns or 0) / NS) for span in view.spans]
    for flag, first_s, last_s in up:
        assert any(begin <= first_s and last_s <= end for begin, end in spans), (flag, first_s, last_s)
    for begin, end in spans:
        assert any(begin - 0.1 <= first_s and last_s <= end for _, first_s, last_s in up), (begin, end)
    begun = [event for event in events if event.kind == "throttle-begin"]
    over = [event for event in events if event.kind == "throttle-end"]
    assert [event.t_ns for event in begun] == [span.start_ns for span in view.spans]
    assert [event.t_ns for event in over] == [span.end_ns for span in view.spans if not span.was_cut]
    assert {event.body.cause for event in (*begun, *over)} <= {scenario}
    assert sorted(alert.begin_ns for alert in heard) == [span.start_ns for span in view.spans]
    document = report_document(live)
    assert document["throttled"] == bool(spans)
    assert [round(span["start_s"] * NS) for span in document["throttles"]] == [
        pytest.approx(span.start_ns, abs=1e6) for span in view.spans
    ]
    replayed = Analysis()
    replayed.fold(merge(told))
    assert replayed.throttles.view() == view
