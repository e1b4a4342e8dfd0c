"""The memory that TFLite's interpreter takes for tensors, and how it is known."""

from edgetop import formatting


def arena_words(arena_bytes: float, arena_from: str | None) -> str:
    """Return the size of the arena and its source.

    >>> arena_words(2_224_184, "tensors")
    '2.1 MiB in the arena of the interpreter, from the places of its tensors'
    """
    if arena_from == "tensors":
        return f"{formatting.size(arena_bytes)} in the arena of the interpreter, from the places of its tensors"
    more = "with what its delegate allocated"
    return f"{formatting.size(arena_bytes)} more anonymous memory after the interpreter allocated tensors, {more}"
