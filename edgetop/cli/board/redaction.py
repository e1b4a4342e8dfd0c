"""Removal of all texts that identify a machine or a person: names, paths, serial numbers, addresses."""

import contextlib
import getpass
import ipaddress
import os
import re
import socket
from collections.abc import Iterator, Mapping

from edgetop.paths import cache_home, config_home, home, recordings_home
from edgetop.sensors.capture.private import Private
from edgetop.sensors.root import Root
from edgetop.session.typed_json import Document

_IPV4 = re.compile(r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\d.])")
_PERHAPS_IPV6 = re.compile(r"(?<![\w:.])[0-9a-f:]{4,39}(?![\w:])", re.IGNORECASE)
# Folders whose paths are the same on every machine of a kind.
_OF_THE_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr")
_OF_USERS = ("/dev/shm/", "/run/user/", "/run/media/", "/usr/local/")  # noqa: S108  nothing is written there
OF_EVERYONE = ("root", "localhost")  # names that every machine has
_PATH = re.compile(r"(?<![\w./~$-])/(?:[\w.@+-]+)(?:/[^\s\"'()\[\],;:]*)?")

# Names of cgroups that are the same on all machines: systemd.special(7), and the parents that Kubernetes, Docker, LXC
# and Podman make. GROUP takes the place of every other name.
_GROUPS = re.compile(
    r"(?:system|user|machine|session|app|background)\.slice|init\.scope|(?:edgetop|jtop|user@)\.service"
    r"|kubepods(?:-burstable|-besteffort)?(?:\.slice)?|burstable|besteffort|guaranteed"
    r"|docker|lxc|lxc\.payload|lxc\.monitor|libpod|libpod_parent|podman|machine|init|system|user"
)
_CONTROLLERS = re.compile(
    r"(?:name=)?(?:unified|systemd|memory|cpu|cpuacct|cpu,cpuacct|cpuacct,cpu|cpuset|pids|blkio|io|devices|freezer|hugetlb"
    r"|net_cls|net_prio|net_cls,net_prio|perf_event|rdma|misc)"
)
# Files in a cgroup's folder: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1.
_GROUP_FILES = re.compile(
    r"(?:cgroup|memory|cpu|cpuset|cpuacct|pids|io|blkio)\.(?:controllers|procs|events|type|stat|max|high|low|min|current"
    r"|peak|pressure|events\.local|cpus|mems|(?:max_)?usage_in_bytes|limit_in_bytes|oom_control|failcnt|weight|shares"
    r"|cfs_quota_us|cfs_period_us|cpus\.effective|swap\.(?:max|current|high|peak))|tasks"
)
_GROUP_PATH = re.compile(r"(/?\bsys/fs/cgroup/)([^\s\"']+)")
_GROUP_BELOW = re.compile(r"(?<![\w./-])((?:system|user|machine)\.slice/|kubepods[\w.-]*/)([^\s\"']+)")
_GROUP_WORD = re.compile(
    r"(?<![\w.@\\:-])(?:[\w.@\\:-]*[\w@\\-]\.(?:service|scope|slice)|lxc\.(?:payload|monitor)\.[\w.-]+"
    r"|pod[0-9a-f]{8}[_-][0-9a-f_-]+|(?:docker|libpod|crio|cri-containerd|containerd|lxc|podman)[-_:][0-9a-f]{12,})(?![\w-])"
)
_SLASHED = re.compile(r"(?<![^\s\"'])[^\s\"'/]*/[^\s\"']*")
# An address in a device tree, after "@", is no id.
_HEX_ID = re.compile(r"(?<![0-9a-f@])[0-9a-f]{12,}(?![0-9a-f])", re.IGNORECASE)


class Redaction:
    """Replaces, in texts and JSON values, whatever identifies this machine or its user."""

    def __init__(self, root: Root) -> None:
        self._private = Private(root, (name for name in _names() if name not in OF_EVERYONE))
        own = {"~": home(), "CONFIG": config_home(), "CACHE": cache_home(), "RECORDINGS": recordings_home()}
        # The longest first: the recordings are usually below the home.
        self._places = sorted(((str(path), name) for name, path in own.items()), key=lambda one: -len(one[0]))

    def text(self, text: str) -> str:
        """Return the text without the user's paths, and with names and addresses made unreadable.

        Each letter and digit of a name or an address becomes `x`. A name of a cgroup becomes GROUP, unless it is the
        same on all machines. In a path, 12 or more hexadecimal digits become ID.
        """
        for path, name in self._places:
            if path != "/":
                text = re.sub(rf"(?<![\w.-]){re.escape(path)}(?![\w-])", name, text)
        text = _GROUP_BELOW.sub(_without_groups, _GROUP_PATH.sub(_without_groups, text))
        text = _SLASHED.sub(_without_ids, _PATH.sub(_plain_path, text))
        text = _GROUP_WORD.sub(lambda match: match[0] if _GROUPS.fullmatch(match[0]) else "GROUP", text)
        text = self._private.scrub(text.encode("utf-8", "replace")).decode("utf-8", "replace")
        return _PERHAPS_IPV6.sub(_without_ipv6, _IPV4.sub(_blank, text))

    def document(self, document: Document) -> Document:
        """Return the JSON object with its texts redacted by the method `text`. Keys and numbers stay unchanged."""
        return {key: self.value(value) for key, value in document.items()}

    def value(self, value: object) -> object:
        """Return a JSON value (text, number, list, object or None) with all its texts redacted by the method `text`.

        Keys stay unchanged: a document's keys are edgetop's own words.
        """
        return self._value(value, keys=False)

    def foreign(self, value: object) -> object:
        """Return a JSON value with its keys and texts redacted, for a value whose keys a user or a program chose."""
        return self._value(value, keys=True)

    def _value(self, value: object, *, keys: bool) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key) if keys else key: self._value(one, keys=keys) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(one, keys=keys) for one in value]
        return value


def _blank(match: "re.Match[str]") -> str:
    return re.sub(r"[^\W_]", "x", match[0])


def _without_ipv6(match: "re.Match[str]") -> str:
    """Return the matched text. If the text is an IPv6 address, its letters and digits are replaced by `x`.

    Other matches, such as the time of day 10:15:02, stay unchanged.
    """
    try:
        ipaddress.IPv6Address(match[0].rstrip(":") or match[0])
    except ValueError:
        return match[0]
    return _blank(match)


def _without_groups(match: "re.Match[str]") -> str:
    """Return the path of a cgroup with GROUP in place of each name that not every machine has.

    The match has two groups: a known beginning such as `/sys/fs/cgroup/`, and the rest of the path.
    """
    rest = match[2].rstrip("),:;.")
    first, *others = rest.split("/")
    is_mount = match[1].endswith("cgroup/")
    is_alone = not others and _GROUP_FILES.fullmatch(first)
    parts = [first if is_mount and (is_alone or _CONTROLLERS.fullmatch(first)) else _group(first)]
    parts += [_group(name) for name in others[:-1]]
    parts += [name if _GROUP_FILES.fullmatch(name) else _group(name) for name in others[-1:]]
    begin = match[1] if is_mount else f"{_group(match[1][:-1])}/"
    return begin + "/".join(parts) + match[2][len(rest) :]


def _group(name: str) -> str:
    return name if not name or _GROUPS.fullmatch(name) else "GROUP"


def _without_ids(match: "re.Match[str]") -> str:
    """Return a text that has a slash, with ID in place of long hexadecimal numbers. Decimal figures stay.

    In an absolute path, a long decimal number is replaced too.
    """
    is_path = match[0].lstrip("([").startswith("/")
    return _HEX_ID.sub(lambda found: found[0] if found[0].isdecimal() and not is_path else "ID", match[0])


def _plain_path(match: "re.Match[str]") -> str:
    """Return a path of the system, such as /usr/lib, unchanged, and "PATH" in place of any other path."""
    is_plain = match[0].split("/")[1] in _OF_THE_SYSTEM and not match[0].startswith(_OF_USERS)
    return match[0] if is_plain else "PATH"


def _names() -> Iterator[str]:
    """Yield the names of this user and this host, from the environment and from the system. A name may be ""."""
    for variable in ("USER", "LOGNAME", "SUDO_USER", "HOSTNAME"):
        yield os.environ.get(variable, "")
    with contextlib.suppress(KeyError, OSError):  # no variable, and no entry for this number
        yield getpass.getuser()
    for host in (socket.gethostname(), os.uname().nodename):
        yield host
        yield host.partition(".")[0]
    yield home().name
