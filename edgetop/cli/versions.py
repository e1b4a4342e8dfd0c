"""`edgetop --version --verbose`: the versions that a bug report needs. Nothing in it identifies a person."""

import os
import platform
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from edgetop import __version__
from edgetop.engines.child.adapters import RUNTIMES
from edgetop.formatting import clean
from edgetop.installation import extras, package_names
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.capture.private import Private
from edgetop.sensors.root import Root

PACKAGES = ("textual", "numpy", "pyarrow", "psutil", "click")


def verbose_lines() -> Iterator[str]:
    """Yield a line with the version of edgetop, then a line for each component that it uses.

    "-" means not installed.
    """
    yield f"edgetop {__version__}"
    rows = [("python", _python()), ("platform", _platform()), *_runtimes()]
    rows += [*((name, _of(name)) for name in PACKAGES), ("extras", _extras())]
    width = max(len(name) for name, _ in rows)
    for name, version in rows:
        yield f"{name:<{width}}  {version}"


def _python() -> str:
    return f"{platform.python_version()}, {platform.python_implementation()}, {_place()}"


def _place() -> str:
    """Return how edgetop is installed, such as `pipx` or `virtual environment`.

    The path of the installation is left out, because it might contain a user's name.
    """
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return "pipx"
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool"
    if sys.prefix != sys.base_prefix:
        return "virtual environment"
    is_managed = Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()
    return "the system's, externally managed" if is_managed else "the system's"


def _platform() -> str:
    """Return the machine, kernel, C library, distribution and board as text, without names of the host or its users."""
    root, kernel = Root(), os.uname()
    board = read_board(root)
    c_library = " ".join(platform.libc_ver()) or "C library unknown"
    parts = (kernel.machine, f"{kernel.sysname} {kernel.release}", c_library, board.os, board.model)
    found = ", ".join(part for part in parts if part)
    return clean(Private(root).scrub(found.encode(errors="replace")).decode())


def _runtimes() -> Iterator[tuple[str, str]]:
    """Yield `(runtime, packages)` for each runtime. `packages` is a text with its installed packages and their
    versions.

    If there is none, `packages` is "-". If there are several, all are named, because these overwrite each other's
    files.
    """
    providers = metadata.packages_distributions()
    for name, runtime in RUNTIMES.items():
        packages = sorted(set(providers.get(runtime.module, ())))
        yield name, ", ".join(f"{package} {_of(package)}" for package in packages) or "-"


def _extras() -> str:
    """Return the installed packages of extras that are no runtime, with versions, or "-" if there are none."""
    told = {*PACKAGES, *(runtime.package for runtime in RUNTIMES.values())}
    others = {name for extra in extras() for name in package_names(extra)} - told
    return ", ".join(f"{name} {version}" for name in sorted(others) if (version := _of(name)) != "-") or "-"


def _of(package: str) -> str:
    try:
        return clean(metadata.version(package))
    except metadata.PackageNotFoundError:
        return "-"
