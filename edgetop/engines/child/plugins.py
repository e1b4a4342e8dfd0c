"""Engines of other packages, found by their entry points. Nothing of those packages is imported here."""

from __future__ import annotations

from typing import Any, Dict

GROUP = "edgetop.engines"  # name of an engine -> module:class
SUFFIX_GROUP = "edgetop.model_suffixes"  # suffix of a model without its dot -> the same module:class


def entry_points(group: str) -> Dict[str, Any]:
    """Return the entry points that installed packages declare in a group, by name.

    The values are `importlib.metadata.EntryPoint` objects.
    """
    import importlib.metadata  # noqa: PLC0415  takes 20 ms, which a run without plug-ins need not spend

    found: Any = importlib.metadata.entry_points()
    points = found.select(group=group) if hasattr(found, "select") else found.get(group, ())
    return {point.name: point for point in points}


def plugin_of_suffix(suffix: str) -> str:
    """Return the name of the plug-in engine for files with a suffix such as ".net", or "" if there is none."""
    point = entry_points(SUFFIX_GROUP).get(suffix.lower().lstrip("."))
    if point is None:
        return ""
    return next((name for name, engine in entry_points(GROUP).items() if engine.value == point.value), "")
