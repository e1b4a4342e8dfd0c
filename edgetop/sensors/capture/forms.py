"""Recognize texts that identify a machine, a network or a person by their form alone, whatever board they are from.

Each pattern has bounded repetitions, so that a long word takes linear time.
"""

import ipaddress
import re

# MAC addresses (also of 8 and 20 bytes, and without separators), UUIDs, and 32 hexadecimal digits (machine-id(5)), none
# of which is part of a longer number. Of 12 digits without separators, at least one must be a letter.
IDS = re.compile(
    r"(?<![0-9a-f:])[0-9a-f]{2}([:_-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4,18}(?!:?[0-9a-f])"
    r"|(?<![0-9a-z])(?<![0-9a-z]\.)[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}(?!\.?[0-9a-z])"
    r"|(?<![0-9a-z])(?:en|wl|ww)x[0-9a-f]{12}(?![0-9a-z])"
    r"|(?<![0-9a-z])(?=\d{0,11}[a-f])[0-9a-f]{12}(?![0-9a-z])"
    r"|(?<![0-9a-f])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])"
    r"|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])",
    re.IGNORECASE,
)
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV4 = re.compile(  # without 127.0.0.1 and 0.0.0.0, which every machine has
    rf"(?<!\d)(?<!\d\.)(?!(?:127\.0\.0\.1|0\.0\.0\.0)(?!\d))(?:{_BYTE}\.){{3}}{_BYTE}(?!\.?\d|-[a-z]{{4,20}}-)|(?<![\w.-])ip-{_BYTE}(?:-{_BYTE}){{3}}(?![\w-])"
)
# What stands directly before four numbers that are a version: a word that says so, the name of a package with `==` or
# the like, as in `tensorrt==`, or the letter v.
_OF_VERSION = re.compile(
    r"(?:(?<![A-Za-z])[Vv]ersions?|(?<![A-Za-z])VERSIONS?|(?<=[a-z])Version)"
    r"(?:[\"']?[ \t]{0,3}[:=][ \t]{0,3}|[ \t]{1,20})[\"']?v?$"
    r"|(?<!host)(?<!ip)(?<!addr)(?<!address)(?<!server)(?<!peer)(?<!src)(?<!dst)(?<=[\w\]])[=~><]=[\"']?$"
    r"|(?<!\w)[vV]$"
)
# Words of software before a number that is probably its version, but an address if it is one of a private network. In a
# log, `kernel:` begins any message.
_OF_SOFTWARE = re.compile(
    r"(?<![a-z])(?:driver|release|revision|firmware|kernel|linux|l4t|jetpack|cuda|cudnn|tensorrt|openvino|(?:py)?hailort"
    r"|opencv(?:-[a-z]{2,10}){1,3})(?!(?<=kernel):)(?:[\"']?[ \t]{0,3}[:=][ \t]{0,3}|[ \t]{1,20})[\"']?[vr]?$",
    re.IGNORECASE,
)
_BEFORE = 60  # number of characters before four numbers that are searched for a word of a version
_LOCAL_ONLY = re.compile(r"192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\.")  # no version begins so
_OF_ADDRESS = re.compile(r":\d|/\d")  # what follows an address: a port, or the length of its network's prefix
_PERHAPS_IPV6 = re.compile(r"(?<![\w:.])(?P<address>[0-9a-f:]{3,39})(?:%[\w.-]{1,20})?(?![\w:])", re.IGNORECASE)
# What follows "@" in a device tree is an address in memory.
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?![0-9a-f]{0,16}\d[0-9a-f]{0,16}\.)[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.[a-z]{2,24}(?![\w-])",
    re.IGNORECASE,
)
# Domains of private networks (RFC 6762, RFC 8375 and common use), and those of Tailscale.
_LOCAL_HOST = re.compile(
    r"(?<![\w.-])(?:[\w-]{1,63}\.){1,8}(?:local|lan|home|internal|intranet|corp|localdomain|fritz\.box|home\.arpa|ts\.net)"
    r"(?![\w-]|\.\w|\()",
    re.IGNORECASE,
)
_URL = re.compile(r"(?<![\w+.-])([a-z][a-z0-9+.-]{1,15}://)([^\s/\"'<>]+)([^\s\"'<>]*)", re.IGNORECASE)
# Hosts of links that edgetop and Linux distributions print.
_PUBLIC_HOSTS = re.compile(
    r"(?:127\.0\.0\.1|localhost|(?:www\.)?(?:debian|ubuntu|raspbian|raspberrypi|fedoraproject|nixos|archlinux|armbian)"
    r"\.(?:org|com)|(?:[a-z-]{1,20}\.)?(?:github\.com|launchpad\.net|pypi\.org|python\.org|onnxruntime\.ai|nvidia\.com"
    r"|ubuntu\.com|debian\.org|redhat\.com))(?::\d{1,5})?"
)
# Values that follow a word which says that they identify something or are secret.
_NAMED = re.compile(
    r"(?P<name>\b(?:serial |S/N:? ?)(?=[A-Z0-9]{0,20}\d)(?=\d{0,20}[A-Z])"
    r"|\b(?:PART)?(?:UUID|LABEL)=|(?i:\bserial(?:[ _-]?(?:no|number))?\s{0,3}[=:]\s{0,3}(?=[\w-]{0,30}\d)"
    r"|\be?ssid\s{0,3}[=:]\s{0,3}|token=(?!\d{1,9}\b)|(?:password|passwd|secret|api[_-]?key)\s{0,2}[=:]\s{0,2}))"
    r"(?P<value>\"[^\"]{1,200}\"|[^\s,;\"']{1,200})"
)


def blank(text: str) -> str:
    """Return a text with `x` in place of each letter and digit.

    >>> blank("dc:a6-Zoë_1")
    'xx:xx-xxx_x'
    """
    return re.sub(r"[^\W_]", "x", text)


def without_forms(text: str, key: str = "") -> str:
    """Return a text in which everything that identifies by its form is blanked: ids, addresses, secrets, private hosts.

    Four numbers stay if the word before them says that they are a version. `key` is the name that the text has in a
    document, such as `driver_version`, or "" if it has none.

    >>> without_forms("10.0.0.7, fe80::1%eth0, dc:a6:32:01:02:03, anna@example.org, ssid=Annas")
    'xx.x.x.x, xxxx::x%xxxx, xx:xx:xx:xx:xx:xx, xxxx@xxxxxxx.xxx, ssid=xxxxx'
    >>> without_forms("driver version 36.4.3.1 on 10.0.0.7")
    'driver version 36.4.3.1 on xx.x.x.x'
    """
    text = _URL.sub(_without_host, text)
    for pattern in (_EMAIL, _LOCAL_HOST, IDS):
        text = pattern.sub(lambda match: blank(match[0]), text)
    text = _IPV4.sub(lambda match: match[0] if _is_version(match, key) else blank(match[0]), text)
    text = _PERHAPS_IPV6.sub(_without_ipv6, text)
    return _NAMED.sub(lambda match: match["name"] + blank(match["value"]), text)


def _is_version(match: "re.Match[str]", key: str) -> bool:
    """Whether what has the form of an IPv4 address is clearly a version, by what stands directly before it.

    `key` stands before the first character of the text.
    """
    is_name = match[0].startswith("ip")  # a host's name that is made of its address, such as ip-10-0-0-4
    if is_name or _LOCAL_ONLY.match(match[0]) or _OF_ADDRESS.match(match.string, match.end()):
        return False
    start = match.start()
    before = match.string[max(0, start - _BEFORE) : start]
    if key and start < _BEFORE:
        before = f"{key}={before}"
    if _OF_VERSION.search(before):
        return True
    return bool(_OF_SOFTWARE.search(before)) and _is_public(match[0])


def _is_public(address: str) -> bool:
    try:
        return ipaddress.IPv4Address(address).is_global
    except ValueError:  # a number with a zero before it
        return False


def _without_host(match: "re.Match[str]") -> str:
    if _PUBLIC_HOSTS.fullmatch(match[2].rstrip(",;:.)]")):
        return match[0]
    return match[1] + blank(match[2]) + blank(match[3])


def _without_ipv6(match: "re.Match[str]") -> str:
    """Return the matched text. If the text is an IPv6 address, its letters and digits are replaced by `x`.

    Other matches, such as the time of day 10:15:02, stay unchanged, and so does ::1, which every machine has.
    """
    try:
        text = match["address"]
        address = ipaddress.IPv6Address(text if text.endswith("::") else text.rstrip(":"))
    except ValueError:
        return match[0]
    if address.is_loopback or address.is_unspecified:
        return match[0]
    return blank(match[0])
