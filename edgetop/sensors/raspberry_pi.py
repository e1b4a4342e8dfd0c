"""Read the firmware of a Raspberry Pi, which throttles, caps clocks and measures without Linux noticing.

This code only runs on boards whose `compatible` begins with `raspberrypi,`. The VideoCore firmware is queried with
`vcgencmd`. Each query starts a process (about 10 ms on a Pi) and uses a mailbox, which the kernel serialises and gives
up on after 1 s (drivers/firmware/raspberrypi.c), so no query is made more than once a second. Errors are printed to
standard output (raspberrypi/utils, vcgencmd/vcgencmd.c).

Throttling is a word with four flags: under-voltage, ARM frequency capped, throttled, soft temperature limit. Bits 0 to
3 mean that a flag is set now, bits 16 to 19 that it was set (raspberrypi/documentation, get_throttled). There are two
ways to read it:

* The file `get_throttled` in sysfs has the word of the kernel's last poll. The kernel polls every 2 s, and each poll
  asks the firmware to clear bits 16 to 19 (drivers/hwmon/raspberrypi-hwmon.c sends 0xffff). So in this file these bits
  mean "since the previous poll".
* `vcgencmd get_throttled` starts a process. In its answer these bits mean "since boot". The command is never given an
  argument, since any argument would clear these bits for everybody (raspberrypi/documentation#1341).

So the file is read if there is one, and the command only once, for flags that were set before.

Power comes from `vcgencmd pmic_read_adc` on a Pi 5. Twelve rails have a current and a voltage, which belong together by
name; the numbers in brackets do not match. Their sum is less than the board draws, since devices on 5 V bypass the
chip. An answer takes the firmware about 23 ms, in which other requests wait; 50 queries a second were seen to slow a
model down sixfold. The Pi 4 has no such chip.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from edgetop.sensors.root import File, Root, chips_named, is_compatible, run_command
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, attempt, gap_of, join, sensor
from edgetop.session.meter import Meter

COMMAND = "vcgencmd"
CADENCE_S = 2.0
TIMEOUT_S = 1.5  # a little longer than the kernel waits for the firmware

JOIN_VIDEO = "sudo usermod -aG video $USER, then log in again"
INSTALL = "sudo apt install raspi-utils (Raspberry Pi OS) or libraspberrypi-bin (Ubuntu)"


def discover(root: Root) -> Found:
    if not is_compatible(root, "raspberrypi,"):
        return Found()
    word: int | None = None  # throttle word since boot; None if the firmware does not know this query
    refused: OSError | None = None
    try:
        word = parse_throttled(ask(root, GET_THROTTLED))
    except (NotRegisteredError, ValueError):
        pass
    except OSError as error:
        # If this query is refused or not answered, the other ones would be too.
        refused = error
    flags = discover_throttle_flags(root, word)
    has_flags = bool(flags.sources)
    parts = [discover_alarm(root, has_flags=has_flags), discover_supply(root)]
    if refused:
        what = "throttle flags since boot, freq/arm, power" if has_flags else "throttle flags, freq/arm, power"
        return join([Found(flags.sources), *parts, Found(missing=(_missing(what, refused),))])
    return join([flags, *parts, discover_arm_clock(root), discover_power(root)])


# Queries to the firmware.


class NoAnswerError(OSError):
    """Raised if the firmware could not be queried. `fix` is a shell command that would help, or None."""

    def __init__(self, why: str, fix: str | None = None) -> None:
        super().__init__(why)
        self.fix = fix


class NotRegisteredError(NoAnswerError):
    """Raised if the firmware answers, but does not know the query."""


def ask(root: Root, *question: str) -> str:
    """Return the firmware's answer to a query, such as `ask(root, "measure_clock", "arm")`.

    Raises NoAnswerError, or another OSError if vcgencmd cannot be run.
    """
    try:
        output = run_command(root, COMMAND, *question, timeout_s=TIMEOUT_S)
    except FileNotFoundError:
        raise NoAnswerError(f"there is no {COMMAND}", INSTALL) from None
    asked = " ".join((COMMAND, *question))
    if "/dev/vcio" in output.text or "VCHI initialization failed" in output.text:
        raise NoAnswerError(f"{COMMAND} may not open /dev/vcio: that is for root and the group video", JOIN_VIDEO)
    if "Command not registered" in output.text:
        raise NotRegisteredError(f"this board's firmware does not know {asked!r}")
    if output.exit_status != 0:
        raise NoAnswerError(f"{asked!r} ended with status {output.exit_status}: {output.first_line[:80]!r}")
    return output.text


def _missing(what: str, error: OSError | ValueError) -> Missing:
    return Missing(what, gap_of(error).reason, getattr(error, "fix", None))


# The throttle word.

GET_THROTTLED = "get_throttled"
PLATFORM = "sys/devices/platform"

FLAGS = ("under-voltage", "freq-capped", "throttled", "soft-temp-limit")
UNDER_VOLTAGE, CAPPED, THROTTLED, SOFT_LIMIT = (1 << bit for bit in range(4))
ALL = 0b1111
HAS_OCCURRED = 16  # shift of the history bits


def parse_throttled(answer: str, prefix: str = "throttled=0x") -> int:
    """Return the throttle word, a set of flags, in the firmware's answer.

    `prefix` is the text before the number, or "" for the text of the file in sysfs, which has none. Raises ValueError
    if the answer has another form.

    >>> hex(parse_throttled("throttled=0x50005")), hex(parse_throttled("50005", prefix=""))
    ('0x50005', '0x50005')
    """
    text = answer.strip()
    if not text.startswith(prefix) or not re.fullmatch("[0-9a-fA-F]{1,8}", text[len(prefix) :]):
        raise ValueError(f"not a throttle word: {answer[:40]!r}")
    return int(text[len(prefix) :], 16)


def discover_throttle_flags(root: Root, since_boot: int | None) -> Found:
    """Return a reader of the throttle flags, such as under-voltage, or the reason why they cannot be read.

    `since_boot` is the throttle word that `vcgencmd get_throttled` printed, a number whose bits are flags. It is None
    if the command failed.
    """
    # The folder is `soc/soc:firmware` up to the Pi 4, and `soc@107c000000/soc@107c000000:firmware` on the Pi 5.
    names = [name for name in root.names(PLATFORM) if name.startswith("soc")]
    for path in (f"{PLATFORM}/{name}/{name}:firmware/{GET_THROTTLED}" for name in names):
        read = partial(_word_in, root.file(path))
        try:
            return Found((throttle_flags(read, root.absolute(path), read(), since_boot),))
        except (OSError, ValueError):
            continue
    if since_boot is None:
        why = f"no get_throttled in {root.absolute(PLATFORM)}, and {COMMAND} gives none"
        return Found(missing=(Missing("throttle flags", why),))
    source = f"{COMMAND} {GET_THROTTLED}"
    return Found((throttle_flags(lambda: parse_throttled(ask(root, GET_THROTTLED)), source, since_boot, since_boot),))


def _word_in(file: File) -> int:
    return parse_throttled(file.read_text(), prefix="")


def throttle_flags(word: Callable[[], int], source: str, first: int, since_boot: int | None) -> Reader:
    """Return a reader of throttle flags, each 1 if set or 0.

    The sensors are each flag now, each flag since boot, and whether heat limits the board. `word` reads the throttle
    word, a number whose bits are flags, and `first` is the first number that it returned. Bits 0 to 3 are the flags
    now, and bits 16 to 19 say which flags were set in the past. A flag also counts as set now if its past bit is new
    since the last read. `source` says where the word comes from. `since_boot` is the word that the firmware gave at the
    start, or None if the firmware could not be queried.
    """
    before = since_boot if since_boot is not None else 0
    occurred_before, seen = first >> HAS_OCCURRED & ALL, (before | before >> HAS_OCCURRED) & ALL
    since = "since edgetop began: what was before could not be asked" if since_boot is None else "since boot"
    notes = ["was set already before this session" if bit else since for bit in _bits(seen)]
    infos = (
        *(sensor("throttle", flag, source) for flag in FLAGS),
        *(sensor("throttle", f"{flag}-sticky", source, note=note) for flag, note in zip(FLAGS, notes, strict=True)),
        sensor(
            "throttle", "thermal", source, note="soft-temp-limit, or freq-capped or throttled without under-voltage"
        ),
    )

    def read() -> Values:
        nonlocal occurred_before, seen
        now_word = word()
        occurred = now_word >> HAS_OCCURRED & ALL
        now = now_word & ALL | occurred & ~occurred_before
        occurred_before = occurred
        seen |= now | occurred
        return [*_bits(now), *_bits(seen), float(is_by_heat(now))]

    return Reader(infos, read, CADENCE_S, "throttle flags")


def _bits(word: int) -> list[float]:
    return [float(word >> bit & 1) for bit in range(len(FLAGS))]


def is_by_heat(now: int) -> bool:
    """Return True if the temperature limit is reached, or if the clock is capped or throttled without under-voltage.

    Heat then limits the board. With under-voltage, throttling and a capped clock are due to the voltage
    (raspberrypi/firmware#615). `now` has a bit for each flag that is set: 1 under-voltage, 2 clock capped, 4 throttled,
    8 temperature limit.

    >>> [is_by_heat(word) for word in (0x8, 0x2, 0x4, 0x5, 0x0)]
    [True, True, True, False, False]
    """
    return bool(now & SOFT_LIMIT) or (bool(now & (CAPPED | THROTTLED)) and not now & UNDER_VOLTAGE)


# The kernel's under-voltage alarm.

VOLTAGE_CHIP = "rpi_volt"
IN_A_ROW = 3


def discover_alarm(root: Root, *, has_flags: bool) -> Found:
    """Return a reader of the kernel's under-voltage alarm: 1 if it was set in each of the last three reads, else 0.

    `in0_lcrit_alarm` of the chip `rpi_volt` says whether the input was too low at any time since the driver's last
    poll, 2 s ago (drivers/hwmon/raspberrypi-hwmon.c). With some supplies it flickers although the voltage is steady, so
    the alarm must be set in three reads in a row.

    With `has_flags`, the firmware's flags have a better sensor `throttle/under-voltage`, so the alarm gets another
    label.
    """
    paths = [f"{folder}/in0_lcrit_alarm" for folder in chips_named(root, VOLTAGE_CHIP)][:1]
    if not paths or not root.exists(paths[0]):
        return Found()
    file = root.file(paths[0])
    last: deque[bool] = deque(maxlen=IN_A_ROW)

    def read() -> Values:
        alarm = attempt(file.read_int)
        if alarm not in (0, 1):
            last.clear()  # an unknown value ends the row
            raise ValueError(alarm.reason if isinstance(alarm, Gap) else f"{alarm} is neither 0 nor 1")
        last.append(alarm == 1)
        return [float(len(last) == IN_A_ROW and all(last))]

    label = "under-voltage-alarm" if has_flags else "under-voltage"
    note = f"the input was too low in each of the last {IN_A_ROW} polls, {CADENCE_S:g} s apart"
    info = sensor("throttle", label, root.absolute(paths[0]), note=note)
    return Found((Reader((info,), read, CADENCE_S),))


# The current that the power supply of a Pi 5 has agreed to deliver, as negotiated by the bootloader.

MAX_CURRENT = "proc/device-tree/chosen/power/max_current"
SUPPLY_CADENCE_S = 60.0  # it does not change after boot


def discover_supply(root: Root) -> Found:
    """Return a reader of the current in A that the power supply agreed to deliver. The source is the device tree.

    The current is 5 A with a USB-PD contract and 3 A without one (raspberrypi/documentation, on power
    supplies).
    """
    if not root.exists(MAX_CURRENT):
        return Found()

    def read() -> Values:
        cells = root.read_bytes(MAX_CURRENT)
        if len(cells) != 4:
            raise ValueError(f"{len(cells)} bytes where a 32-bit number should be")
        return [int.from_bytes(cells, "big") / 1000]

    note = "what the supply agreed to at boot: 5 A is a USB-PD contract, 3 A is none"
    info = sensor("current", "supply-limit", root.absolute(MAX_CURRENT), note=note)
    return Found((Reader((info,), read, SUPPLY_CADENCE_S),))


# The real clock of the ARM cores, which the firmware measures.

MEASURE_CLOCK = ("measure_clock", "arm")
FASTEST = "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq"

_CLOCK = re.compile(r"frequency\([0-9]{1,4}\)=([0-9]{1,12})")


def discover_arm_clock(root: Root) -> Found:
    """Return a reader of the real clock of the ARM cores, as the firmware measures it.

    Linux has no file for it: `scaling_cur_freq` and `scaling_max_freq` ignore the caps that the firmware sets
    (raspberrypi/documentation, frequency-management.adoc).
    """

    def read() -> Values:
        return [parse_clock(ask(root, *MEASURE_CLOCK))]

    try:
        read()
    except (OSError, ValueError) as error:
        return Found(missing=(_missing("freq/arm", error),))
    fastest_khz = root.number(FASTEST)
    note = "measured by the firmware: its caps are not in freq/cpu0"
    highest_mhz = None if fastest_khz is None else fastest_khz / 1000
    info = sensor("freq", "arm", " ".join((COMMAND, *MEASURE_CLOCK)), max=highest_mhz, note=note)
    return Found((Reader((info,), read, CADENCE_S),))


def parse_clock(answer: str) -> float:
    """Return the clock in MHz from the firmware's answer. Raises ValueError if the answer has another form.

    >>> parse_clock("frequency(48)=1800457088")
    1800.457088
    """
    match = _CLOCK.fullmatch(answer.strip())
    if not match or int(match[1]) == 0:  # 0 means that the firmware has no such clock
        raise ValueError(f"not a clock: {answer[:40]!r}")
    return int(match[1]) / 1e6


# The rails that the power chip of a Pi 5 measures.

READ_ADC = "pmic_read_adc"
INPUT = "EXT5V"
FASTEST_S = 1.0
ACCURACY = "on-board-monitor"
SUM_NOTE = (
    "the rails the power chip measures; not in it: all that hangs on 5 V (USB, HAT, NVMe, fan) and conversion losses"
)
NO_SUM = Gap("a rail is missing, and without it there is no sum")
INPUT_NOTE = "the 5 V input; the firmware takes less than about 4.63 V for under-voltage"
NO_METER = "this board has no power meter; an INA chip (--i2c) or an external log can measure it"

# Example: `3V3_SYS_A current(1)=0.08783370A`. The end of the name, the word and the unit must agree.
_RAIL = re.compile(r"\s*(\w{1,30})_(?:A current\([0-9]{1,4}\)=(.+)A|V volt\([0-9]{1,4}\)=(.+)V)\s*", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,6}(\.[0-9]{1,12})?")


Rails = Mapping[str, float]


def parse_rails(answer: str) -> tuple[Rails, Rails]:
    """Return `(amperes, volts)`, each by name of rail, from the firmware's answer to `pmic_read_adc`.

    Lines of another form or without numbers are ignored.
    """
    currents: dict[str, float] = {}
    volts: dict[str, float] = {}
    for line in answer.splitlines():
        if not (match := _RAIL.fullmatch(line)):
            continue
        rail, amperes, voltage = match.groups()
        values, text = (currents, amperes) if amperes is not None else (volts, voltage)
        if _NUMBER.fullmatch(text):
            values[rail] = float(text)
    return currents, volts


def discover_power(root: Root) -> Found:
    try:
        currents, volts = parse_rails(ask(root, READ_ADC))
    except NotRegisteredError:
        return Found(missing=(Missing("power", NO_METER),))
    except (OSError, ValueError) as error:
        return Found(missing=(_missing("power", error),))
    rails = tuple(name for name in currents if name in volts)
    source = f"{COMMAND} {READ_ADC}"
    if not rails:
        return Found(missing=(Missing("power", f"{source} reported no rail with a current and a voltage"),))
    parts = [sensor("power", rail, source, role="part", accuracy=ACCURACY) for rail in rails]
    total = sensor("power", "pmic-sum", source, accuracy=ACCURACY, note=SUM_NOTE, meter=Meter("rpi5-pmic"))
    voltage = sensor("volt", INPUT, source, accuracy=ACCURACY, note=INPUT_NOTE)

    def read() -> Values:
        currents, volts = parse_rails(ask(root, READ_ADC))
        watts = {rail: currents[rail] * volts[rail] for rail in rails if rail in currents and rail in volts}
        summed = sum(watts.values()) if len(watts) == len(rails) else NO_SUM
        each = [watts.get(rail, Gap(f"the power chip did not report {rail}")) for rail in rails]
        return [*each, summed, volts.get(INPUT, Gap(f"the power chip did not report {INPUT}"))]

    return Found((Reader((*parts, total, voltage), read, CADENCE_S, "power chip", FASTEST_S),))
