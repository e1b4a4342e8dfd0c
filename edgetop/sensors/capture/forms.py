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


def without_forms(text: str) -> str:
    """Return a text in which everything that identifies by its form is blanked: ids, addresses, secrets, private hosts.

    >>> without_forms("10.0.0.7, fe80::1%eth0, dc:a6:32:01:02:03, anna@example.org, ssid=Annas")
    'xx.x.x.x, xxxx::x%xxxx, xx:xx:xx:xx:xx:xx, xxxx@xxxxxxx.xxx, ssid=xxxxx'
    """
    text = _URL.sub(_without_host, text)
    for pattern in (_EMAIL, _LOCAL_HOST, IDS, _IPV4):
        text = pattern.sub(lambda match: blank(match[0]), text)
    text = _PERHAPS_IPV6.sub(_without_ipv6, text)
    return _NAMED.sub(lambda match: match["name"] + blank(match["value"]), text)


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
