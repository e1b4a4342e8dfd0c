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
_OF_THE_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr", "var")
_OF_USERS = ("/dev/shm/", "/run/user/", "/run/media/", "/var/home/", "/var/tmp/")  # noqa: S108  nothing is written there
OF_EVERYONE = ("root", "localhost")  # names that every machine has
_PATH = re.compile(r"(?<![\w./~$-])/(?:[\w.@+-]+)(?:/[^\s\"'()\[\],;:]*)?")


class Redaction:
    """Replaces, in texts and JSON values, whatever identifies this machine or its user."""

    def __init__(self, root: Root) -> None:
        self._private = Private(root, (name for name in _names() if name not in OF_EVERYONE))
        own = {"~": home(), "CONFIG": config_home(), "CACHE": cache_home(), "RECORDINGS": recordings_home()}
        # The longest first: the recordings are usually below the home.
        self._places = sorted(((str(path), name) for name, path in own.items()), key=lambda one: -len(one[0]))

    def text(self, text: str) -> str:
        """Return the text without the user's paths, and with names and addresses made unreadable.

        Each letter and digit of a name or an address becomes `x`.
        """
        for path, name in self._places:
            if path != "/":
                text = re.sub(rf"(?<![\w.-]){re.escape(path)}(?![\w-])", name, text)
        text = _PATH.sub(_plain_path, text)
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
