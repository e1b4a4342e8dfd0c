"""The highest FLOP/s and bytes/s that a board reached with a runtime: the roofs of the roofline model.

Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785.
"""

from collections.abc import Mapping

from edgetop.frozen import frozen
from edgetop.session.typed_json import JsonValue

DTYPE = "float32"  # of the probe model; other types have other ceilings
INTEGERS = ("int8", "uint8")  # data types of the second probe model


@frozen
class Ceilings:
    flops_per_s: float
    bytes_per_s: float
    measured_utc: str
    int8_flops_per_s: float | None = None  # integer operations a second; None if not measured

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "flops_per_s": self.flops_per_s,
            "bytes_per_s": self.bytes_per_s,
            "dtype": DTYPE,
            "measured_utc": self.measured_utc,
            "int8_flops_per_s": self.int8_flops_per_s,
        }


def ceilings_from(data: Mapping[str, object]) -> Ceilings | None:
    """Return the highest measured speeds of a board from a JSON object that `Ceilings.to_json` wrote.

    The result is None if `data` is anything else.
    """
    flops, moved, when = (data.get(key) for key in ("flops_per_s", "bytes_per_s", "measured_utc"))
    if not (isinstance(flops, int | float) and isinstance(moved, int | float) and isinstance(when, str)):
        return None
    integer = data.get("int8_flops_per_s")
    return ceilings_of(flops, moved, data.get("dtype"), when, integer if isinstance(integer, int | float) else None)


def ceilings_of(
    flops_per_s: float, bytes_per_s: float, dtype: object, measured_utc: str, int8_flops_per_s: float | None = None
) -> Ceilings | None:
    """Return the highest measured speeds of a board, or None if a speed is impossible or `dtype` is not "float32".

    `measured_utc` is the time of the measurement, in ISO 8601. `int8_flops_per_s` is the speed with 8-bit integers;
    None or an impossible value means not measured.
    """
    if dtype != DTYPE or not (0 < flops_per_s < float("inf") and 0 < bytes_per_s < float("inf")):
        return None
    is_possible = int8_flops_per_s is not None and 0 < int8_flops_per_s < float("inf")
    integer = float(int8_flops_per_s) if int8_flops_per_s is not None and is_possible else None
    return Ceilings(float(flops_per_s), float(bytes_per_s), measured_utc, integer)
