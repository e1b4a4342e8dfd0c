"""Read the memory of a running process, to find the names of its models, and where pybind11 stores a call.

The memory is read from /proc/PID/mem (proc(5)) with the rights of the process's user, and never written. The kernel may
refuse that (kernel.yama.ptrace_scope). The layout of a library's objects differs from version to version, so the needed
fields are searched for. If the search fails, the name stays unknown.
"""

import os
import struct
from pathlib import Path

from edgetop.taps.pairing import WORD, CallLayout
from edgetop.taps.perf import Hit
from edgetop.taps.runtimes import MODELS, Function, mappings

INSTANCE_BYTES, SESSION_BYTES = 2048, 1024  # how much of an instance and of a session is searched
CALL_WORDS = 14  # words of pybind11's function_call; its first argument or its parent is the object
LONGEST_PATH = 4096
USER_SPACE = range(65_536, 2**56)


class Memory:
    """Reads the memory of one process. `pid` is its number. Raises OSError if the kernel does not allow that."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def read(self, address: int, count: int) -> bytes:
        """Return `count` bytes at an address. Return fewer bytes, or b"", if not all are mapped."""
        try:
            return os.pread(self._fd, count, address) if address in USER_SPACE else b""
        except OSError:
            return b""

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address, WORD), "little")

    def words(self, address: int, count: int) -> tuple[int, ...]:
        data = self.read(address, count)
        return struct.unpack(f"<{len(data) // WORD}Q", data[: len(data) // WORD * WORD])

    def close(self) -> None:
        os.close(self._fd)


def call_layout_of(memory: Memory, hit: Hit) -> CallLayout | None:
    """Return at which place of the stack a method's call has the address of its object, or None if it is unknown.

    `hit` says that a thread reached the breakpoint at the begin of the method, and has the bytes of the stack.
    """
    at = hit.argument - hit.stack_pointer
    if 0 < at < len(hit.stack) - CALL_WORDS * WORD:
        words = struct.unpack_from(f"<{CALL_WORDS}Q", hit.stack, at)
        for place, word in enumerate(words[1:], 1):
            kind = memory.word(memory.word(word + WORD) + 3 * WORD)  # ob_type, and its tp_name (CPython's object.h)
            if memory.read(kind, 256).partition(b"\0")[0].endswith(b".InferenceSession"):
                return CallLayout(at, place * WORD)
    return None


def model_of(memory: Memory, function: Function, session: int) -> str:
    """Return the path of the model that a session object runs, or "" if it is unknown.

    `memory` is the memory of the watched process. `function` is the function that was called, and `session` the address
    of the object.
    """
    if function.is_method:  # `session` is a Python object; its instance (pybind11/detail/common.h) has the session
        instance = memory.word(session + 2 * WORD)
        paths = (_path_in(memory, word) for word in memory.words(instance, INSTANCE_BYTES))
        path = next(filter(None, paths), "")
    else:
        path = _path_in(memory, session) if function.runtime == "onnxruntime" else _mapped_by(memory, session)
    if path.startswith("/"):
        return path
    try:
        absolute = Path(f"/proc/{memory.pid}/cwd").readlink() / path
    except OSError:
        return path
    return str(absolute) if path and absolute.exists() else path


def _path_in(memory: Memory, address: int) -> str:
    """Return the path of a model from a std::string in the object at `address`, or "" if there is none.

    `memory` is the memory of the watched process. The string must have the form of libstdc++: pointer, length, and the
    text or its capacity.
    """
    words = memory.words(address, SESSION_BYTES)
    for place, (text, length, capacity) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        is_inside = text == address + (place + 2) * WORD
        if 5 <= length <= (15 if is_inside else min(capacity, LONGEST_PATH)):
            data = memory.read(text, length + 1)
            if len(data) == length + 1 and not data[-1] and data[:-1].lower().endswith(tuple(map(str.encode, MODELS))):
                return data[:-1].decode("utf-8", "replace")
    return ""


def _mapped_by(memory: Memory, address: int) -> str:
    """Return the path of the mapped model file into which the object at `address` points, or "" if there is none.

    `memory` is the memory of the watched process. The object may point into the file directly, or through one other
    pointer. If the process maps only one model file, that file's path is returned.
    """
    files = [one for one in mappings(memory.pid) if one.path.lower().endswith(MODELS)]
    if len({one.path for one in files}) == 1:
        return files[0].path
    for word in memory.words(address, SESSION_BYTES) if files else ():
        for inner in (word, *memory.words(word, INSTANCE_BYTES)):
            for one in files:
                if one.begin <= inner < one.end:
                    return one.path
    return ""
