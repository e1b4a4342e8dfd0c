"""What a check finds: a claim, how bad it is, and the command that would change it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "problem"]
_ORDER: tuple[Status, ...] = ("ok", "warning", "problem")


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    status: Status
    found: str
    advice: str | None = None
    fix: str | None = None  # a command


def ok(name: str, found: str, advice: str | None = None) -> Check:
    return Check(name, "ok", found, advice)


def warning(name: str, found: str, advice: str | None = None, fix: str | None = None) -> Check:
    return Check(name, "warning", found, advice, fix)


def problem(name: str, found: str, advice: str | None = None, fix: str | None = None) -> Check:
    return Check(name, "problem", found, advice, fix)


def unknown(name: str, why: str, advice: str | None = None, fix: str | None = None) -> Check:
    """What cannot be told is a warning that says so, never ok."""
    return Check(name, "warning", f"unknown: {why}", advice, fix)


def worst(checks: Iterable[Check]) -> Status:
    """The status of all of them together."""
    return max((check.status for check in checks), key=_ORDER.index, default="ok")
