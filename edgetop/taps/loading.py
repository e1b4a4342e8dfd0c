"""Find the functions of a runtime's Python module that run a model, by loading the module if that is safe.

Loading a module runs its code with the rights of the user who runs edgetop, and outside of any sandbox of the watched
process. So a module is loaded only if nobody but this user or root can have written it. Otherwise the module of
edgetop's own environment is loaded, if it is equal byte by byte.
"""

import contextlib
import grp
import importlib.util
import json
import os
import pwd
import stat
import sys
from pathlib import Path
from typing import Any

from edgetop.taps.asking import Asked
from edgetop.taps.runtimes import PYBIND, Function, is_module

LOCATE = Path(__file__).with_name("locate.py")
LOCATE_S = 30.0
SITES = ("site-packages", "dist-packages")


def digest(file: int) -> str:
    """Return the SHA-256 of an open file as hexadecimal digits. `file` is its descriptor."""
    import hashlib  # noqa: PLC0415  OpenSSL's, which nothing else of a session loads

    total, at = hashlib.sha256(), 0
    while data := os.pread(file, 1 << 20, at):
        total.update(data)
        at += len(data)
    return total.hexdigest()


def may_load(path: str) -> bool:
    """Whether only this user and root can have written the file at `path` and the folders above it."""
    user = os.geteuid()
    try:
        if os.path.realpath(path) != path:
            return False
        for place in (Path(path), *Path(path).parents):
            status = place.lstat()
            if status.st_uid not in (0, user):
                return False
            others = status.st_mode & (stat.S_IWOTH if _is_private(status.st_gid) else stat.S_IWOTH | stat.S_IWGRP)
            if others and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
                return False
    except OSError:
        return False
    return True


def _is_private(group: int) -> bool:
    """Whether the group with the id `group` has no member except this user and root.

    This is usual: most systems have a separate group for each user.
    """
    if group == 0:
        return True
    with contextlib.suppress(KeyError):
        user = pwd.getpwuid(os.geteuid())
        members = set(grp.getgrgid(group).gr_mem) - {user.pw_name, "root"}
        return (
            group == user.pw_gid
            and not members
            and not any(one.pw_gid == group and one.pw_uid not in (0, user.pw_uid) for one in pwd.getpwall())
        )
    return False


class Loading:
    """A search, in another process, for the functions of a module that run a model. `close` ends it early."""

    def __init__(self, path: str, interpreter: str, sites: list[str], sha256: str) -> None:
        """Search the module at `path`. Raises ValueError, with the reason, if loading the module is not safe.

        `interpreter` is the path of the program that the watched process runs; it is not trusted. `sites` are the
        watched process's folders of Python packages. `sha256` is the hash of the module's file, as hexadecimal digits.
        """
        self.path = path
        if not is_module(path):
            raise ValueError(f"{path.rpartition('/')[2]}: it is not a module of ONNX Runtime")
        if may_load(path) and may_load(interpreter) and os.path.basename(interpreter).startswith("python"):  # noqa: PTH119
            own_sites = [site for site in sites if os.path.basename(site) in SITES and may_load(site)]  # noqa: PTH119
            self._asked = _asked(interpreter, path, own_sites)
        elif own := _own_copy(path, sha256):
            self._asked = _asked(sys.executable, own, [str(Path(own).parents[2])])
        else:
            name = path.rpartition("/")[2]
            raise ValueError(
                f"{name}: another user may have written it, so it is not loaded to find its functions; "
                "install the same version of onnxruntime beside edgetop"
            )

    def poll(self) -> list[Function] | None:
        """Return the functions that were found, or None while the search runs. Raises ValueError if it fails."""
        name = self.path.rpartition("/")[2]
        try:
            answer = self._asked.poll()
        except TimeoutError as error:
            raise ValueError(f"{name}: the functions that run a model were not found: {error}") from None
        if answer is None:
            return None
        status, said = answer
        if status:
            raise ValueError(f"{name}: the functions that run a model were not found: exit status {status}")
        return self._functions(name, said)

    def _functions(self, name: str, answer: bytes) -> list[Function]:
        try:
            said: dict[str, Any] = json.loads(answer)
            version, caller = str(said["version"])[:64], int(said["caller"])
            found = [
                Function("onnxruntime", version, str(method), self.path, int(offset), caller)
                for method, offset in said["offsets"].items()
            ]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{name}: the functions that run a model were not found") from None
        return found

    def close(self) -> None:
        self._asked.close()


def _asked(interpreter: str, path: str, sites: list[str]) -> Asked:
    order = [interpreter, "-I", "-S", "-B", "-c", LOCATE.read_text("utf-8"), path, *sites]
    return Asked(order, LOCATE_S, env={}, cwd="/")


def _own_copy(path: str, sha256: str) -> str | None:
    """Return the path of an identical copy of a module in edgetop's own environment, or None if there is none.

    `path` is the module's path. `sha256` is the hash of its file, as hexadecimal digits.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        spec = importlib.util.find_spec("onnxruntime")
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            own = Path(folder) / "capi" / os.path.basename(path)  # noqa: PTH119
            if PYBIND in own.name and own.is_file():
                file = os.open(own, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    if digest(file) == sha256:
                        return str(own)
                finally:
                    os.close(file)
    return None
