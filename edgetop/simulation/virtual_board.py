"""The virtual board of a session: files for the sensors, and a page of memory that controls the engine.

The board's thread wakes five times a second, reads how much CPU time the engine really used, advances the board
accordingly, and writes the result. The board's folder has its files (`tree/`), the page for the engine, and a lock that
the process holds while it lives. A killed process leaves its folder behind. The next board removes each folder whose
lock nobody holds.
"""

import contextlib
import fcntl
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgetop.engines.child import board_page as page
from edgetop.files import read_json, write_file
from edgetop.paths import has_room
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.cpu_load import cpu_s
from edgetop.sensors.discovery import discover_hardware, discover_system
from edgetop.sensors.memory_sensors import read_meminfo
from edgetop.sensors.process_table import HOST
from edgetop.sensors.root import File, Root
from edgetop.sensors.sensor_protocol import Found, Reader, join
from edgetop.session.clock import Clock, SystemClock
from edgetop.session.manifest import Board
from edgetop.simulation.board_files import FAMILIES
from edgetop.simulation.board_physics import Machine, new_machine
from edgetop.simulation.scenarios import Scenario

TICK_S = 0.2
SAVE_EVERY_NS = 1_000_000_000
SETTLED_S = 3600.0  # simulated time after which an idle board does not cool further
LONGEST_STEP_S = 1.0  # a longer step means that the machine was suspended
# Time over which the CPU use of the engine is averaged. Otherwise a gap of a tenth of a second, which the scheduler of
# a busy computer can cause, would be half a minute of idling at a high speed.
AVERAGED_S = 1.0

# Limits of a simulated leak, so that a demonstration does not exhaust the memory of a small board.
LEAK_AT_MOST = 256 * 2**20
LEAK_SHARE = 8  # at most 1/8 of the available memory

PREFIX, LOCK = "edgetop-board-", "lock"
COMPETITOR = Path(__file__).with_name("competitor.py")
PATIENCE_S = 2.0  # time for the competing process to end

Report = Callable[[str], None]


class VirtualBoard:
    """A simulated board. Its files exist within a `with` block, and its time begins when `start` is called."""

    def __init__(
        self,
        scenario: Scenario,
        speed: float,
        *,
        ambient_c: float | None = None,
        cpus: Sequence[int] = (),
        place: Path | None = None,
        clock: Clock | None = None,
        state_file: Path | None = None,
    ) -> None:
        """Prepare the board for `scenario`, which says what fault occurs. Its time begins when `start` is called.

        `speed` is how many seconds are simulated in a real second. `ambient_c` is the air's temperature in °C, or None
        for the temperature of the scenario. `cpus` are the numbers of the engine's CPUs, on which a competing process
        runs too. `place` is the folder for the board's files, by default `home()`. `clock` gives the time. `state_file`
        stores the board's heat, so that the board is still warm in the next session.
        """
        self._scenario, self._speed = scenario, speed
        self._cpus = tuple(cpus)
        self._place = place
        self._clock = clock or SystemClock()
        self.machine = new_machine(scenario, ambient_c)
        self._state_file, self._saved_at_ns = state_file, 0
        self._family = FAMILIES[scenario.family]
        self._engine: File | None = None  # its /proc/PID/stat
        self._cpu_s = 0.0
        self._before_ns = 0
        self._rival: Rival | None = None
        self._report: Report = lambda _: None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="virtual board", daemon=True)

    def __enter__(self) -> "VirtualBoard":  # noqa: PYI034  Self is in typing from Python 3.11 on
        if self._state_file:
            self.machine = _resumed(self.machine, self._state_file, self._speed, self._clock)
        place = self._place or home()
        remove_abandoned(place)
        self._folder = BoardFolder(place)
        try:
            self._folder.link(self._family.links)
            self._folder.write({**self._family.fixed, **self._family.files(self.machine)})
            self.page_path = str(self._folder.path / "page")
            self._page = page.create(self.page_path)
            available_kib = read_meminfo(Root()).get("MemAvailable", 0)
            self._page.integers[page.LEAK_LIMIT] = min(LEAK_AT_MOST, available_kib * 1024 // LEAK_SHARE)
            if self._scenario.competes:
                self._rival = Rival(self._cpus)
        except BaseException:
            self._folder.remove()
            raise
        self.root = Root(self._folder.tree)
        self._before_ns = self._clock.monotonic_ns()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.ident:
            self._thread.join()
        if self._rival:
            self._rival.close()
        self._save()
        self._folder.remove()

    def identity(self) -> Board:
        """Return the board's identity, marked as simulated. CPU, memory and system are the real machine's."""
        computer = read_board(Root())
        own = read_board(self.root)
        named = replace(computer, model=own.model, soc=own.soc, power_mode=own.power_mode, governor=own.governor)
        return replace(named, simulated=True)

    def discover(self) -> Found:
        """Return the board's sensors, marked as simulated, and the real machine's sensors of load and memory."""
        return join([marked(discover_hardware(self.root)), discover_system(Root())])

    def engine_started(self, pid: int) -> None:
        self._engine = HOST.file(f"proc/{pid}/stat")

    def start(self, report: Report) -> None:
        """Start the board. Its thread calls `report` with a message when a fault begins or ends.

        If the board was started already, the call only replaces `report`.
        """
        self._report = report
        if not self._thread.ident:
            self._before_ns = self._clock.monotonic_ns()
            self._thread.start()

    def _tick(self) -> None:
        try:
            while not self._over.wait(TICK_S):
                self.step()
        except OSError as error:  # its folder is full or was removed
            self._report(f"the virtual board has stopped, because its files cannot be written ({error.strerror})")

    def step(self) -> None:
        """Advance the board to the clock's present time, and write its files."""
        now_ns = self._clock.monotonic_ns()
        real_s, self._before_ns = (now_ns - self._before_ns) / 1e9, now_ns
        if real_s <= 0:
            return
        was, used_s = self.machine, self._cpu_s
        if self._engine is not None:
            with contextlib.suppress(OSError, ValueError):  # the engine has ended
                self._cpu_s = cpu_s(self._engine)
        newest = min(1.0, (self._cpu_s - used_s) / real_s)
        busy = newest + (was.busy - newest) * math.exp(-real_s / AVERAGED_S)
        machine = self.machine = was.after(min(real_s, LONGEST_STEP_S), self._speed, busy)
        scenario = self._scenario
        self._page.doubles[page.SLOWDOWN] = machine.slowdown
        self._page.integers[page.LEAK_BYTES] = scenario.leaks_bytes if machine.is_troubled else 0
        self._page.integers[page.CRASH] = int(machine.is_troubled and scenario.crashes)
        if self._rival:
            self._rival.compete(machine.is_troubled and scenario.competes)
        self._folder.write(self._family.files(machine))
        if now_ns - self._saved_at_ns > SAVE_EVERY_NS:
            self._save()
        if machine.is_troubled != was.is_troubled:
            self._report(scenario.begins if machine.is_troubled else scenario.ends)

    def _save(self) -> None:
        """Save the board's heat for the next session."""
        self._saved_at_ns = self._clock.monotonic_ns()
        if self._state_file:
            heat = self.machine.heat
            now = self._clock.utc().timestamp()
            state = {"utc_s": now, "die_c": heat.die.rise_c, "sink_c": heat.sink.rise_c, "fan": self.machine.fan}
            write_file(self._state_file, json.dumps(state), durable=False)


def _resumed(machine: Machine, state_file: Path, speed: float, clock: Clock) -> Machine:
    """Return `machine` with the heat that `state_file` has, cooled for the time since the file was written.

    If the file cannot be read, return the board as it is after a long idle time. `speed` is how many seconds are
    simulated in a real second. `clock` gives the present time.
    """
    rested_s = SETTLED_S
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        state = read_json(state_file)
        die, sink = (
            replace(stage, rise_c=float(state[key]))
            for stage, key in ((machine.heat.die, "die_c"), (machine.heat.sink, "sink_c"))
        )
        rested_s = min(SETTLED_S, max(0.0, clock.utc().timestamp() - state["utc_s"]) * speed)
        machine = replace(machine, heat=replace(machine.heat, die=die, sink=sink), fan=int(state["fan"]))
    return machine.after(rested_s / speed, speed, busy=0.0)


def marked(found: Found) -> Found:
    """Return the sensors `found`, marked as simulated.

    Notes on missing sensors are left out: nobody can fix a virtual board.
    """
    readers = (source for source in found.sources if isinstance(source, Reader))
    return Found(
        tuple(replace(each, sensors=tuple(replace(s, simulated=True) for s in each.sensors)) for each in readers)
    )


ROOM_BYTES = 4 * 2**20  # required free space: several times the size of the files


def home() -> Path:
    """Return the folder in which virtual boards make their folders.

    The folder is in memory if possible, because five writes a second would wear out an SD card.
    """
    places = (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm")  # noqa: S108  the folder itself is private
    usable = (place for place in places if place and Path(place).is_dir() and has_room(place, ROOM_BYTES))
    return Path(next(usable, None) or tempfile.gettempdir())


class BoardFolder:
    """The folder with a virtual board's files. A file is replaced as a whole, so that nobody reads half of it."""

    def __init__(self, place: Path) -> None:
        """Create a new folder in the folder `place`. Raises OSError if `place` cannot be written to."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))  # mode 0700
        self.tree = self.path / "tree"
        self._written: dict[str, bytes] = {}
        self._lock_fd = _open_lock(self.path, os.O_CREAT)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write the files whose content has changed. `files` has the contents by path in the folder `tree`."""
        for name, text in files.items():
            content = text.encode() if isinstance(text, str) else text
            if self._written.get(name) != content:
                self._replace(self.tree / name, content)
                self._written[name] = content

    def _replace(self, path: Path, content: bytes) -> None:
        new = self.path / "new"  # outside the tree, so that no reader lists it
        new.write_bytes(content)
        try:
            new.replace(path)
        except FileNotFoundError:
            path.parent.mkdir(parents=True)
            new.replace(path)

    def link(self, links: Mapping[str, str]) -> None:
        for name, target in links.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock_fd)


def remove_abandoned(place: Path) -> None:
    """Remove from the folder `place` the folder of each virtual board whose process has ended."""
    for path in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # it belongs to another user, or is just being removed
            if path.lstat().st_uid != os.getuid():
                continue
            fd = _open_lock(path, 0)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(fd)


def _open_lock(path: Path, flags: int) -> int:
    return os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)


class Rival:
    """A process that competes with the engine for a CPU. It is idle until `compete(True)` is called."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._is_busy = False
        self._process = subprocess.Popen(  # noqa: S603  our own program in our own interpreter
            [sys.executable, "-I", "-S", str(COMPETITOR), ",".join(map(str, cpus))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def compete(self, is_busy: bool) -> None:
        if is_busy == self._is_busy:
            return
        self._is_busy = is_busy
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # the competing process was ended by somebody else
            self._process.stdin.write(b"+" if is_busy else b"-")
            self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
