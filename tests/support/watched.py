"""A program on a terminal, and what it and its children cost: CPU, memory, bytes to the terminal."""

import time
from dataclasses import dataclass

import psutil

from tests.support.processes import cpu_seconds
from tests.support.terminal import FRAME_END, Terminal
from tests.support.waiting import PATIENCE_S

MIB = 1024 * 1024
ENGINE = "edgetop/engines/child"  # in the command line of what is watched; it is no cost of watching


@dataclass(frozen=True)
class Cost:
    seconds: float
    cpu_s: float
    rss_mib: float  # at its end; of its helpers, what they do not share with it
    sent_bytes: int
    largest_bytes: int  # of one refresh

    @property
    def cpu_percent(self) -> float:
        """Of one core."""
        return 100 * self.cpu_s / self.seconds

    def sent_kb(self, refresh_s: float) -> float:
        """Of each refresh."""
        return self.sent_bytes / 1000 / (self.seconds / refresh_s)


def program_of(terminal: Terminal) -> list[psutil.Process]:
    """Itself and its children, engines left out."""
    first = psutil.Process(terminal.pid)
    return [
        process for process in (first, *first.children(recursive=True)) if ENGINE not in " ".join(process.cmdline())
    ]


def cost_of(terminal: Terminal, seconds: float) -> Cost:
    """What it costs from now on for so long."""
    processes = program_of(terminal)

    def spent_s() -> float:
        return sum(cpu_seconds(process.pid) for process in processes)

    sent, begin, before = len(terminal.output), time.monotonic(), spent_s()
    terminal.read_for(seconds)
    took = time.monotonic() - begin
    output = terminal.output[sent:]
    largest = max(map(len, output.split(FRAME_END)))
    return Cost(took, spent_s() - before, _held_mib(processes), len(output), largest)


def _held_mib(processes: list[psutil.Process]) -> float:
    held = sorted((process.memory_full_info() for process in processes), key=lambda memory: memory.rss)
    return (held[-1].rss + sum(memory.uss for memory in held[:-1])) / MIB


def end(terminal: Terminal) -> None:
    """It and its children: one that outlives its terminal may do so on purpose."""
    first = psutil.Process(terminal.pid)
    processes = [first, *first.children(recursive=True)]
    for process in reversed(processes[1:]):
        process.terminate()
    _, left = psutil.wait_procs(processes[1:], timeout=PATIENCE_S)
    for process in left:
        process.kill()
    terminal.close()
