"""Which tool wrote a file, told by what is in it and never by its name."""

import json
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from edgetop import formatting
from edgetop.errors import InputError
from edgetop.imports import onnx_profile, trtexec
from edgetop.imports.measured import MAX_NS, Found, Layers, Measured, Origin, Times

MAX_BYTES = 128 * 2**20  # 400,000 inferences; Python's objects of it take five times as much
HELP = "edgetop help import"

# trtexec writes the names of layers as they are, quotes and backslashes too.
_RAW_NAME = re.compile(r'("name" : )"(.*)"(, "timeMs" : )')


def read_all(paths: Sequence[Path], warmup_ns: int = trtexec.WARMUP_NS) -> Measured:
    """Times, layers, or one of each. Raises InputError."""
    held: dict[type[Found], tuple[Path, Found]] = {}
    origins: dict[Origin, Path] = {}
    for path in paths:
        origin, found = read(path, warmup_ns)
        origins.setdefault(origin, path)
        if len(origins) > 1:
            raise InputError(f"{' and '.join(map(str, origins.values()))}: of two tools", "import each by itself")
        if type(found) in held:
            other = held[type(found)][0]
            raise InputError(f"{other} and {path}: both hold {_KINDS[type(found)]}", "import each by itself")
        held[type(found)] = path, found
    return Measured(
        origin,
        tuple(path.name for path, _ in held.values()),
        next((found for _, found in held.values() if isinstance(found, Times)), None),
        next((found for _, found in held.values() if isinstance(found, Layers)), None),
    )


_KINDS: dict[type[Found], str] = {Times: "times", Layers: "a profile"}


def read(path: Path, warmup_ns: int = trtexec.WARMUP_NS) -> tuple[Origin, Found]:
    """What a file holds. `warmup_ns`: of trtexec. Raises InputError."""
    document = _parsed(path, _text(path))
    if not isinstance(document, list) or not document:
        raise _unknown(path)
    readers: tuple[tuple[Origin, Callable[[list[Any]], bool], Callable[[list[Any]], Found]], ...] = (
        (trtexec.ORIGIN, trtexec.is_times, lambda entries: trtexec.read_times(entries, warmup_ns)),
        (trtexec.ORIGIN, trtexec.is_profile, trtexec.read_profile),
        (onnx_profile.ORIGIN, onnx_profile.is_trace, onnx_profile.read_trace),
    )
    for origin, is_it, reads in readers:
        if is_it(document):
            try:
                return origin, _possible(reads(document))
            except ValueError as error:
                raise InputError(f"{path}: {error}", HELP) from None
    raise _unknown(path)


def _possible(found: Found) -> Found:
    if isinstance(found, Layers) and found.total_ns > MAX_NS:
        raise ValueError("its layers take longer than a run can")
    return found


def _unknown(path: Path) -> InputError:
    return InputError(f"{path}: nothing that trtexec exports, nor a profile of ONNX Runtime", HELP)


def _text(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for, a device read for ever
            raise InputError(f"{path}: not a file")
        if status.st_size > MAX_BYTES:
            held, most = formatting.size(status.st_size), formatting.size(MAX_BYTES)
            raise InputError(f"{path}: {held} are more than can be imported ({most})", "export a shorter run")
        return path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _parsed(path: Path, text: str) -> Any:
    if not text.strip():
        raise InputError(f"{path}: empty", "it is written when the tool ends")
    try:
        return _loads(text)
    except (ValueError, RecursionError) as first:
        try:
            return _loads(_RAW_NAME.sub(lambda found: found[1] + json.dumps(found[2]) + found[3], text))
        except (ValueError, RecursionError):
            why = "nested too deep" if isinstance(first, RecursionError) else str(first)
            raise InputError(f"{path}: not JSON, or cut off: {why}", HELP) from None


def _loads(text: str) -> Any:
    # Not strict: control characters in names are written as they are as well.
    return json.loads(text, strict=False, parse_constant=_no_number)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
