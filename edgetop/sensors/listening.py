"""Find the process that listens on a TCP port of this machine, from /proc/net/tcp (proc(5))."""

import contextlib
from pathlib import Path

LISTEN = "0A"  # TCP_LISTEN in include/net/tcp_states.h of the kernel
MOST_LINES, MOST_PROCESSES = 100_000, 100_000
LOCAL_HOSTS = ("localhost", "::1", "0.0.0.0", "::")  # noqa: S104  addresses of this machine, not bound here


def is_local(host: str) -> bool:
    return host in LOCAL_HOSTS or host.startswith("127.")


def listener_of(host: str, port: int) -> int | None:
    """Return the id of the process that listens on a TCP port of this machine.

    None if `host` is another machine, if no process listens, or if the process belongs to another user.
    """
    inodes = _inodes(port) if is_local(host) else set()
    if not inodes:
        return None
    for _, process in zip(range(MOST_PROCESSES), Path("/proc").glob("[0-9]*"), strict=False):
        with contextlib.suppress(OSError):
            for entry in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(entry.readlink()) in inodes:
                        return int(process.name)
    return None


def _inodes(port: int) -> set[str]:
    """Return the sockets that listen on a port, in the form `socket:[4711]` of the links in /proc/PID/fd."""
    found = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), Path(f"/proc/net/{name}").open(encoding="ascii", errors="replace") as lines:
            for _, line in zip(range(MOST_LINES), lines, strict=False):
                words = line.split()
                is_it = len(words) > 9 and words[3] == LISTEN and words[1].rpartition(":")[2] == f"{port:04X}"
                if is_it:
                    found.add(f"socket:[{words[9]}]")
    return found
