"""Removal of all texts that identify a machine or a person: names, paths, serial numbers, addresses."""

import re
from collections.abc import Collection, Mapping

from edgetop.paths import cache_home, config_home, home, recordings_home
from edgetop.sensors.capture.private import Private, hosts_of_this_machine, users_of_this_machine
from edgetop.sensors.root import Root
from edgetop.session.typed_json import Document

_BELOW = re.compile(r"(?<![\w/$.-])(~|RECORDINGS|CONFIG|CACHE)/[^\s\"':;,()\[\]]+")


class Redaction:
    """Replaces, in texts and JSON values, whatever identifies this machine or its user."""

    def __init__(self, root: Root, kept: Collection[str] = ()) -> None:
        """Read what identifies the machine below `root`. The texts in `kept` stay as they are."""
        self._kept = kept
        self._private = Private(root, hosts_of_this_machine() | users_of_this_machine())
        own = {"~": home(), "CONFIG": config_home(), "CACHE": cache_home(), "RECORDINGS": recordings_home()}
        # The longest first: the recordings are usually below the home.
        self._places = sorted(((str(path), name) for name, path in own.items()), key=lambda one: -len(one[0]))

    def text(self, text: str, key: str = "") -> str:
        """Return the text without the user's paths, and with names and addresses made unreadable.

        The user's folders become `~`, `RECORDINGS`, `CONFIG` and `CACHE`, and what is below them becomes `PATH`. The
        rest is replaced as in captured files: see `Private.text`. `key` is the key of the text in a document, or "":
        four numbers below `version` are no address.
        """
        if text in self._kept:
            return text
        for path, name in self._places:
            if path != "/":
                text = re.sub(rf"(?<![\w.-]){re.escape(path)}(?![\w-])", name, text)
        text = _BELOW.sub(r"\1/PATH", text)
        return self._private.text(text, key=key)

    def document(self, document: Document) -> Document:
        """Return the JSON object with its texts redacted by the method `text`, as `value` does."""
        return {key: self._value(value, keys=False, key=key) for key, value in document.items()}

    def value(self, value: object) -> object:
        """Return a JSON value (text, number, list, object or None) with all its texts redacted by the method `text`.

        Keys stay unchanged, because a document's keys are edgetop's own words, apart from ids of sensors: these have
        names that drivers and users gave.
        """
        return self._value(value, keys=False)

    def foreign(self, value: object) -> object:
        """Return a JSON value with its keys and texts redacted, for a value whose keys a user or a program chose."""
        return self._value(value, keys=True)

    def _value(self, value: object, *, keys: bool, key: str = "") -> object:
        if isinstance(value, str):
            return self.text(value, key)
        if isinstance(value, Mapping):
            return {
                self.text(name) if keys or "/" in name else name: self._value(one, keys=keys, key=name)
                for name, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._value(one, keys=keys, key=key) for one in value]
        return value
