"""How this edgetop was installed, and so how packages are added beside it.

edgetop is on no package index: a hint that named it there would lead to whoever registers the name. So a hint names
the packages themselves, and the environment that edgetop runs in.
"""

import re
import shlex
import sys
from pathlib import Path

_PACKAGE = r"([^;]+);.*\bextra == ['\"]([\w-]+)['\"]"


def packages_of(extra: str) -> list[str]:
    """Return the packages of an extra with their versions, as the installed metadata have them.

    >>> packages_of("html")
    ['bokeh>=3.4']
    """
    from importlib import metadata  # noqa: PLC0415  loads `email`, for a hint alone

    try:
        lines = metadata.requires("edgetop") or []
    except metadata.PackageNotFoundError:  # it runs from a folder
        lines = []
    found = (re.match(_PACKAGE, line) for line in lines)
    return sorted(one[1].strip() for one in found if one and one[2] == extra and not one[1].startswith("edgetop"))


def install_command(*packages: str) -> str:
    """Return the command that adds packages to the environment of this edgetop."""
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return shlex.join(["pipx", "inject", prefix.name, *packages])
    if (prefix / "uv-receipt.toml").exists() or not _has_pip():
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *packages])
    import sysconfig  # noqa: PLC0415  for a hint alone

    is_managed = sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()
    allowed = ["--break-system-packages"] if is_managed else []  # PEP 668; edgetop itself got there in the same way
    return shlex.join([sys.executable, "-m", "pip", "install", *allowed, *packages])


def extra_command(extra: str) -> str:
    """Return the command that adds what an extra of edgetop needs."""
    packages = packages_of(extra)
    return install_command(*packages) if packages else f"install the packages of the extra {extra} (pyproject.toml)"


def _has_pip() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415  for a hint alone

    return find_spec("pip") is not None
