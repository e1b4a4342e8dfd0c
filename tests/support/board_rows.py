"""The row of a board in the table of edgetop/docs/boards.md, "What was tried"."""

from collections.abc import Mapping, Sequence
from typing import Any

KNOWN_FROM = ("seen by a user", "captured", "emulated", "documentation")


def wrong_in_page(tree: str, board: Mapping[str, Any], rows: Sequence[str]) -> str:
    """Say what the table of "What was tried" lacks for a tree, or "" if its row is right.

    The first column is the board's model. A board without one is listed by the tree's name, without `-loaded`.
    """
    first, kernel = board.get("model") or tree.removesuffix("-loaded"), board.get("kernel") or "-"
    row = f"| {first} | {kernel} | {board.get('os') or '-'} | `{tree}` | captured |"
    wanted = f"the table of edgetop/docs/boards.md, What was tried, needs a row such as {row}"
    of_tree = [row for row in rows if f"`{tree}`" in row]
    if len(of_tree) != 1:  # a board has a row for each kernel
        found = f"has {len(of_tree)} rows, of which one is right" if of_tree else "has no row yet"
        return f"{tree} {found}: {wanted}"
    columns = [column.strip() for column in of_tree[0].split("|")[1:-1]]
    if columns[0] != first:
        return f"the row of {tree} begins with {columns[0]!r}, not with {first!r}: {wanted}"
    if (board.get("kernel") or "") not in of_tree[0]:
        return f"the row of {tree} has {columns[1]!r}, not its kernel {kernel!r}: {wanted}"
    return "" if columns[-1] in KNOWN_FROM else f"the row of {tree} ends with {columns[-1]!r}, not one of {KNOWN_FROM}"
