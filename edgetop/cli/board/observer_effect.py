"""The observer effect on this board: how much slower a model runs because edgetop watches it.

Edgetop and a bare loop (without edgetop) run the same model in turns. In each round of turns, edgetop's figures are
divided by the bare loop's figures. So a drift of the board's clocks does not change the ratios.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgetop import demo
from edgetop.cli.board.own_terminal import OwnTerminal
from edgetop.cli.running.child_run import ChildRun
from edgetop.cli.terminal import edgetop_command
from edgetop.engines.programs import bare_loop
from edgetop.errors import EdgetopError
from edgetop.frozen import frozen
from edgetop.recording.reader import Recording
from edgetop.recording.session_folder import session_folder
from edgetop.session.records import MEASURE
from edgetop.session.typed_json import Document

ROUNDS = 5  # The least and the greatest of five rounds bound the median with 94 % confidence (order statistics).
CONDITIONS = ("bare", "headless", "screen")
THREADS = 1  # a core is left for edgetop, as a board in production has to
LEAST_TURN_S = 1.0
STOP_S = 60.0  # time that a run gets to end when it is asked to
START_S = 1.5  # least time that a program takes to start and to end, on average over the conditions
COLUMNS, ROWS = 160, 50  # the largest screen of the README's table


@frozen
class Turn:
    """The figures of one turn: inferences, latency, throughput. In a turn, one program alone runs the model."""

    count: int
    p50_ms: float
    p99_ms: float
    throughput_hz: float  # by the time that the inferences took

    @classmethod
    def of(cls, latencies_ns: npt.NDArray[np.int64]) -> "Turn":
        """Return the figures of a turn from its latencies in ns. Raises EdgetopError if there are none."""
        if not len(latencies_ns):
            raise EdgetopError("a turn of the observer effect has no inference")
        p50, p99 = np.percentile(latencies_ns, (50, 99)) / 1e6
        return cls(len(latencies_ns), float(p50), float(p99), float(1e9 / latencies_ns.mean()))


Round = Mapping[str, Turn]  # by condition; of the last round, some may be missing
NAMES = {"bare": "of the bare loop", "headless": "of edgetop without a screen", "screen": "of edgetop with its screen"}


@frozen
class Turns:
    """The plan of a measurement: the model, the number of rounds, the length of a turn, and a folder for results."""

    model_format: str  # such as "onnx"
    rounds: int
    seconds: float  # length of a turn
    folder: Path  # a private one
    environment: Mapping[str, str]
    limit: Callable[[str], float]  # called with a turn's name: seconds that it may take; raises if no time is left

    @property
    def model(self) -> Path:
        return demo.model_path(self.model_format)

    def name(self, condition: str) -> str:
        return f"{self.model_format}: a turn {NAMES[condition]}"

    def unended(self, condition: str, limit_s: float) -> EdgetopError:
        return EdgetopError(f"{self.name(condition)}, of {self.seconds:.0f} s, did not end within {limit_s:.0f} s")


def measure(turns: Turns, tell: Callable[[str], None], rounds: list[dict[str, Turn]]) -> None:
    """Run all rounds, and append their figures to `rounds`.

    A round has three turns: the bare loop, edgetop without a screen, edgetop with its screen. Their order changes from
    round to round. In `rounds`, a round is a dict of turns by the name of what ran, such as "bare" for the bare loop.
    `tell` gets a line of text before each turn. Raises EdgetopError if a turn fails; `rounds` then has the turns that
    ended before.
    """
    for number in range(turns.rounds):
        found: dict[str, Turn] = {}
        rounds.append(found)
        for place in range(len(CONDITIONS)):
            condition = CONDITIONS[(number + place) % len(CONDITIONS)]
            tell(f"round {number + 1} of {turns.rounds}: {condition}")
            found[condition] = Turn.of(_RUN[condition](turns, turns.folder / f"turn-{number}-{condition}"))


def _bare(turns: Turns, place: Path) -> npt.NDArray[np.int64]:
    out = place.with_suffix(".npy")
    words = [str(turns.model), f"{turns.seconds:.3f}", str(THREADS), str(out)]
    limit_s = turns.limit(turns.name("bare"))
    try:
        done = subprocess.run(  # noqa: S603  our own program
            [sys.executable, bare_loop.__file__, *words],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False,
            start_new_session=True, cwd=turns.folder, env=dict(turns.environment),
        )  # fmt: skip
        if done.returncode == 0:
            latencies: npt.NDArray[np.int64] = np.load(out, allow_pickle=False)
            return latencies
    except subprocess.TimeoutExpired:
        raise turns.unended("bare", limit_s) from None
    except (OSError, ValueError) as error:
        raise EdgetopError(f"{turns.name('bare')} failed: {error}") from None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    raise EdgetopError(f"{turns.name('bare')} failed: {said[-1] if said else f'exit status {done.returncode}'}")


def _arguments(turns: Turns, place: Path) -> list[str]:
    length = ("--duration", f"{turns.seconds * 1000:.0f}ms")
    return ["run", str(turns.model), "--threads", str(THREADS), *length, "-o", str(place)]


def _headless(turns: Turns, place: Path) -> npt.NDArray[np.int64]:
    limit_s = turns.limit(turns.name("headless"))
    run = ChildRun(_arguments(turns, place), turns.folder, environment=turns.environment)
    until_s = time.monotonic() + limit_s

    def look() -> None:
        if time.monotonic() > until_s:
            raise turns.unended("headless", limit_s)

    outcome = run.run(look, STOP_S)
    if not outcome.is_complete:
        raise EdgetopError(f"{turns.name('headless')} failed: {outcome.reason or outcome.end_reason}")
    return latencies_of(session_folder(place))


def _screen(turns: Turns, place: Path) -> npt.NDArray[np.int64]:
    limit_s = turns.limit(turns.name("screen"))
    until_s = time.monotonic() + limit_s
    command = edgetop_command(*_arguments(turns, place))
    try:
        terminal = OwnTerminal(command, turns.environment, COLUMNS, ROWS)
    except OSError as error:
        raise EdgetopError(f"no pseudo-terminal can be opened: {error.strerror}") from None
    try:
        if not terminal.read_until(lambda: b"FINISHED" in terminal.output, until_s):
            raise turns.unended("screen", limit_s)
        terminal.send(b"q")
        terminal.read_until(terminal.has_ended, until_s)
    finally:
        terminal.close()
    return latencies_of(session_folder(place))


_RUN = {"bare": _bare, "headless": _headless, "screen": _screen}


def latencies_of(folder: Path) -> npt.NDArray[np.int64]:
    """Return the latencies in ns of a session's measured inferences that did not fail.

    Raises InputError if the session in `folder` cannot be read.
    """
    parts = []
    with Recording(folder) as recording:
        for batch in recording.play(inferences=True):
            rows = batch.inferences
            parts.append(rows["latency_ns"][(rows["phase"] == MEASURE) & rows["ok"]])
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def plan(total_s: float, start_s: float | None = None) -> tuple[int, float]:
    """Return `(number of rounds, seconds of each turn)`, so that all turns together take about `total_s` seconds.

    `start_s` is the time in s that edgetop needs on this board to start and end a run, or None if that is unknown.
    """
    start_s = max(START_S, start_s or 0.0)
    least_s = (LEAST_TURN_S + start_s) * len(CONDITIONS)
    rounds = min(ROUNDS, max(1, int(total_s / least_s)))
    return rounds, max(LEAST_TURN_S, total_s / (rounds * len(CONDITIONS)) - start_s)


def compared(rounds: Sequence[Mapping[str, object]], condition: str) -> int:
    """Return how many rounds have both a turn of the bare loop and a turn of `condition`.

    `condition` names a way to run edgetop, such as "headless". A round is a dict of turns by such a name, or "bare".
    """
    return sum("bare" in one and condition in one for one in rounds)


def document(model_format: str, seconds: float, rounds: Sequence[Round]) -> Document:
    """Return a JSON document with all rounds, and with edgetop's figures divided by the bare loop's figures.

    Each ratio is given as the median, least and greatest over the rounds that have both a turn of edgetop and a turn of
    the bare loop. A ratio without such rounds is left out. `model_format` is such as "onnx". `seconds` is the length of
    a turn.
    """
    figures = {"p50": "p50_ms", "p99": "p99_ms", "throughput": "throughput_hz"}
    ratios = {
        condition: {
            name: _spread([_ratio(one, condition, field) for one in rounds if {"bare", condition} <= one.keys()])
            for name, field in figures.items()
        }
        for condition in CONDITIONS[1:]
        if compared(rounds, condition)
    }
    shown = [
        {name: {each: getattr(turn, each) for each in ("count", *figures.values())} for name, turn in one.items()}
        for one in rounds
    ]
    return {
        "model": demo.model_path(model_format).name,
        "threads": THREADS,
        "turn_s": seconds,
        "screen": f"{COLUMNS}x{ROWS}",
        "ratios": ratios,
        "rounds": shown,
    }


def _ratio(one: Round, condition: str, field: str) -> float:
    ratio: float = getattr(one[condition], field) / getattr(one["bare"], field)
    return ratio


def _spread(ratios: list[float]) -> Document:
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}
