"""Read an ELF file (a program or library): find its functions without loading it.

The file is not trusted, so each number from it is checked against a bound. See elf(5). `ort_functions` recognises the
machine code of two functions in ONNX Runtime's `onnxruntime_c_api.cc`: OrtGetApiBase and GetApi. This module needs only
the standard library.
"""

import os
import re
import stat
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

MOST_SECTIONS = 512
MOST_BYTES = 64 * 1024 * 1024  # largest table
CODE_BYTES = 256  # how much of the code of a function is decoded
RELATIVE = {62: 8, 183: 1027}  # R_X86_64_RELATIVE, R_AARCH64_RELATIVE by e_machine
X86_64 = 62
SYMTAB, RELA, DYNSYM, RELR = 2, 4, 11, 19  # SHT_*


class Segment(NamedTuple):
    offset: int
    address: int
    size: int  # size in the file
    is_code: bool


class Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def open_regular(path: str) -> int:
    """Open a file for reading, and return its descriptor. Raises OSError, or ValueError if it is no regular file.

    A FIFO or a device is never opened for reading, because the type is checked with an O_PATH descriptor first.
    """
    first = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(first).st_mode):
            raise ValueError("not a regular file")
        return os.open(f"/proc/self/fd/{first}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(first)


class Elf:
    """An open ELF file (a program or library). `fd` is its descriptor.

    Raises ValueError if it is not a 64-bit ELF file, or is damaged.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        head = os.pread(fd, 64, 0)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit ELF file")
        self.machine = struct.unpack_from("<H", head, 18)[0]
        segments = self._table(head, 32, 54, struct.Struct("<IIQQQQQQ"))
        self.segments = [
            Segment(offset, address, size, bool(flags & 1))
            for kind, flags, offset, address, _, size, *_ in segments
            if kind == 1  # PT_LOAD
        ]
        rows = self._table(head, 40, 58, struct.Struct("<IIQQQQIIQQ"))
        self.sections = [Section(kind, offset, size, link) for _, kind, _, _, offset, size, link, *_ in rows]
        self._relocations: tuple[array[int], array[int]] | None = None

    def _table(self, head: bytes, at: int, shape: int, row: struct.Struct) -> list[tuple[int, ...]]:
        (begin,), (size, count) = struct.unpack_from("<Q", head, at), struct.unpack_from("<HH", head, shape)
        if not count:
            return []
        if size != row.size or count > MOST_SECTIONS:
            raise ValueError("an ELF file of another layout")
        return list(row.iter_unpack(self._bytes(begin, size * count)))

    def _bytes(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from the position `offset` of the file.

        Raises ValueError if the file is too short or `count` is too large.
        """
        if count > MOST_BYTES or offset >= 2**62:
            raise ValueError("a table is too large")
        data = os.pread(self.fd, count, offset)
        if len(data) != count:
            raise ValueError("the file ends too early")
        return data

    def _at(self, address: int, count: int) -> bytes:
        """Return up to `count` bytes at an address, or b"" if no segment has the address."""
        offset = self.offset(address)
        return b"" if offset is None or offset >= 2**62 else os.pread(self.fd, count, offset)

    def symbols(self, names: tuple[str, ...]) -> dict[str, int]:
        """Return the positions of functions in the file, by name. Names that the file does not define are left out.

        Raises ValueError if the file is damaged.
        """
        values: dict[str, int] = {}
        for section in self.sections:
            if section.kind in (SYMTAB, DYNSYM):
                if section.link >= len(self.sections):
                    raise ValueError("an ELF file of another layout")
                strings = self.sections[section.link]
                places = dict(_places(self._bytes(strings.offset, strings.size), names))
                table = self._bytes(section.offset, section.size // 24 * 24)
                for number, _, _, at, value, _ in struct.iter_unpack("<IBBHQQ", table):
                    if number in places and at:
                        values[places[number]] = value
        offsets = {name: self.offset(value) for name, value in values.items()}
        return {name: offset for name, offset in offsets.items() if offset is not None}

    def offset(self, address: int) -> int | None:
        """Return the position in the file of the byte that is loaded at `address`, or None if no segment has it."""
        for one in self.segments:
            if one.address <= address < one.address + one.size:
                return address - one.address + one.offset
        return None

    def is_code(self, address: int) -> bool:
        return any(one.is_code and one.address <= address < one.address + one.size for one in self.segments)

    def word(self, address: int) -> int:
        """Return the pointer of 8 bytes that is at `address` after the file was loaded at address 0.

        Returns 0 if no segment has the address.
        """
        if self._relocations is None:
            self._relocations = self._read_relocations()
        places, values = self._relocations
        at = bisect_left(places, address)
        if at < len(places) and places[at] == address:
            return values[at]
        return int.from_bytes(self._at(address, 8), "little")

    def _read_relocations(self) -> tuple["array[int]", "array[int]"]:
        """Return two arrays: the sorted addresses at which the loader stores a pointer, and the pointer for each.

        Relocations in the packed form (RELR) are left out, because the file has their pointers at those addresses.
        """
        relative, pairs = RELATIVE.get(self.machine), []
        for section in self.sections:
            if section.kind == RELA:
                table = self._bytes(section.offset, section.size // 24 * 24)
                pairs += [(at, value) for at, kind, value in struct.iter_unpack("<QQQ", table) if kind == relative]
        pairs.sort()
        return array("Q", (at for at, _ in pairs)), array("Q", (value for _, value in pairs))

    def addresses_in(self, function: int) -> Iterator[int]:
        """Yield the addresses that a function's machine code computes relative to the program counter.

        `function` is the function's address. Only its first CODE_BYTES bytes are decoded.
        """
        code = self._at(function, CODE_BYTES)
        if self.machine == X86_64:  # lea register, [rip + distance]
            for found in re.finditer(rb"[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](....)", code, re.DOTALL):
                yield function + found.end() + int.from_bytes(found[1], "little", signed=True)
            return
        pages: dict[int, int] = {}  # aarch64: adrp register, page; add register, register, rest
        for at in range(0, len(code) - 3, 4):
            (word,) = struct.unpack_from("<I", code, at)
            register = word & 31
            distance = (word >> 29 & 3) | (word >> 5 & 0x7FFFF) << 2
            distance -= (distance & 1 << 20) << 1
            if word & 0x9F000000 == 0x90000000:
                pages[register] = (function + at & ~0xFFF) + (distance << 12)
            elif word & 0x9F000000 == 0x10000000:  # adr
                yield function + at + distance
            elif word & 0xFFC00000 == 0x91000000 and (word >> 5 & 31) in pages:
                yield pages[word >> 5 & 31] + (word >> 10 & 0xFFF)

    def text(self, address: int, most: int = 32) -> str:
        """Return the text from an address up to the next NUL, or "" if the first `most` bytes have no NUL."""
        data = self._at(address, most)
        return data.partition(b"\0")[0].decode("ascii", "replace") if b"\0" in data else ""


def _places(texts: bytes, names: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield (position, name) for each place in the string table `texts` where one of `names` stands before a NUL.

    The position may be within a longer string, because ELF stores a name that ends another name only once.
    """
    for name in names:
        at = texts.find(name.encode() + b"\0")
        while at >= 0:
            yield at, name
            at = texts.find(name.encode() + b"\0", at + 1)


RUN, RUN_WITH_BINDING, BINDING_SINCE = 9, 133, 4  # indexes in OrtApi (onnxruntime_c_api.h), which only grows at its end
SURE_ENTRIES = 30  # number of entries that each version has


def ort_functions(elf: Elf) -> tuple[dict[str, int], str]:
    """Return the positions in the file of ONNX Runtime's C functions that run a model, and the runtime's version.

    For example ({"Run": 1234, "RunWithBinding": 5678}, "1.23.0"). An unknown version is "". The exported function
    OrtGetApiBase returns the address of two pointers, GetApi and GetVersionString. GetApi returns the address of the
    table of functions. Raises ValueError if the code is not recognised.
    """
    exported = elf.symbols(("OrtGetApiBase",)).get("OrtGetApiBase")
    if exported is None:
        raise ValueError("it does not export OrtGetApiBase")
    at = (one for one in elf.segments if one.offset <= exported < one.offset + one.size)
    start = next(one.address + exported - one.offset for one in at)
    for base in elf.addresses_in(start):
        get_api, get_version = elf.word(base), elf.word(base + 8)
        if not (elf.is_code(get_api) and elf.is_code(get_version)):
            continue
        texts = (elf.text(address) for address in elf.addresses_in(get_version))
        version = next((text for text in texts if re.fullmatch(r"\d+\.\d+(\.\d+)?[\w.+-]*", text)), "")
        for table in elf.addresses_in(get_api):
            if all(elf.is_code(elf.word(table + 8 * number)) for number in range(SURE_ENTRIES)):
                places = {"Run": RUN}
                if version and (int(version.split(".")[0]), int(version.split(".")[1])) >= (1, BINDING_SINCE):
                    places["RunWithBinding"] = RUN_WITH_BINDING
                found = {name: elf.offset(elf.word(table + 8 * number)) for name, number in places.items()}
                return {name: offset for name, offset in found.items() if offset is not None}, version
    raise ValueError("its table of functions was not found")
