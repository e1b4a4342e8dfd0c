"""Find the known name that is most similar to an unknown one, for messages such as "did you mean onnxruntime?"."""

from collections.abc import Iterable


def nearest_hint(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return a hint for the unknown `name`: the most similar of `names`, or all of them if none is similar.

    If no name is similar and `otherwise` is given, the hint is `otherwise` instead of all names.

    >>> nearest_hint("onnxruntme", ["onnxruntime", "litert"])
    'did you mean onnxruntime?'
    >>> nearest_hint("zzz", ["onnxruntime", "litert"])
    'known: onnxruntime, litert'
    """
    import difflib  # noqa: PLC0415  for errors alone

    known = list(names)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else otherwise or f"known: {', '.join(known)}"
