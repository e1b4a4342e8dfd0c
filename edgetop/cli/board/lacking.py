"""What this installation lacks: packages of extras, and programs that some commands start."""

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from edgetop.engines.child.adapters import RUNTIMES
from edgetop.frozen import frozen
from edgetop.installation import extra_command, package_names
from edgetop.sensors.root import Root, is_compatible

# What each extra of pyproject.toml is for.
PURPOSES = {
    "onnx": "ONNX models",
    "tflite": "TFLite models",
    "tflite-runtime": "TFLite models where LiteRT has no wheel",
    "llm": "language models (GGUF)",
    "openvino": "OpenVINO: Intel CPUs, GPUs and NPUs",
    "ncnn": "ncnn models",
    "perfetto": "edgetop export --to perfetto",
    "images": "pictures as inputs (--input photo.jpg)",
    "html": "charts of --html",
    "otel": "--otlp",
    "lake": "edgetop lake",
    "lake-distributed": "edgetop lake --engine daft",
    "i2c": "--i2c: power monitors on an I2C bus",
    "nvml": "power, heat and clocks of NVIDIA GPUs",
    "jetson": "the engine's part of a Jetson's GPU memory",
}
# Programs, what they are for, and how to get them on Debian and its relatives.
PROGRAMS = (
    (("cc", "gcc", "clang"), "a C compiler", "edgetop watch of C and C++ programs", "sudo apt install gcc"),
    (("ssh",), "ssh", "edgetop attach ssh:HOST, edgetop fleet", "sudo apt install openssh-client"),
)


@frozen
class Lack:
    what: str
    purpose: str
    fix: str  # a shell command


def lacking(root: Root, find: Callable[[str], str | None] = shutil.which) -> Iterator[Lack]:
    """Yield each extra or program that is not installed and could be useful on this board.

    `root` is the root of the board's file system. `find` takes the name of a program and returns its path or None.
    """
    for extra, purpose in PURPOSES.items():
        if _is_of_use(extra, root) and not _is_installed(extra):
            yield Lack(f"the extra {extra}", purpose, extra_command(extra))
    for names, what, purpose, fix in PROGRAMS:
        if not any(map(find, names)):
            yield Lack(what, purpose, fix)


def _is_installed(extra: str) -> bool:
    names = package_names(extra)
    try:
        for name in names:
            metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return bool(names)


def _is_of_use(extra: str, root: Root) -> bool:
    if extra == "tflite-runtime":  # it is the other runtime for TFLite, for Python before 3.12 alone
        has_another = any(
            importlib.util.find_spec(module)
            for module in (runtime.module for runtime in RUNTIMES.values() if runtime.formats[0] == "tflite")
        )
        return not has_another and bool(package_names(extra))
    if extra == "jetson":
        return is_compatible(root, "nvidia,tegra")
    if extra == "nvml":
        return root.is_host and Path("/proc/driver/nvidia/version").exists()
    return True
