"""A container in which edgetop runs a program: its command line, its first process, and how it gets signals.

`docker run` or `podman run` stays in the foreground, passes the output on, and exits with the program's status. It
removes the container at the end (`--rm`), even if edgetop is killed. The container sees the folder of the rings (the
files to which calls are written), the Python hook and the preload library. Its clock is this machine's, so times need
no conversion.
"""

import contextlib
import csv
import io
import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetop.frozen import frozen
from edgetop.probe import edgetop_probe as layout
from edgetop.sensors.process_table import HOST
from edgetop.session.manifest import InContainer
from edgetop.taps.container_runtime import Image, Runtime

# Folders in the container.
RINGS, PROBE, PRELOAD = "/edgetop/tap", "/edgetop/probe", "/edgetop/preload.so"
LABEL = "edgetop"  # label of the containers and images that edgetop makes
LOOK_S = 0.03  # interval of looks for the container, which begins some tenths of a second after the command
KILL_S = 10.0  # how long a runtime may take to send a signal
_numbers = itertools.count()


@frozen
class ContainerSpec:
    """What is needed to run one program in a container: the runtime, the image and further options."""

    runtime: Runtime
    image: Image
    arguments: tuple[str, ...] = ()  # of `run`: limits, folders, user, and what the user gave
    is_shared: bool = False  # whether its user is another one than that of edgetop, and must create rings nevertheless
    has_preload: bool = False  # whether the library for C programs can be loaded in this image
    # Takes the first process of the container. Returns which limit is not in force there, or "".
    why_unlimited: Callable[[int], str] = lambda _: ""

    @property
    def described(self) -> InContainer:
        return InContainer(self.runtime.name, self.image.name, self.image.id)


def mount(source: str, target: str, *, is_readonly: bool = False) -> str:
    """Return the value of `--mount` that shows the file or folder `source` of this machine in a container, at `target`.

    `is_readonly` says whether the container may only read it. The value is a line of CSV, in which commas and quotes
    are quoted.

    >>> mount("/a,b", "/b", is_readonly=True)
    'type=bind,"source=/a,b",target=/b,readonly'
    """
    text = io.StringIO()
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if is_readonly else [])]
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


class ContainerRun:
    """One container that edgetop runs. This object is made before the container is started."""

    def __init__(self, spec: ContainerSpec) -> None:
        self.spec = spec
        self.name = f"edgetop-{os.getpid()}-{next(_numbers)}"
        self.id = ""  # "" before it runs
        self.pid = 0  # its first process on this machine; 0 before it runs
        self.unlimited = ""  # which limit is not in force; "" if all are
        self._killers: list[subprocess.Popen[bytes]] = []

    def command(
        self,
        command: Sequence[str],
        rings: Path,
        *,
        hook: Path | None,
        preload: Path | None,
        variables: Sequence[str] = (),
        has_input: bool = False,
    ) -> list[str]:
        """Return the command line that runs `command` in the container. The program's calls are written to `rings`.

        `rings` is a folder. `hook` is the folder with the Python hook, which reports the calls of Python programs, or
        None for no hook. `preload` is the path of the library that reports the calls of C programs, or None.
        `variables` are further environment variables, as NAME=VALUE. `has_input` says whether the program reads
        standard input.
        """
        spec, image = self.spec, self.spec.image
        if spec.is_shared:
            rings.chmod(0o1777)
        mounts = [mount(str(rings), RINGS)]
        given = [f"{layout.FOLDER}={RINGS}", *variables]
        if hook:
            mounts.append(mount(str(hook.parent), PROBE, is_readonly=True))
            paths = filter(None, (f"{PROBE}/{hook.name}", image.python_path))
            given.append(f"PYTHONPATH={':'.join(paths)}")
        if preload and spec.has_preload:
            mounts.append(mount(str(preload), PRELOAD, is_readonly=True))
            given.append(f"LD_PRELOAD={f'{PRELOAD} {image.preload}'.strip()}")
        return [
            spec.runtime.program,
            "run",
            "--rm",
            f"--name={self.name}",
            f"--label={LABEL}=run",
            *(["--interactive"] if has_input else []),
            *(word for each in mounts for word in ("--mount", each)),
            *(word for each in given for word in ("--env", each)),
            *spec.arguments,
            image.id,
            *command,
        ]

    def seek(self, is_over: Callable[[], bool]) -> None:
        """Look in another thread for the container's first process, until it is found or `is_over` returns True.

        When it is found, the attributes `pid` and `id` are set.
        """
        threading.Thread(target=self._seek, args=(is_over,), name="container-start", daemon=True).start()

    def _seek(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            found = self.spec.runtime.container(self.name)
            if found and found.pid and HOST.text(f"proc/{found.pid}/stat"):
                self.unlimited = self.spec.why_unlimited(found.pid)
                self.id, self.pid = found.id, found.pid
                return
            time.sleep(LOOK_S)

    def send(self, number: signal.Signals) -> None:
        """Send the signal `number` to the container's first process, or SIGKILL if it has no handler for `number`.

        This does not wait. Outside of a container, a signal without a handler would end the process. But the kernel
        drops such a signal for the first process of a container (pid_namespaces(7)).
        """
        if number != signal.SIGKILL and self.pid and not _handles(self.pid, number):
            number = signal.SIGKILL
        order = [self.spec.runtime.program, "kill", f"--signal={number.name.removeprefix('SIG')}", self.name]
        self._killers = [one for one in self._killers if one.poll() is None]
        quiet = subprocess.DEVNULL
        self._killers.append(
            subprocess.Popen(order, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)  # noqa: S603  docker or podman
        )

    def close(self) -> None:
        for one in self._killers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(KILL_S)
            one.kill()
            one.wait()
        self._killers = []


def _handles(pid: int, number: int) -> bool:
    """Whether the process `pid` has a handler for the signal `number`. True if that is unknown.

    The source is `SigCgt` in proc_pid_status(5).
    """
    for line in HOST.text(f"proc/{pid}/status").splitlines():
        name, _, mask = line.partition(":")
        if name == "SigCgt":
            return bool(int(mask, 16) >> (number - 1) & 1)
    return True
