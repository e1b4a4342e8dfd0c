"""Units, rounding and foreign text: makes text for the user from raw values (ns, bytes, °C).

All other modules work with raw values. `clean` makes text from models, files, sensors and logs safe to show, so that a
terminal cannot take it for an instruction.
"""

import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Sequence

UNKNOWN = "-"
DIGITS = 3


def or_unknown(value: float | None, words: Callable[[float], str]) -> str:
    """Return `value` formatted by the function `words`, or a dash if `value` is None.

    >>> or_unknown(0.5, percent), or_unknown(None, percent)
    ('50.0 %', '-')
    """
    return UNKNOWN if value is None else words(value)


def rounded(value: float | None, digits: int = DIGITS) -> float | None:
    """Return a value rounded to `digits` decimals. None stays None."""
    return None if value is None else round(value, digits)


def rounded_ms(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 6)


def rounded_mj(joules: float) -> float:
    return round(joules * 1e3, 6)


def milliseconds(ns: float) -> str:
    """Format ns as a number of ms, with at most three decimals and about four significant digits.

    >>> [milliseconds(x) for x in (21_300, 999_940, 5_020_000, 56_000_000, 2_103_000_000)]
    ['0.021', '1.000', '5.020', '56.00', '2103']
    """
    value = ns / 1e6
    decimals = 3 if value < 9.9995 else 2 if value < 99.995 else 1 if value < 999.95 else 0
    return f"{value:.{decimals}f}"


def doubted(text: str, *, settled: bool | None, pad: str = "") -> str:
    """Return the text of a percentile, followed by `?` if there are too few inferences for it, else by `pad`.

    `settled` is None if it is not known whether there are enough: an imported figure, which gets no mark.

    >>> doubted("30.90", settled=False), doubted("30.90", settled=True), doubted("30.90", settled=None)
    ('30.90?', '30.90', '30.90')
    """
    return f"{text}?" if settled is False else f"{text}{pad}"


def unsettled_ms(ns: float) -> str:
    """Format ns as a number of ms with about two significant digits.

    For a percentile of so few inferences that a third digit would change with each new inference.

    >>> [unsettled_ms(x) for x in (21_300, 999_940, 5_020_000, 56_400_000, 99_700_000, 2_163_000_000)]
    ['0.021', '1.0', '5.0', '56', '100', '2200']
    """
    value = float(f"{ns / 1e6:.1e}")
    return f"{value:.{1 if value >= 1 else 2 if value >= 0.1 else 3}f}" if value < 10 else f"{value:.0f}"


def millijoules(mj: float, digits: int = 3) -> str:
    """Format a number of millijoules with `digits` significant digits. Digits before the decimal point are never cut.

    >>> [millijoules(x) for x in (0.0412, 0.61, 4.238, 41.23, 412.6, 4126)]
    ['0.0412', '0.610', '4.24', '41.2', '413', '4126']
    >>> millijoules(0.361, 2)
    '0.36'
    """
    if not mj:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(mj)))
    return f"{mj:.{min(max(decimals, 0), 6)}f}"


def rate(per_second: float) -> str:
    """Format a number per second with about three significant digits.

    >>> [rate(x) for x in (0.483, 24.07, 178.2, 48_230.0)]
    ['0.483', '24.1', '178', '48.2 k']
    """
    if per_second < 99.95:
        return f"{per_second:.{3 if per_second < 9.995 else 1}f}"
    return count(per_second)


def count(number: float) -> str:
    """Format a number of things. From 10,000 on, it has three significant digits and a suffix (k, M, G).

    >>> [count(x) for x in (0, 9_999, 10_000, 1_234_567, 86_400_000)]
    ['0', '9999', '10.0 k', '1.23 M', '86.4 M']
    """
    if number < 9_999.5:
        return f"{number:.0f}"
    for factor, suffix in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        value = number / factor
        if value < 999.5:
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {suffix}"
    return f"{number:.2e}"


def plain(number: float) -> str:
    """Return a number with four significant digits and without an exponent. Digits before the point are never cut.

    >>> plain(0.012345), plain(12345.6), plain(0.0000271828), plain(0.0)
    ('0.01235', '12346', '0.00002718', '0')
    """
    if abs(number) >= 1000:
        return f"{number:.0f}"
    if abs(number) >= 1e-4 or not number:
        return f"{number:.4g}"
    return f"{number:.{3 - math.floor(math.log10(abs(number)))}f}"


def quantity(number: float | None, noun: str, words: Callable[[float], str] = count) -> str:
    """Format a number of things with their noun, which gets an "s" unless the number is 1. None becomes a dash.

    `words` formats the number. By default it has three digits from 10,000 on; `str` keeps all digits.

    >>> [quantity(x, "burst") for x in (0, 1, 2, 12_345, None)], quantity(12_345, "burst", str)
    (['0 bursts', '1 burst', '2 bursts', '12.3 k bursts', '- bursts'], '12345 bursts')
    """
    return f"{or_unknown(number, words)} {noun}{'' if number == 1 else 's'}"


def threads(number: int) -> str:
    """Format the number of a runtime's threads; 0 means that the runtime chooses it.

    >>> threads(0), threads(1), threads(4)
    ('default threads', '1 thread', '4 threads')
    """
    return quantity(number, "thread") if number else "default threads"


def duration(ns: float) -> str:
    """Format a duration in its two largest units. Under a minute, it has tenths of a second.

    >>> [duration(x * 1e9) for x in (0.42, 59.96, 61, 3_725, 90_061)]
    ['0.4s', '1m00s', '1m01s', '1h02m', '1d01h']
    """
    seconds = ns / 1e9
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    size, lower, units = next(of for of in ((86_400, 3_600, "dh"), (3_600, 60, "hm"), (60, 1, "ms")) if whole >= of[0])
    return f"{whole // size}{units[0]}{whole % size // lower:02d}{units[1]}"


def elapsed(ns: float) -> str:
    """Format the time since the start of a session. The result cannot be taken for a time of day.

    >>> elapsed(27.9e9), elapsed(207e9), elapsed(3_725e9)
    ('27s', '3m27s', '1h02m')
    """
    seconds = max(0, int(ns // 1e9))
    return f"{seconds}s" if seconds < 60 else duration(seconds * 1e9)


def axis_time(seconds: int) -> str:
    """Format a time on the axis of a chart. Units at the end that are zero are left out: `5m` instead of `5m00s`.

    >>> [axis_time(x) for x in (0, 45, 300, 330, 5_400, 7_200, 7_230)]
    ['0s', '45s', '5m', '5m30s', '1h30m', '2h', '2h00m30s']
    """
    text = elapsed(seconds * 1e9)
    if seconds >= 3_600 and seconds % 60:
        return f"{text}{seconds % 60:02d}s"
    return text[:-3] if text[-3:] in ("00s", "00m", "00h") else text


def stopwatch(ns: float) -> str:
    """Format a duration in whole seconds, with minutes and hours.

    >>> stopwatch(27e9), stopwatch(207e9), stopwatch(3_725e9)
    ('0:27', '3:27', '1:02:05')
    """
    seconds = max(0, int(ns // 1e9))
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02d}:{seconds % 60:02d}" if hours else f"{minutes}:{seconds % 60:02d}"


def span(ns: float) -> str:
    """Format a length of time in one unit, as a user would write it.

    >>> [span(x * 1e9) for x in (0.5, 10, 60, 600, 90)]
    ['500ms', '10s', '1m', '10m', '90s']
    """
    milliseconds_ = round(ns / 1e6)
    for size_, unit in ((3_600_000, "h"), (60_000, "m"), (1_000, "s")):
        if milliseconds_ >= size_ and milliseconds_ % size_ == 0:
            return f"{milliseconds_ // size_}{unit}"
    return f"{milliseconds_}ms"


def clock_time(ns: float) -> str:
    """Format a session time (ns since the session began) as hours, minutes and seconds.

    >>> clock_time(3_725e9), clock_time(90_000e9)
    ('01:02:05', '25:00:00')
    """
    seconds = int(ns // 1e9)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


_WHOLE, _PARTS = r"(\d{1,9})", r"(\d{1,9}(?:\.\d{1,9})?)"
_DURATION = re.compile(f"(?:{_WHOLE}d)?(?:{_WHOLE}h)?(?:{_WHOLE}m)?(?:{_PARTS}s)?(?:{_WHOLE}ms)?")
_CLOCK_TIME = re.compile(f"(?:(?:{_WHOLE}:)?{_WHOLE}:)?{_PARTS}")


def parse_clock_time(text: str) -> int:
    """Return a session time in ns, parsed from text as people write it.

    Raises ValueError with a message that says how to write it.

    >>> [parse_clock_time(x) / 1e9 for x in ("01:02:05", "2:05.5", "90", "1h02m5s", "500ms")]
    [3725.0, 125.5, 90.0, 3725.0, 0.5]
    """
    given = text.strip().replace(" ", "")
    if match := _CLOCK_TIME.fullmatch(given):
        units: tuple[float, ...] = (3600, 60, 1)
    elif given and (match := _DURATION.fullmatch(given)):
        units = (86_400, 3600, 60, 1, 0.001)
    else:
        raise ValueError(f"{text!r} is not a time; write 01:02:05, 90s or 1h02m")
    parts = zip(match.groups(), units, strict=True)
    return round(sum(float(value) * unit for value, unit in parts if value) * 1e9)


def speed(factor: float) -> str:
    """Format a factor of the playback speed.

    >>> speed(0.1), speed(1.0), speed(1000)
    ('0.1x', '1x', '1000x')
    """
    return f"{factor:.4g}x"


def size(number_of_bytes: float) -> str:
    """Format a number of bytes with a binary prefix.

    >>> [size(x) for x in (512, 40_960, 1_048_575, 12_582_912, 5 * 2**30)]
    ['512 B', '40.0 KiB', '1.0 MiB', '12.0 MiB', '5.0 GiB']
    """
    value = float(number_of_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        text = f"{value:.0f}" if unit == "B" else f"{value:.1f}"
        if float(text) < 1024:
            return f"{text} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


_DECIMALS = {"MHz": 0, "state": 0, "0/1": 0, "rpm": 0, "B/s": 0, "W": 2, "V": 3, "A": 3}


def reading(value: float | None, unit: str) -> str:
    """Format a sensor's value without its unit. The unit decides how many decimals there are, so columns align.

    >>> reading(53.94, "°C"), reading(2399.7, "MHz"), reading(0.4812, "A"), reading(None, "A")
    ('53.9', '2400', '0.481', '-')
    """
    return UNKNOWN if value is None else f"{value:.{_DECIMALS.get(unit, 1)}f}"


def percent(share: float) -> str:
    """Format a share (0 to 1) in percent with one decimal.

    >>> percent(0.0213), percent(0.5)
    ('2.1 %', '50.0 %')
    """
    return f"{share * 100:.1f} %"


def share_text(share: float, *, settled: bool) -> str:
    """Format a share (0 to 1) in percent, without the unit. A `?` follows if `settled` is False (not yet reliable).

    >>> share_text(0.0213, settled=False), share_text(0.5, settled=True)
    ('2.1 ?', '50.0  ')
    """
    return f"{share * 100:.1f}{'  ' if settled else ' ?'}"


def interval_text(interval: Sequence[float] | None) -> str:
    """Format an interval of shares (0 to 1) in percent, without the unit. None becomes a dash.

    >>> interval_text((0.011, 0.3049)), interval_text(None)
    ('1.1-30.5', '-')
    """
    return UNKNOWN if interval is None else f"{interval[0] * 100:.1f}-{interval[1] * 100:.1f}"


def fine_percent(share: float) -> str:
    """Format a share (0 to 1) in percent. A small share has two significant digits, because one decimal would hide it.

    >>> fine_percent(0.0213), fine_percent(0.5), fine_percent(0.000214), fine_percent(0)
    ('2.1 %', '50.0 %', '0.021 %', '0 %')
    """
    return percent(share) if share >= 0.00995 else f"{share * 100:.2g} %"


def whole_percent(share: float) -> str:
    """Format a share (0 to 1) in whole percent. A share that would be rounded to 0 is shown as less than 1 %.

    >>> whole_percent(0.213), whole_percent(0.002), whole_percent(0)
    ('21 %', '<1 %', '0 %')
    """
    return "<1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"


def signed_percent(change: float) -> str:
    """Format a relative change in whole percent with its sign.

    >>> signed_percent(0.32), signed_percent(-0.041), signed_percent(-0.001)
    ('+32 %', '-4 %', '+0 %')
    """
    return f"{round(change * 100) or 0:+d} %"


def clean(text: str, *, ascii_only: bool = False) -> str:
    r"""Return foreign text that is safe to print: control characters and direction marks become visible escapes.

    `ascii_only` says that characters outside ASCII are replaced by similar ASCII ones, or by a question mark.

    >>> clean("a\x1b[31m[b]\n"), clean("naïve", ascii_only=True)
    ('a\\x1b[31m[b]\\n', 'na?ve')
    """
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(map(_visible, text))
    return plain_ascii(shown) if ascii_only else shown


_IN_ASCII = str.maketrans({"°": "", "µ": "u", "±": "+-", "…": "..."})


def plain_ascii(text: str) -> str:
    """Return a text in ASCII. Other characters are replaced by similar ones, or by a question mark.

    >>> plain_ascii("85 °C ± 2, naïve")
    '85 C +- 2, na?ve'
    """
    return text.translate(_IN_ASCII).encode("ascii", "replace").decode()


def cut(text: str, cells: int) -> str:
    """Return a text cut to `cells` columns of a terminal. ">" marks the cut. The text must be safe to print.

    >>> cut("throttled", 20), cut("throttled", 5), cut("中文模型", 6)
    ('throttled', 'thro>', '中文>')
    """
    widths = [_cells(character) for character in text]
    if sum(widths) <= cells:
        return text
    ends = itertools.accumulate(widths)
    return text[: sum(end < cells for end in ends)] + ">" * (cells > 0)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, cells: int = 60) -> str:
    """Return foreign text that is safe to print. If it has more than `cells` characters, only its end is kept.

    >>> shortened("model/block_1/conv2d", 12)
    '..._1/conv2d'
    """
    shown = clean(text)
    return shown if len(shown) <= cells else f"...{shown[3 - cells :]}"


def stream_name(name: str, cells: int) -> str:
    """Return the name of a stream (one model of a program), safe to print and cut to `cells` characters.

    If the name has a folder, its middle is cut out, because the folder may be all that distinguishes two models. If
    not, its beginning is cut off.

    >>> stream_name("v10/detector_int8.onnx", 20), stream_name("ch_PP-OCRv4_rec_infer.onnx", 20)
    ('v10/d...or_int8.onnx', '...v4_rec_infer.onnx')
    """
    return cut_middle(name, cells) if "/" in name else shortened(name, cells)


def cut_middle(text: str, cells: int, begin: int | None = None) -> str:
    """Return foreign text that is safe to print. If it has more than `cells` characters, its middle is cut out.

    `begin` is how many characters of its beginning stay. By default two thirds of the room are for the end, because
    names of operators differ at the end. If `cells` is below 8, only the end is kept.

    >>> cut_middle("/model/stem/block_1/conv2d_7", 18), cut_middle("conv2d_7", 18), cut_middle("conv2d_7", 4)
    ('/mode...1/conv2d_7', 'conv2d_7', '2d_7')
    """
    shown = clean(text)
    if len(shown) <= cells:
        return shown
    if cells < 8:
        return shown[len(shown) - max(cells, 0) :]
    begin = (cells - 3) // 3 if begin is None else begin
    return f"{shown[:begin]}...{shown[len(shown) - (cells - 3 - begin) :]}"


def cut_alike(texts: Sequence[str], cells: int) -> list[str]:
    """Return texts as `cut_middle` does, all cut at the same place: the one that leaves most of them different.

    >>> cut_alike(["block8/pointwise/relu6", "block9/pointwise/relu6"], 17)
    ['block8/...e/relu6', 'block9/...e/relu6']
    """
    room = max(cells - 3, 0)
    ways = ([cut_middle(text, cells, begin) for text in texts] for begin in (room // 3, room // 2, room * 2 // 3, room))
    return max(ways, key=lambda shown: len(set(shown)), default=[])


def _visible(character: str) -> str:
    if character.isprintable() or character == " ":
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode()
