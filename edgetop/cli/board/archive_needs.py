"""Finds missing requirements of unpacked packages, judged for the Python of another machine."""

import importlib
import re
from importlib import metadata
from pathlib import Path
from typing import Any


def missing(packages: Path, python: str, architecture: str) -> list[str]:
    """Return the missing requirements of the packages in the folder `packages`, such as "numpy>=1.26".

    A requirement is missing if the folder has no package of that name. `python` is the version of the Python on Linux
    that is going to use the packages, such as "3.11". `architecture` is what `uname -m` prints there. Requirements
    for other platforms and for extras that no package asks for are left out.
    """
    # pip's own copy, which has no types: `packaging` itself may not be installed.
    requirements: Any = importlib.import_module("pip._vendor.packaging.requirements")
    there = {
        "python_version": python, "python_full_version": f"{python}.0", "implementation_version": f"{python}.0",
        "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": architecture,
        "implementation_name": "cpython", "platform_python_implementation": "CPython",
    }  # fmt: skip
    found = {normal(one.name): one for one in metadata.distributions(path=[str(packages)])}
    extras: dict[str, set[str]] = {name: {""} for name in found}
    lacking: dict[str, str] = {}
    is_new = True
    while is_new:  # each round adds an extra, or is the last
        is_new = False
        for name, one in found.items():
            for line in one.requires or []:
                need = requirements.Requirement(line)
                marker = need.marker
                if marker and not any(marker.evaluate({**there, "extra": extra}) for extra in extras[name]):
                    continue
                other = normal(need.name)
                if other not in found:
                    need.marker = None
                    lacking[other] = str(need)
                elif new := set(need.extras) - extras[other]:
                    extras[other] |= new
                    is_new = True
    return [lacking[name] for name in sorted(lacking)]


def normal(name: str) -> str:
    """Return the name of a package in the form that package indexes use (PEP 503).

    >>> normal("Backports.StrEnum")
    'backports-strenum'
    """
    return re.sub(r"[-_.]+", "-", name).lower()
