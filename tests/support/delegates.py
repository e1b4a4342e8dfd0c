"""A TFLite delegate built here, so that operators are delegated, and others left to the CPU, for real."""

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("claiming_delegate.c")


def claiming_delegate(folder: Path) -> Path:
    """The shared library of `claiming_delegate.c`, built in the folder with the system's C compiler."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise RuntimeError("these tests build a small TFLite delegate: install a C compiler (Debian: apt install gcc)")
    library = folder / "libclaiming.so"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(library), "-lm"], check=True)
    return library
