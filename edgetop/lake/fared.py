"""How accurate forecasts for another ambient temperature are, measured on the sessions of a lake.

A case is two sessions with the same model, version, kind of board, enclosure and load, and with ambient temperatures
that are `LEAST_C` to `FARTHEST_C` apart. A forecast from the first session is compared with what the second session
measured.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.analysis.forecast.elsewhere import ERROR_SHARE, FARTHEST_C
from edgetop.frozen import frozen
from edgetop.lake.lake_tables import TABLE, dataset
from edgetop.lake.place import Place

KINDS = ("model", "version", "board_model", "enclosure", "load", "rate_hz", "threads", "batch")
NUMBERS = ("ambient_c", "trip_c", "steady_c", "steady_low_c", "steady_high_c", "throttled")
LEAST_C = 1.0
MOST_SESSIONS = 2_000  # of each kind, since memory grows with the number of pairs


@frozen
class Fared:
    cases: int  # pairs of sessions
    told: int  # cases in which the forecast says whether the board throttles
    right: int  # cases in which it says so correctly
    measured: int  # cases in which the steady temperature of both sessions is known
    inside: int  # those cases in which the second temperature is in the forecast range


def fared(place: Place) -> Fared:
    """Return how often forecasts were right, over all pairs of sessions in the lake that can be compared.

    Raises InputError if there is no lake at `place`, and OutputError if the lake cannot be read.
    """
    place.refuse_none()
    table = place.retry(lambda: dataset(place, TABLE, place.files(TABLE)).to_table([*KINDS, *NUMBERS]))
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for row in table.to_pylist():
        if row["enclosure"] and None not in (row["ambient_c"], row["trip_c"], row["throttled"]):
            kinds.setdefault(json.dumps([row[name] for name in KINDS]), []).append(row)
    counts = [_of_kind(rows[:MOST_SESSIONS]) for rows in kinds.values()]
    return Fared(*(int(each) for each in np.sum([np.zeros(5, np.int64), *counts], axis=0)))


def _of_kind(rows: list[Mapping[str, Any]]) -> npt.NDArray[np.int64]:
    """Return the counts of `Fared`, in the order of its fields, for sessions that can be compared.

    `rows` are the sessions' rows of the table `sessions`. Each session forecasts every other one.
    """
    ambient_c, trip_c, steady_c, low_c, high_c, throttled = (
        np.array([np.nan if row[name] is None else float(row[name]) for row in rows]) for name in NUMBERS
    )
    change_c = ambient_c[None, :] - ambient_c[:, None]
    error_c = ERROR_SHARE * np.abs(change_c)
    is_case = (np.abs(change_c) >= LEAST_C) & (np.abs(change_c) <= FARTHEST_C) & ~np.isnan(steady_c)[:, None]
    low, high = low_c[:, None] + change_c - error_c, high_c[:, None] + change_c + error_c
    says_yes, says_no = low > trip_c[None, :], high < trip_c[None, :]
    is_told, is_throttled = is_case & (says_yes | says_no), throttled[None, :] > 0
    is_measured = is_case & ~np.isnan(steady_c)[None, :] & ~is_throttled
    is_inside = (low <= steady_c[None, :]) & (steady_c[None, :] <= high)
    flags = (is_case, is_told, is_told & (says_yes == is_throttled), is_measured, is_measured & is_inside)
    return np.array([np.count_nonzero(flag) for flag in flags])
