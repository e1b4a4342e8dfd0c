"""Parsers of option values, such as durations and shapes.

Each function takes the text of one option and returns its value. It raises BadParameter with a message that says how to
write the value.
"""

import contextlib
import itertools
import math
import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click import BadParameter

from edgetop.cli.companions import Value
from edgetop.formatting import shortened
from edgetop.nearest import nearest_hint

if TYPE_CHECKING:
    from edgetop.cli.event_hooks import Hook
    from edgetop.imports.power_trace import Scale
    from edgetop.session.manifest import Battery

AUTO_WARMUP = -1  # the default of the kind of model
MIN_MAX_BYTES = 4 * 2**20

MAX_DURATION_NS = 10 * 366 * 86_400 * 10**9  # upper bound of a session's length
SHORTEST_SAMPLE_NS, LONGEST_SAMPLE_NS = 100_000_000, 60_000_000_000
_UNITS_NS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}

# Attributes of `--labels` and `--metric`, which several commands share.
LABELS: dict[str, Value] = {
    "type": click.Path(path_type=Path), "metavar": "FILE.npy",
    "help": "True classes of the inputs, to measure the accuracy of the kept outputs.",
}  # fmt: skip
METRIC: dict[str, Value] = {
    "metavar": "MODULE:FUNCTION",
    "help": "Python function that scores outputs against labels and returns a number: eval:score in eval.py.",
}
MARKDOWN: dict[str, Value] = {
    "metavar": "FILE", "help": "Write tables as Markdown, for a pull request or a wiki; - prints them alone.",
}  # fmt: skip


class FiniteRange(click.FloatRange):
    """A click type for numbers in a range, without inf and nan. Click's own range accepts "nan"."""

    def convert(self, value: Value, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        converted = super().convert(value, param, ctx)
        if not math.isfinite(converted):
            self.fail(f"{value!r} is not a number", param, ctx)
        return converted


class Rate(FiniteRange):
    """A click type for a rate in Hz, above 0. The error for 0 says how to run without a rate."""

    def __init__(self) -> None:
        super().__init__(1e-6, 1e6)

    def convert(self, value: Value, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        with contextlib.suppress(TypeError, ValueError):
            if float(value) == 0:
                self.fail("0 would start no inference; leave the rate out to run back to back", param, ctx)
        return super().convert(value, param, ctx)


def duration(text: str) -> int:
    """Return a duration above zero in ns.

    >>> duration("500ms"), duration("2h")
    (500000000, 7200000000000)
    """
    ns = duration_or_zero(text)
    if ns == 0:
        raise BadParameter(f"{text!r} is not longer than zero")
    return ns


def sample_time(text: str) -> int:
    """Return the interval at which sensors are read, in ns. It must be from 100 ms to one minute.

    >>> sample_time("500ms")
    500000000
    """
    ns = duration(text)
    if not SHORTEST_SAMPLE_NS <= ns <= LONGEST_SAMPLE_NS:
        raise BadParameter(f"{text!r} is not from 100ms to 1m")
    return ns


def duration_or_zero(text: str) -> int:
    """Return a duration in ns. 0 is allowed.

    >>> duration_or_zero("0"), duration_or_zero("1.5s")
    (0, 1500000000)
    """
    if text.strip() == "0":
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", text.strip())
    if not match:
        raise BadParameter(f"{text!r} is not a duration; write 500ms, 10s, 5m or 2h")
    ns = float(match[1]) * _UNITS_NS[match[2]]
    if ns > MAX_DURATION_NS:
        raise BadParameter(f"{shortened(text)!r} is longer than ten years")
    return int(ns)


def stop_signal(text: str) -> signal.Signals:
    """Return the signal that `text` names.

    >>> stop_signal("INT").name, stop_signal("SIGTERM").name, stop_signal("1").name
    ('SIGINT', 'SIGTERM', 'SIGHUP')
    """
    name = text.strip().upper()
    try:
        number = signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise BadParameter(f"{shortened(text)!r} is not a signal; write TERM, INT, HUP, QUIT or USR1") from None
    if number in (signal.SIGSTOP, signal.SIGCONT):
        raise BadParameter(f"{number.name} does not end a program; write TERM, INT, HUP, QUIT or USR1")
    return number


def duty_cycle(text: str) -> tuple[int, int]:
    """Return the lengths of work and rest in ns.

    >>> duty_cycle("2s:8s")
    (2000000000, 8000000000)
    """
    on, colon, off = text.partition(":")
    if not colon:
        raise BadParameter(f"{text!r} is not a duty cycle; write ON:OFF, as in 2s:8s")
    return duration(on), duration(off)


def _parser(path: str, topic: str = "") -> Callable[[str], Value]:
    """Return a parser that calls the function `path`, such as `edgetop.formatting:parse_clock_time`.

    The function's module is imported at the first call, because `--help` does not need it. A ValueError becomes a
    BadParameter, whose message ends with `topic`, such as `edgetop help gates`.
    """
    module, function = path.split(":")

    def parse(text: str) -> Value:
        try:
            return getattr(import_module(module), function)(text)
        except ValueError as error:
            raise BadParameter(f"{error} ({topic})" if topic else str(error)) from None

    return parse


gate = _parser("edgetop.wording.rule_words:gate_of", "edgetop help gates")  # p99>33ms, throttled
relative_gate = _parser(
    "edgetop.comparison.comparison_gates:parse_relative_gate", "edgetop help compare"
)  # p50>+3%, rss>+20MiB
alert_rule = _parser("edgetop.wording.rule_words:rule_of", "edgetop help alerts")  # temp>80C for=30s
session_time = _parser("edgetop.formatting:parse_clock_time")  # 01:30:00 90s 1h30m, in ns
i2c_spec = _parser("edgetop.sensors.i2c:parse_spec")  # BUS:ADDR:CHIP:SHUNT[:NAME]


def event_hook(text: str) -> "Hook":
    """Return a hook from `EVENT=COMMAND`, such as `throttled='notify-send hot'`.

    The command will run without a shell.
    """
    from edgetop.cli.event_hooks import Hook  # noqa: PLC0415
    from edgetop.wording.alert_names import ANY, NAMES  # noqa: PLC0415  --help needs none of it

    name, equals, command = text.partition("=")
    if not equals:
        raise BadParameter(f"{text!r}: write EVENT=COMMAND, as in throttled='notify-send hot'")
    if name not in NAMES and name != ANY:
        raise BadParameter(f"unknown event {name} ({nearest_hint(name, (*NAMES, ANY))})")
    try:
        words = shlex.split(command)
    except ValueError as error:  # such as an unclosed quote
        raise BadParameter(f"{command!r} is not a command: {error}") from None
    if not words:
        raise BadParameter(f"{text!r}: the command is missing")
    program = shutil.which(words[0])
    if program is None:
        raise BadParameter(f"{words[0]}: no such program (it is run without a shell; write sh -c '...' for one)")
    return Hook(name, (os.path.abspath(program), *words[1:]))  # noqa: PTH100  links are kept: a busybox is one


def named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the name and the shape of an input. The name may contain colons. `NAME:` is a scalar.

    >>> named_shape("image:1,3,224,224"), named_shape("x:")
    (('image', (1, 3, 224, 224)), ('x', ()))
    """
    name, colon, dims = text.rpartition(":")
    sizes = [size.strip() for size in dims.split(",")] if dims.strip() else []
    if not (name and colon and all(size.isdecimal() for size in sizes)):
        raise BadParameter(f"{text!r} is not a shape; write NAME:1,3,224,224")
    return name, tuple(int(size) for size in sizes)


def image_size(text: str) -> tuple[int, int]:
    """Return width and height in pixels.

    >>> image_size("320x240")
    (320, 240)
    """
    match = re.fullmatch(r"([1-9]\d{0,4})\s*[xX]\s*([1-9]\d{0,4})", text.strip())
    if not match:
        raise BadParameter(f"{text!r} is not a size of pictures; write WIDTHxHEIGHT, as in 320x240")
    return int(match[1]), int(match[2])


def numbers(text: str) -> tuple[float, ...]:
    """Return one to four numbers, separated by commas in the text.

    >>> numbers("123.675,116.28,103.53")
    (123.675, 116.28, 103.53)
    """
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not 1 <= len(found) <= 4 or not all(map(math.isfinite, found)):
        raise BadParameter(f"{text!r}: write one number, or one for each channel, as in 123.675,116.28,103.53")
    return found


def named_source(text: str) -> tuple[str, str]:
    """Return `(name of an input, source of its data)`. The name "" stands for all inputs without a source of their own.

    >>> named_source("image=cats.npy"), named_source("zeros")
    (('image', 'cats.npy'), ('', 'zeros'))
    """
    name, equals, source = text.rpartition("=")
    if not source or (equals and not name):
        raise BadParameter(f"{text!r}: write NAME=FILE.npy, NAME=random, NAME=zeros, or one of these alone")
    return name, source


CHOOSING = ("AUTO", "HETERO", "MULTI", "BATCH")  # OpenVINO's devices that are made of others, as in HETERO:GPU,CPU


def with_options(text: str) -> tuple[str, dict[str, str]]:
    """Return `(name, options)` of a provider, or `(path, options)` of a delegate.

    >>> with_options("CUDA:device_id=1"), with_options("CPU")
    (('CUDA', {'device_id': '1'}), ('CPU', {}))
    >>> with_options("HETERO:GPU,CPU,PERFORMANCE_HINT=LATENCY")
    ('HETERO:GPU,CPU', {'PERFORMANCE_HINT': 'LATENCY'})
    """
    name, colon, options = text.partition(":")
    pieces = options.split(",") if colon else []
    if name.upper() in CHOOSING:
        devices = list(itertools.takewhile(lambda piece: piece and "=" not in piece, pieces))
        name, pieces = ":".join(filter(None, (name, ",".join(devices)))), pieces[len(devices) :]
    pairs = [piece.partition("=") for piece in pieces]
    if not name or not all(key and equals for key, equals, _ in pairs):
        raise BadParameter(f"{text!r}: write NAME or NAME:key=value,key=value")
    return name, {key: value for key, _, value in pairs}


_UNITS_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def size(text: str) -> int:
    """Return a size in bytes.

    >>> size("512M"), size("1.5G")
    (536870912, 1610612736)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise BadParameter(f"{text!r} is not a size; write 512M or 1G")
    return int(float(match[1]) * _UNITS_BYTES[match[2].upper()])


def recording_size(text: str) -> int:
    """Return a size in bytes from a text such as `1G`. A size below 4 MiB is refused, as too little for a recording."""
    given = size(text)
    if given < MIN_MAX_BYTES:
        raise BadParameter(f"{text!r} is too little for a recording; write 4M or more")
    return given


def label(text: str) -> tuple[str, str]:
    """Return the key and the value of a label.

    >>> label("enclosure=closed")
    ('enclosure', 'closed')
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise BadParameter(f"{text!r} is not a label; write key=value")
    return key, value


def celsius(text: str) -> float:
    """Return a temperature in °C.

    >>> celsius("35C"), celsius("-2.5")
    (35.0, -2.5)
    """
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)\s*°?[Cc]?", text.strip())
    if not match:
        raise BadParameter(f"{text!r} is not a temperature; write 35C")
    return float(match[1])


def ambient(text: str) -> float | str:
    """Return a room temperature in °C, or the id of the sensor that measures it.

    >>> ambient("21C"), ambient("ambient/bme280")
    (21.0, 'ambient/bme280')
    """
    return text.strip() if re.fullmatch(r"ambient/.{1,200}", text.strip()) else celsius(text)


_MOST_CPUS = 8192  # most CPUs that Linux can be built for (NR_CPUS_RANGE_END in arch/x86/Kconfig)


def cpus(text: str) -> tuple[int, ...]:
    """Return the numbers of the CPUs in a list that is written as for taskset(1).

    >>> cpus("0,2-4")
    (0, 2, 3, 4)
    """
    numbers: set[int] = set()
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not 0 <= last - first < _MOST_CPUS:
            raise BadParameter(f"{text!r} is not a list of CPUs; write 0,2-3")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


def limit(text: str) -> dict[str, float]:
    """Return the limits in a text as a dict by field name of `Limit`.

    The text is `cpus=2`, `memory=512M[,swap=1G]`, `quota=150%[,period=10ms]` or `io=10M/s`.

    >>> limit("memory=512M,swap=1G")
    {'memory_bytes': 536870912, 'swap_bytes': 1073741824}
    """
    fields: dict[str, float] = {}
    for pair in text.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        if name == "cpus" and value.isdecimal() and int(value):
            fields["cpus"] = int(value)
        elif name == "memory":
            fields["memory_bytes"] = size(value)
        elif name == "swap" and "memory_bytes" in fields:
            fields["swap_bytes"] = size(value)
        elif name == "io" and value.endswith("/s"):
            fields["io_bytes_per_s"] = size(value.removesuffix("/s"))
        elif name == "net":
            why = "the kernel cannot limit the network traffic of a cgroup"
            raise BadParameter(f"{pair!r}: {why}; shape the interface with tc(8), or leave net= out")
        elif name == "quota" and re.fullmatch(r"\d+(\.\d+)?%", value):
            fields["quota_pct"] = float(value[:-1])
        elif name == "period" and "quota_pct" in fields:
            fields["period_us"] = duration(value) // 1000
        else:
            hint = "; for a part of a CPU write quota=50%" if name == "cpus" and "." in value else ""
            ways = "cpus=2, memory=512M[,swap=1G], quota=150%[,period=10ms] or io=10M/s"
            raise BadParameter(f"{pair!r} is not a limit; write {ways}{hint}")
    _check_limit(text, fields)
    return fields


def _check_limit(text: str, fields: dict[str, float]) -> None:
    """Raise BadParameter if the kernel does not accept the limit, or if nothing could run within it.

    `text` is the value of the option, for the message. `fields` are the limits by field name of `Limit`.
    """
    from edgetop.runner.cgroup_limits import LEAST_QUOTA_US, PERIODS_US  # noqa: PLC0415  --help needs none of it
    from edgetop.runner.engine_limit import Limit  # noqa: PLC0415

    asked = Limit(**fields)  # type: ignore[arg-type]
    if not PERIODS_US[0] <= asked.period_us <= PERIODS_US[1]:
        raise BadParameter(f"{text!r}: a period lasts 1ms to 1s")
    if asked.quota_us is not None and asked.quota_us < LEAST_QUOTA_US:
        raise BadParameter(f"{text!r} gives less than 1 ms in each period, the least that the kernel takes")
    if asked.memory_bytes is not None and asked.memory_bytes < 2**20:
        raise BadParameter(f"{text!r}: no engine starts in less than 1M")
    if asked.io_bytes_per_s is not None and asked.io_bytes_per_s < 4096:
        raise BadParameter(f"{text!r} is less than a block of a disk each second; write io=4K/s or more")


def warmup_runs(text: str) -> int | None:
    """Return the number of warm-up runs. Return None for the text `steady`, and AUTO_WARMUP for `auto`.

    >>> warmup_runs("50"), warmup_runs("steady")
    (50, None)
    """
    if text in ("steady", "auto"):
        return None if text == "steady" else AUTO_WARMUP
    if not text.isdecimal():
        raise BadParameter(f"{text!r}: write a number of runs, or steady")
    return int(text)


def volts(text: str) -> float:
    """Return a voltage in V.

    >>> volts("5V"), volts("5.1")
    (5.0, 5.1)
    """
    try:
        value = float(text.strip().rstrip("vV"))
    except ValueError:
        value = 0.0
    if not 0 < value <= 1000:
        raise BadParameter(f"{text!r} is not a voltage; write 5V")
    return value


_NUMBER = r"(\d+(?:\.\d+)?)"
_BATTERY = re.compile(
    rf"{_NUMBER}\s*V,{_NUMBER}\s*(mAh|Ah)(?:,{_NUMBER}\s*(?:Hz)?)?(?:,\+{_NUMBER}\s*(mW|W))?", re.IGNORECASE
)


def battery(text: str) -> "Battery":
    """Return a battery from `3.7V,1000mAh[,RATE][,+EXTRA mW]`.

    RATE is in inferences per second. EXTRA is the power of other consumers.

    >>> battery("3.7V,1Ah,2Hz,+150mW")
    Battery(volts=3.7, capacity_mah=1000.0, rate_hz=2.0, extra_w=0.15)
    """
    from edgetop.session.manifest import Battery  # noqa: PLC0415  --help needs none of it

    match = _BATTERY.fullmatch(text.strip().replace(", ", ","))
    given = match and [float(number) if number else None for number in match.group(1, 2, 4, 5)]
    if match is None or given is None or 0.0 in given[:3]:
        raise BadParameter(f"{text!r} is not a battery; write 3.7V,1000mAh or 3.7V,1000mAh,2Hz,+150mW")
    volts, capacity, rate_hz, extra = given
    is_large, is_watts = match[3].lower() == "ah", (match[6] or "").lower() == "w"
    assert volts is not None
    assert capacity is not None
    return Battery(volts, capacity * (1000 if is_large else 1), rate_hz, (extra or 0.0) / (1 if is_watts else 1000))


def scale(text: str) -> "Scale":
    """Return a column of a power log, and the factor for its values. Without a factor in the text, the factor is 1.

    >>> scale("CH1:10"), scale("A")
    (Scale(name='CH1', factor=10.0), Scale(name='A', factor=1.0))
    """
    from edgetop.imports.power_trace import Scale  # noqa: PLC0415  --help needs none of it

    name, colon, factor = text.rpartition(":")
    try:
        value = float(factor) if colon else 1.0
    except ValueError:
        value = float("nan")
    if not 0 < abs(value) < 1e9:
        raise BadParameter(f"{text!r} is not a column with a factor; write CH1 or CH1:10")
    return Scale(name if colon else text, value)


def offset_seconds(text: str) -> float:
    """Return a time in seconds. It may be negative.

    >>> offset_seconds("2.5s"), offset_seconds("-1.2")
    (2.5, -1.2)
    """
    try:
        value = float(text.strip().removesuffix("s"))
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e6:
        raise BadParameter(f"{text!r} is not an offset in seconds; write 2.5s or -1.2s")
    return value
