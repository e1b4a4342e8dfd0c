"""Interpreters of other versions, and virtual environments in them, for the engines that need their own.

An environment is made on first use, kept in the user's cache, and found again by every later run in any clone.
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgetop-tests"
COMPLETE = "complete"  # written last: a folder without it was left by a run that broke off


@functools.cache
def find_interpreter(version: str) -> Path | None:
    """The Python of that minor version, e.g. "3.9": the one that runs this, one of pyenv's or one on PATH."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    on_path = shutil.which(f"python{version}")
    candidates = [
        *sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python")),
        *([Path(on_path)] if on_path else []),  # last: a shim of pyenv's takes ten times as long to start
    ]
    return next((python for python in candidates if _version(python) == version), None)


@functools.cache
def _version(python: Path) -> str | None:
    """What it says its version is. None where it does not run: pyenv puts shims on PATH that only print an error."""
    ask = [python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        asked = subprocess.run(ask, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def environment(python: Path, *requirements: str) -> Path:
    """The python of a virtual environment with `requirements` installed. Safe to call from several runs at once.

    What they depend on is not installed: an engine needs numpy and its runtime alone, not the tools beside it.
    """
    key = "\n".join([str(python.resolve()), *requirements])
    folder = CACHE / hashlib.sha256(key.encode()).hexdigest()[:16]
    inside = folder / "bin" / "python"
    CACHE.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            # Giving the environment a pip of its own takes as long as what it is for. So the interpreter's installs
            # into its folder, if there is one; with `--python` that would start twice.
            _run(python, "-m", "venv", "--without-pip", folder)
            [packages] = folder.glob("lib/python*/site-packages")
            pip: tuple[str | Path, ...] = (python, "-m", "pip")
            if not _does_run(python, "-c", "import pip"):
                _run(python, "-m", "venv", folder)
                pip = (inside, "-m", "pip")
            # What is imported is compiled then; to compile all that was installed takes four times as long.
            how = ("--quiet", "--no-compile", "--no-deps", "--target", packages)
            _run(*pip, "install", *how, *requirements)
            (folder / COMPLETE).write_text(key)
    return inside


def _run(python: str | Path, *arguments: str | Path) -> None:
    """Isolated, so that a PYTHONPATH of ours does not reach it. Its output is told only where it fails."""
    done = _ended(python, *arguments)
    if done.returncode:
        raise RuntimeError(f"{' '.join(done.args)} failed:\n{done.stdout}")


def _does_run(python: str | Path, *arguments: str | Path) -> bool:
    return _ended(python, *arguments).returncode == 0


def _ended(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    python, *arguments = map(str, command)
    return subprocess.run(
        [python, "-I", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
