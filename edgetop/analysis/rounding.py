"""Figures as documents have them: in the unit of their key, without digits that nobody measured."""

DIGITS = 3


def rounded(value: float | None, digits: int = DIGITS) -> float | None:
    return None if value is None else round(value, digits)


def ms(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 6)


def mj(joules: float) -> float:
    return round(joules * 1e3, 6)
