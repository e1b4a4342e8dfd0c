"""Read files of other tools. The tool is detected by a file's content, never by its name."""

import errno
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from edgetop.captured_text import decode, without_escapes, without_prefixes
from edgetop.errors import InputError
from edgetop.files import read_file, why
from edgetop.frozen import frozen
from edgetop.imports import (
    aiperf,
    benchmark_model,
    latency_table,
    llama_bench,
    onnx_profile,
    perf_test,
    program_usage,
    tegrastats_log,
    trtexec,
    trtexec_printed,
)
from edgetop.imports.captured_page import Page
from edgetop.imports.latency_table import Columns
from edgetop.imports.measured import (
    MAX_NS,
    Found,
    Generated,
    Layers,
    Measured,
    Origin,
    Reading,
    SensorLog,
    Summary,
    T,
    Times,
)
from edgetop.sensors.log_formats import INTERVAL_S
from edgetop.sensors.tegrastats import has_lines

MAX_BYTES = 128 * 2**20  # 400,000 inferences; the parsed Python objects take five times as much
HELP = "edgetop help import"
INTERVAL_NS = round(INTERVAL_S * 1e9)


@frozen
class Options:
    """The user's options for reading files of other tools, from the command line."""

    warmup_ns: int = trtexec.WARMUP_NS  # duration of the warm-up of trtexec
    interval_ns: int = INTERVAL_NS  # time between the lines of tegrastats
    columns: Columns = Columns()


DEFAULTS = Options()

_JSON_LIST = re.compile(r"\s*\[\s*\{")  # the brace rules out output of trtexec, which begins with `[11/12/2024`
# trtexec does not escape the names of layers, not even quotes and backslashes.
_RAW_NAME = re.compile(r'("name" : )"(.*)"(, "timeMs" : )')


def read_all(paths: Sequence[Path], options: Options = DEFAULTS) -> Measured:
    """Return what one or more files contain together. All must be of one tool and one run.

    Raises InputError if files are of different tools or runs, or if two have the same kind of content.
    """
    held: dict[type[Found], tuple[Path, Found]] = {}
    origins: dict[Origin, Path] = {}
    notes: list[str] = []
    for path in paths:
        reading = read(path, options)
        origins.setdefault(reading.origin, path)
        if len(origins) > 1:
            raise InputError(f"{' and '.join(map(str, origins.values()))}: of two tools", "import each by itself")
        for found in reading.found:
            if type(found) in held:
                other = held[type(found)][0]
                raise InputError(f"{other} and {path}: both hold {_KINDS[type(found)]}", "import each by itself")
            held[type(found)] = path, found
        notes += [f"{path.name}: {note}" if len(paths) > 1 else note for note in reading.notes]

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
    files = tuple(dict.fromkeys(path.name for path, _ in held.values()))
    (origin,) = origins
    return Measured(
        origin, files, times, find(Layers), summary, find(SensorLog), find(Generated), tuple(dict.fromkeys(notes))
    )


_KINDS: dict[type[Found], str] = {
    Times: "times",
    Layers: "a profile",
    Summary: "a summary",
    SensorLog: "readings of a board or a program",
    Generated: "requests",
}

# Text formats: the tool, a test that recognises its text, and the parser.
_TEXTS: tuple[tuple[Origin, Callable[[str], object], Callable[[Page, Options], tuple[Found, ...]]], ...] = (
    (trtexec.ORIGIN, trtexec_printed.MARK.search, lambda page, _: trtexec_printed.read_output(page)),
    (benchmark_model.ORIGIN, benchmark_model.MARK.search, lambda page, _: benchmark_model.read_text(page)),
    (perf_test.ORIGIN, perf_test.MARK.search, lambda page, _: (perf_test.read_text(page),)),
    (perf_test.ORIGIN, perf_test.is_result, lambda page, _: (perf_test.read_result(page),)),
    (tegrastats_log.ORIGIN, has_lines, lambda page, options: (tegrastats_log.read_log(page, options.interval_ns),)),
)
# The same for formats whose lines begin with times or names, which would be taken for the prefixes of another program.
_WHOLE_TEXTS: tuple[tuple[Origin, Callable[[str], bool], Callable[[Page], SensorLog]], ...] = (
    (program_usage.PROFILER, program_usage.is_profiler, program_usage.read_profiler),
    (program_usage.PIDSTAT, program_usage.is_pidstat, program_usage.read_pidstat),
    (program_usage.TIME, program_usage.is_time, program_usage.read_time),
)
# JSON formats that are lists: the tool, a test on the keys of the first entry, and the parser.
_LISTS: tuple[tuple[Origin, Callable[[set[str]], bool], Callable[[list[Any], Options, Page], Found]], ...] = (
    (
        trtexec.ORIGIN,
        lambda keys: "latencyMs" in keys,
        lambda entries, options, _: trtexec.read_times(entries, options.warmup_ns),
    ),
    (trtexec.ORIGIN, lambda keys: keys == {"count"}, lambda entries, _, __: trtexec.read_profile(entries)),
    (
        onnx_profile.ORIGIN,
        lambda keys: keys >= onnx_profile.KEYS,
        lambda entries, _, page: onnx_profile.read_trace(entries, page),
    ),
    (llama_bench.ORIGIN, lambda keys: keys >= llama_bench.KEYS, lambda entries, _, __: llama_bench.read_tests(entries)),
    (
        program_usage.DOCKER,
        lambda keys: keys >= program_usage.STATS_KEYS or keys >= program_usage.PODMAN_KEYS,
        lambda entries, options, _: program_usage.read_stats(entries, options.interval_ns),
    ),
    (aiperf.ORIGIN, lambda keys: keys >= aiperf.KEYS, lambda entries, _, __: aiperf.read_records(entries)),
)


def read(path: Path, options: Options = DEFAULTS) -> Reading:
    """Return what a file contains, and the tool that wrote the file.

    Raises InputError if no tool is recognised, or if the content cannot be read.
    """
    text = _text(path)
    if options.columns.latency is not None:
        return _read_table(path, text, options)
    if _JSON_LIST.match(text) or text.lstrip()[:1] == "{":
        return _read_json(path, text, options)
    whole = without_escapes(text)
    for origin, is_it, reads_log in _WHOLE_TEXTS:
        if is_it(whole):
            return _read_whole(path, Page(_replaced(whole)), origin, reads_log)
    plain, removed = without_prefixes(whole)
    readers = [(origin, reads) for origin, is_it, reads in _TEXTS if is_it(plain)]
    if not readers:
        return _read_table(path, text, options) if latency_table.is_table(text) else _read_json(path, text, options)
    if len(readers) > 1:
        tools = " and of ".join(origin.tool for origin, _ in readers)
        raise InputError(f"{path}: it holds output of {tools}", "keep them in files of their own")
    ((origin, reads),) = readers
    page = Page(_replaced(plain), removed)
    try:
        found = reads(page, options)
    except ValueError as error:
        raise InputError(f"{path}: {error}", HELP) from None
    return Reading(origin, found, _notes(page))


def _read_whole(path: Path, page: Page, origin: Origin, reads: Callable[[Page], SensorLog]) -> Reading:
    try:
        log = reads(page)
    except ValueError as error:
        raise InputError(f"{path}: {error}", HELP) from None
    return Reading(origin, (log,), _notes(page))


def _replaced(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _notes(page: Page) -> tuple[str, ...]:
    left = page.left_out()
    return (*page.notes, *([left.words] if left else []))


def _read_table(path: Path, text: str, options: Options) -> Reading:
    page = Page(_replaced(text))
    try:
        times = latency_table.read_table(page, options.columns)
    except ValueError as error:
        raise InputError(f"{path}: {error}", HELP) from None
    return Reading(latency_table.ORIGIN, (times,), tuple(page.notes))


def _read_json(path: Path, text: str, options: Options) -> Reading:
    document = _parsed(path, text)
    page = Page("")
    first = document[0] if isinstance(document, list) and document else None
    keys = set(first) if isinstance(first, dict) else set()
    origin = benchmark_model.ORIGIN
    found: Found | None = None
    try:
        if isinstance(document, dict) and benchmark_model.is_result(document):
            found = benchmark_model.read_result(document, page)
        elif isinstance(document, dict) and aiperf.is_summary(document):
            origin, found = aiperf.ORIGIN, aiperf.read_summary(document)
        else:
            reads = [(tool, reader) for tool, is_it, reader in _LISTS if is_it(keys)]
            for origin, reader in reads[:1]:  # noqa: B007  used below
                found = reader(document, options, page)
    except ValueError as error:
        raise InputError(f"{path}: {error}", HELP) from None
    if found is None:
        what = "nothing that trtexec, llama-bench, AIPerf or litert-benchmark exports, nor a profile of ONNX Runtime, "
        what += "nor what a tool prints"
        raise InputError(f"{path}: {what}", HELP)
    if isinstance(found, Layers) and found.total_ns > MAX_NS:
        raise InputError(f"{path}: its layers take longer than a run can", HELP)
    notes = found.notes if isinstance(found, Generated) else ()
    return Reading(origin, (found,), (*page.notes, *notes))


def _text(path: Path) -> str:
    try:
        return decode(read_file(path, MAX_BYTES))
    except OSError as error:
        advice = "export a shorter run" if error.errno == errno.EFBIG else ""
        raise InputError(f"{path}: cannot be read: {why(error)}", advice) from None


def _parsed(path: Path, text: str) -> Any:
    if not text.strip():
        raise InputError(f"{path}: empty", "it is written when the tool ends")
    if (lines := _json_lines(text)) is not None:
        return lines
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


def _json_lines(text: str) -> list[Any] | None:
    """Return the JSON objects of a text with one object in each line, or None if the text has another form.

    A single object counts only if it comes from a tool that writes one object per line.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not all(line.startswith("{") and line.rstrip().endswith("}") for line in lines):
        return None
    try:
        found = [_loads(line) for line in lines]
    except (ValueError, RecursionError):
        return None
    is_single = (
        len(found) > 1
        or found[0].keys() >= program_usage.STATS_KEYS
        or found[0].keys() >= llama_bench.KEYS
        or found[0].keys() >= aiperf.KEYS
    )
    return found if is_single else None


def _loads(text: str) -> Any:
    # Not strict: trtexec does not escape control characters in names either.
    return json.loads(text, strict=False, parse_constant=_no_number)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
