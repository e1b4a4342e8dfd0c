"""The process that holds the uprobes, with the rights that they need, and writes the calls into a ring.

    watch FOLDER PID
    survey SECONDS PID ...

It reports as lines of JSON, and takes lines `pid N`. It ends when its standard input closes, and the probes
with it: the watched process never notices how its watcher ends.
"""

import contextlib
import ctypes
import json
import os
import resource
import sys
import time
from typing import Any

from edgetop.probe.edgetop_probe import Ring
from edgetop.taps import memory, perf
from edgetop.taps.pairing import Call, Pairing, Watch
from edgetop.taps.runtimes import PYBIND, Function, functions, libraries, mappings, visible

WAIT_S = 0.2
LATE_NS = 2_000_000  # an event younger than this may still have an older one behind it, on another CPU
SCAN_S, RESCAN_S = 1.0, 5.0  # for runtimes: until there is one, and later
LEARNING_BYTES = 4096  # of the stack
CALIBRATION_ROUNDS, CALIBRATION_CALLS = 11, 100


def report(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def measured_cost_ns() -> tuple[int, int]:
    """Measure the cost of a breakpoint, and of one with a return probe, on a C function that does nothing."""
    call = ctypes.CDLL(None).labs
    address = ctypes.cast(call, ctypes.c_void_p).value or 0
    at = next(one for one in mappings(os.getpid()) if one.begin <= address < one.end)
    offset = address - at.begin + at.offset

    def took_ns() -> float:
        rounds = []
        for _ in range(CALIBRATION_ROUNDS):
            begin = time.perf_counter_ns()
            for _ in range(CALIBRATION_CALLS):
                call(1)
            rounds.append((time.perf_counter_ns() - begin) / CALIBRATION_CALLS)
        return min(rounds)  # what others take of the CPU is no cost

    plain, probes = took_ns(), perf.Probes()
    probes.add(-1, at.path, offset, stack_bytes=512, pid=os.getpid())
    one = took_ns() - plain
    probes.add(-2, at.path, offset, at_return=True, pid=os.getpid())
    both = took_ns() - plain
    probes.close()
    return round(max(one, 0)), round(max(both, 0))


class Tap:
    """Finds the functions of a process that run models, and writes down their calls."""

    def __init__(self, folder: str, pid: int) -> None:
        self._probes = perf.Probes()
        self._costs_ns = measured_cost_ns()
        make_ring: Any = Ring  # which has no types
        self._ring = make_ring(folder, "uprobe")
        self._pid = pid
        self._pairing = Pairing(self._probes.popped, {pid})
        self._seen: set[str] = set()  # paths that were scanned
        self._learning: dict[int, Function] = {}  # methods whose caller is unknown yet, by number of the probe
        self._sites: dict[tuple[str, int], int] = {}  # probes where methods return to
        self._names: dict[tuple[int, int], int] = {}  # in the ring, by process and object
        self._sessions: dict[str, int] = {}  # of each name, so far
        self._pending: list[perf.Event] = []
        self._numbers = iter(range(1, 2**31))
        self._scan_at_s = 0.0
        self._reported_cost_ns = 0

    def watch(self, pid: int) -> None:
        """Watch another process, in the place of one that has ended."""
        self._pid, self._scan_at_s = pid, 0.0
        self._pairing.pids = {pid}
        self._names, self._seen = {}, set()

    def scan(self) -> None:
        """Set probes in the runtimes that are mapped by now."""
        now_s = time.monotonic()
        if now_s < self._scan_at_s:
            return
        maps = mappings(self._pid)
        for path in libraries(maps):
            known = {watch.function.path for watch in self._pairing.begins.values()}
            known |= {function.path for function in self._learning.values()}
            if path in self._seen:
                continue
            self._seen.add(path)
            if any(PYBIND in one and os.path.dirname(one) == os.path.dirname(path) for one in known):  # noqa: PTH120
                continue  # the Python module runs models without it, or through it
            try:
                found = functions(self._pid, path, maps)
            except ValueError as error:
                report(missing=str(error))
                continue
            if found[0].path not in known:
                for function in found:
                    self._set(function)
            report(found=path, functions=[function.name for function in found])
        has_some = self._pairing.begins or self._learning
        self._scan_at_s = now_s + (RESCAN_S if has_some else SCAN_S)

    def _set(self, function: Function) -> None:
        begin, end = next(self._numbers), next(self._numbers)
        if function.is_method:
            self._learning[begin] = function
            self._probes.add(begin, function.path, function.offset, stack_bytes=LEARNING_BYTES)
            return
        watch = Watch(function)
        self._pairing.begins[begin], self._pairing.ends[end] = watch, [watch]
        self._probes.add(end, function.path, function.offset, at_return=True)
        self._probes.add(begin, function.path, function.offset)

    def _learn(self, hit: perf.Hit) -> None:
        """Learn from a method's first call where it returns to, and what in its caller's frame tells calls apart."""
        function = self._learning.get(hit.probe)
        if function is None or hit.pid not in self._pairing.pids:
            return
        with contextlib.closing(memory.Memory(hit.pid)) as reader:
            frame = memory.frame_of(reader, hit)
        at = next((one for one in mappings(hit.pid) if one.begin <= hit.link < one.end), None)
        self._probes.remove(hit.probe)
        del self._learning[hit.probe]
        if frame is None or at is None:
            report(missing=f"{function.name}: its caller is of a layout that is not known")
            return
        site, watch = (function.path, hit.link - at.begin + at.offset), Watch(function, frame)
        if site not in self._sites:
            self._sites[site] = next(self._numbers)
            self._probes.add(self._sites[site], *site, stack_bytes=frame.stack_bytes)
        self._pairing.ends.setdefault(self._sites[site], []).append(watch)
        begin = next(self._numbers)
        self._pairing.begins[begin] = watch
        self._probes.add(begin, function.path, function.offset, stack_bytes=frame.stack_bytes)

    def step(self) -> None:
        """Write the calls that have ended by now into the ring."""
        until_ns = time.monotonic_ns() - LATE_NS
        before = self._probes.lost
        self._pending += self._probes.read()
        self._pending.sort(key=lambda event: event.at_ns)
        count = next((i for i, event in enumerate(self._pending) if event.at_ns > until_ns), len(self._pending))
        events, self._pending = self._pending[:count], self._pending[count:]
        for event in events:
            if self._learning and isinstance(event, perf.Hit):
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    self._learn(event)
        calls = self._pairing.calls(events)
        if lost := self._probes.lost - before:
            self._pairing.forget()
            self._ring.leave_out((lost + 1) // 2)
            calls = [call for call in calls if call.end_ns > call.start_ns]
        for call in calls:
            key = call.pid, call.session
            if key not in self._names:
                parent = self._pairing.parents.get(call.pid, 0), call.session  # a fork has its parent's objects
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
        model = ""
        with contextlib.suppress(OSError), contextlib.closing(memory.Memory(call.pid)) as reader:
            model = memory.model_of(reader, call.function, call.session)
        text = f"{call.function.runtime}\t{call.function.version}\t\t{model}"
        others = self._sessions[text] = self._sessions.get(text, 0) + 1
        return int(self._ring.name(text if others == 1 else f"{text}#{others}"))

    def _cost_ns(self) -> int:
        """The cost of a call of the most expensive function in use. Other methods return to the same place."""
        one, both = self._costs_ns
        used = [watch for watch in self._pairing.begins.values() if watch.calls]
        if methods := [watch for watch in used if watch.frame]:
            others = sum(watch.others for watch in methods) / sum(watch.calls for watch in methods)
            return round(one * (2 + others))
        return both

    def run(self) -> None:
        """Run until the standard input closes."""
        orders = sys.stdin.fileno()
        os.set_blocking(orders, False)
        while True:
            self.scan()
            self._probes.wait(WAIT_S, orders)
            self.step()
            with contextlib.suppress(BlockingIOError):
                text = os.read(orders, 4096)
                if not text:
                    return
                self.watch(int(text.split()[-1]))


def survey(seconds: float, pids: list[int]) -> None:
    """Report how often a second each of these processes runs a model. Only the beginnings of calls are counted."""
    probes, numbers, calls = perf.Probes(), iter(range(1, 2**31)), dict.fromkeys(pids, 0)
    seen: set[tuple[int, int]] = set()  # files: several environments may share one under different paths
    for pid in pids:
        maps = mappings(pid)
        for path in libraries(maps):
            with contextlib.suppress(ValueError, OSError):
                status = os.stat(visible(pid, path))  # noqa: PTH116  as all of this helper
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
                for function in functions(pid, path, maps):
                    probes.add(next(numbers), function.path, function.offset)
    begin_s = time.monotonic()
    while (left := begin_s + seconds - time.monotonic()) > 0:
        probes.wait(min(left, WAIT_S))
        for event in probes.read():
            if isinstance(event, perf.Hit) and event.pid in calls:
                calls[event.pid] += 1
    report(calls_per_s={str(pid): count / (time.monotonic() - begin_s) for pid, count in calls.items()})


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    task, first, *rest = sys.argv[1:]
    try:
        if task == "survey":
            survey(float(first), [int(pid) for pid in rest])
            return
        tap = Tap(first, int(rest[0]))
    except OSError as error:
        report(refused=f"the kernel refused a uprobe: {error.strerror}")
        return
    report(ready=True)
    tap.run()
