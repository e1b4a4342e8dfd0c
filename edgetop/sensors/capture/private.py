"""Remove texts that identify a board or its owner from a capture.

The files of a capture should contain no such texts. This module is a second safety net: it replaces serial numbers,
user names and the like of this board wherever they appear. It also replaces whatever `forms.py` and `path_forms.py`
recognize, such as addresses and paths. Reports and bundles have their texts redacted by this module, too.
"""

import contextlib
import getpass
import os
import pwd
import re
import socket
from collections.abc import Callable, Iterable, Iterator

from edgetop.errors import InputError
from edgetop.paths import home
from edgetop.sensors.capture.forms import IDS, blank, without_forms
from edgetop.sensors.capture.own_words import own_words
from edgetop.sensors.capture.path_forms import without_paths
from edgetop.sensors.root import Root

# Parameters of the kernel's command line that affect measurements. Other ones may name disks and hosts.
_PARAMETERS = re.compile(
    r"(cgroup_\w+|psi|isolcpus|nohz_full|rcu_nocbs|maxcpus|nr_cpus|mitigations|numa|swapaccount|systemd\.unified_\w+"
    r"|intel_pstate|amd_pstate|processor\.max_cstate|intel_idle\.max_cstate|idle|cpufreq\.\w+|cma|coherent_pool)(=.*)?"
)
_PLAIN_INTERFACE = re.compile(
    r"lo|(eth|wlan|wwan|usb|can|docker|end|l4tbr|rndis|dummy|sit|tunl|bonding)\d*|(en|wl|ww)[ops]\d\w{0,7}"
)

OF_EVERYONE = frozenset({"root", "localhost"})  # names that every machine has

# The folder of a probe on 1-wire: its family and its serial number (drivers/w1/w1.c, w1_reg_num).
ONE_WIRE = re.compile(r"(?<![0-9a-f-])([0-9a-f]{2})-([0-9a-f]{12})(?![0-9a-f-])")

# Labels of domains that name no owner, and are words of kernels and distributions, such as 6.1.0-38-cloud-amd64.
_COMMON_LABELS = {
    "cloud",
    "compute",
    "internal",
    "local",
    "home",
    "corp",
    "dev",
    "test",
    "edge",
    "server",
    "net",
    "com",
}

_IDENTIFIERS = (
    "proc/device-tree/serial-number", "sys/firmware/devicetree/base/serial-number", "etc/machine-id",
    "var/lib/dbus/machine-id", "proc/sys/kernel/random/boot_id", "sys/class/dmi/id/product_serial",
    "sys/class/dmi/id/product_uuid", "sys/class/dmi/id/board_serial", "sys/class/dmi/id/chassis_serial",
    "sys/class/dmi/id/board_asset_tag", "sys/class/dmi/id/chassis_asset_tag", "sys/devices/soc0/serial_number",
    "sys/devices/soc0/soc_uid", "proc/device-tree/chosen/rpi-duid",
)  # fmt: skip
_IDENTIFIERS_OF_EACH = (
    ("sys/class/net", "address"), ("sys/block", "device/serial"), ("sys/block", "device/cid"),
    ("sys/block", "device/wwid"), ("sys/block", "serial"), ("sys/block", "wwid"),
    ("sys/class/power_supply", "serial_number"), ("sys/class/nvme", "serial"), ("sys/class/bluetooth", "address"),
    ("sys/class/ieee80211", "macaddress"),
)  # fmt: skip

# Files whose words are not private, even if the host has such a word as its name.
_VOCABULARY = (
    "proc/device-tree/model", "proc/device-tree/compatible", "proc/cpuinfo", "proc/stat",
    "proc/meminfo", "proc/vmstat", "sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name",
)  # fmt: skip


class Private:
    """Finds texts that identify a board or its owner, such as serial numbers, and removes them from file contents."""

    def __init__(self, root: Root, more_names: Iterable[str] = ()) -> None:
        """Find the identifying texts in the files of `root`, such as serial numbers and names of users.

        `more_names` are further names of hosts and users to remove. A name that is a word of the board's hardware or
        of edgetop's own texts is not removed.
        """
        hosts, users = _hosts(root), {name.strip() for name in (*_users(root), *more_names)}
        if root.is_host:
            hosts, users = hosts | hosts_of_this_machine(), users | users_of_this_machine()
        hosts, users = set(filter(_is_name, hosts)), set(filter(_is_name, users))
        vocabulary = _vocabulary(root) | own_words(frozenset(name.lower() for name in hosts | users))
        self._identifiers = _any_of(set(filter(_is_identifier, _identifiers(root))))
        self._words = _any_of(name for name in hosts | users if name.lower() not in vocabulary)
        # The domain that follows a name of the host may be the one of a private network.
        known = (name for name in hosts if name.lower() not in vocabulary)
        self._hosts = _any_of(known, r"(?:\.[\w-]{1,63}){0,8}")

    def text(self, text: str, *, has_addresses: bool = True, key: str = "") -> str:
        """Return a text with every letter and digit of identifying names, numbers and addresses replaced by `x`.

        Paths, cgroups and devices are replaced as `without_paths` does. Without `has_addresses`, the text is one that
        has no addresses, but numbers of versions that look like addresses. `key` is as in `without_forms`.
        """
        text = without_paths(text)
        text = _blanked(self._identifiers, text)
        # This knows more of a host's name than the name of this host.
        text = without_forms(text, key) if has_addresses else text
        return _blanked(self._words, _blanked(self._hosts, text))

    def scrub(self, content: bytes, *, has_addresses: bool = True) -> bytes:
        """Return a file's content with its identifying parts blanked, as the method `text` does."""
        text = content.decode("utf-8", "surrogateescape")
        return self.text(text, has_addresses=has_addresses).encode("utf-8", "surrogateescape")

    def is_in_path(self, path: str) -> bool:
        """Return True if a path has a MAC address, a UUID, a serial number, a name, or an unusual network interface.

        A user may have chosen an unusual name. The folder of a Bluetooth device's battery has the MAC address of the
        device in its name.
        """
        path = ONE_WIRE.sub("", path)  # a capture has these under other names
        named = re.search(r"sys/class/net/([^/ ]+)", path)
        return bool(
            IDS.search(path)
            or any(pattern.search(path) for pattern in (self._identifiers, self._words) if pattern)
            or (named and not _PLAIN_INTERFACE.fullmatch(named[1]))
        )


def _blanked(pattern: "re.Pattern[str] | None", text: str) -> str:
    return pattern.sub(lambda match: blank(match[0]), text) if pattern else text


def _any_of(texts: Iterable[str], end: str = "") -> "re.Pattern[str] | None":
    """Return a pattern that matches any of the texts as a whole word and then `end`, or None if there are no texts.

    An underscore ends a word, since names of files have it between words.
    """
    escaped = [re.escape(text) for text in sorted(texts, key=len, reverse=True)]
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(escaped)}){end}(?![^\W_])", re.IGNORECASE) if escaped else None


def _is_name(text: str) -> bool:
    """Whether a name of a host or a user is so unlike other words and numbers that it may be replaced everywhere."""
    return (len(text) >= 3 and not text.isdigit()) or (len(text) == 2 and text.isalpha())


def _is_identifier(text: str) -> bool:
    """Whether a serial number is so unlike other numbers and placeholders that it may be replaced everywhere."""
    is_plain_number = text.isdecimal() and (len(text) < 8 or re.fullmatch(r"\d{1,3}0+", text))
    return len(text) >= 6 and re.search(r"\d", text) is not None and not is_plain_number


def _texts(root: Root, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        with contextlib.suppress(OSError):
            if text := root.read_bytes(path, 1 << 20).decode("utf-8", "replace").strip("\0\n "):
                yield text


def _identifiers(root: Root) -> Iterator[str]:
    yield from _texts(root, _IDENTIFIERS)
    for folder, name in _IDENTIFIERS_OF_EACH:
        for text in _texts(root, (f"{folder}/{entry}/{name}" for entry in root.names(folder))):
            yield text
            if name.endswith("address"):
                yield text.replace(":", "")
    # The serial number of a root hub is the address of its controller (drivers/usb/core/hcd.c).
    devices = (entry for entry in root.names("sys/bus/usb/devices") if not entry.startswith("usb"))
    yield from _texts(root, (f"sys/bus/usb/devices/{entry}/serial" for entry in devices))
    for text in _texts(root, ["proc/cpuinfo"]):
        yield from (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Serial"))
    for text in _texts(root, ["proc/cmdline"]):
        words = (word.partition("=") for word in text.split())
        yield from (value for name, _, value in words if re.search("serial|macaddr", name, re.IGNORECASE))


def _hosts(root: Root) -> set[str]:
    """Return the names of the host: in full, without the domain, and the domain alone and without its subdomains."""
    domains = _texts(root, ["proc/sys/kernel/domainname"])
    whole = [*_texts(root, ("etc/hostname", "proc/sys/kernel/hostname")), *(name for name in domains if "." in name)]
    return {name for host in whole for name in _host_names(host)}


def _host_names(host: str) -> Iterator[str]:
    """Yield the names of a host such as cam.lab.acme.org: itself, cam, lab, acme, lab.acme.org, acme.org.

    A label of two letters in a domain, such as `ac` of ac.uk, is no name by itself: a mains adapter is called AC.
    """
    labels = host.strip().split(".")
    telling = (label for label in labels[1:-1] if len(label) > 2 and label.lower() not in _COMMON_LABELS)
    yield from (labels[0], *telling)
    yield from (".".join(labels[count:]) for count in range(len(labels) - 1))


def _users(root: Root) -> Iterator[str]:
    """Yield the login names and real names of the board's users, and each word of a real name (passwd(5))."""
    for text in _texts(root, ["etc/passwd"]):
        for fields in (line.split(":") for line in text.splitlines()):
            if len(fields) >= 7 and fields[2].isdigit() and 1000 <= int(fields[2]) < 65534:
                yield from (fields[0], *_real_names(fields[4]))


def _real_names(gecos: str) -> Iterator[str]:
    name = gecos.partition(",")[0]
    yield name
    yield from (word for word in re.findall(r"[^\W\d_]+", name) if len(word) >= 3)


def hosts_of_this_machine() -> set[str]:
    """Return the names of this host, from the environment and from the system."""
    hosts = (os.environ.get("HOSTNAME", ""), socket.gethostname(), os.uname().nodename)
    return {name for host in hosts for name in _host_names(host)} - OF_EVERYONE


def users_of_this_machine() -> set[str]:
    """Return the names of this user, from the environment and from the system, wherever the system has its users."""
    names = {os.environ.get(variable, "") for variable in ("USER", "LOGNAME", "SUDO_USER")}
    with contextlib.suppress(InputError):  # a user without a home
        names.add(home().name)
    with contextlib.suppress(KeyError, OSError):  # no variable, and no entry for this number
        names.add(getpass.getuser())
    with contextlib.suppress(KeyError):
        names.update(_real_names(pwd.getpwuid(os.getuid()).pw_gecos))
    return names - OF_EVERYONE


def _vocabulary(root: Root) -> set[str]:
    """Return the words with which the board describes itself and its hardware, in lower case.

    A name that is such a word identifies nobody, so it is not removed from a capture.
    """
    types = [
        text.lower()
        for folder, name in (("sys/class/thermal", "type"), ("sys/class/hwmon", "name"))
        for text in _texts(root, (f"{folder}/{entry}/{name}" for entry in root.names(folder)))
    ]
    texts = "\n".join([*_texts(root, _VOCABULARY), *_of_distribution(root)]).lower()
    words = re.split(r"[\s,;:=\"'()\0]+", texts)
    # Distributions give a board its own name without the signs in it: Armbian calls an orangepi-5 orangepi5.
    plain = (re.sub(r"[\W_]+", "", word) for word in words)
    return {*types, *words, *plain, *re.split(r"[\W_]+", "\n".join([texts, *types]))}


def _of_distribution(root: Root) -> Iterator[str]:
    """Yield the lines of os-release(5) that name the distribution. Its other lines may name the maker of an image."""
    for text in _texts(root, ["etc/os-release"]):
        yield from (
            line for line in text.splitlines() if re.match("(?:ID|ID_LIKE|NAME|PRETTY_NAME|VERSION\\w*)=", line)
        )


def _plain_swaps(text: str) -> str:
    """Return the text of /proc/swaps with the path of each swap file replaced by `/swapfile`.

    The real path may be in a user's home.
    """
    head, *lines = text.splitlines() or [""]
    fields = [line.split() for line in lines if line.strip()]
    plain = (f if re.fullmatch(r"/dev/[\w-]+", f[0]) else ["/swapfile", *f[-4:]] for f in fields)
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
