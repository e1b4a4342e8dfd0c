"""Find docker(1) or podman(1), and ask it about images and containers.

Both take the same commands, and print the same JSON for what is used here: docker-inspect(1), podman-inspect(1).
"""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from edgetop.errors import InputError
from edgetop.formatting import clean, cut
from edgetop.frozen import frozen

RUNTIMES = ("docker", "podman")
ANSWER_S = 60.0  # a busy daemon may take seconds
MOST_ANSWER = 4 * 1024 * 1024  # most characters of an answer that are parsed
REASON_CELLS = 200
NOT_STARTED = 125  # exit status of `run` if the runtime itself failed: docker-run(1), podman-run(1)
# Hints of Docker after an error, which say nothing about it.
_HINTS = ("See '", "Run '", "Usage:")


@frozen
class Image:
    """A container image, with what the command `inspect` prints about it."""

    id: str
    name: str  # as the user wrote it
    python_path: str = ""  # PYTHONPATH in its environment
    preload: str = ""  # LD_PRELOAD in its environment
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""  # "" for root
    folder: str = ""  # its working directory; "" for /


@frozen
class Contained:
    """A container, with what the command `inspect` prints about it."""

    id: str
    pid: int  # process id of its first process on this machine; 0 if it does not run
    image: str
    command: tuple[str, ...]


@frozen
class Runtime:
    """A program that runs containers: docker or podman."""

    name: str  # "docker" or "podman"
    program: str

    def ask(self, *words: str, within_s: float = ANSWER_S) -> "subprocess.CompletedProcess[str]":
        """Run docker or podman with the arguments `words`. Return its exit status and output.

        The exit status is NOT_STARTED if the program cannot be started, or takes longer than `within_s` seconds.
        """
        order = [self.program, *words]
        try:
            return subprocess.run(  # noqa: S603  docker or podman
                order, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace",
                timeout=within_s, check=False, start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(order, NOT_STARTED, "", f"no answer in {within_s:g} s")
        except OSError as error:
            return subprocess.CompletedProcess(order, NOT_STARTED, "", str(error.strerror))

    def image(self, name: str) -> Image | None:
        """Return the image with this name or id, or None if this machine does not have it."""
        if not (found := self._inspect("image", name)):
            return None
        config = _object(found, "Config")
        given = dict(text.partition("=")[::2] for text in _texts(config, "Env"))
        return Image(
            id=_text(found, "Id"),
            name=name,
            python_path=given.get("PYTHONPATH", ""),
            preload=given.get("LD_PRELOAD", ""),
            entrypoint=_texts(config, "Entrypoint"),
            command=_texts(config, "Cmd"),
            user=_text(config, "User"),
            folder=_text(config, "WorkingDir"),
        )

    def container(self, name: str) -> Contained | None:
        """Return the container with this name or id, or None if there is none."""
        if not (found := self._inspect("container", name)):
            return None
        pid, config = _object(found, "State").get("Pid"), _object(found, "Config")
        path = _text(found, "Path")
        return Contained(
            id=_text(found, "Id"),
            pid=pid if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 else 0,
            image=_text(config, "Image") or _text(found, "ImageName"),
            command=(path, *_texts(found, "Args")) if path else (),
        )

    def _inspect(self, kind: str, name: str) -> Mapping[str, Any]:
        """Return the JSON object that `inspect` prints about an image or a container, or {} if there is none.

        `kind` is "image" or "container". `name` is its name or id.
        """
        done = self.ask(kind, "inspect", "--", name)
        if done.returncode or len(done.stdout) > MOST_ANSWER:
            return {}
        try:
            found = json.loads(done.stdout)
        except (ValueError, RecursionError):
            return {}
        one = found[0] if isinstance(found, list) and found else None
        return one if isinstance(one, dict) else {}


def runtimes(search: str | None = None) -> list[Runtime]:
    """Return the container runtimes that work here, Docker first.

    `search` is a list of folders in the form of PATH; None for PATH itself. Raises InputError, with the reason, if no
    runtime works.
    """
    usable, reasons = [], []
    for name in RUNTIMES:
        if (program := shutil.which(name, path=search)) is None:
            continue
        runtime = Runtime(name, program)
        done = runtime.ask("ps", "--quiet")  # the shortest command that needs the daemon and its permission
        if done.returncode == 0:
            usable.append(runtime)
        else:
            reasons.append(f"{name}: {reason(done.stderr)}")
    if usable:
        return usable
    if not reasons:
        raise InputError("--container: neither docker nor podman is installed", "sudo apt install podman")
    refused = "; ".join(reasons)
    advice = "start the daemon, or let an administrator add you to the group docker" if "docker" in refused else ""
    raise InputError(f"--container: no container runtime can be used: {refused}", advice)


def reason(output: str) -> str:
    r"""Return why docker or podman failed: the line of its output that says so.

    >>> reason("Trying to pull a...\nError: short-name \"a\" did not resolve\n")
    'short-name "a" did not resolve'
    """
    lines = [clean(line.strip()) for line in output.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(_HINTS)]
    errors = [line for line in told if "error" in line.lower()] or told
    line = errors[-1] if errors else "it gives no reason"
    for prefix in ("docker: ", "Error: ", "ERROR: ", "Error response from daemon: "):
        line = line.removeprefix(prefix)
    return cut(line.rstrip("."), REASON_CELLS)


def _object(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def _texts(found: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = found.get(key)
    if isinstance(value, str):
        return (value,)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, Sequence) else ()
