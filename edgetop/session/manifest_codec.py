"""Manifests as JSON: how they are written, and how they are checked when they are read.

A damaged value that only describes the session counts as unknown, so that the measurements stay usable.
"""

import typing
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from edgetop.session.manifest import FORM, Manifest, Model, built, is_date, is_id


def to_json(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as a dict of plain JSON values, in the order of its fields."""
    optional = ("unset_limits", "ab", "generation", "lost", "watched", "followed_by", "command")
    document = {key: value for key, value in FORM.plain(manifest).items() if value or key not in optional}
    if not document["board"]["caches"]:  # only in the file if they are known
        del document["board"]["caches"]
    for key in ("swap_bytes", "io_bytes_per_s"):  # only in the file if they were limited
        if document["constraints"][key] is None:
            del document["constraints"][key]
    return document


def from_json(document: Mapping[str, Any]) -> Manifest:
    """Return the manifest from `document`, the content of a `session.json`. Unknown keys are ignored.

    A damaged value that only describes the session counts as unknown, and its key is added to the manifest's `unread`.
    Raises ValueError with the wrong key if any other value is wrong or missing.
    """
    try:
        manifest = built(Manifest, document, _WHERE)
    except ValueError:
        if not isinstance(document, Mapping):
            raise
        kept, unread = _without_damage(document)
        manifest = replace(built(Manifest, kept, _WHERE), unread=tuple(unread))
    if not is_id(manifest.id):
        raise ValueError(f"{_WHERE}: id is not a UUID")
    if not is_date(manifest.created_utc):
        raise ValueError(f"{_WHERE}: created_utc is not a time such as 2026-11-21T10:15:02Z")
    return manifest


_WHERE = "session.json"
# Keys that only describe a session: it can be read without them.
_DESCRIPTIONS = ("end_reason", "board", "model", "engine", "methodology", "constraints", "labels", "watched",
                 "unset_limits", "generation", "followed_by", "command")  # fmt: skip
_LOSS_UNKNOWN = {"seconds": None, "inferences": None, "why": "what the manifest says of losses is damaged"}


def _without_damage(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the document without damaged values that only describe the session, and the keys of these values."""
    kept: dict[str, Any] = dict(document)
    unread: list[str] = []
    hints = typing.get_type_hints(Manifest)
    for key in (*_DESCRIPTIONS, "lost"):
        if key not in kept or _fits(hints[key], kept[key]):
            continue
        kind = hints[key]
        if is_dataclass(kind) and isinstance(kept[key], Mapping):
            kept[key], damaged = _known_fields(kind, kept[key])
            unread += [f"{key}: {name}" for name in damaged]
            continue
        unread.append(key)
        if key == "lost":  # losses are unknown then, not zero
            kept[key] = _LOSS_UNKNOWN
        elif key in ("board", "engine"):
            kept[key] = {}
        elif key == "model":
            kept[key] = {"path": ""}
        else:
            del kept[key]
    return kept, unread


def _known_fields(kind: Any, value: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the undamaged fields of a JSON object, and the keys of the damaged ones.

    `kind` is the class that the object describes. A model's damaged path is replaced by "".
    """
    hints = typing.get_type_hints(kind)
    damaged = [name for name in hints if name in value and not _fits(hints[name], value[name])]
    kept = {key: item for key, item in value.items() if key not in damaged}
    return kept | ({"path": ""} if kind is Model and "path" in damaged else {}), damaged


def _fits(hint: Any, value: Any) -> bool:
    try:
        FORM.parse(hint, value, _WHERE)
    except (ValueError, OverflowError):
        return False
    return True
