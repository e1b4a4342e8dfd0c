"""The range that a signal usually has, and the border beyond which it counts as out of it."""

import numpy as np

from edgetop.analysis.slowdowns.causes import Channel
from edgetop.analysis.tracks import Floats

USUAL_S = 30  # before the time in question: what is usual


def usual_range(channel: Channel, before: Floats) -> tuple[float, float]:
    """The median of what it was before, and the border. NaN where nothing is known."""
    usual = np.sort(before[~np.isnan(before)])
    return _share_below(usual, 0.5), _border(channel, usual)


def _border(channel: Channel, usual: Floats) -> float:
    if channel.fixed is not None:
        return channel.fixed
    if channel.falls:
        low = _share_below(usual, 0.2)
        return min(low * (1 - channel.share), low - channel.least)
    high = _share_below(usual, 0.9) if len(usual) else 0.0
    return max(high * (1 + channel.share), high + channel.least)


def _share_below(in_order: Floats, share: float) -> float:
    """The value below which so many lie, nearest rank; NaN of none."""
    return float(in_order[round(share * (len(in_order) - 1))]) if len(in_order) else float("nan")
