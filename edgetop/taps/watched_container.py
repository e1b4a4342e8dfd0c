"""A container that runs already and is watched: its resources, without its inferences.

Its processes have neither the Python hook nor the preload library, and breakpoints are not set in another mount
namespace. The container is never stopped.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from edgetop.engines.engine_protocol import Ended, EngineUpdate, LogLine, Message, PhaseBegan, Started
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.session.manifest import InContainer
from edgetop.taps.container_accounts import ContainerAccounts
from edgetop.taps.container_runtime import Contained, Runtime, runtimes

POLL_S = 0.25


@frozen
class RunningSpec:
    command: Sequence[str]  # command line of its first process
    runtime: Runtime
    container: Contained
    duration_ns: int | None  # how long to watch; None: until it ends


class WatchedContainer:
    isolation = "program"

    def __init__(self, name: str, duration_ns: int | None) -> None:
        """Find the container with the name or id `name`. Raises InputError if it does not run on this machine.

        `duration_ns` is how long to watch the container, in ns. None means until the container ends.
        """
        self.spec = _found(name, duration_ns)
        self.output: Path | None = None  # the output of a running container is not captured
        self.prefix: Sequence[str] = ()  # nor has it limits of edgetop
        self.cgroups: Sequence[str] = ()
        self.executable = ""  # it is not started
        self.in_container = InContainer(self.spec.runtime.name, self.spec.container.image)
        self.exit_status: int | None = None  # only the parent of a process gets its exit status
        self._accounts: ContainerAccounts | None = None
        self._reported_start = self._over = False
        self._stop = ""

    def start(self) -> None:
        one = self.spec.container
        self._accounts = ContainerAccounts(one.pid, one.id, has_begun_before=True)

    def poll(self) -> EngineUpdate:
        if self._over or self._accounts is None:
            return EngineUpdate()
        now_ns, accounts = time.monotonic_ns(), self._accounts
        messages: list[Message] = []
        if not self._reported_start:
            text = "its inferences are not seen: the hook is only in a container that edgetop starts"
            messages += [
                Started(self.spec.container.pid, ""),
                PhaseBegan("program", accounts.began_ns),
                LogLine("info", "edgetop", text, "no-inference"),
            ]
            self._reported_start = True
        messages += accounts.read()
        limit_ns = self.spec.duration_ns
        is_long = limit_ns is not None and now_ns - accounts.began_ns >= limit_ns
        end = "exit" if accounts.ended_ns else self._stop or ("duration" if is_long else "")
        if end:
            self._over = True
            messages += filter(None, [accounts.total(now_ns)])
            messages.append(Ended(end, accounts.ended_ns or now_ns))
        return EngineUpdate(messages=tuple(messages), poll_within_s=POLL_S)

    def stop(self) -> None:
        """Stop watching. The container goes on."""
        self._stop = "stop"

    @property
    def was_stopped(self) -> bool:
        return bool(self._stop)

    def profile(self) -> None:
        """Do nothing, because operators can be profiled only by changing the program."""

    def close(self) -> None:
        if self._accounts:
            self._accounts.close()


def _found(name: str, duration_ns: int | None) -> RunningSpec:
    usable, shown = runtimes(), clean(name)
    for runtime in usable:
        if (one := runtime.container(name)) is None:
            continue
        if not one.pid:
            raise InputError(f"--container {shown}: it does not run", f"{runtime.name} start {shown}")
        if not Path(f"/proc/{one.pid}").exists():
            raise InputError(
                f"--container {shown}: its processes are not on this machine", "run edgetop where they are"
            )
        return RunningSpec(one.command or (name,), runtime, one, duration_ns)
    names = " and ".join(runtime.name for runtime in usable)
    image = next((runtime for runtime in usable if runtime.image(name)), None)
    if image:
        text = f"--container {shown}: it is an image, and no container has this name"
        raise InputError(text, f"give a command to run in it: edgetop watch --container {shown} -- COMMAND")
    raise InputError(f"--container {shown}: {names} has no container of this name", f"{usable[0].name} ps lists them")
