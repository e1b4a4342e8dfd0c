"""The memory that TFLite's interpreter reserves for tensors (its arena), and how its size was found, in words."""

from edgetop import formatting


def arena_words(arena_bytes: float, arena_from: str | None) -> str:
    """Return the size of TFLite's tensor memory (its arena), and how the size was found.

    `arena_from` is `tensors` if the size was computed from the tensors' addresses. With any other value, the size was
    measured as memory growth.

    >>> arena_words(2_224_184, "tensors")
    '2.1 MiB in the arena of the interpreter, from the places of its tensors'
    """
    if arena_from == "tensors":
        return f"{formatting.size(arena_bytes)} in the arena of the interpreter, from the places of its tensors"
    more = "with what its delegate allocated"
    return f"{formatting.size(arena_bytes)} more anonymous memory after the interpreter allocated tensors, {more}"
