"""An unprivileged program that reads the hits of uprobes (breakpoints) and writes the calls into a ring.

    OWNER GROUP FOLDER PID LINK

It runs with the user id OWNER and the group id GROUP of the watched process, whose number is PID. The ring, the file of
calls, is in FOLDER. The program has two sockets: standard input leads to edgetop, and the descriptor LINK to the
program that opens perf events (`opener.py`). It reports lines of JSON, and reads edgetop's commands as lines of JSON:
`pid`, a process to watch in place of one that has ended, and `functions`, the functions of a module that edgetop has
found. It ends when its standard input is closed. The breakpoints then disappear, without an effect on the watched
process.
"""

import contextlib
import ctypes
import hashlib  # noqa: F401  all modules are loaded before the rights to read them are given up
import json
import os
import pwd
import resource
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from edgetop.probe.edgetop_probe import Ring
from edgetop.taps import loading, perf, process_memory
from edgetop.taps.elf import open_regular
from edgetop.taps.pairing import Call, Pairing, Watch
from edgetop.taps.perf import Opener, Place
from edgetop.taps.runtimes import MODELS, PYBIND, Function, functions, is_module, libraries, mappings, models

T = TypeVar("T")

WAIT_S = 0.2
LATE_NS = 2_000_000  # events younger than this wait, because an older event of another CPU may still arrive
SCAN_S, RESCAN_S = 1.0, 5.0  # interval of scans for runtimes, before and after the first one was found
MOST_LIBRARIES, MOST_PROCESSES = 16, 64  # most libraries and processes to watch
STACK_BYTES = 1024  # how much of the stack of a method's caller is copied, to find its function_call
CALIBRATION_ROUNDS, CALIBRATION_CALLS = 11, 100
MOST_FILES = 65_536
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38  # prctl(2)


def report(**what: object) -> None:
    with contextlib.suppress(OSError):  # edgetop may have ended
        os.write(0, json.dumps(what).encode() + b"\n")


def become(user: int, group: int) -> None:
    """Make this process run as the user with the id `user` for good, without capabilities. `group` is the group's id.

    Root stays root, because only root may read root's processes.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, MOST_FILES), hard))
    libc = ctypes.CDLL(None)
    if user:
        groups = [group]
        with contextlib.suppress(KeyError):
            groups = os.getgrouplist(pwd.getpwuid(user).pw_name, group)
        if os.geteuid() == 0:
            os.setgroups(groups)
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
        libc.capset(struct.pack("<Ii", 0x20080522, 0), bytes(24))  # _LINUX_CAPABILITY_VERSION_3
        libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # lets the opener check this process as well
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def measured_cost_ns(opener: Opener) -> tuple[int, int]:
    """Return two durations in ns by which breakpoints make a call longer: (one breakpoint, two breakpoints).

    The first is with a breakpoint at the function's begin. The second is with breakpoints at its begin and its return.
    Both are measured on `labs` of the C library, which does nearly nothing.
    """
    call = ctypes.CDLL(None).labs
    address = ctypes.cast(call, ctypes.c_void_p).value or 0
    at = next(one for one in mappings(os.getpid()) if one.begin <= address < one.end)
    library, offset = open_regular(at.path), address - at.begin + at.offset

    def took_ns() -> float:
        rounds = []
        for _ in range(CALIBRATION_ROUNDS):
            begin = time.perf_counter_ns()
            for _ in range(CALIBRATION_CALLS):
                call(1)
            rounds.append((time.perf_counter_ns() - begin) / CALIBRATION_CALLS)
        return min(rounds)  # the least disturbed round

    plain, probes = took_ns(), perf.Probes(opener)
    probes.watch(os.getpid())
    probes.add(Place(-1, library, offset, stack_bytes=STACK_BYTES))
    one = took_ns() - plain
    probes.add(Place(-2, library, offset, at_return=True))
    both = took_ns() - plain
    probes.close()
    os.close(library)
    return round(max(one, 0)), round(max(both, 0))


class Tap:
    """Finds the functions of a process that run models, and writes their calls into the ring (a file of calls)."""

    def __init__(self, ring: Any, opener: Opener, pid: int) -> None:
        self._costs_ns = measured_cost_ns(opener)
        self._probes, self._ring, self._pid = perf.Probes(opener), ring, pid
        self._probes.watch(pid)
        self._pairing = Pairing(self._probes.popped, {pid})
        self._seen: set[str] = set()  # paths that were scanned
        self._files: set[tuple[int, int]] = set()  # files that have probes, as (device, inode)
        self._modules: dict[str, int] = {}  # path -> descriptor of modules whose functions edgetop is finding
        self._unlearned: set[int] = set()  # probes of methods for which the stack layout of the caller is unknown
        self._names: dict[tuple[int, int], int] = {}  # (process, object) -> number of its name in the ring
        self._sessions: dict[str, int] = {}  # number of sessions so far, by name
        self._pending: list[perf.Event] = []
        self._numbers = iter(range(1, 2**31))
        self._scan_at_s = 0.0
        self._reported_cost_ns = 0
        self._may_read = True  # whether the memory of the process may be read
        self._partial = b""  # incomplete line of an order

    def watch(self, pid: int) -> None:
        """Watch the process `pid` in place of one that has ended. Raises OSError if that is refused."""
        self._pid, self._scan_at_s = pid, 0.0
        self._probes = self._probes.renewed()
        self._probes.watch(pid)
        self._pairing = Pairing(self._probes.popped, {pid})
        self._names, self._seen, self._files = {}, set(), set()

    def scan(self) -> None:
        """Set breakpoints in the runtimes that the process has mapped by now. Looks only once in some seconds."""
        now_s = time.monotonic()
        if now_s < self._scan_at_s:
            return
        maps = [one for pid in self._probes.pids[:MOST_PROCESSES] for one in mappings(pid)]
        for path in libraries(maps):
            if path in self._seen or len(self._seen) >= MOST_LIBRARIES:
                continue
            self._seen.add(path)
            folder = os.path.dirname(path)  # noqa: PTH120
            if any(PYBIND in one and os.path.dirname(one) == folder for one in self._seen - {path}):  # noqa: PTH120
                continue  # the Python module has the probes, whether or not it uses this library
            self._scan_library(path)
        self._scan_at_s = now_s + (RESCAN_S if self._pairing.begins or self._modules else SCAN_S)

    def _scan_library(self, path: str) -> None:
        library = -1
        try:
            library = open_regular(path)
            status = os.fstat(library)
            if (status.st_dev, status.st_ino) in self._files:  # it has executed a program with the same file
                os.close(library)
                return
            self._files.add((status.st_dev, status.st_ino))
            if is_module(path):
                self._modules[path] = library
                interpreter = os.readlink(f"/proc/{self._pid}/exe")  # noqa: PTH115
                paths = (one.path for one in mappings(self._pid))
                sites = {path[: path.index(f"/{site}/") + len(site) + 1]
                         for path in paths for site in loading.SITES if f"/{site}/" in path}  # fmt: skip
                digest = loading.digest(library)
                report(module=path, interpreter=interpreter, sites=sorted(sites)[:8], sha256=digest)
                return
            self._set(library, functions(path, library))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            report(missing=f"{path.rpartition('/')[2]}: {reason}" if isinstance(error, OSError) else reason)
        if library >= 0 and path not in self._modules:
            os.close(library)

    def _set(self, library: int, found: list[Function]) -> None:
        """Set breakpoints at the begin and the return of the functions `found`. Raises OSError if one is refused.

        `library` is the descriptor of the file that contains the functions.
        """
        ends: dict[int, int] = {}  # number of the return probe by offset, since methods share one
        places = []
        for function in found:
            begin, end_at = next(self._numbers), function.offset if function.returns_at is None else function.returns_at
            watch = Watch(function)
            if end_at not in ends:
                ends[end_at] = next(self._numbers)
                places.append(Place(ends[end_at], library, end_at, at_return=True))
            self._pairing.ends.setdefault(ends[end_at], []).append(watch)
            self._pairing.begins[begin] = watch
            places.append(Place(begin, library, function.offset, stack_bytes=STACK_BYTES if function.is_method else 0))
            if function.is_method:
                self._unlearned.add(begin)
        report(sets=found[0].path, threads=self._probes.thread_count)
        self._probes.add(*places)
        report(found=found[0].path, functions=[function.name for function in found])

    def take_functions(self, path: str, found: list[dict[str, Any]]) -> None:
        """Set breakpoints in the module at `path`. `found` has the fields of one `Function` in each dict."""
        library = self._modules.pop(path, -1)
        if library >= 0 and found:
            try:
                self._set(library, [Function(**one) for one in found])
            except OSError as error:
                report(missing=f"{path.rpartition('/')[2]}: {error.strerror}")
        if library >= 0:
            os.close(library)

    def _learn(self, hit: perf.Hit) -> None:
        """Find out at which place of the stack a method's call has the address of its object, the runtime's session.

        `hit` is the hit of the breakpoint at the begin of the method, in its first call.
        """
        self._unlearned.discard(hit.probe)
        layout = self._from_memory(hit.pid, lambda memory: process_memory.call_layout_of(memory, hit))
        if layout is not None:
            self._pairing.begins[hit.probe].layout = layout

    def _from_memory(self, pid: int, read: Callable[[process_memory.Memory], T]) -> T | None:
        """Return what `read` finds in the memory of the process `pid`, or None if it cannot be read.

        If the kernel forbids it, this is reported once.
        """
        try:
            with contextlib.closing(process_memory.Memory(pid)) as memory:
                return read(memory)
        except PermissionError:
            if self._may_read:
                self._may_read = False
                report(unread="its memory may not be read (sysctl kernel.yama.ptrace_scope)")
        except OSError:
            pass  # the process has ended meanwhile
        return None

    def step(self) -> None:
        """Write the calls that have ended since the last step into the ring."""
        until_ns = time.monotonic_ns() - LATE_NS
        before = self._probes.lost
        self._pending += self._probes.read()
        self._pending.sort(key=lambda event: event.at_ns)
        count = next((i for i, event in enumerate(self._pending) if event.at_ns > until_ns), len(self._pending))
        events, self._pending = self._pending[:count], self._pending[count:]
        for event in events:
            if isinstance(event, perf.Hit) and event.probe in self._unlearned:
                self._learn(event)
        calls = self._pairing.calls(events)
        if lost := self._probes.lost - before:
            self._pairing.forget()
            self._ring.leave_out((lost + 1) // 2)
        for call in calls:
            key = call.pid, call.session
            if key not in self._names:
                parent = self._pairing.parents.get(call.pid, 0), call.session  # a fork has the objects of its parent
                self._names[key] = self._names[parent] if parent in self._names else self._name(call)
            self._ring.put(call.start_ns, call.end_ns, self._names[key], ok=int(call.ok), thread=call.tid)
        if abs((cost_ns := self._cost_ns()) - self._reported_cost_ns) > self._reported_cost_ns // 10:
            self._reported_cost_ns = cost_ns
            self._ring.has_cost(cost_ns)
        if self._pairing.executed:
            self._scan_at_s, self._seen = 0.0, set()
            self._names = {key: name for key, name in self._names.items() if key[0] not in self._pairing.executed}
            self._pairing.executed.clear()

    def _name(self, call: Call) -> int:
        model = self._from_memory(call.pid, lambda memory: process_memory.model_of(memory, call.function, call.session))
        if not model and not self._may_read:
            model = _only_model(call.pid)
        text = f"{call.function.runtime}\t{call.function.version}\t\t{model or ''}"
        others = self._sessions[text] = self._sessions.get(text, 0) + 1
        return int(self._ring.name(text if others == 1 else f"{text}#{others}"))

    def _cost_ns(self) -> int:
        """Return how many ns the breakpoints add to one call of a watched function.

        If methods were called, the result is for a call of a method. All methods share one breakpoint at their return.
        So other methods that are called meanwhile hit this breakpoint too, which adds to the result.
        """
        one, both = self._costs_ns
        used = [watch for watch in self._pairing.begins.values() if watch.calls]
        if methods := [watch for watch in used if watch.function.is_method]:
            others = sum(watch.others for watch in methods) / sum(watch.calls for watch in methods)
            return round(one + (both - one) * (1 + others))
        return both

    def take_orders(self) -> bool:
        """Carry out the commands of edgetop that have arrived. Return False if edgetop has ended."""
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    data = os.read(0, 65_536)
                except ConnectionResetError:
                    data = b""
                if not data:
                    return False
                *lines, self._partial = (self._partial + data).split(b"\n")
                for line in lines:
                    order = json.loads(line)
                    if "pid" in order:
                        self.watch(int(order["pid"]))
                    else:
                        self.take_functions(order["module"], order["functions"])
        return True

    def run(self) -> None:
        """Read hits and write calls, until standard input is closed."""
        os.set_blocking(0, False)
        while True:
            self.scan()
            self._probes.wait(WAIT_S, 0)
            self.step()
            if not self.take_orders():
                return


def _only_model(pid: int) -> str:
    """Return the path of the only model file that the process has mapped or that its command line names, else ""."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            words = file.read(65_536).decode("utf-8", "replace").split("\0")
        found = set(models(mappings(pid))) or {word for word in words if word.lower().endswith(MODELS)}
        if len(found) == 1:
            path = found.pop()
            return path if path.startswith("/") else os.path.join(os.readlink(f"/proc/{pid}/cwd"), path)  # noqa: PTH115, PTH118
    return ""


def main() -> None:
    user, group, folder, pid, link = sys.argv[1:]
    make_ring: Any = Ring  # untyped module
    ring = make_ring(folder, "uprobe")  # before becoming the user, who may not be able to write to the folder
    become(int(user), int(group))
    try:
        tap = Tap(ring, Opener(socket.socket(fileno=int(link))), int(pid))
    except OSError as error:
        report(refused=f"a uprobe was refused: {error.strerror}")
        return
    report(ready=True)
    try:
        tap.run()
    except Exception as error:  # noqa: BLE001  whatever it is, edgetop says what ended the watching
        report(failed=f"{type(error).__name__}: {error}")
