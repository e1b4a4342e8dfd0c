"""Reading libraries of others without loading them: the right offsets, or a reason, within bounds."""

import contextlib
import ctypes
import os
import struct
import subprocess
from pathlib import Path

import onnxruntime
import pytest

from edgetop.taps.elf import Elf, open_regular, ort_functions
from edgetop.taps.runtimes import functions

# What a build of ONNX Runtime has: a table of functions behind GetApi, whose symbols are hidden.
SOURCE = """
#define F(n) static void *f##n(void *a) { return (char *)a + n; }
#define TEN(t) F(t##0) F(t##1) F(t##2) F(t##3) F(t##4) F(t##5) F(t##6) F(t##7) F(t##8) F(t##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) TEN(12) TEN(13) TEN(14)
#define G(t) f##t##0, f##t##1, f##t##2, f##t##3, f##t##4, f##t##5, f##t##6, f##t##7, f##t##8, f##t##9
typedef void *(*Function)(void *);
static const Function table[] = {G(1), G(2), G(3), G(4), G(5), G(6), G(7),
                                 G(8), G(9), G(10), G(11), G(12), G(13), G(14)};
static const Function *get_api(unsigned version) { return version && version < 99 ? table : 0; }
static const char *get_version(void) { return "1.17.3"; }
static const struct { const Function *(*api)(unsigned); const char *(*version)(void); } base = {get_api, get_version};
const void *OrtGetApiBase(void) { return &base; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    (folder / "ort.c").write_text(SOURCE)
    path = folder / "libonnxruntime.so.1.17.3"
    subprocess.run(["gcc", "-O2", "-s", "-shared", "-fPIC", "-o", path, folder / "ort.c"], check=True)
    return path


def offset_of(address, path):
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end, at = (int(text, 16) for text in (*line.split()[0].split("-"), line.split()[2]))
        if begin <= address < end and line.endswith(str(path)):
            return address - begin + at
    raise AssertionError(address)


def asked(path):
    """The offsets of places 9 and 133 of the table, from the loaded library itself."""
    loaded = ctypes.CDLL(str(path))
    loaded.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
    table = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32)(loaded.OrtGetApiBase()[0])(1)
    return {name: offset_of(table[place], path) for name, place in (("Run", 9), ("RunWithBinding", 133))}


def test_functions_of_a_stripped_library_are_those_that_it_gives_itself(library):
    with library.open("rb") as file:
        assert ort_functions(Elf(file.fileno())) == (asked(library), "1.17.3")


def test_functions_of_the_real_library_are_those_that_it_gives_itself():
    capi = Path(onnxruntime.__file__).parent / "capi"
    path = next(capi.glob("libonnxruntime.so*"))  # since 1.32; the Python module has no C API
    with path.open("rb") as file:
        assert ort_functions(Elf(file.fileno())) == (asked(path.resolve()), onnxruntime.__version__)


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("fifo", "link"):
        with pytest.raises((ValueError, OSError)):
            open_regular(str(tmp_path / name))
    for path in ("/dev/zero", str(tmp_path)):
        with pytest.raises(ValueError, match="not a regular file"):
            open_regular(path)


def elf(sections=(), *, count=None, size=64, at=64):
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<HH", head, 54, 56, 0)
    struct.pack_into("<Q", head, 40, at)
    struct.pack_into("<HH", head, 58, size, len(sections) if count is None else count)
    rows = b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at_, size_, link, 0, 0, 24) for kind, at_, size_, link in sections
    )
    return bytes(head) + rows + bytes(4096)


HOSTILE = {
    "nothing": b"",
    "a script": b"#!/bin/sh\nexit\n" * 20,
    "a link beyond the sections": elf([(2, 192, 24, 77), (3, 192, 10, 0)]),
    "strings of 2^62 bytes": elf([(2, 192, 24, 1), (3, 192, 2**62, 0)]),
    "strings of more than 2^63 bytes": elf([(2, 192, 24, 1), (3, 192, 2**63 + 5, 0)]),
    "strings at the end of all": elf([(2, 192, 24, 1), (3, 2**64 - 8, 64, 0)]),
    "symbols of 2^62 bytes": elf([(2, 192, 2**62, 1), (3, 192, 10, 0)]),
    "65,535 sections": elf(count=65_535),
    "sections of one byte": elf(count=4, size=1),
    "sections far away": elf(count=4, at=2**63),
    "it ends in its head": elf()[:40],
    "itself as its strings": elf([(2, 0, 4800, 0)]),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", ["libtensorflowlite.so", "libonnxruntime.so.1"])
def test_a_hostile_file_is_refused_in_words(kind, name, tmp_path):
    (tmp_path / name).write_bytes(HOSTILE[kind])
    with (tmp_path / name).open("rb") as file, pytest.raises(ValueError, match=f"{name}: ") as refused:
        functions(f"/lib/{name}", file.fileno())
    assert len(str(refused.value)) < 200


def test_a_sparse_file_of_60_gib_takes_no_memory(tmp_path):
    path = tmp_path / "libtensorflowlite.so"
    path.write_bytes(elf([(2, 192, 24, 1), (3, 192, 40 * 2**30, 0)]))
    os.truncate(path, 60 * 2**30)
    with path.open("rb") as file, pytest.raises(ValueError, match="too large"):
        functions(str(path), file.fileno())


def test_damaged_libraries_end_in_a_value_error_or_an_answer(library):
    """Any byte may be wrong."""
    whole = library.read_bytes()
    read, write = os.memfd_create("damaged"), os.pwrite
    os.write(read, whole)
    for place in [*range(512), *range(len(whole) - 1600, len(whole), 3)]:
        write(read, bytes([whole[place] ^ 0xFF]), place)
        with contextlib.suppress(ValueError):
            ort_functions(Elf(read))
        write(read, whole[place : place + 1], place)
    os.close(read)
