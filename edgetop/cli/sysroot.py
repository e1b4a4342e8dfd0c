"""The board that `--sysroot` names, or the one edgetop runs on."""

from pathlib import Path

from edgetop.errors import InputError
from edgetop.sensors.root import Root

CAPTURED = "tree"  # where a capture (edgetop sensors --capture) keeps the board's files


def board_root(sysroot: Path | None) -> Root:
    """Raises InputError where there is no such folder. The folder of an unpacked capture stands for its tree."""
    if sysroot is None:
        return Root()
    if not sysroot.is_dir():
        raise InputError(f"--sysroot {sysroot}: no such folder", "unpack a capture with tar -xzf first")
    unpacked = (sysroot / CAPTURED).is_dir() and not (sysroot / "proc").exists() and not (sysroot / "sys").exists()
    return Root(sysroot / CAPTURED if unpacked else sysroot)
