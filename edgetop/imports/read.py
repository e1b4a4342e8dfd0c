"""Read files of other tools. The tool is detected by a file's content, never by its name."""

import errno
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from edgetop.errors import InputError
from edgetop.files import read_file, why
from edgetop.imports import benchmark_model, onnx_profile, perf_test, tegrastats_log, trtexec
from edgetop.imports.measured import MAX_NS, Found, Layers, Measured, Origin, SensorLog, Summary, T, Times
from edgetop.sensors.log_formats import INTERVAL_S
from edgetop.sensors.tegrastats import has_lines

MAX_BYTES = 128 * 2**20  # 400,000 inferences; the parsed Python objects take five times as much
HELP = "edgetop help import"
INTERVAL_NS = round(INTERVAL_S * 1e9)

_JSON_LIST = re.compile(r"\s*\[\s*\{")  # the brace rules out output of trtexec, which begins with `[11/12/2024`
# trtexec does not escape the names of layers, not even quotes and backslashes.
_RAW_NAME = re.compile(r'("name" : )"(.*)"(, "timeMs" : )')


def read_all(paths: Sequence[Path], warmup_ns: int = trtexec.WARMUP_NS, interval_ns: int = INTERVAL_NS) -> Measured:
    """Read the files of one run. Raises InputError if they are of several tools, or two are of the same kind."""
    held: dict[type[Found], tuple[Path, Found]] = {}
    origins: dict[Origin, Path] = {}
    for path in paths:
        origin, found = read(path, warmup_ns, interval_ns)
        origins.setdefault(origin, path)
        if len(origins) > 1:
            raise InputError(f"{' and '.join(map(str, origins.values()))}: of two tools", "import each by itself")
        if type(found) in held:
            other = held[type(found)][0]
            raise InputError(f"{other} and {path}: both hold {_KINDS[type(found)]}", "import each by itself")
        held[type(found)] = path, found

    def find(kind: type[T]) -> T | None:
        return next((found for _, found in held.values() if isinstance(found, kind)), None)

    times, summary = find(Times), find(Summary)
    if times and (beside := times.summary):
        summary = summary or beside
        summary = replace(summary, model=summary.model or beside.model, more={**beside.more, **summary.more})
    if times and summary and summary.count not in (None, single := len(times.start_ns) - (times.warmup or 0)):
        names = " and ".join(map(str, paths))
        why = f"of two runs, one of {single} inferences and one of {summary.count}"
        raise InputError(f"{names}: {why}", "import each by itself")
    return Measured(
        origin, tuple(path.name for path, _ in held.values()), times, find(Layers), summary, find(SensorLog)
    )


_KINDS: dict[type[Found], str] = {
    Times: "times",
    Layers: "a profile",
    Summary: "a summary",
    SensorLog: "a board's readings",
}

# Text formats: the tool, a test that recognises its text, and the parser.
_TEXTS: tuple[tuple[Origin, Callable[[str], object], Callable[[str, int], Found]], ...] = (
    (trtexec.ORIGIN, trtexec.MARK.search, lambda text, _: trtexec.read_text(text)),
    (benchmark_model.ORIGIN, benchmark_model.MARK.search, lambda text, _: benchmark_model.read_text(text)),
    (perf_test.ORIGIN, perf_test.MARK.search, lambda text, _: perf_test.read_text(text)),
    (perf_test.ORIGIN, perf_test.is_result, lambda text, _: perf_test.read_result(text)),
    (tegrastats_log.ORIGIN, has_lines, tegrastats_log.read_text),
)
# JSON formats, all of which are lists: the tool, a test on the keys of the first entry, and the parser.
_LISTS: tuple[tuple[Origin, Callable[[set[str]], bool], Callable[[list[Any], int], Found]], ...] = (
    (trtexec.ORIGIN, lambda keys: "latencyMs" in keys, trtexec.read_times),
    (trtexec.ORIGIN, lambda keys: keys == {"count"}, lambda entries, _: trtexec.read_profile(entries)),
    (onnx_profile.ORIGIN, lambda keys: keys >= onnx_profile.KEYS, lambda entries, _: onnx_profile.read_trace(entries)),
)


def read(path: Path, warmup_ns: int = trtexec.WARMUP_NS, interval_ns: int = INTERVAL_NS) -> tuple[Origin, Found]:
    """Read a file; return the tool that wrote it and its contents. Raises InputError.

    `warmup_ns`: the warm-up's duration, used for trtexec. `interval_ns`: the time between lines, used for tegrastats.
    """
    text = _text(path)
    texts = () if _JSON_LIST.match(text) else _TEXTS
    readers = [(origin, reads) for origin, is_it, reads in texts if is_it(text)]
    if not readers:
        return _read_json(path, text, warmup_ns)
    if len(readers) > 1:
        tools = " and of ".join(origin.tool for origin, _ in readers)
        raise InputError(f"{path}: it holds output of {tools}", "keep them in files of their own")
    ((origin, reads),) = readers
    try:
        return origin, reads(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), interval_ns)
    except ValueError as error:
        raise InputError(f"{path}: {error}", HELP) from None


def _read_json(path: Path, text: str, warmup_ns: int) -> tuple[Origin, Found]:
    document = _parsed(path, text)
    first = document[0] if isinstance(document, list) and document else None
    keys = set(first) if isinstance(first, dict) else set()
    for origin, is_it, reads in _LISTS:
        if is_it(keys):
            try:
                found = reads(document, warmup_ns)
            except ValueError as error:
                raise InputError(f"{path}: {error}", HELP) from None
            if isinstance(found, Layers) and found.total_ns > MAX_NS:
                raise InputError(f"{path}: its layers take longer than a run can", HELP)
            return origin, found
    what = "nothing that trtexec exports, nor a profile of ONNX Runtime, nor what a known tool prints"
    raise InputError(f"{path}: {what}", HELP)


def _text(path: Path) -> str:
    try:
        return (
            read_file(path, MAX_BYTES).decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
        )
    except OSError as error:
        advice = "export a shorter run" if error.errno == errno.EFBIG else ""
        raise InputError(f"{path}: cannot be read: {why(error)}", advice) from None


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
            if text.lstrip()[:1] not in "[{":
                why += "; nor what trtexec, benchmark_model, onnxruntime_perf_test or tegrastats print"
            raise InputError(f"{path}: not JSON, or cut off: {why}", HELP) from None


def _loads(text: str) -> Any:
    # Not strict: trtexec does not escape control characters in names either.
    return json.loads(text, strict=False, parse_constant=_no_number)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
