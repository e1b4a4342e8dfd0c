"""How often a slow inference is put down to what slowed it: delays are injected into real runs, and each has one cause.

Another program on this machine delays inferences as well, so run this on a quiet one. What it takes from others is
printed. Needs root for CPU quotas; without it, that cause is left out.
"""

import contextlib
import ctypes
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import onnx_models, tflite_models
from tests.support.commands import edgetop
from tests.support.processes import engine_of

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

SEEDS = (7_101, 7_102)  # not used while building
RUN_S, BEGIN_S = 60, 16
CPUS = sorted(os.sched_getaffinity(0))
QUOTAS = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def _first() -> None:
    """Take the CPU from other programs of this machine, whose delays nobody injected."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


@dataclass
class Engine:
    """The engine of a run: its process, its model, and the group in which the run has a quota."""

    pid: int
    model: Path
    group: Path | None


def burning(_: Engine, chance: random.Random) -> Callable[[], None]:
    """Other programs take all CPUs."""
    command = [sys.executable, "-c", "while True: pass"]
    programs = [subprocess.Popen(command, preexec_fn=_first) for _ in CPUS for _ in range(2)]  # noqa: PLW1509

    def end() -> None:
        for program in programs:
            program.kill()
            program.wait()

    return end


def pinning(engine: Engine, chance: random.Random) -> Callable[[], None]:
    """All threads must share one CPU."""
    _allow(engine, [chance.choice(CPUS)])
    return lambda: _allow(engine, CPUS)


def _allow(engine: Engine, cpus: list[int]) -> None:
    for folder in Path(f"/proc/{engine.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(folder.name), cpus)


def throttling(engine: Engine, chance: random.Random) -> Callable[[], None]:
    """The run's group has a tenth of a CPU."""
    assert engine.group
    _set_quota(engine.group, 10_000)
    return lambda: _set_quota(engine.group or Path(), 800_000)


def _set_quota(group: Path, us: int) -> None:
    if (group / "cpu.cfs_quota_us").exists():
        (group / "cpu.cfs_quota_us").write_text(str(us))
    else:
        (group / "cpu.max").write_text(f"{us} 100000")


def moving(engine: Engine, chance: random.Random) -> Callable[[], None]:
    """All threads are moved to one CPU, as with `taskset`, which another program already takes."""
    cpu = chance.choice(CPUS)
    program = subprocess.Popen(  # as important as the engine: both get half of the CPU
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass"],
        preexec_fn=_first,  # noqa: PLW1509
    )
    _allow(engine, [cpu])

    def end() -> None:
        _allow(engine, CPUS)
        program.kill()
        program.wait()

    return end


MADV_PAGEOUT, PIDFD_OPEN, PROCESS_MADVISE = 21, 434, 440  # the same on all machines, since Linux 5.10


def dropping(engine: Engine, chance: random.Random) -> Callable[[], None]:
    """The model's file leaves the memory, as for lack of it: its pages of the process, and then the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = libc.syscall(PIDFD_OPEN, engine.pid, 0)
    for line in Path(f"/proc/{engine.pid}/maps").read_text().splitlines():
        if line.endswith(engine.model.name):
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            span = struct.pack("QQ", begin, end - begin)
            libc.syscall(PROCESS_MADVISE, pidfd, span, ctypes.c_ulong(1), MADV_PAGEOUT, ctypes.c_ulong(0))
    os.close(pidfd)
    with engine.model.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return lambda: None


# What delays the engine, the causes that are right, and the options of its run.
INJECTED = {
    "burner": (burning, {"contention", "beside"}, ("--threads", "1")),
    "one-core": (pinning, {"fewer-cpus"}, ("--threads", "2")),
    "quota": (throttling, {"cpu-quota"}, ("--threads", "1")),
    "busy-core": (moving, {"contention", "beside", "fewer-cpus"}, ("--threads", "1")),
    "page-cache": (dropping, {"page-faults"}, ("--threads", "1", "--no-xnnpack", "--profile-every", "0")),
}


@contextlib.contextmanager
def running(folder: Path, model: Path, *options: str) -> Iterator[tuple[Engine, "subprocess.Popen[bytes]"]]:
    """A headless run of a minute, in a CPU group of its own if there can be one."""
    group = next((root / f"edgetop-tail-{os.getpid()}" for root in QUOTAS if os.access(root, os.W_OK)), None)
    if group:
        with contextlib.suppress(OSError):
            group.mkdir(exist_ok=True)
            _set_quota(group, 800_000)  # far from the limit
            for name, most in (("cpu.shares", "262144"), ("cpu.weight", "10000")):
                if (group / name).exists():
                    (group / name).write_text(most)
    command = [
        sys.executable,
        "-m",
        "edgetop",
        "run",
        str(model),
        "--headless",
        "--duration",
        f"{RUN_S}s",
        "-o",
        "s",
        *options,
    ]
    join = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group)] if group else []
    whole = subprocess.Popen(
        [*join, *command],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_first,  # noqa: PLW1509
    )
    try:
        yield Engine(engine_of(whole), model, group), whole
    finally:
        whole.send_signal(signal.SIGTERM)
        whole.wait(60)
        if group:
            with contextlib.suppress(OSError):
                group.rmdir()


def injected(
    engine: Engine, inject: Callable[[Engine, random.Random], Callable[[], None]], seed: int
) -> list[tuple[int, int]]:
    """Inject delays at random times. Return the begin and end of each in ns."""
    chance, times = random.Random(seed), []
    time.sleep(BEGIN_S)
    until = time.monotonic() + RUN_S - BEGIN_S - 6
    while time.monotonic() < until:
        begin_ns = time.monotonic_ns()
        end = inject(engine, chance)
        time.sleep(chance.uniform(0.3, 0.8))
        end()
        times.append((begin_ns, time.monotonic_ns()))
        time.sleep(chance.uniform(2.2, 4.0))
    return times


def test_injected_delays_are_given_to_their_causes(disk_path: Path, say: Callable[[str], None]) -> None:
    right = judged = 0
    for name, (inject, expected, options) in INJECTED.items():
        for seed in SEEDS:
            folder = disk_path / f"{name}-{seed}"
            folder.mkdir()
            count, found = _causes_of(folder, inject, seed, options)
            of_cause = sum(found[cause] for cause in expected)
            say(f"{name}, seed {seed}: {count} injected, slow inferences in them by cause: {dict(found)}")
            right, judged = right + of_cause, judged + found.total()
    say(f"{right} of {judged} slow inferences in injected delays are given to their cause")
    assert judged >= 5 * len(INJECTED) * len(SEEDS)
    assert right >= 0.9 * judged


def _causes_of(
    folder: Path, inject: Callable[[Engine, random.Random], Callable[[], None]], seed: int, options: Sequence[str]
) -> tuple[int, Counter[str]]:
    """Return the number of injections in a run, and the causes of the slow inferences in their times."""
    if inject is dropping:  # LiteRT maps the file; pages that a profiler maps too would stay
        model = folder / "model.tflite"
        model.write_bytes(tflite_models.tflite_ladder())
    else:
        model = folder / "model.onnx"
        model.write_bytes(onnx_models.onnx_ten_ms())
    with running(folder, model, "--rate", "10", *options) as (engine, whole):
        if inject is throttling and engine.group is None:
            pytest.skip("no CPU group can be made")
        times = injected(engine, inject, seed)
        whole.wait(60)
    origin_ns = json.loads((folder / "s.edgetop/session.json").read_text())["clock"]["origin_monotonic_ns"]
    found: Counter[str] = Counter()
    for one in json.loads(edgetop("tail", "s.edgetop", "--json", home=folder).stdout)["slowest"]:
        begin_ns = origin_ns + int(one["t_s"] * 1e9)
        if any(begin_ns < end and begin < begin_ns + one["latency_ms"] * 1e6 for begin, end in times):
            found[one["causes"][0]["cause"] if one["causes"] else "unexplained"] += 1
    return len(times), found


def test_a_quiet_session_blames_nothing_often(tmp_path: Path, say: Callable[[str], None]) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_models.onnx_ten_ms())
    with running(tmp_path, model, "--rate", "10", "--threads", "1") as (_, whole):
        whole.wait(RUN_S + 60)
    report = json.loads(edgetop("report", "s.edgetop", "--json", home=tmp_path).stdout)
    tail = json.loads(edgetop("tail", "s.edgetop", "--json", home=tmp_path).stdout)
    shares = {
        one["cause"]: round(one["share"] * len(tail["slowest"]) / report["latency"]["count"], 4)
        for one in tail["causes"]
    }
    say(
        f"quiet: {len(tail['slowest'])} slow of {report['latency']['count']}; share of all inferences by cause: "
        f"{shares}"
    )
    assert all(share <= 0.05 for share in shares.values())
