"""The library that LD_PRELOAD brings into C and C++ programs, compiled where it is needed and kept."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from edgetop.probe import edgetop_probe as layout

SOURCE = Path(layout.__file__).parent / "ort_preload.c"
COMPILERS = ("cc", "gcc", "clang")
LONGEST_S = 60.0


def compiler() -> str | None:
    """The path of a C compiler; None: there is none."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def library(cache: Path) -> Path | None:
    """The compiled library under `cache`, made where it is not there yet; None: it cannot be made here.

    One for each version of its source and each architecture. The folder is the user's own (0700).
    """
    text = b"".join((SOURCE.parent / name).read_bytes() for name in ("ort_preload.c", "edgetop_probe.h"))
    made = cache / f"ort_preload-{hashlib.sha256(text).hexdigest()[:16]}-{os.uname().machine}.so"
    if made.exists():
        return made
    program = compiler()
    if program is None:
        return None
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            built = Path(scratch) / "built.so"
            order = [program, "-O2", "-shared", "-fPIC", "-o", str(built), str(SOURCE), "-ldl", "-lpthread"]
            subprocess.run(order, check=True, capture_output=True, timeout=LONGEST_S)  # noqa: S603  our own source
            built.replace(made)
    except (OSError, subprocess.SubprocessError):
        return None
    return made
