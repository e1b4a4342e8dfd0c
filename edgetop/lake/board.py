"""The id of a board in a lake: chosen, or derived from data that distinguishes it from others but does not identify it.

The derived one is `b-` and 12 digits of HMAC-SHA256 of a constant of edgetop with the machine id as key, as systemd
derives ids for one application (machine-id(5), sd_id128_get_machine_app_specific(3)): it is the same in every run,
no serial number or host name is in it, and the machine id cannot be computed from it.
"""

import hmac
import re
from pathlib import Path

from edgetop.errors import InputError

APPLICATION = bytes.fromhex("6d1f0e1a2b7c4f0f9a3c5e8d7b6a4c21")  # drawn once; another one gives other ids
MACHINE_ID = Path("/etc/machine-id")
_FITS = re.compile(r"[a-z][a-z0-9._-]{0,62}")
_NUMBERS = {"nan", "inf", "infinity", "null", "true", "false"}  # engines would guess another type


def board_id(chosen: str | None, machine_id: Path = MACHINE_ID) -> str:
    """Raises InputError where the chosen one does not fit, or none can be derived."""
    if chosen is not None:
        if not _FITS.fullmatch(chosen) or chosen in _NUMBERS:
            raise InputError(f"--board-id {chosen}: cannot be an id", "a letter, then up to 62 of a-z 0-9 . _ -")
        return chosen
    try:
        key = bytes.fromhex(machine_id.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        key = b""
    if len(key) != 16:
        raise InputError(f"{machine_id} holds no machine id, so this board has no id", "choose one: --board-id pi-07")
    return f"b-{hmac.digest(key, APPLICATION, 'sha256').hex()[:12]}"
