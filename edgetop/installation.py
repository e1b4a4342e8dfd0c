"""How this edgetop was installed, and how packages can be added beside it.

edgetop is on no package index, and anybody could register its name there. So a hint never says to install edgetop from
an index. It names the packages to add, and the environment in which edgetop runs.
"""

import contextlib
import os
import re
import shlex
import site
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ARCHIVE = "archive.json"  # in the folder of an archive of `edgetop bundle-for`: what it was made for
ANY_PYTHON = 0  # for `packages_of`: all packages, since the markers leave out newer versions of Python
_REPEATED = {"requirements", "python", "entrypoints"}  # of a receipt of uv: what `_uv_tool` gives again
_PACKAGE = r"([^;]+);.*\bextra == ['\"]([\w-]+)['\"]"
_OLDER_THAN = re.compile(r"\bpython_version < ['\"]3\.(\d+)['\"]")  # the one marker that pyproject.toml has for extras


def extras() -> list[str]:
    """Return the names of the optional groups of edgetop's packages (extras), without the one for its developers.

    >>> "html" in extras()
    True
    """
    from importlib import metadata  # noqa: PLC0415  loads `email`, which most commands do not need

    try:
        names = metadata.metadata("edgetop").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:  # it runs from a folder
        names = []
    return [name for name in names if name != "dev"]


def packages_of(extra: str, minor: int = sys.version_info[1]) -> list[str]:
    """Return the packages of an optional group of edgetop's packages (an extra), with their versions.

    `minor` is the version of the Python that is going to use them, such as 11 for Python 3.11. A package that does not
    exist for it is left out.

    >>> packages_of("html")
    ['bokeh>=3.4']
    """
    from importlib import metadata  # noqa: PLC0415  loads `email`, for a hint alone

    try:
        lines = metadata.requires("edgetop") or []
    except metadata.PackageNotFoundError:  # it runs from a folder
        lines = []
    found = (re.match(_PACKAGE, line) for line in lines if not (old := _OLDER_THAN.search(line)) or minor < int(old[1]))
    return sorted(one[1].strip() for one in found if one and one[2] == extra and not one[1].startswith("edgetop"))


def package_names(extra: str) -> list[str]:
    """Return the names of the packages of an optional group of edgetop's packages (an extra).

    >>> package_names("lake-distributed")
    ['daft']
    """
    return [_name(package) for package in packages_of(extra)]


def install_command(*packages: str) -> str:
    """Return a shell command that adds `packages` to the environment of this edgetop. Upgrades of edgetop keep them."""
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():  # a venv of pipx has its pip elsewhere, or none
        return shlex.join([*_pipx(prefix), prefix.name, *packages])
    if (prefix / "uv-receipt.toml").exists():
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError, AttributeError):  # another receipt
            return shlex.join(_uv_tool(prefix, packages))
    import sysconfig  # noqa: PLC0415  for a hint alone

    is_managed = sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()
    allowed = ["--break-system-packages"] if is_managed else []  # PEP 668; edgetop itself got there in the same way
    own = site.getusersitepackages()
    is_own = Path(own) in Path(__file__).parents
    if not _has_pip():
        target = ["--target", own] if is_own else []  # uv has no --user
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *allowed, *target, *packages])
    user = ["--user"] if is_own else []
    return shlex.join([sys.executable, "-m", "pip", "install", *allowed, *user, *packages])


def _pipx(prefix: Path) -> list[str]:
    """Return the first words of the pipx command that adds packages to edgetop, such as `["pipx", "inject"]`.

    `prefix` is the folder of edgetop's environment. pipx may have installed edgetop for this user, for all users, or in
    the folder that PIPX_HOME named.
    """
    home = prefix.parent.parent
    if home == Path(os.environ.get("PIPX_GLOBAL_HOME", "/opt/pipx")):
        return ["pipx", "inject", "--global"]
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    homes = (
        [Path(os.environ["PIPX_HOME"])] if "PIPX_HOME" in os.environ else [data / "pipx", Path.home() / ".local/pipx"]
    )
    return ["pipx", "inject"] if home in homes else ["env", f"PIPX_HOME={home}", "pipx", "inject"]


def _uv_tool(prefix: Path, packages: Sequence[str]) -> list[str]:
    """Return the uv command that installs edgetop again as a tool, with `packages` and all packages added earlier.

    edgetop must be installed again, because an upgrade removes what `uv pip install` added. Raises ValueError if uv's
    receipt does not say where edgetop came from: without that, uv would look for edgetop on an index.
    https://docs.astral.sh/uv/concepts/tools/
    """
    from edgetop.files import read_toml  # noqa: PLC0415  for a hint alone

    tool = read_toml(prefix / "uv-receipt.toml")["tool"]
    ours, *others = sorted(tool["requirements"], key=lambda one: one["name"] != prefix.name)
    source = _requirement(ours)
    known = {name for name, value in tool.items() if value}
    place = next((ours[key] for key in ("path", "directory", "editable") if key in ours), None)
    is_lost = place is not None and not Path(place).exists()
    if is_lost or source == ours["name"] + ours.get("specifier", "") or known - _REPEATED:
        raise ValueError("it cannot be installed again in the same way")
    python = ["--python", tool["python"]] if "python" in tool else []
    names = {_name(package) for package in packages}
    kept = [_requirement(one) for one in others if _name(one["name"]) not in names]
    added = [word for package in (*kept, *packages) for word in ("--with", package)]
    editable = ["--editable"] if "editable" in ours else []
    return [*_uv_folders(prefix, tool), "uv", "tool", "install", *python, *added, *editable, source]


def _uv_folders(prefix: Path, tool: Mapping[str, Any]) -> list[str]:
    """Return the words `env NAME=FOLDER ...` that tell uv where edgetop is installed, or [] if uv finds it by itself.

    `prefix` is the folder of edgetop's environment. `tool` is the part `tool` of the receipt that uv wrote there.
    """
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    folders = {"UV_TOOL_DIR": (prefix.parent, data / "uv/tools")}
    if tool.get("entrypoints"):
        program = Path(tool["entrypoints"][0]["install-path"])
        folders["UV_TOOL_BIN_DIR"] = program.parent, Path(os.environ.get("XDG_BIN_HOME") or data.parent / "bin")
    named = [f"{name}={at}" for name, (at, usual) in folders.items() if at != Path(os.environ.get(name) or usual)]
    return ["env", *named] if named else []


def _name(package: str) -> str:
    return re.split(r"[^\w.-]", package)[0].lower().replace("_", "-")


def _requirement(one: Mapping[str, Any]) -> str:
    """Return one requirement of uv's receipt as text for a command line.

    >>> _requirement({"name": "duckdb", "specifier": ">=1.1"})
    'duckdb>=1.1'
    >>> _requirement({"name": "edgetop", "extras": ["onnx"], "directory": "/src/edgetop"})
    '/src/edgetop[onnx]'
    >>> _requirement({"name": "edgetop", "git": "https://host/edgetop?rev=v1"})
    'edgetop @ git+https://host/edgetop@v1'
    """
    extras = f"[{','.join(one['extras'])}]" if one.get("extras") else ""
    for key in ("path", "directory", "editable"):
        if key in one:
            return f"{one[key]}{extras}"
    if "git" in one:
        url, _, query = str(one["git"]).partition("?")
        found = re.search(r"(?:^|&)(?:rev|tag|branch)=([^&]+)", query)
        folder = re.search(r"(?:^|&)subdirectory=([^&]+)", query)
        at = f"@{found[1]}" if found else ""
        return f"{one['name']}{extras} @ git+{url}{at}{f'#subdirectory={folder[1]}' if folder else ''}"
    if "url" in one:
        return f"{one['name']}{extras} @ {one['url']}"
    return f"{one['name']}{extras}{one.get('specifier', '')}"


def extra_command(extra: str) -> str:
    """Return the command that installs an optional group of edgetop's packages (an extra)."""
    if packages_of(extra) and (Path(sys.prefix) / ARCHIVE).exists():  # without pip, and maybe without a network
        return f"make the archive anew with --extra {extra} (edgetop bundle-for)"
    if packages := packages_of(extra):
        return install_command(*packages)
    if packages_of(extra, ANY_PYTHON):
        return f"the extra {extra} has packages only for older versions of Python"
    return f"install the packages of the extra {extra} (pyproject.toml)"


def _has_pip() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415  for a hint alone

    return find_spec("pip") is not None
