"""The firmware's throttle word: what limits the board now, and what has since boot.

Bits 0 to 3 hold now, bits 16 to 19 have held: under-voltage, ARM frequency capped, throttled,
soft temperature limit (raspberrypi/documentation, get_throttled). Two ways lead to it:

* `get_throttled` in sysfs, a file: the word of the kernel's last poll, every 2 s. That poll
  asks the firmware to clear bits 16 to 19 (drivers/hwmon/raspberrypi-hwmon.c sends 0xffff),
  so there they mean "since the poll before".
* `vcgencmd get_throttled`, a fork: there they mean "since boot". It is never given an
  argument: any would clear them for everybody (raspberrypi/documentation#1341).

So the file is read where there is one, and the command only once, for what was before.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

from edgetop.sensors.protocol import Found, Gap, Missing, sensor
from edgetop.sensors.raspberry_pi.firmware import CADENCE_S, COMMAND, ask
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

QUESTION = "get_throttled"
PLATFORM = "sys/devices/platform"

FLAGS = ("under-voltage", "freq-capped", "throttled", "soft-temp-limit")
UNDER_VOLTAGE, CAPPED, THROTTLED, SOFT_LIMIT = (1 << bit for bit in range(4))
ALL = 0b1111
HAS_OCCURRED = 16  # bits up

_ANSWER = re.compile(r"throttled=0x([0-9a-fA-F]{1,8})")
_FILE = re.compile(r"[0-9a-fA-F]{1,8}")


def parse(answer: str) -> int:
    """
    >>> hex(parse("throttled=0x50005"))
    '0x50005'
    """
    if not (match := _ANSWER.fullmatch(answer.strip())):
        raise ValueError(f"not a throttle word: {answer[:40]!r}")
    return int(match[1], 16)


def parse_file(text: str) -> int:
    """Hexadecimal without its `0x`: 50005."""
    if not _FILE.fullmatch(text):
        raise ValueError(f"not a throttle word: {text[:40]!r}")
    return int(text, 16)


class ThrottleFlags:
    """Each flag now and since boot, and whether heat is what limits the board.

    A flag counts as "now" too when its history bit has risen since the last read: it held
    between the two. A history bit that was set before is never one of "now".
    """

    name = "throttle flags"
    cadence_s = CADENCE_S

    def __init__(self, word: Callable[[], int], source: str, first: int, since_boot: int | None) -> None:
        """`first`: the word by which history bits rise. `since_boot`: the firmware's own, where it could be asked."""
        self._word = word
        self._occurred = first >> HAS_OCCURRED & ALL
        before = since_boot if since_boot is not None else 0
        self._seen = (before | before >> HAS_OCCURRED) & ALL
        self.sensors = _sensors(source, self._seen, knows_boot=since_boot is not None)

    def read(self) -> Sequence[float | Gap]:
        word = self._word()
        occurred = word >> HAS_OCCURRED & ALL
        now = word & ALL | occurred & ~self._occurred
        self._occurred = occurred
        self._seen |= now | occurred
        return [*_bits(now), *_bits(self._seen), float(is_by_heat(now))]


def _bits(word: int) -> list[float]:
    return [float(word >> bit & 1) for bit in range(len(FLAGS))]


def is_by_heat(now: int) -> bool:
    """Throttled or capped together with under-voltage is by voltage (raspberrypi/firmware#615).

    >>> [is_by_heat(word) for word in (0x8, 0x2, 0x4, 0x5, 0x0)]
    [True, True, True, False, False]
    """
    return bool(now & SOFT_LIMIT) or (bool(now & (CAPPED | THROTTLED)) and not now & UNDER_VOLTAGE)


def _sensors(source: str, before: int, *, knows_boot: bool) -> tuple[SensorInfo, ...]:
    since = "since boot" if knows_boot else "since edgetop began: what was before could not be asked"
    now = [sensor("throttle", flag, source) for flag in FLAGS]
    sticky = [
        sensor(
            "throttle",
            f"{flag}-sticky",
            source,
            note="was set already before this session" if before >> bit & 1 else since,
        )
        for bit, flag in enumerate(FLAGS)
    ]
    note = "soft-temp-limit, or freq-capped or throttled without under-voltage"
    return (*now, *sticky, sensor("throttle", "thermal", source, note=note))


def discover(root: Root, since_boot: int | None) -> Found:
    """`since_boot`: what `vcgencmd get_throttled` answered; None where it did not."""
    for path in _files(root):
        read = partial(_read_file, root, path)
        try:
            return Found((ThrottleFlags(read, root.shown(path), read(), since_boot),))
        except (OSError, ValueError):
            continue
    if since_boot is None:
        why = f"no get_throttled in {root.shown(PLATFORM)}, and {COMMAND} gives none"
        return Found(missing=(Missing("throttle flags", why),))
    read = partial(_ask, root)
    return Found((ThrottleFlags(read, f"{COMMAND} {QUESTION}", since_boot, since_boot),))


def _files(root: Root) -> list[str]:
    """`soc/soc:firmware` up to the Pi 4, `soc@107c000000/soc@107c000000:firmware` on the Pi 5."""
    names = [name for name in root.names(PLATFORM) if name.startswith("soc")]
    paths = [f"{PLATFORM}/{name}/{name}:firmware/{QUESTION}" for name in names]
    return [path for path in paths if root.exists(path)]


def _read_file(root: Root, path: str) -> int:
    return parse_file(root.read_text(path).strip())


def _ask(root: Root) -> int:
    return parse(ask(root, QUESTION))
