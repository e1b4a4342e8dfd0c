"""Round the counters of a capture that run since the boot, and what its cgroups use.

Exact counters differ from machine to machine and only grow until the next boot, so each of them would show that two
captures are of one machine. Rounded to two significant digits, one alone shows nothing. All of them together still do
if the captures were made within one boot and soon after each other.

Sources: proc(5), proc_stat(5), proc_vmstat(5), proc_diskstats(5) and proc_loadavg(5); the kernel's documents
admin-guide/cgroup-v2.rst, accounting/psi.rst, power/powercap/powercap.rst, hwmon/sysfs-interface.rst, block/stat.rst
and admin-guide/abi-testing (thermal_throttle).
"""

import re
from fnmatch import fnmatch

DIGITS = 2  # significant ones
_COUNTER = re.compile(r"(?<![\w.:-])\d{3,}(?![\w.])")
# Lines of memory.stat other than limits. What a resting cgroup uses, in bytes, stays the same for minutes.
_USE = re.compile(r"(?m)^(?!hierarchical_).*$")
_TOTAL = re.compile(r"(?m)(?<=\btotal=)\d+$")
# A guest's clock is as its host measured it, to a thousandth of a MHz: another one on every host.
_CALIBRATED = re.compile(r"(?mi)^(cpu MHz\s*:|bogomips\s*:)\s*(\d+\.\d+)$")
_LAST_PROCESS = re.compile(r" \d+$")

_WHOLE_FILES = (
    "proc/stat", "proc/vmstat", "proc/net/dev", "sys/devices/*/stat", "sys/block/*/stat", "*/memory.peak",
    "*/memory.max_usage_in_bytes", "*/memory.events", "*/energy_uj", "*/hwmon*/energy*_input", "*/thermal_throttle/*",
    "*/npu_busy_time_us", "*/runtime_active_time", "*/oc*_event_cnt",
)  # fmt: skip


def without_boot(path: str, text: str) -> str:
    """Return the text of a captured file with its counters since boot rounded up. `path` is relative to the root.

    The text of a file without such counters is unchanged.

    >>> without_boot("proc/vmstat", "nr_free_pages 7\\npgpgout 123456\\n")
    'nr_free_pages 7\\npgpgout 130000\\n'
    """
    if path == "proc/diskstats":  # the first words are the numbers and the name of the disk
        return "".join(_rounded_from_word(3, line) for line in text.splitlines(True))
    if path == "proc/loadavg":
        return _LAST_PROCESS.sub(" 1", text.rstrip("\n")) + "\n"
    if path == "proc/cpuinfo":
        return _CALIBRATED.sub(lambda match: f"{match[1]} {float(match[2]):.0f}", text)
    if fnmatch(path, "*/memory.stat"):
        return _USE.sub(lambda match: _rounded(match[0]), text)
    if fnmatch(path, "proc/pressure/*") or path.endswith(".pressure"):
        return _TOTAL.sub(lambda match: _round_up(match[0]), text)
    return _rounded(text) if any(fnmatch(path, pattern) for pattern in _WHOLE_FILES) else text


def _rounded_from_word(first: int, line: str) -> str:
    words = re.split(r"(?<=\S)(?=\s)", line)
    return "".join([*words[:first], _rounded("".join(words[first:]))])


def _rounded(text: str) -> str:
    return _COUNTER.sub(lambda match: _round_up(match[0]), text)


def _round_up(digits: str) -> str:
    """Return a number rounded up, so that a greatest value stays at least as large as the values it is of."""
    step = 10 ** max(0, len(digits) - DIGITS)
    return str(-(-int(digits) // step) * step)
