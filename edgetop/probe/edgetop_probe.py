"""Report inferences of this program to edgetop if `edgetop watch` started it; otherwise do nothing.

    from edgetop_probe import probe

    probe.deadline("33ms")  # for a whole frame
    with probe.stage("preprocess"):
        ready = prepare(frame)
    with probe("detector"):
        result = model(ready)

This file needs only the standard library of Python 3.8 or later, and can be copied into a project. It starts no thread,
sets no signal handler and prints nothing, and its errors never reach the program. `edgetop help tap` describes the
layout of the data that it writes.
"""

import gc
import itertools
import mmap
import os
import struct
import sys
import time
from _thread import get_ident

FOLDER = "EDGETOP_TAP"  # environment variable with the folder for rings; if unset or empty, nobody watches

MAGIC, VERSION = b"EDGETAP1", 1
HEADER = struct.Struct("<8sIIIIIIQ8xII")  # magic, version, header, slot size, slots, pid, source, time, cost, names
NAMES_AT, NAMES, NAME_BYTES = 64, 64, 256
OTHERS = "\t\t\tothers"  # the last name, which stands for all that do not fit
HEADER_BYTES = 20_480
SLOTS = 32_768
SLOT = struct.Struct("<QqqQHBBIII")  # sequence, start, end, thread, name, kind, ok, flags, CPU time in us, number
SLOT_BYTES = SLOT.size
_write, _ident = SLOT.pack_into, get_ident  # looked up faster than attributes
_write_sequence = struct.Struct("Q").pack_into  # one store; "<Q" would write byte by byte
COST_AT, NAME_COUNT_AT = 48, 52
CALL, LOAD, STAGE, DROP, DEADLINE, INPUTS, SIZE, COLLECT, TOKENS = range(
    1, 10
)  # kinds; their numbers are explained in `edgetop help tap`
FIRST, RESHAPED = 1, 2  # flags: the first call of its session; inputs of another shape than before
WAITED_SHIFT, MOST_WAITED = (
    8,
    2**24 - 1,
)  # upper bits of the flags: 1 + the time in us in which the thread waited for a CPU
COLLECT_NS = 20_000  # shorter garbage collections are not written: a program may have thousands of them a second
SOURCES = ("", "hook", "preload", "probe", "uprobe")  # names of sources by number


class Ring:
    """The file in shared memory into which this process writes its calls. It holds the newest `SLOTS` calls.

    `folder` is the folder for it. `source` says what writes it, such as "probe". Raises OSError if the file cannot be
    created.
    """

    def __init__(self, folder, source):
        path = os.path.join(folder, "%d-%x.tap" % (os.getpid(), time.monotonic_ns()))
        size = HEADER_BYTES + SLOTS * SLOT_BYTES
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(file, 0, size)  # makes a full /dev/shm an error now, not a SIGBUS later
            self._map = mmap.mmap(file, size)
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(file)
        self._numbers = memoryview(self._map).cast("Q")  # the same memory as 64-bit numbers
        self._names = {}
        self._next = itertools.count().__next__  # atomic in CPython
        fields = (HEADER_BYTES, SLOT_BYTES, SLOTS, os.getpid(), SOURCES.index(source), time.monotonic_ns(), 0, 0)
        HEADER.pack_into(self._map, 0, MAGIC, VERSION, *fields)

    def name(self, text):
        """Return the number of a name in the file. A new name is added to the file.

        `text` is `runtime TAB version TAB providers TAB model`; each of the four may be empty. Names that do not fit
        into the file all have the last number.
        """
        number = self._names.get(text)
        if number is None:
            number = min(len(self._names), NAMES - 1)
            if number == NAMES - 1:
                if OTHERS in self._names:
                    return number
                text = OTHERS
            self._names[text] = number
            encoded = text.encode("utf-8", "replace")[-(NAME_BYTES - 2) :]
            at = NAMES_AT + number * NAME_BYTES
            self._map[at : at + 2 + len(encoded)] = struct.pack("<H", len(encoded)) + encoded
            struct.pack_into("<I", self._map, NAME_COUNT_AT, number + 1)
        return number

    def put(self, start_ns, end_ns, name, kind=CALL, ok=1, flags=0, cpu_us=0, number=0, *, thread=0):
        """Write one call to the file. `name` is the number that the method `name` returned. Times are in ns.

        `kind` says what the call is, such as CALL for an inference. `ok` is 0 if it failed, else 1. `flags` are bits,
        such as RESHAPED. `cpu_us` is the CPU time in us. `number` is the frame's number, 0 for none. `thread` is the id
        of the thread, 0 for the present one. The call's sequence number is written last, so that a reader knows that
        the rest is complete.
        """
        sequence = self._next()
        place = sequence % SLOTS
        at = HEADER_BYTES + place * SLOT_BYTES
        _write(self._map, at, 0, start_ns, end_ns, thread or _ident(), name, kind, ok, flags, cpu_us, number)
        self._numbers[at >> 3] = sequence + 1

    def recorder(self, name, tap):
        """Return two functions, `record(start_ns, end_ns)` and `give(calls)`, for calls with the name number `name`.

        `record` writes a successful call to the file, faster than `put`. It may do so only as often as `give` has
        allowed: `give(calls)` allows the next `calls` calls. `record` returns how many calls are left. It writes
        nothing and returns -1 if none was left, or in a forked child, which needs another file. `tap` is the object
        that holds this file. `record` touches little memory, because a program that calls 20 times a second has cold
        caches.
        """
        following, memory, header, size, write, thread = self._next, self._map, HEADER_BYTES, SLOT_BYTES, _write, _ident
        calm, ends = 0, _write_sequence

        def record(start_ns, end_ns):
            nonlocal calm
            if calm < 1 or tap.made is not self:
                return -1
            calm -= 1
            sequence = following()
            at = header + sequence % SLOTS * size
            write(memory, at, 0, start_ns, end_ns, thread(), name, CALL, 1, 0, 0, 0)
            ends(memory, at, sequence + 1)
            return calm

        def give(calls):
            nonlocal calm
            calm = calls

        return record, give

    def leave_out(self, count):
        """Skip `count` sequence numbers. A reader counts the skipped numbers as lost calls."""
        for _ in range(count):
            self._next()

    def has_cost(self, nanoseconds):
        """Report how many ns it takes to time one call. The reader shows this."""
        struct.pack_into("<I", self._map, COST_AT, max(0, int(nanoseconds)))


class Tap:
    """Creates the file into which this process writes its calls, at the first use. A forked child gets another file.

    `source` says what writes the file, such as "probe".
    """

    def __init__(self, source):
        self._source = source
        self.folder = getattr(sys, "_edgetop_tap", "") or os.environ.get(FOLDER, "")
        self.made = None  # the ring, once it has been created
        self.is_watched = bool(self.folder)
        if self.is_watched:
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self):
        self.made = None

    @property
    def ring(self):
        """The file into which this process writes its calls, or None if nobody watches or there is no room for it."""
        if self.made is None and self.is_watched:
            try:
                self.made = Ring(self.folder, self._source)
                _write_collections(self)
            except (OSError, ValueError):
                self.is_watched = False
        return self.made


def _write_collections(tap):
    """Write the collections of Python's garbage collector into the file of `tap` from now on.

    The first caller in a process does this. Later calls, and calls in forked children, do nothing.
    """
    if getattr(sys, "_edgetop_collections", False):
        return
    sys._edgetop_collections = True  # noqa: SLF001
    now, least_ns, began = time.monotonic_ns, COLLECT_NS, 0

    def collected(phase, info):
        nonlocal began
        try:
            if phase == "start":
                began = now()
                return
            end = now()
            if end - began >= least_ns and tap.made is not None:
                tap.made.put(began, end, 0, COLLECT, number=info["generation"])
        except Exception:  # noqa: S110  nothing of this may reach the program
            pass

    gc.callbacks.append(collected)


def elements(shapes):
    """Return how many elements arrays of these shapes have together, at most `LARGEST`.

    >>> elements([(1, 3), (2, 5)])
    13
    """
    total = 0
    for shape in shapes:
        product = 1
        for size in shape:
            product *= size
        total += product
    return min(total, LARGEST)


class _Timed:
    """Context manager that times an inference or a stage of a frame.

    Each use is a new object, so that threads can nest them.
    """

    __slots__ = ("_frame", "_kind", "_name", "_start")

    def __init__(self, name, kind, frame):
        self._name, self._kind, self._frame = name, kind, frame

    def __enter__(self):
        self._start = time.monotonic_ns()
        return self

    def __exit__(self, kind, error, trace):
        end = time.monotonic_ns()
        ring = _tap.ring
        if ring is not None:
            is_first = (ring, self._kind, self._name) not in _seen
            _seen.add((ring, self._kind, self._name))
            name = ring.name("\t\t\t" + self._name)
            ring.put(self._start, end, name, self._kind, error is None, FIRST if is_first else 0, 0, self._frame)
        return False


class _Nothing:
    """Context manager that does nothing, for a program that nobody watches."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return False


class Probe:
    """Reports the inferences of a program, and the stages (parts) of its frames, to edgetop.

    A `frame` is a number from 1 on. It joins the work of several threads on one frame. Without it, each frame belongs
    to one thread.
    """

    def __call__(self, name="inference", frame=0):
        """Time the `with` block as one inference of the model `name`. `frame` is the frame's number, 0 for none.

        If the block raises, the inference counts as failed.
        """
        return _Timed(str(name), CALL, int(frame) & LARGEST) if _tap.is_watched else _nothing

    def stage(self, name, frame=0):
        """Time the `with` block as a stage of a frame. `name` is any word, such as "capture" or "preprocess".

        `frame` is the frame's number, 0 for none.
        """
        return _Timed(str(name), STAGE, int(frame) & LARGEST) if _tap.is_watched else _nothing

    def drop(self):
        """Report that the program skips a frame."""
        if _tap.is_watched:
            self._put(0, DROP)

    def deadline(self, limit):
        """Declare how long a frame may take, from the beginning of its first stage to the end of its last stage.

        `limit` is a text such as "33ms", with the unit ns, us, ms or s. Raises ValueError for another form.
        """
        text = str(limit).strip()
        unit = next((unit for unit in ("ns", "us", "ms", "s") if text.endswith(unit)), "")
        limit_ns = int(float(text[: -len(unit)]) * UNITS_NS[unit]) if unit else 0
        if limit_ns <= 0:
            raise ValueError("a deadline is a time such as 33ms, not %r" % (limit,))
        if _tap.is_watched:
            self._put(limit_ns, DEADLINE)

    def _put(self, took_ns, kind):
        ring, now = _tap.ring, time.monotonic_ns()
        if ring is not None:
            ring.put(now - took_ns, now, ring.name("\t\t\t"), kind)


LARGEST = 2**32 - 1
UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

_nothing = _Nothing()
_seen = set()
_tap = Tap("probe")
probe = Probe()
