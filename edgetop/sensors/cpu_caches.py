"""The sizes of the data caches of a board's CPUs.

Source: /sys/devices/system/cpu/cpuN/cache/indexM (Documentation/ABI/testing/sysfs-devices-system-cpu). The file `size`
is in KiB (drivers/base/cacheinfo.c). Many ARM boards lack this file, because their device trees do not give the size.
In a virtual machine, the hypervisor sets the value.
"""

import re

from edgetop.sensors.root import Root
from edgetop.session.caches import Cache

_CPUS = "sys/devices/system/cpu"
_SIZE = re.compile(r"([0-9]{1,9})\s*([KMG])?B?", re.IGNORECASE)
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_LARGEST = 2**40  # a size above this is no cache


def read_caches(root: Root) -> tuple[Cache, ...]:
    """Return the largest data cache of each level, the lowest level first. () if the kernel does not report any."""
    sizes: dict[int, int] = {}
    for cpu in root.names(_CPUS):
        if not re.fullmatch(r"cpu\d+", cpu):
            continue
        folder = f"{_CPUS}/{cpu}/cache"
        for index in (f"{folder}/{name}" for name in root.names(folder) if name.startswith("index")):
            kind, level = root.line(f"{index}/type"), root.line(f"{index}/level") or ""
            size = _size_bytes(root.line(f"{index}/size") or "")
            if kind in ("Data", "Unified") and re.fullmatch(r"[1-9]", level) and size:
                sizes[int(level)] = max(size, sizes.get(int(level), 0))
    return tuple(Cache(level, size) for level, size in sorted(sizes.items()))


def _size_bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _FACTORS[(match[2] or "").upper()] if match else 0
    return size if 0 < size <= _LARGEST else None
