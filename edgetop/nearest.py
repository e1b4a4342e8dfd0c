"""Did you mean: the nearest of the known names, for every message about an unknown one."""

from collections.abc import Iterable


def nearest_hint(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """`otherwise`: what is said in place of all names, where there may be too many.

    >>> nearest_hint("onnxruntme", ["onnxruntime", "litert"])
    'did you mean onnxruntime?'
    >>> nearest_hint("zzz", ["onnxruntime", "litert"])
    'known: onnxruntime, litert'
    """
    import difflib  # noqa: PLC0415  for errors alone

    known = list(names)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else otherwise or f"known: {', '.join(known)}"
