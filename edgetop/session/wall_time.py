"""Session time by the wall clock.

The clock as it was set last is what counts: a board without a battery starts in 1970 until NTP
has come, and all of its session is to lie where it really was.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import numpy as np
import numpy.typing as npt

from edgetop.session.clock import Anchor, format_utc
from edgetop.session.manifest import Manifest

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class WallTime:
    origin_us: int  # of the session, since 1970

    def microseconds(self, t_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Since 1970."""
        return np.asarray(self.origin_us + t_ns // 1000)

    def utc(self, t_ns: int) -> str:
        """As the manifest writes it."""
        return format_utc(self._at(t_ns))

    def local(self, t_ns: int) -> datetime:
        """In the time zone of whoever reads it."""
        return self._at(t_ns).astimezone()

    def _at(self, t_ns: int) -> datetime:
        return _EPOCH + timedelta(microseconds=self.origin_us + t_ns // 1000)


def wall_time(manifest: Manifest) -> WallTime | None:
    """None where the manifest's times are none."""
    anchors = manifest.clock.anchors or (Anchor(0, manifest.created_utc),)
    try:
        then = datetime.fromisoformat(anchors[-1].utc.replace("Z", "+00:00"))
        origin_us = (then - _EPOCH) // timedelta(microseconds=1) - anchors[-1].t_ns // 1000
        return WallTime(origin_us) if abs(origin_us) < 2**61 else None
    except (ValueError, TypeError, OverflowError):  # TypeError: it has no time zone
        return None
