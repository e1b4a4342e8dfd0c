"""Find or compile the library that is preloaded into C and C++ programs, to see their calls of ONNX Runtime."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from edgetop.paths import is_there
from edgetop.probe import edgetop_probe as layout
from edgetop.taps.unseen import PRELOAD_SEPARATORS

PRELOAD_SOURCE = Path(layout.__file__).parent / "ort_preload.c"
SOURCES = ("ort_preload.c", "cpp_preload.h", "llama_preload.h", "edgetop_probe.h")
COMPILERS = ("cc", "gcc", "clang")
COMPILE_S = 60.0
# Without RELRO, the loader needs no mprotect(2) for the library: a program whose loader cannot make one does not start.
LINKED = ("-Wl,-z,norelro", "-ldl", "-lpthread")
DEEPEST = 128  # most parent folders of a program; the parent of `/` is `/`


def preloaded(library: Path) -> str:
    """Return the library's path for LD_PRELOAD, in a form that only glibc's loader finds.

    Only glibc replaces $ORIGIN by the program's folder (ld.so(8)). musl's loader would miss symbols and end the
    program, but it skips a file that does not exist (load_preload in musl's ldso/dynlink.c).
    """
    return f"$ORIGIN{'/..' * DEEPEST}{library}"


def preload_library(cache: Path) -> Path | None:
    """Return the path of the library to preload into C and C++ programs. The library is compiled if necessary.

    Returns None if compiling fails, or if the path has a character that separates the paths in LD_PRELOAD. `cache` is
    the folder for the libraries, which is private to the user (0700). There is one library for each version of the
    source and each architecture.
    """
    import hashlib  # noqa: PLC0415  OpenSSL's, which nothing else of a session loads

    text = b"".join((PRELOAD_SOURCE.parent / name).read_bytes() for name in SOURCES)
    library = cache / f"ort_preload-{hashlib.sha256(text).hexdigest()[:16]}-{os.uname().machine}.so"
    if any(separator in str(library) for separator in PRELOAD_SEPARATORS):
        return None
    if is_there(library):
        return library
    program = next(filter(None, map(shutil.which, COMPILERS)), None)
    if program is None:
        return None
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            built = Path(scratch) / "built.so"
            order = [program, "-O2", "-shared", "-fPIC", "-o", str(built), str(PRELOAD_SOURCE), *LINKED]
            subprocess.run(order, check=True, capture_output=True, timeout=COMPILE_S)  # noqa: S603  our own source
            built.replace(library)
    except (OSError, subprocess.SubprocessError):
        return None
    return library
