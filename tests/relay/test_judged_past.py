"""What the board found in a past that is sent too coarse to find it again: the laptop goes on from that."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.judged_past import import_state
from edgetop.analysis.slowdowns.mix import Mix
from edgetop.analysis.slowdowns.signals import Signals, channels
from edgetop.analysis.slowdowns.slowdowns import Slowdowns, judged
from edgetop.analysis.tracks import Tracks
from edgetop.feeds.remote import RemoteFeed
from edgetop.recording.reader import Recording
from edgetop.relay.encoding import NOWHERE, Decoder, Encoder
from edgetop.relay.past import FINE_S, past
from edgetop.session.batch import Batch
from edgetop.session.clock import SystemClock
from edgetop.session.phases import Phases
from edgetop.session.records import NO_READINGS
from edgetop.session.seconds import NO_SECONDS, NS
from edgetop.wording import verdict_words
from tests.support.recordings import record
from tests.support.relays import LiveRecording, Pipes, read_until
from tests.support.sessions import differences, folded, make_sensor
from tests.support.slow_sessions import session_of
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow

LONG_S = 2_400
FLAG, WAIT, CLOCK, HEAT, LOAD, RSS = (
    "throttle/soft-temp", "rate/run-queue-wait", "freq/cpu0", "temp/cpu-thermal", "load/cpu", "mem/rss-anon"
)  # fmt: skip


def hot(second: int) -> bool:
    return second % 400 >= 250 and second % 400 < 330


def crowded(second: int) -> bool:
    return second % 400 >= 290 and second % 400 < 310


def going_on(second: int) -> bool:
    return 300 <= second < LONG_S - 100


def board(
    is_hot: Any, rate_hz: float = 8, begin_s: int = 0, length_s: int = LONG_S, is_crowded: Any = crowded
) -> Batch:
    """A board with a leak that throttles now and then, and others that take the CPU from it meanwhile."""
    times = range(length_s)
    latency = [10.0 * (1.3 if is_hot(t) else 1) * (1.5 if is_crowded(t) else 1) for t in times]
    sensors = {
        FLAG: [float(is_hot(t)) for t in times],
        WAIT: [400.0 if is_crowded(t) else 1.0 + t % 3 for t in times],
        CLOCK: [1350e6 if is_hot(t) else 1800e6 for t in times],
        HEAT: [60 - 20 * float(np.exp(-t / 300)) + 0.1 * (t % 5) for t in times],
        LOAD: [390.0] * length_s,
        RSS: [100 + t / 100 + 0.3 * (t % 7) for t in times],
    }
    return session_of(latency, sensors, rate_hz=rate_hz)


def sent(batches: Iterator[Batch]) -> Iterator[Batch]:
    encoder, decoder = Encoder(), Decoder()
    for batch in batches:
        yield decoder.decode(encoder.encode(batch, NOWHERE))[0]


SESSIONS = {
    "several with causes": partial(board, hot),
    "one that goes on": partial(board, going_on),
    "a pace of one a second": partial(board, going_on, rate_hz=1),
    "limited from the start": partial(board, lambda t: t < LONG_S - 100),
    "released early": partial(board, lambda t: t < 200 or hot(t)),
    "healthy": partial(board, lambda _: False),
    "contended from the start": partial(board, hot, is_crowded=lambda _: True),
    "others leave early": partial(board, hot, is_crowded=lambda t: t < 300),
}


@cache
def session(name: str) -> Batch:
    return SESSIONS[name]()


@pytest.fixture(params=mostly_thorough(SESSIONS, "several with causes", "limited from the start"))
def whole(request: pytest.FixtureRequest) -> Batch:
    return session(request.param)


def recorded(folder: Path, whole: Batch) -> Recording:
    assert whole.manifest
    manifest = replace(whole.manifest, state="finished", duration_ns=whole.until_ns)
    return Recording(record(folder / "s.edgetop", [replace(whole, manifest=manifest)]))


def test_the_laptop_finds_what_the_board_finds(whole: Batch, tmp_path: Path) -> None:
    here, there = folded(sent(past(recorded(tmp_path, whole), judged))), folded([whole])
    assert differences(here.slowdowns_view(), there.slowdowns_view()) == []
    near, far = here.view(None).verdict, there.view(None).verdict
    # The memory's growth comes from rows of several seconds there, and is the same to the digits that are shown.
    assert (near.state, near.level, near.since_ns, near.p50_change) == (
        far.state,
        far.level,
        far.since_ns,
        far.p50_change,
    )
    assert verdict_words.words(near) == verdict_words.words(far)
    assert here.throttles.view() == there.throttles.view()
    assert differences(here.spans()[0], there.spans()[0]) == []


def test_without_it_causes_are_lost(tmp_path: Path) -> None:
    whole = session("several with causes")
    here, there = folded(past(recorded(tmp_path, whole))), folded([whole])
    assert differences(here.slowdowns_view(), there.slowdowns_view())


def test_without_it_throttling_follows_from_aggregates(tmp_path: Path) -> None:
    whole = session("several with causes")
    here, there = folded(past(recorded(tmp_path, whole))).throttles.view(), folded([whole]).throttles.view()
    assert [span.cause for span in here.spans] == [span.cause for span in there.spans]
    for ours, theirs in zip(here.spans, there.spans, strict=True):
        assert abs(ours.start_ns - theirs.start_ns) <= 20 * NS
        assert ours.end_ns
        assert theirs.end_ns
        assert abs(ours.end_ns - theirs.end_ns) <= 20 * NS
    assert there.share
    assert here.share == pytest.approx(there.share, rel=0.2)


def test_memory_grows_and_heat_goes_as_on_the_board(tmp_path: Path) -> None:
    whole = session("healthy")
    here, there = folded(sent(past(recorded(tmp_path, whole), judged))), folded([whole])
    ours, theirs = here.growth_view(), there.growth_view()
    assert theirs.is_leak
    assert ours.is_leak
    assert ours.mib_per_h
    assert theirs.mib_per_h
    assert ours.mib_per_h.value == pytest.approx(theirs.mib_per_h.value, rel=0.01)
    forecast, other = here.forecast_view(), there.forecast_view()
    assert (forecast.will_throttle, forecast.silence) == (other.will_throttle, other.silence) == (False, None)
    assert forecast.seen_s == pytest.approx(other.seen_s, rel=0.1)
    assert forecast.seen_s > FINE_S
    assert forecast.steady_c
    assert other.steady_c
    assert forecast.steady_c.value == pytest.approx(other.steady_c.value, abs=0.5)


def test_it_is_small(tmp_path: Path) -> None:
    document = next(b.judged for b in past(recorded(tmp_path, session("several with causes")), judged) if b.judged)
    encoder = Encoder()
    assert len(encoder.encode(Batch(judged=document), NOWHERE)) < 8_192


def test_over_a_pipe_the_laptop_goes_on_with_what_comes(tmp_path: Path) -> None:
    whole = session("one that goes on")
    cut_ns = (LONG_S - 150) * NS
    seconds, readings = whole.seconds.rows["t_ns"], whole.readings["t_ns"]
    first = replace(
        whole, until_ns=cut_ns, seconds=whole.seconds.where(seconds < cut_ns),
        readings=whole.readings[readings < cut_ns], inferences=whole.inferences[:0],
    )  # fmt: skip
    later = Batch(
        until_ns=whole.until_ns, seconds=whole.seconds.where(seconds >= cut_ns),
        readings=whole.readings[readings >= cut_ns],
    )  # fmt: skip
    live = LiveRecording(tmp_path / "s.edgetop", [first])
    feed = RemoteFeed(Pipes(live.folder), "pi@board", SystemClock())
    analysis = Analysis()
    try:
        there = folded([first])
        read_until(feed, analysis.fold, lambda: not differences(analysis.slowdowns_view(), there.slowdowns_view()))
        assert analysis.slowdowns_view().now
        live.put(later)
        there = folded([first, later])
        read_until(feed, analysis.fold, lambda: analysis.slowdowns_view().now is None)
        assert differences(analysis.slowdowns_view(), there.slowdowns_view()) == []
        assert [s.cause for s in analysis.slowdowns_view().slowdowns][:3] == ["contention", "thermal", "contention"]
    finally:
        feed.close(0.1)
        live.die()


def changed(document: dict[str, Any], path: tuple[Any, ...], value: object) -> dict[str, Any]:
    twin: Any = json.loads(json.dumps(document))
    place = twin
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return twin  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("state", 0), 1), (("state", 1), -1), (("state",), None), (("state",), []), (("tables",), [[], []]),
        (("tables", 1), [[1, 2, 10**12]]), (("tables", 2), [["a", 1]]), (("tables", 0), [[1]]), (("state", 9), 0.0),
        (("state", 9), 1e999), (("state", 7), [10**30]), (("state", 11), -5), (("state", 10), [[0, None, "magic"]]),
        (("state", 12, 0, 5), 7), (("state", 12, 1, 1, 0, 2), -(10**12)), (("state", 12, 1, 1, 0, 6), []),
        (("state", 1), 10**9), (("state", 6), 10**9), (("state", 6), -1), (("state", 4), 10**9),
        (("tables", 2), [[-9, 1]]),
        (("state", 10), [[-1, 5, "thermal", 1.2, 0.9, [], False, ""]]), (("tables", 1), [[5, 5, 0]]),
        (("state", 10), [[1, 5, "thermal", -1.2, 0.9, [], False, ""]]), (("state", 12, 0, 0), 10**9),
        (("state", 10), [[1, 5, "thermal", 1.2, 99.0, [], False, ""]]), (("state", 12, 0, 2), -1),
        (("tables", 3), [[0] * 3]), (("state", 12, 1, 4), 0), (("state", 12, 1, 6), 10**15),
        (("state", 13, 4), 1), (("state", 13, 5), 10**9), (("state", 13, 8), {"load/others": 10**30}),
        (("state", 14), 1),
        (("state", 14), True), (("state", 13, 0), -1), (("state", 12, 0, 16), -1), (("state", 17), 1e6),
        (("state", 16), [[9.0, 2.0, 1.0]]), (("state", 16), [[-9.0, 2.0]]), (("state", 16), [[9.0, 2.0] * 6]),
    ],
)  # fmt: skip
def test_what_cannot_be_true_is_not_gone_on_from(path: tuple[Any, ...], value: object) -> None:
    document, known = board_in_a_slowdown()
    with pytest.raises(ValueError, match=r"a judgement has an unexpected value|a row that cannot be"):
        import_state(changed(document, path, value), known, session("one that goes on").until_ns)


def test_a_sensor_that_came_in_the_slowdown_is_no_reason_to_lose_it() -> None:
    whole = session("one that goes on")
    assert whole.manifest
    quota = make_sensor("pressure/cpu-quota")
    with_quota = replace(whole.manifest, sensors=(*whole.manifest.sensors, quota))
    early = replace(whole, seconds=whole.seconds.where(whole.seconds.rows["t_ns"] < 1_500 * NS))
    later = replace(
        whole, until_ns=early.until_ns, manifest=with_quota, seconds=NO_SECONDS, readings=NO_READINGS, events=(),
        restart=False,
    )  # fmt: skip
    tracks = Tracks()
    board = Slowdowns(tracks, Phases())
    board.count_calls_by(Mix())
    for batch in (early, later):
        for part in tracks.parts(batch):
            board.fold(part)
    document = board.export_state()
    signals = Signals(Tracks())
    signals.register(with_quota)
    known = channels(signals.infos, signals.trips_c)
    assert import_state(json.loads(json.dumps(document)), known, whole.until_ns).detector.open


def test_after_a_judgement_that_is_refused_the_session_is_judged_anew() -> None:
    whole = session("one that goes on")
    refused = changed(board_in_a_slowdown()[0], ("state",), None)
    assert (
        differences(folded([replace(whole, judged=refused)]).slowdowns_view(), folded([whole]).slowdowns_view()) == []
    )


@cache
def board_in_a_slowdown() -> tuple[dict[str, Any], Any]:
    """What a board has found while one goes on, which can be gone on from; its channels."""
    whole = session("one that goes on")
    early = replace(whole, seconds=whole.seconds.where(whole.seconds.rows["t_ns"] < 1_500 * NS))
    document = judged(iter([early]), 0)
    assert document
    signals = Signals(Tracks())
    assert whole.manifest
    signals.register(whole.manifest)
    known = channels(signals.infos, signals.trips_c)
    assert import_state(json.loads(json.dumps(document)), known, whole.until_ns).detector.open
    return document, known
