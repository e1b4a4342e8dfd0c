"""Remove texts that identify a board or its owner from a capture.

The files of a capture should contain no such texts. This module is a second safety net: it replaces serial numbers,
user names and the like of this board wherever they appear. It also replaces every MAC address and UUID.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator

from edgetop.sensors.capture.own_words import own_words
from edgetop.sensors.root import Root

# MAC addresses, UUIDs, and 32 hexadecimal digits (machine-id(5)) that are not part of a longer number.
_FORMS = re.compile(
    rb"(?<![0-9a-f:])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![0-9a-f:])"
    rb"|(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])"
    rb"|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])",
    re.IGNORECASE,
)

# Parameters of the kernel's command line that affect measurements. Other ones may name disks and hosts.
_PARAMETERS = re.compile(
    r"(cgroup_\w+|psi|isolcpus|nohz_full|rcu_nocbs|maxcpus|nr_cpus|mitigations|numa|swapaccount|systemd\.unified_\w+"
    r"|intel_pstate|amd_pstate|processor\.max_cstate|intel_idle\.max_cstate|idle|cpufreq\.\w+|cma|coherent_pool)(=.*)?"
)
_PLAIN_INTERFACE = re.compile(
    r"lo|(eth|wlan|wwan|usb|can|docker|end|l4tbr|rndis|dummy|sit|tunl|bonding)\d*|(en|wl|ww)[ops]\d\w{0,7}"
)

_IDENTIFIERS = (
    "proc/device-tree/serial-number", "sys/firmware/devicetree/base/serial-number", "etc/machine-id",
    "var/lib/dbus/machine-id", "proc/sys/kernel/random/boot_id", "sys/class/dmi/id/product_serial",
    "sys/class/dmi/id/product_uuid", "sys/class/dmi/id/board_serial", "sys/class/dmi/id/chassis_serial",
    "sys/class/dmi/id/board_asset_tag", "sys/class/dmi/id/chassis_asset_tag",
)  # fmt: skip
_IDENTIFIERS_OF_EACH = (
    ("sys/class/net", "address"), ("sys/block", "device/serial"), ("sys/block", "device/cid"),
    ("sys/block", "device/wwid"), ("sys/class/power_supply", "serial_number"),
)  # fmt: skip

# Files whose words are not private, even if the host has such a word as its name.
_VOCABULARY = (
    "proc/device-tree/model", "proc/device-tree/compatible", "etc/os-release", "proc/cpuinfo", "proc/stat",
    "proc/meminfo", "proc/vmstat", "sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name",
)  # fmt: skip


class Private:
    """Finds texts that identify a board or its owner, such as serial numbers, and removes them from file contents."""

    def __init__(self, root: Root, more_names: Iterable[str] = ()) -> None:
        """Find the identifying texts in the files of `root`, such as serial numbers and names of users.

        `more_names` are further names of hosts and users to remove. A name that is a word of the board's hardware or
        of edgetop's own texts is not removed.
        """
        identifiers = {text for text in _identifiers(root) if len(text) >= 6 and re.search(r"\d", text)}
        names = {name for name in (*_names(root), *more_names) if len(name) >= 3 and not name.isdigit()}
        vocabulary = _vocabulary(root) | own_words(frozenset(name.lower() for name in names))
        self._identifiers = _any_of(identifiers)
        self._words = _any_of(name for name in names if name.lower() not in vocabulary)

    def scrub(self, content: bytes) -> bytes:
        """Return a file's content, with every letter and digit of identifying texts replaced by `x`."""
        for pattern in (_FORMS, self._identifiers, self._words):
            content = pattern.sub(lambda match: re.sub(rb"[^\W_]", b"x", match[0]), content) if pattern else content
        return content

    def is_in_path(self, path: str) -> bool:
        """Return True if a path contains a MAC address, a UUID, a serial number, or an unusual network interface name.

        A user may have chosen an unusual name. The folder of a Bluetooth device's battery has the MAC address of the
        device in its name.
        """
        encoded = path.encode(errors="surrogateescape")
        named = re.search(r"sys/class/net/([^/ ]+)", path)
        return bool(
            _FORMS.search(encoded)
            or (self._identifiers and self._identifiers.search(encoded))
            or (named and not _PLAIN_INTERFACE.fullmatch(named[1]))
        )


def _any_of(texts: Iterable[str]) -> "re.Pattern[bytes] | None":
    """Return a pattern that matches any of the texts as a whole word, or None if there are no texts."""
    escaped = [re.escape(text.encode(errors="replace")) for text in sorted(texts, key=len, reverse=True)]
    return re.compile(rb"(?<!\w)(?:" + rb"|".join(escaped) + rb")(?!\w)", re.IGNORECASE) if escaped else None


def _texts(root: Root, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        with contextlib.suppress(OSError):
            if text := root.read_bytes(path, 1 << 20).decode("utf-8", "replace").strip("\0\n "):
                yield text


def _identifiers(root: Root) -> Iterator[str]:
    yield from _texts(root, _IDENTIFIERS)
    for folder, name in _IDENTIFIERS_OF_EACH:
        yield from _texts(root, (f"{folder}/{entry}/{name}" for entry in root.names(folder)))
    for text in _texts(root, ["proc/cpuinfo"]):
        yield from (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Serial"))


def _names(root: Root) -> Iterator[str]:
    """Yield the names of the host, and the login names and real names of its users (passwd(5))."""
    hosts = [
        *_texts(root, ("etc/hostname", "proc/sys/kernel/hostname")),
        *([os.uname().nodename] if root.is_host else []),
    ]
    yield from (name for host in hosts for name in (host, host.partition(".")[0]))
    for text in _texts(root, ["etc/passwd"]):
        for fields in (line.split(":") for line in text.splitlines()):
            if len(fields) >= 7 and fields[2].isdigit() and 1000 <= int(fields[2]) < 65534:
                yield from (fields[0], fields[4].partition(",")[0])


def _vocabulary(root: Root) -> set[str]:
    """Return the words with which the board describes itself and its hardware, in lower case.

    A name that is such a word identifies nobody, so it is not removed from a capture.
    """
    types = [
        text.lower()
        for folder, name in (("sys/class/thermal", "type"), ("sys/class/hwmon", "name"))
        for text in _texts(root, (f"{folder}/{entry}/{name}" for entry in root.names(folder)))
    ]
    texts = "\n".join(_texts(root, _VOCABULARY)).lower()
    return {*types, *re.split(r"[\s,;:=\"'()\0]+", texts), *re.split(r"[\W_]+", "\n".join([texts, *types]))}


def _plain_swaps(text: str) -> str:
    """Return the text of /proc/swaps with the path of each swap file replaced by `/swapfile`.

    The real path may be in a user's home.
    """
    head, *lines = text.splitlines() or [""]
    fields = [line.split() for line in lines if line.strip()]
    plain = (f if f[0].startswith("/dev/") else ["/swapfile", *f[-4:]] for f in fields)
    return "\n".join([head, *("\t".join(f) for f in plain)]) + "\n"


def _plain_interfaces(text: str) -> str:
    """Return the text of /proc/net/dev with unusual names of network interfaces replaced by `net0` and so on.

    These names may contain a MAC address or a user's name.
    """
    lines = []
    for number, line in enumerate(text.splitlines()):
        name, colon, rest = line.partition(":")
        plain = name if not colon or _PLAIN_INTERFACE.fullmatch(name.strip()) else f"net{number}"
        lines.append(f"{plain}{colon}{rest}\n")
    return "".join(lines)


def _plain_uevent(text: str) -> str:
    """Return the text of a device's `uevent` with its driver alone.

    Other lines may have an address, such as NVME_TRADDR of a disk on the network (drivers/nvme/host/core.c).
    """
    return "".join(line for line in text.splitlines(True) if line.startswith("DRIVER="))


def filter_of(path: str) -> Callable[[str], str] | None:
    """Return the function that leaves out the private part of a file's text, or None if the file has no such part."""
    return _plain_uevent if path.endswith("/uevent") else _FILTERS.get(path)


# Filters for files in which a certain part is private, whatever its form.
_FILTERS: dict[str, Callable[[str], str]] = {
    "proc/cpuinfo": lambda text: "".join(line for line in text.splitlines(True) if not line.startswith("Serial")),
    "proc/cmdline": lambda text: " ".join(word for word in text.split() if _PARAMETERS.fullmatch(word)) + "\n",
    "proc/stat": lambda text: re.sub(r"(?m)^btime \d+$", "btime 0", text),  # the second of the boot; nothing reads it
    "proc/swaps": _plain_swaps,
    "proc/net/dev": _plain_interfaces,
}
