"""Read files of other tools. The tool is detected by a file's content, never by its name."""

import contextlib
import errno
import json
import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from edgetop.captured_text import LeftOut, decode, without_each_prefix, without_escapes
from edgetop.errors import InputError
from edgetop.files import read_file, why
from edgetop.formatting import quantity
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

Keys = AbstractSet[str]
LOOKED_AT = 100  # number of entries of a JSON list that show its format
# A line of a JSON document: values and punctuation, and nothing else. Output of trtexec begins with `[11/12/2024-`.
_JSON_LINE = re.compile(
    r"\s*(?:(?:[\[\]{}:,]|\"(?:[^\"\\]|\\.)*\"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.eE])|true|false|null)\s*)*"
)
_JSON_BEGINS = re.compile(r"[ \t,]*(?:\{\s*(?:$|[\"}])|[}\]\"])")
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
        why = f"of two runs, one of {quantity(single, 'inference')} and one of {summary.count}"
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

_Text = tuple[Origin, Callable[[str], object], Callable[[Page, Options], tuple[Found, ...]]]

# Text formats: the tool, a test that recognises its text, and the parser.
_TEXTS: tuple[_Text, ...] = (
    (trtexec.ORIGIN, trtexec_printed.MARK.search, lambda page, _: trtexec_printed.read_output(page)),
    (benchmark_model.ORIGIN, benchmark_model.MARK.search, lambda page, _: benchmark_model.read_text(page)),
    (perf_test.ORIGIN, perf_test.MARK.search, lambda page, _: (perf_test.read_text(page),)),
    (perf_test.ORIGIN, perf_test.is_result, lambda page, _: (perf_test.read_result(page),)),
    (tegrastats_log.ORIGIN, has_lines, lambda page, options: (tegrastats_log.read_log(page, options.interval_ns),)),
)
# The same for formats whose lines begin with times or names, which would be taken for the prefixes of another program.
_WHOLE_TEXTS: tuple[_Text, ...] = (
    (program_usage.PROFILER, program_usage.is_profiler, lambda page, _: (program_usage.read_profiler(page),)),
    (program_usage.PIDSTAT, program_usage.is_pidstat, lambda page, _: (program_usage.read_pidstat(page),)),
    (program_usage.TIME, program_usage.is_time, lambda page, _: (program_usage.read_time(page),)),
)


@frozen
class _List:
    """A JSON format whose document is a list, or has one object in each line."""

    origin: Origin
    begins: Callable[[Keys], bool]  # whether an entry with these keys shows that a document has this format
    has: Callable[[Keys], bool]  # whether an entry with these keys belongs to the format; others are left out
    read: Callable[[list[Any], Options, Page], Found]
    is_lines: bool = False  # whether the tool writes one object per line


_LISTS: tuple[_List, ...] = (
    _List(
        trtexec.ORIGIN,
        lambda keys: "latencyMs" in keys,
        lambda keys: bool(keys & trtexec.TIME_KEYS),
        lambda entries, options, _: trtexec.read_times(entries, options.warmup_ns),
    ),
    _List(
        trtexec.ORIGIN,
        lambda keys: keys == {"count"},
        lambda keys: keys == {"count"} or bool(keys & trtexec.LAYER_KEYS),
        lambda entries, _, __: trtexec.read_profile(entries),
    ),
    _List(
        onnx_profile.ORIGIN,
        lambda keys: keys >= onnx_profile.KEYS,
        lambda keys: keys >= onnx_profile.KEYS,
        lambda entries, _, page: onnx_profile.read_trace(entries, page),
    ),
    _List(
        llama_bench.ORIGIN,
        lambda keys: keys >= llama_bench.KEYS,
        lambda keys: bool(keys & llama_bench.KEYS),
        lambda entries, _, __: llama_bench.read_tests(entries),
        is_lines=True,
    ),
    _List(
        program_usage.DOCKER,
        program_usage.is_stats,
        program_usage.is_stats,
        lambda entries, options, page: program_usage.read_stats(entries, options.interval_ns, page),
        is_lines=True,
    ),
    _List(
        aiperf.ORIGIN,
        lambda keys: keys >= aiperf.KEYS,
        lambda keys: keys >= aiperf.KEYS,
        lambda entries, _, __: aiperf.read_records(entries),
        is_lines=True,
    ),
)


def read(path: Path, options: Options = DEFAULTS) -> Reading:
    """Return what a file contains, and the tool that wrote the file.

    Raises InputError if no tool is recognised, or if the content cannot be read.
    """
    text = _text(path)
    plain = without_escapes(text)
    forms = list(without_each_prefix(plain))
    if options.columns.latency is not None:
        return _read_table(path, forms, options)
    for form, removed in [(text, ()), *forms] if plain != text else forms:
        if reading := _read_json(path, form, removed, options):
            return reading
        for whole in _WHOLE_TEXTS:
            if whole[1](form):
                return _read_page(path, Page(_replaced(form), removed), whole, options)
    form, removed = forms[-1]
    tools = [each for each in _TEXTS if each[1](form)]
    if len(tools) > 1:
        names = " and of ".join(origin.tool for origin, _, _ in tools)
        raise InputError(f"{path}: it holds output of {names}", "keep them in files of their own")
    if tools:
        return _read_page(path, Page(_replaced(form), removed), tools[0], options)
    if any(latency_table.is_table(form) for form, _ in forms):
        return _read_table(path, forms, options)
    raise _not_read(path, text)


def _read_page(path: Path, page: Page, tool: _Text, options: Options) -> Reading:
    origin, _, reads = tool
    try:
        found = reads(page, options)
    except ValueError as error:
        raise InputError(f"{path}: {error}", HELP) from None
    left = page.left_out()
    return Reading(origin, found, (*page.notes, *([left.words] if left else [])))


def _replaced(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _read_table(path: Path, forms: Sequence[tuple[str, tuple[str, ...]]], options: Options) -> Reading:
    """Return the inferences of a table of latencies.

    `forms` has `(text, programs)` pairs. The first text is the file's text as it is. Each further text lacks one more
    prefix of its lines, such as the time that the program `ts` writes before each line. `programs` names the programs
    whose prefixes the text lacks. The first column of a table may look like a prefix. So a prefix is only removed if
    the line with the names of the columns has it too.
    """
    refused: ValueError | None = None
    lines = [form.split("\n") for form, _ in forms]
    for depth in reversed(range(len(forms))):
        form, removed = forms[depth]
        number = max(1, latency_table.header_of(form, options.columns.latency)[0])
        if depth and lines[depth - 1][number - 1] == lines[depth][number - 1]:
            continue
        page = Page(_replaced(form), removed)
        try:
            times = latency_table.read_table(page, options.columns)
        except ValueError as error:
            refused = refused or error
            continue
        return Reading(latency_table.ORIGIN, (times,), tuple(page.notes))
    raise InputError(f"{path}: {refused}", HELP) from None


def _read_json(path: Path, text: str, removed: tuple[str, ...], options: Options) -> Reading | None:
    """Return what the JSON of a known tool contains, or None if the text is no JSON of a known tool.

    `removed` names the programs whose prefixes were removed from the lines. Raises InputError if the document is of a
    known tool and cannot be read.
    """
    page = Page("", removed)
    if (document := _parsed(text, page)) is None:
        return None
    origin = benchmark_model.ORIGIN
    found: Found | None = None
    try:
        if isinstance(document, dict) and benchmark_model.is_result(document):
            found = benchmark_model.read_result(document, page)
        elif isinstance(document, dict) and aiperf.is_summary(document):
            origin, found = aiperf.ORIGIN, aiperf.read_summary(document, page)
        elif isinstance(document, list) and (kind := _kind_of(document)):
            entries = [entry for entry in document if isinstance(entry, dict) and kind.has(entry.keys())]
            others = [entry for entry in document if not (isinstance(entry, dict) and kind.has(entry.keys()))]
            if others:
                first = json.dumps(others[0])
                page.notes.append(LeftOut(len(others), len(document), "entries", "not understood", first).words)
            origin, found = kind.origin, kind.read(entries, options, page)
    except ValueError as error:
        raise InputError(f"{path}: {error}", HELP) from None
    if found is None:
        return None
    if isinstance(found, Layers) and found.total_ns > MAX_NS:
        raise InputError(f"{path}: its layers take longer than a run can", HELP)
    notes = found.notes if isinstance(found, Generated) else ()
    return Reading(origin, (found,), (*page.notes, *notes))


def _kind_of(entries: Sequence[Any]) -> _List | None:
    """Return the format of a JSON list, or None if it is unknown. The first entry with the keys of a tool decides."""
    for entry in entries[:LOOKED_AT]:
        if isinstance(entry, dict) and (kind := next((each for each in _LISTS if each.begins(entry.keys())), None)):
            return kind
    return None


def _text(path: Path) -> str:
    try:
        return decode(read_file(path, MAX_BYTES))
    except OSError as error:
        advice = "export a shorter run" if error.errno == errno.EFBIG else ""
        raise InputError(f"{path}: cannot be read: {why(error)}", advice) from None


def _parsed(text: str, page: Page) -> Any:
    """Return the JSON document in a text, or None if there is none. Lines of other programs are left out.

    Notes in `page` count the lines that were left out.
    """
    if (lines := _json_lines(text, page)) is not None:
        return lines
    if text.lstrip()[:1] in ("{", "["):
        for form in (text, _RAW_NAME.sub(lambda found: found[1] + json.dumps(found[2]) + found[3], text)):
            with contextlib.suppress(ValueError, RecursionError):
                return _loads(form)
    kept, others = list[str](), list[str]()
    for line in filter(str.strip, text.split("\n")):
        # A line that begins as one of the document, and is none, shows that the document is cut off.
        is_other = not _JSON_BEGINS.match(line) and not _JSON_LINE.fullmatch(line)
        (others if is_other else kept).append(line)
    if not others or not kept or kept[0].lstrip()[:1] not in ("{", "["):
        return None
    with contextlib.suppress(ValueError, RecursionError):
        document = _loads("\n".join(kept))
        what = LeftOut(len(others), len(others) + len(kept), "lines", "not understood", others[0])
        page.notes.append(what.words)
        return document
    return None


# Output of tools that is not read: a pattern of it, what it is, and what to do.
_OTHER_OUTPUTS = (
    (
        re.compile(r"^CONTAINER ID +NAME +CPU %", re.MULTILINE),
        "the table of docker stats",
        "write lines instead: docker stats --format json",
    ),
    (
        re.compile(r"^\| model .*\| +t/s \|", re.MULTILINE),
        "the table of llama-bench, which has no single repetitions",
        "write them instead: llama-bench -o json",
    ),
    (
        re.compile(r"^(?:index, |name, )*timestamp, .*\[|\bpower\.draw\b", re.MULTILINE),
        "a log of nvidia-smi, which has no inferences",
        "edgetop run and watch read the GPU themselves: edgetop help power",
    ),
    (
        re.compile(r"\bBzy_MHz\b|^PowerTOP ", re.MULTILINE),
        "a log of turbostat or powertop, which has no inferences",
        "edgetop run and watch read the board themselves: edgetop help boards",
    ),
    (
        re.compile(r"\btemp=[0-9.]+'C|\bthrottled=0x[0-9a-f]+|\bfrequency\([0-9]+\)=[0-9]+"),
        "a log of vcgencmd, which has no inferences",
        "edgetop run and watch read the board themselves: edgetop help boards",
    ),
)
LOOKED_AT_CHARACTERS = 64 * 1024


def _not_read(path: Path, text: str) -> InputError:
    """Return the error for a file of which no tool is recognised. If the file is not JSON, the error says why."""
    if not text.strip():
        return InputError(f"{path}: empty", "it is written when the tool ends")
    for pattern, what, advice in _OTHER_OUTPUTS:
        if pattern.search(text[:LOOKED_AT_CHARACTERS]):
            return InputError(f"{path}: {what}", advice)
    if why_not := latency_table.why_no_table(text):
        return InputError(f"{path}: {why_not}", HELP)
    if text.lstrip()[:1] not in ("[", "{"):
        return InputError(f"{path}: no output of a tool that is known, no table of latencies, and no JSON", HELP)
    try:
        _loads(text)
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        return InputError(f"{path}: not JSON, or cut off: {why}", HELP)
    what = "nothing that trtexec, llama-bench, AIPerf or litert-benchmark exports, nor a profile of ONNX Runtime, "
    return InputError(f"{path}: {what}nor what a tool prints", HELP)


def _json_lines(text: str, page: Page) -> list[Any] | None:
    """Return the JSON objects of a tool that writes one object in each line, or None if the text has another form.

    Notes in `page` count the lines that are no objects.
    """
    lines = [line for line in without_escapes(text).split("\n") if line.strip()]
    found, others, is_it = list[Any](), list[str](), False
    for line in lines:
        entry = None
        if line.startswith("{") and line.rstrip().endswith("}"):
            with contextlib.suppress(ValueError, RecursionError):
                entry = _loads(line)
        if entry is None:
            others.append(line)
            continue
        found.append(entry)
        is_it = is_it or any(kind.is_lines and kind.begins(entry.keys()) for kind in _LISTS)
    if not is_it:
        return None
    if others:
        page.notes.append(LeftOut(len(others), len(lines), "lines", "not understood", others[0]).words)
    return found


def _loads(text: str) -> Any:
    # Not strict: trtexec does not escape control characters in names either.
    return json.loads(text, strict=False, parse_constant=_no_number)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
