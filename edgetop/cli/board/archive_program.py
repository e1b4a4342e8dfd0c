"""Starts edgetop from the archive that `edgetop bundle-for` made. This file is the `__main__.py` of that archive.

    python3 edgetop.pyz ARGUMENTS ...        unpacks the archive once, below the user's cache
    python3 FOLDER ARGUMENTS ...             FOLDER: the unpacked archive

The unpacked folder becomes a virtual environment of the Python that runs this file, so the engine's process finds its
packages too. Neither pip nor a network is needed. The file imports nothing of edgetop, because the archive is not
unpacked yet. On a Python as old as 3.6, it says which Python is needed.
"""

import errno
import json
import os
import platform
import shutil
import sys
import zipfile
from typing import Callable, List, NamedTuple

CONTENTS = "archive.json"
FOLDER_VARIABLE = "EDGETOP_ARCHIVE_DIR"
USAGE, NOT_WRITTEN = 2, 4  # exit codes of edgetop


class Refused(Exception):  # noqa: N818  nothing is wrong with the program
    """Raised if the archive cannot be started on this board. The message says why, and `code` is the exit code."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(text)
        self.code = code


class Contents(NamedTuple):
    """What `edgetop bundle-for` noted in an archive: its id, the board that it fits, and its unpacked size in bytes."""

    id: str  # another one for other files
    architecture: str
    python: str  # "3.11"
    libc: str  # the oldest glibc, "2.28"
    bytes: int  # of the unpacked files


def main() -> int:
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        contents = _contents(here)
        _refuse_another_board(contents)
        folder = here if os.path.isdir(here) else _unpacked(here, contents)
        python = _environment(folder, contents)
    except Refused as error:
        sys.stderr.write("edgetop: %s\n" % error)
        return error.code
    except (OSError, zipfile.BadZipFile) as error:
        sys.stderr.write("edgetop: %s: cannot be unpacked: %s\n" % (here, error))
        return NOT_WRITTEN if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) else USAGE
    program = os.path.join(folder, "bin", "edgetop")
    sys.stdout.flush()
    return os.execv(python, [python, program, *sys.argv[1:]])  # noqa: S606  returns never


def _contents(here: str) -> Contents:
    if os.path.isdir(here):
        with open(os.path.join(here, CONTENTS)) as file:
            text = file.read()
    else:
        with zipfile.ZipFile(here) as archive:
            text = archive.read(CONTENTS).decode()
    told = json.loads(text)
    return Contents(*(told[name] for name in Contents._fields))


def _refuse_another_board(contents: Contents) -> None:
    """Raise Refused if the Python, the architecture or the C library is not what the archive was made for."""
    version = "%d.%d" % sys.version_info[:2]
    machine = platform.machine()
    made_for = contents.python, contents.architecture
    if (version, machine) != made_for:
        raise Refused(
            "this archive is for Python %s on %s, and this is Python %s on %s"
            " (edgetop bundle-for %s py%s makes one for it)"
            % (*made_for, version, machine, machine, version.replace(".", ""))
        )
    name, _, found = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    if name != "glibc" or _numbers(found) < _numbers(contents.libc):
        own = found if name == "glibc" else "another C library"
        raise Refused("this archive needs glibc %s or later, and this system has %s" % (contents.libc, own))


def _numbers(version: str) -> List[int]:
    return [int(part) for part in version.split(".")[:2] if part.isdigit()]


def _unpacked(archive: str, contents: Contents) -> str:
    """Return the folder into which the archive file `archive` is unpacked.

    If the folder does not exist yet, unpack the archive first.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    parent = os.environ.get(FOLDER_VARIABLE) or os.path.join(cache, "edgetop")
    folder = os.path.join(parent, "archive-" + contents.id)
    if os.path.isdir(folder):
        if os.stat(folder).st_uid != os.getuid():
            raise Refused("%s belongs to another user (%s names another folder)" % (folder, FOLDER_VARIABLE))
        return folder
    os.makedirs(parent, mode=0o700, exist_ok=True)
    free = shutil.disk_usage(parent).free
    if free < contents.bytes:
        text = "%s: %d MB are needed to unpack %s, and %d MB are free (%s names another folder)"
        place = (parent, contents.bytes // 10**6, os.path.basename(archive), free // 10**6, FOLDER_VARIABLE)
        raise Refused(text % place, NOT_WRITTEN)
    if sys.stderr.isatty():
        sys.stderr.write("edgetop: unpacking %d MB to %s, once\n" % (contents.bytes // 10**6, folder))
    partial = "%s.%d" % (folder, os.getpid())
    try:
        os.mkdir(partial, 0o700)
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(partial)
        os.rename(partial, folder)
    except OSError:
        if not os.path.isdir(folder):  # else another process was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _environment(folder: str, contents: Contents) -> str:
    """Turn `folder` into a virtual environment, unless it is one. Return the path of its interpreter.

    A venv is the file pyvenv.cfg, a link to the interpreter, and a folder of packages
    (https://docs.python.org/3/library/site.html).
    """
    base = getattr(sys, "_base_executable", None) or sys.executable
    python = os.path.join(folder, "bin", "python")
    settings = "home = %s\ninclude-system-site-packages = false\nversion = %s\n"
    settings %= os.path.dirname(base), contents.python
    program = "#!%s\nfrom edgetop.cli.main import main\n\nmain()\n" % python
    command = os.path.join(folder, "bin", "edgetop")
    cfg = os.path.join(folder, "pyvenv.cfg")
    # The folder may have been moved, or another interpreter may start it.
    if not (os.path.exists(python) and _holds(command, program) and _holds(cfg, settings)):
        os.makedirs(os.path.dirname(python), exist_ok=True)
        for name in ("python", "python3"):
            _replace(os.path.join(folder, "bin", name), lambda partial: os.symlink(base, partial))
        _write(command, program, 0o755)
        _write(cfg, settings, 0o644)
    return python


def _holds(path: str, text: str) -> bool:
    try:
        with open(path) as file:
            return file.read() == text
    except OSError:
        return False


def _write(path: str, text: str, mode: int) -> None:
    def write(partial: str) -> None:
        with open(partial, "w") as file:
            file.write(text)
        os.chmod(partial, mode)

    _replace(path, write)


def _replace(path: str, make: Callable[[str], None]) -> None:
    """Create or replace the file `path` atomically. `make` gets a temporary path and writes the file there."""
    partial = "%s.%d" % (path, os.getpid())
    make(partial)
    os.replace(partial, path)


if __name__ == "__main__":
    sys.exit(main())
