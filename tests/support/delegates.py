"""Libraries that are built here: a TFLite delegate, so that operators are delegated for real, and custom operators."""

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("claiming_delegate.c")
CUSTOM_OPS = """#include <stdio.h>
/* What ONNX Runtime calls in a library of custom operators (onnxruntime_c_api.h); NULL says that all went well. */
void *RegisterCustomOps(void *options, const void *api) {
    (void)options, (void)api;
    fputs("custom operators registered\\n", stderr);
    return 0;
}
"""


def claiming_delegate(folder: Path) -> Path:
    """The shared library of `claiming_delegate.c`, built in the folder with the system's C compiler."""
    return _built(SOURCE, folder / "libclaiming.so", "-fvisibility=hidden", "-lm")


def custom_ops(folder: Path) -> Path:
    """A library of custom operators for ONNX Runtime. It has none, and prints a line when it is loaded."""
    source = folder / "custom_ops.c"
    source.write_text(CUSTOM_OPS)
    return _built(source, folder / "libcustom_ops.so")


def _built(source: Path, library: Path, *flags: str) -> Path:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise RuntimeError("these tests build a small library: install a C compiler (Debian: apt install gcc)")
    every = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *every, str(source), "-o", str(library), *flags], check=True)
    return library
