"""How well forecasts agree with what became of the boards of `heating`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from edgetop.analysis.forecast.heat_forecast import Forecast, ForecastView
from edgetop.session.seconds import NS
from tests.support.generator.plans import Generated
from tests.support.heating import BEGAN_S, LENGTH_S, Heating

LEAST_HIT_S = 60.0  # to the trip: of less a quarter is no time
WITHIN = 0.2
LATER = (0.5, 0.75)  # of the time to the trip
LOOKS_S = (60, 120, 300, 600, 1_200, 2_400)  # at boards that never reach their trip


@dataclass
class Score:
    hits: int = 0  # boards that reach their trip, asked at a quarter of the time to it
    told: int = 0  # of which it was told that they will, and when
    right: int = 0  # within 20 % of the whole time
    right_left: int = 0  # within 20 % of the time that was left
    held: int = 0  # in the range that was told
    wrong_never: int = 0  # "will not throttle", at a quarter or later
    looks: int = 0  # at boards that never reach it
    false_alarms: int = 0
    never: int = 0  # "will not throttle"
    faults: list[str] = field(default_factory=list)

    @property
    def told_share(self) -> float:
        return self.told / max(self.hits, 1)

    @property
    def right_share(self) -> float:
        return self.right / max(self.told, 1)

    def add(self, board: Heating) -> None:
        hit_s = board.hit_s
        if hit_s is None:
            self._add_cool(board)
            return
        whole_s = hit_s - board.change_s
        if whole_s < LEAST_HIT_S:
            return
        self.hits += 1
        quarter_s = board.change_s + whole_s / 4
        view = forecast_at(board, quarter_s)
        self._add_never(board, view, quarter_s)
        for share in LATER:
            later_s = board.change_s + share * whole_s
            self._add_never(board, forecast_at(board, later_s), later_s)
        if view.trip_in_s is None:
            return
        self.told += 1
        left_s = hit_s - quarter_s
        off_s = view.trip_in_s.value - left_s
        self.right += abs(off_s) <= WITHIN * whole_s
        self.right_left += abs(off_s) <= WITHIN * left_s
        self.held += view.trip_in_s.low <= left_s <= view.trip_in_s.high
        if abs(off_s) > WITHIN * whole_s:
            self.faults.append(f"{name(board)}: at {quarter_s:.0f} s {view.trip_in_s} but {left_s:.0f}")

    def _add_never(self, board: Heating, view: ForecastView, at_s: float) -> None:
        if view.will_throttle is False:
            self.wrong_never += 1
            self.faults.append(f"{name(board)}: at {at_s:.0f} s it will not: {view.steady_c}")

    def _add_cool(self, board: Heating) -> None:
        for look_s in LOOKS_S:
            if board.change_s and look_s < board.change_s:
                continue  # what is true until then is not what comes
            view = forecast_at(board, look_s)
            self.looks += 1
            self.never += view.will_throttle is False
            if view.will_throttle:
                self.false_alarms += 1
                self.faults.append(f"{name(board)}: at {look_s} s {view.trip_in_s}, most {board.true_c.max():.1f}")

    def __str__(self) -> str:
        told = max(self.told, 1)
        return (
            f"{self.hits} boards reach their trip; told at a quarter of the time {self.told_share:.0%}, "
            f"right {self.right_share:.0%} (of the time left {self.right_left / told:.0%}), "
            f"range held {self.held / told:.0%}; told that they will not: {self.wrong_never} of {3 * self.hits} looks\n"
            f"others: {self.looks} looks, {self.false_alarms} false alarms, told that they will not {self.never}"
        )


def name(board: Heating) -> str:
    return f"{board.seed} order {board.order} {board.room} {board.change}"


def forecast_at(board: Heating, at_s: float) -> ForecastView:
    fold = Forecast()
    for batch in board.batches(min(at_s, LENGTH_S)):
        fold.fold(batch)
    return fold.view(round((at_s + BEGAN_S) * NS))


def score(boards: Iterable[Heating]) -> Score:
    found = Score()
    for board in boards:
        found.add(board)
    return found


def announced(session: Generated) -> float | None:
    """Return when a session's forecast first announces a trip, asked every ten seconds; None: never."""
    fold = Forecast()
    for batch in session.batches(tuple(np.arange(10.0, session.end_s, 10.0))):
        fold.fold(batch)
        if fold.view(batch.until_ns).will_throttle:
            return batch.until_ns / NS
    return None
