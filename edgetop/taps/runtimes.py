"""Finds the inference runtimes that a process has mapped, and their functions that run a model.

proc_pid_maps(5); elf(5). Only the standard library: a helper that runs for hours imports this.
"""

import contextlib
import json
import os
import pwd
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

LOCATE = Path(__file__).with_name("locate.py")
LOCATE_S = 30.0
PYBIND, ORT = "onnxruntime_pybind11_state", "libonnxruntime.so"
TFLITE = ("litert", "tensorflowlite", "tensorflow-lite", "tflite")
# What is inside of all other ways to run a TFLite model, and what is exported where that has no symbol.
INVOKES = ("_ZN6tflite8Subgraph6InvokeEv", "TfLiteInterpreterInvoke", "LiteRtRunCompiledModel")
MODELS = (".onnx", ".ort", ".tflite", ".litertlm")
SITES = ("site-packages", "dist-packages")


class Mapping(NamedTuple):
    begin: int
    end: int
    offset: int  # in the file
    is_code: bool
    path: str  # as the process sees it


@dataclass(frozen=True, slots=True)
class Function:
    """A function that runs a model once."""

    runtime: str
    version: str
    name: str
    path: str  # of its file, as this process sees it
    offset: int  # in the file
    is_method: bool = False  # called by pybind11: C++ exceptions pass through it

    @property
    def status_mask(self) -> int:
        """Bits of its result that are 0 where it went well: of an OrtStatus pointer, or of a 32-bit enumeration."""
        return 0 if self.is_method else 2**64 - 1 if self.runtime == "onnxruntime" else 2**32 - 1


def mappings(pid: int) -> list[Mapping]:
    """The mappings of files. Empty where the process is gone, or may not be read."""
    found = []
    with contextlib.suppress(OSError), Path(f"/proc/{pid}/maps").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                begin, end = (int(number, 16) for number in fields[0].split("-"))
                found.append(Mapping(begin, end, int(fields[2], 16), "x" in fields[1], fields[5]))
    return found


def runtime_of(path: str) -> str:
    """Return the runtime of a mapped file: "onnxruntime", "litert" or ""."""
    name = path.rpartition("/")[2]
    if name.startswith((PYBIND, ORT)):
        return "onnxruntime"
    return "litert" if ".so" in name and any(word in name for word in TFLITE) else ""


def libraries(maps: list[Mapping]) -> list[str]:
    """The paths of the runtimes' files, the Python module of ONNX Runtime before its library."""
    paths = dict.fromkeys(one.path for one in maps if one.is_code and runtime_of(one.path))
    return sorted(paths, key=lambda path: PYBIND not in path)


def models(maps: list[Mapping]) -> list[str]:
    return list(dict.fromkeys(one.path for one in maps if one.path.endswith(MODELS)))


def visible(pid: int, path: str) -> str:
    """The path under which this process sees a file of that process, which may be in a container."""
    inside = f"/proc/{pid}/root{path}"
    with contextlib.suppress(OSError):
        if not Path(path).samefile(inside):
            return inside
    return path


def functions(pid: int, path: str, maps: list[Mapping]) -> list[Function]:
    """The functions of a mapped file that run a model. Raises ValueError with the reason where there is none."""
    name = path.rpartition("/")[2]
    try:
        seen = visible(pid, path)
        if runtime_of(path) == "onnxruntime":
            found = _located(pid, seen, maps, is_method=name.startswith(PYBIND))
        else:
            offsets = symbols(Path(seen), INVOKES)
            found = [Function("litert", "", symbol, seen, offsets[symbol]) for symbol in INVOKES if symbol in offsets]
            found = found[:1]
    except (OSError, ValueError, struct.error, subprocess.SubprocessError) as error:
        raise ValueError(f"{name}: where it runs a model was not found: {error}") from None
    if not found:
        raise ValueError(f"{name}: it has no function that is known to run a model")
    return found


def _located(pid: int, path: str, maps: list[Mapping], *, is_method: bool) -> list[Function]:
    """Locate the functions by `locate.py`, as the process's user; methods of Python's bindings in its own Python.

    Raises OSError, ValueError or SubprocessError.
    """
    interpreter, words = sys.executable, ["c", path]
    if is_method:
        interpreter = visible(pid, str(Path(f"/proc/{pid}/exe").readlink()))
        if not interpreter.rpartition("/")[2].startswith("python"):  # never start somebody's program a second time
            raise ValueError(f"{interpreter} is no Python interpreter")
        sites = (one.path[: one.path.index(f"/{site}/") + len(site) + 1]
                 for one in maps for site in SITES if f"/{site}/" in one.path)  # fmt: skip
        words = ["python", path, *dict.fromkeys(visible(pid, site) for site in sites)]
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    pairs = (variable.decode("utf-8", "replace").partition("=") for variable in variables)
    done = subprocess.run(  # noqa: S603  our own program
        [interpreter, "-I", "-S", "-B", "-c", LOCATE.read_text("utf-8"), *words],
        check=False,
        capture_output=True,
        timeout=LOCATE_S,
        env={name: value for name, _, value in pairs if name == "LD_LIBRARY_PATH"},
        cwd="/",
        **_as_user_of(pid),
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ValueError(said[-1][:200] if said else f"exit status {done.returncode}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return [
        Function("onnxruntime", str(answer["version"]), name, path, int(offset), is_method=is_method)
        for name, offset in answer["offsets"].items()
    ]


def _as_user_of(pid: int) -> dict[str, Any]:
    """Loading a library runs what is in it: that is not for root to do, unless the process is root's."""
    owner = Path(f"/proc/{pid}").stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return {}
    with contextlib.suppress(KeyError):
        name = pwd.getpwuid(owner.st_uid).pw_name
        return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": os.getgrouplist(name, owner.st_gid)}
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}


def symbols(path: Path, names: tuple[str, ...]) -> dict[str, int]:
    """File offsets of the functions with these names in a 64-bit ELF file. Raises OSError, ValueError, struct.error."""
    with path.open("rb") as file:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit ELF file")
        segments = _table(file.fileno(), head, 32, 54, "<IIQQQQQQ")
        sections = _table(file.fileno(), head, 40, 58, "<IIQQQQIIQQ")
        values: dict[str, int] = {}
        for _, kind, _, _, at, size, strings, *_ in sections:
            if kind in (2, 11):  # SHT_SYMTAB, SHT_DYNSYM
                texts = os.pread(file.fileno(), sections[strings][5], sections[strings][4])
                places = dict(_places(texts, names))
                for number, _, _, section, value, _ in struct.iter_unpack(
                    "<IBBHQQ", os.pread(file.fileno(), size // 24 * 24, at)
                ):
                    if number in places and section:
                        values[places[number]] = value
    return {
        name: value - begin + offset
        for name, value in values.items()
        for kind, _, offset, begin, _, size, *_ in segments
        if kind == 1 and begin <= value < begin + size  # PT_LOAD
    }


def _table(fd: int, head: bytes, at: int, shape: int, layout: str) -> list[tuple[int, ...]]:
    (begin,), (size, count) = struct.unpack_from("<Q", head, at), struct.unpack_from("<HH", head, shape)
    row = struct.Struct(layout)
    if size != row.size:
        raise ValueError("an ELF file of another layout")
    return list(row.iter_unpack(os.pread(fd, size * count, begin)))


def _places(texts: bytes, names: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield where each name begins in a table of strings; names with the same ending may share their bytes."""
    for name in names:
        at = texts.find(name.encode() + b"\0")
        while at >= 0:
            yield at, name
            at = texts.find(name.encode() + b"\0", at + 1)
