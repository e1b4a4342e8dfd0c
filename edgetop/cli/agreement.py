"""Whether A and B of an A/B session, or the combinations of a sweep, still give the same outputs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgetop.cli.comparison_text import value_text
from edgetop.comparison.compare import Comparison
from edgetop.comparison.outputs import AGREEMENT, agreements
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.recording.outputs import read_outputs
from edgetop.session.turns import SIDES

SHOWN = ("same_top", "snr_db", "max_abs")


def with_outputs(document: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    """`report --json`, with `outputs` in its part `ab` where both variants kept some: B's against A's."""
    if document.get("ab") and folder and (found := _found(folder)):
        document["ab"] = {**document["ab"], "outputs": found}
    return document


def outputs_lines(folder: Path | None) -> Iterator[str]:
    """The same in the text; nothing where none were kept."""
    found = _found(folder) if folder else None
    if found and found["refused"]:
        yield f"outputs    not compared: {clean(found['refused'])}"
    for one in found["agreement"] if found else ():
        told = [f"{AGREEMENT[key][0]} {value_text(one[key], AGREEMENT[key][1])}{_unit(key)}"
                for key in SHOWN if one[key] is not None]  # fmt: skip
        yield f"outputs    {clean(one['name'])} of B to A's: {', '.join(told)}"


def _unit(key: str) -> str:
    return " dB" if AGREEMENT[key][1] == "dB" else ""


def _found(folder: Path) -> Mapping[str, Any] | None:
    try:
        first, second = (read_outputs(folder, side) for side in SIDES)
        if first is None or second is None:
            return None
        return {"agreement": [asdict(one) for one in agreements(first, second)], "refused": None}
    except (InputError, ValueError) as error:
        return {"agreement": [], "refused": str(error)}


def worst(comparison: Comparison | None, name: str) -> dict[str, float]:
    """Of a combination's outputs against the first combination's: the lowest agreement and signal to noise."""
    if comparison is None or name not in comparison.names:
        return {}
    place = comparison.names.index(name)
    found = {}
    for end in ("same_top", "snr_db"):
        rows = (row.values[place] for row in comparison.rows if row.key.startswith("output/") and row.key.endswith(end))
        values = [value for value in rows if isinstance(value, float)]
        if values:
            found[end] = min(values)
    return found
