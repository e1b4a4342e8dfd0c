"""Recognize paths, names of cgroups and names of devices that identify a machine or a person, in any text."""

import re

# Folders whose paths are the same on every machine of a kind.
_OF_THE_SYSTEM = re.compile(
    r"/(?:bin|boot|dev|etc|lib|lib64|proc|sbin|sys|usr(?!/local(?:/|$)))(?:$|[/\W])"
    r"|/run/(?:systemd|udev|lock|dbus|jtop\.sock|docker\.sock|podman|containerd|nvidia[\w-]*)(?:$|[/\W])|/run$|/swapfile\b"
)
# Names of connections are those of networks (nm-settings-keyfile(5)).
_OF_USERS = re.compile(r"^/dev/shm/|^/etc/(?:NetworkManager|wpa_supplicant|netplan)/|/(?:home|root|Users|media|mnt)/")
_QUOTED = re.compile(r"([\"'])(/[\w.@+~-][^\"'\n]{0,1000})\1")  # a path in quotes, which may have spaces
_PATH = re.compile(r"(?:(?<![\w./~$-])|(?<=\s-[A-Za-z])|(?<=://))/[\w.@+~-][^\s\"']*")
# What follows a path of a user up to its end, if names in it have spaces.
_FILE = r"\.(?:onnx|tflite|edgetop|gguf|xml|param|bin|npy|npz|json|csv|toml|log|zip|py|txt|db)(?![\w.])"
_SPACED = re.compile(
    r"(?: [^\s\"'/:]{1,60}){0,3}? (?!(?:[KMGT]i?)?B/|\d{1,20}(?:\.\d{1,20})?/)[^\s\"'/:]{1,60}(?:/[^\s\"']*|"
    + _FILE
    + ")"
)
_AFTER = ")],;:."  # punctuation behind a path
_NEXT_PATH = re.compile(r"([,;:()\[\]|=]+)(?=/)")
# Links that udev makes, and devices of LVM and LUKS: their names have serial numbers and labels (udev(7)).
_DEVICE = re.compile(r"(/dev/(?:[\w-]+/by-[a-z]+|mapper)/)[^\s\"',:()\[\]]+")

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
_PROCESS = re.compile(r"(?:(?<=/proc/)|(?<=/task/))[0-9]+(?![\w.])")


def without_paths(text: str) -> str:
    """Return a text with PATH in place of each path of a user, GROUP of a cgroup's name, and ID of a device's id.

    The numbers of processes and threads below /proc become PID.
    Paths of the system and names of cgroups that every machine has stay. 12 or more hexadecimal digits in a path become
    ID.

    >>> without_paths("/srv/acme/model.onnx on /dev/disk/by-label/ANNA, /sys/class/thermal")
    'PATH on /dev/disk/by-label/ID, /sys/class/thermal'
    """
    text = _PROCESS.sub("PID", _DEVICE.sub(r"\1ID", text))
    text = _QUOTED.sub(lambda match: f"{match[1]}{_plain_path(match[2])}{match[1]}", text)
    text = _GROUP_BELOW.sub(_without_groups, _GROUP_PATH.sub(_without_groups, text))
    text = _SLASHED.sub(_without_ids, _plain_paths(text))
    return _GROUP_WORD.sub(lambda match: match[0] if _GROUPS.fullmatch(match[0]) else "GROUP", text)


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


def _plain_paths(text: str) -> str:
    """Return a text with PATH in place of each path of a user. Paths of the system, such as /usr/lib, stay."""
    parts, end = [], 0
    while found := _PATH.search(text, end):
        parts.append(text[end : found.start()])
        plain = "".join(_plain_path(part) if part.startswith("/") else part for part in _NEXT_PATH.split(found[0]))
        end = found.end()
        if plain.endswith("PATH") and (rest := _SPACED.match(text, end)):
            end = rest.start() + len(rest[0].rstrip(_AFTER))
        parts.append(plain)
    return "".join((*parts, text[end:]))


def _plain_path(path: str) -> str:
    """Return a path of the system unchanged, and PATH in place of any other path. Punctuation behind a path stays."""
    if _OF_THE_SYSTEM.match(path) and not _OF_USERS.search(path):
        return path
    return "PATH" + path[len(path.rstrip(_AFTER)) :]
