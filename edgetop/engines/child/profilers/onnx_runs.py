"""Profile single runs of the live session, with ONNX Runtime 1.25 and later.

`RunOptionsEnableProfiling` is only in the C API (microsoft/onnxruntime, pull request 26846). Python's RunOptions does
not have it. Packages contain the C library beside the Python module, so its function is called there, on the C++ object
inside Python's object. This is safe only if both are of one build and the object has the expected layout. Everything is
verified before the first call, by reads that cannot fault, and any difference is refused.

A thread pool that was profiled once never stops recording its loops (ThreadPoolProfiler::Stop in
core/common/threadpool.cc leaves it enabled). Each loop takes 0.2 us and 8 bytes (2.9 % of a model of 52 us with 8
loops). The next profiled kernel writes all of them out, in time that counts as its own. So fast models with several
threads are refused, and the first profiled run of each burst does not count. `loops` says how many loops each inference
records, so that the caller can limit them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import shutil
import struct
import time
from typing import Any, Callable, Dict

from . import Allowance, Profile, ProfilingError
from .onnx_trace import add_kernels, is_run, loops_of, make_folder, read_trace

FIRST_VERSION = (1, 25)

# Indices in OrtApi, a table of functions that only grows (onnxruntime_c_api.h). They are the same in 1.25.1 and 1.31.1.
ENABLE, DISABLE = 415, 416

# Default of OrtRunOptions.profile_file_prefix (core/framework/run_options.h).
DEFAULT_PREFIX = b"onnxruntime_run_profile"

SEEN_BYTES = 64  # bytes of OrtRunOptions that are examined

FAST_NS = 1_000_000  # faster models are refused; recording 50 loops, which are many, takes 1 % of this time
FAST_RUNS = 5
SLOW_NS = 100_000_000  # a run this long hardly shows the time to write out earlier loops

_THROWN_AWAY = 10**6  # number of a run that does not count


class RunProfiler:
    way = "run-level profiling of the live session"

    def __init__(self, onnxruntime: Any, run: Callable[[Any], object], *, has_threads: bool = False) -> None:
        """Prepare to profile. Raises ProfilingError if this build of ONNX Runtime does not support it.

        `onnxruntime` is the module. `run` runs the live session with given RunOptions. `has_threads` says whether
        several threads of ONNX Runtime run operators.
        """
        self._run = run
        self._has_threads = has_threads
        self._last_ns = 0  # duration of the last run of a burst
        self.loops = 0  # loops in a run that its threads shared
        self._reading_ns = 0  # time to read a trace in the last burst
        self._options = onnxruntime.RunOptions()
        library = open_library(onnxruntime)
        if has_threads:
            self._require_no_fast_model()
        memory = OwnMemory()
        try:
            address, flag = find_flag(self._options, memory)
            api = _api(library, onnxruntime.__version__)
            self._enable = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(_entry(api, ENABLE))
            disable = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(_entry(api, DISABLE))
            self._address = address
            self._set_prefix(b"/nowhere/edgetop-probe")
            _require(_state(memory, address, flag) == (1, b"/nowhere/edgetop-probe"), "enabling it does not enable it")
            _require(not disable(address), "it cannot be disabled")
            _require(_state(memory, address, flag)[0] == 0, "disabling it does not disable it")
        finally:
            memory.close()

    def _require_no_fast_model(self) -> None:
        fastest_ns = SLOW_NS
        for _ in range(FAST_RUNS):
            begin = time.monotonic_ns()
            self._run(self._options)
            fastest_ns = min(fastest_ns, time.monotonic_ns() - begin)
            if fastest_ns >= 10 * FAST_NS:  # slow enough even if this was a cold run
                break
        text = (
            "an inference takes %.2f ms, in which it would show that ONNX Runtime then goes on noting what threads do"
        )
        _require(fastest_ns >= FAST_NS, text % (fastest_ns / 1e6))

    def _set_prefix(self, prefix: bytes) -> None:
        _require(not self._enable(self._address, prefix), "it cannot be enabled")

    def burst(self, allowance: Allowance) -> Dict[str, Any]:
        """Run the model with profiling as often as `allowance` allows, and return the result of `Profile.describe`.

        All traces are read after the last run, because reading leaves caches cold.
        """
        profile = Profile(allowance.samples)
        folder = make_folder()
        try:
            if self._has_threads and self._last_ns < SLOW_NS:
                self._profiled_run(folder, _THROWN_AWAY, Profile())
            while allowance.takes_another():
                self._profiled_run(folder, len(profile.runs), profile)
                allowance.budget_ns -= self._reading_ns
            begin = time.monotonic_ns()
            traces = {int(name.split("_")[0]): os.path.join(folder, name) for name in os.listdir(folder)}
            for number, run in enumerate(profile.runs):
                profile.run = run
                kernels = [event for event in read_trace(traces[number]) if not is_run(event)]
                add_kernels(profile, kernels)
                self.loops = loops_of(kernels[1:])  # the first one may report loops from before the run
            self._reading_ns = (time.monotonic_ns() - begin) // len(profile.runs)
            self._last_ns = profile.run.ns
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return profile.describe()

    def _profiled_run(self, folder: str, number: int, profile: Profile) -> None:
        # Each run has its own prefix, since names differ only by milliseconds and existing files are overwritten.
        self._set_prefix(os.path.join(folder, str(number)).encode())
        profile.timed(lambda: self._run(self._options))

    def close(self) -> None:
        pass


def _require(claim: bool, otherwise: str) -> None:
    if not claim:
        raise ProfilingError("no run-level profiling: " + otherwise)


def open_library(onnxruntime: Any) -> Any:
    """Open the C library beside the Python module `onnxruntime`, and return it.

    Raises ProfilingError unless the library is known to be of the same build as the module.
    """
    version = onnxruntime.__version__
    release = re.match(r"(\d+)\.(\d+)\.\d+$", version)
    _require(release is not None, "ONNX Runtime %s is not a release" % version)
    assert release
    is_late_enough = (int(release.group(1)), int(release.group(2))) >= FIRST_VERSION
    _require(is_late_enough, "ONNX Runtime %s is older than %d.%d" % (version, *FIRST_VERSION))
    _require(struct.calcsize("P") == 8, "this is not a 64-bit system")
    path = os.path.join(os.path.dirname(onnxruntime.__file__), "capi", "libonnxruntime.so." + version)
    _require(os.path.exists(path), "this installation has no %s" % os.path.basename(path))
    _require(_is_of_build(path, onnxruntime), "%s is of another build than the module" % os.path.basename(path))
    try:
        library = ctypes.CDLL(path)
        library.OrtGetApiBase.restype = ctypes.c_void_p
    except (OSError, AttributeError) as error:
        raise ProfilingError("no run-level profiling: %s" % error) from None
    return library


def _is_of_build(path: str, onnxruntime: Any) -> bool:
    """Whether the library at `path` is of the same build as the Python module `onnxruntime`.

    The library is of that build if it contains the module's description of its build, because that has the commit.
    """
    words = str(onnxruntime.get_build_info()).encode()
    if b"git-commit-id=" not in words:
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(words) >= 0


def _api(library: Any, version: str) -> int:
    """Return the address of the library's table of functions. Raises ProfilingError if it has none for `version`.

    `version` is the Python module's version, such as "1.25.1".
    """
    # OrtApiBase is {GetApi, GetVersionString}.
    base = library.OrtGetApiBase()
    get_version = ctypes.CFUNCTYPE(ctypes.c_char_p)(_entry(base, 1))
    _require(get_version() == version.encode(), "the C library says that it is another version")
    get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(_entry(base, 0))
    api = get_api(int(version.split(".")[1]))
    _require(bool(api), "the C library has no such API")
    return int(api)


def _entry(table: int, place: int) -> int:
    address = ctypes.c_void_p.from_address(table + place * ctypes.sizeof(ctypes.c_void_p)).value
    _require(bool(address), "the C library has no such function")
    assert address
    return address


class OwnMemory:
    """Reads this process's memory through the kernel, so that a wrong address raises an error and does not crash."""

    def __init__(self) -> None:
        try:
            self._fd = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ProfilingError("no run-level profiling: /proc/self/mem: %s" % error.strerror) from None

    def read(self, address: int, size: int) -> bytes:
        try:
            content = os.pread(self._fd, size, address)
        except (OSError, OverflowError):
            content = b""
        _require(len(content) == size, "its objects are laid out in another way")
        return content

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")

    def close(self) -> None:
        os.close(self._fd)


def find_flag(options: Any, memory: OwnMemory) -> Any:
    """Return the address of the C++ object of `options`, and the offset of its field `enable_profiling` in bytes.

    `options` is a RunOptions object. Its C++ pointer comes after Python's own header (pybind11/detail/common.h,
    `instance`). The field `only_execute_path_to_fetches` is found by setting it from Python. The next field must be the
    flag, followed by the prefix with its default value. Raises ProfilingError if the layout is another one.
    """
    address = memory.word(id(options) + object.__basicsize__)
    before = memory.read(address, SEEN_BYTES)
    options.only_execute_path_to_fetches = True
    after = memory.read(address, SEEN_BYTES)
    options.only_execute_path_to_fetches = False
    changed = [i for i in range(SEEN_BYTES) if before[i] != after[i]]
    elsewhere = "its objects are laid out in another way"
    _require(len(changed) == 1 and (before[changed[0]], after[changed[0]]) == (0, 1), elsewhere)
    _require(changed[0] + 1 < SEEN_BYTES - 8, elsewhere)
    flag = changed[0] + 1
    _require(_state(memory, address, flag) == (0, DEFAULT_PREFIX), elsewhere)
    return address, flag


def _state(memory: OwnMemory, address: int, flag: int) -> Any:
    """Return the fields (enable_profiling, profile_file_prefix) of the C++ options at `address`.

    `flag` is the offset of `enable_profiling` in bytes. The prefix is a std::string of libstdc++: {pointer, length,
    ...}. The layout in libc++ is different. Raises ProfilingError for an unknown layout.
    """
    text = address + (flag + 1 + 7) // 8 * 8
    length = memory.word(text + 8)
    _require(length < 256, "its objects are laid out in another way")
    return memory.read(address + flag, 1)[0], memory.read(memory.word(text), length)
