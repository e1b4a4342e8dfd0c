"""A line, row, entry or key that an importer does not know changes no figure of any tool, however the text arrives."""

import codecs
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetop.imports.read import read
from tests.imports.samples import DOCUMENTS, TEXTS
from tests.support.thorough import mostly_thorough

ALL = {**TEXTS, **DOCUMENTS}

WORDS = (
    "Latency", "latency_ms", "Throughput", "mean", "min", "max", "count", "P99", "Batch", "RAM", "CPU", "GPU", "Model",
    "Total", "inference", "Inference", "avg", "warmup", "Warmup", "runs", "timings", "User", "time", "Elapsed", "disk",
    "percentile", "Average", "of", "is", "in", "for", "ms", "us", "qps", "MB", "%", "=", ":", ",", "|", "[I]", "INFO",
    "WARNING", "error", "usb", "loaded", "python3", "started", "(", ")", "->", "...", "#3",
)  # fmt: skip
NUMBERS = st.one_of(st.integers(0, 99_999).map(str), st.floats(0, 1e6).map(lambda x: f"{x:.3f}"))
# Lines of other programs. One begins with a word and a colon, so that it is no row of numbers alone.
NOISE = st.lists(st.one_of(st.sampled_from(WORDS), NUMBERS), min_size=1, max_size=9).map(
    lambda words: f"app: {' '.join(words)}"
)
LIKE_FIGURES = (
    "Latency of disk: min = 1 ms, max = 2 ms", "[  123.4567] usb 1-1: new high-speed USB device", "fps: 33.3",
    "WARNING: Throughput: may vary", "count=7 items in cart", "Total inference memory: 12 MB", "RAM usage is 5 GB",
    "Model: other.onnx loaded by another app", "P99 Latency target: 33 ms", "Batch: 16 images per file",
    "Average latency of network 12.3 ms", "mean: see below", "percentile: 99", "throughput: good", "Runs: all done",
    "User time of the demo: 9.00", "Elapsed: 12", "Exit status: 9 of 10", "latency_ms is the column to look at",
    "12:00:01 something happened", "[ok] all 5 tests passed", "{not json}", "<xml attribute='7'/>", "1,2,three",
    "Maximum resident set size of the server: 5 GB", "1700000000 0 12 epoch began",
    "load_backend: loaded CPU, 2 threads",
)  # fmt: skip

ARRIVED = {
    "UTF-16 from PowerShell": lambda text: codecs.BOM_UTF16_LE + text.replace("\n", "\r\n").encode("utf-16-le"),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-be"),
    "a mark and CRLF": lambda text: codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "colours": lambda text: "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines()).encode(),
    "a cleared screen": lambda text: f"\x1b[2J\x1b[H{text}".encode(),
    "ts": lambda text: before("Nov 27 12:24:35 ", text),
    "ts -i": lambda text: before("00:00:01 ", text),
    "ts with a format": lambda text: before("2026-11-27 12:24:35.123456 ", text),
    "docker compose": lambda text: before("\x1b[36mbench-1  | \x1b[0m", text),
    "docker compose with times": lambda text: before("bench-1  | 2026-11-27T12:24:35.123456789Z ", text),
    "docker logs --timestamps": lambda text: before("2026-11-27T12:24:35.123456789Z ", text),
    "journalctl": lambda text: before("Nov 27 12:24:35 board bench[812]: ", text),
    "journalctl -o short-iso": lambda text: before("2026-11-27T12:24:35+0000 board bench[812]: ", text),
    "logcat": lambda text: before("11-27 12:24:35.123  1234  1240 I tflite  : ", text),
    "logcat -v brief": lambda text: before("I/tflite  ( 1234): ", text),
}  # fmt: skip


def before(prefix: str, text: str) -> bytes:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines()).encode()


def told(path: Path, content: str | bytes) -> tuple[list[str], str]:
    """All figures of a file, and the notes about it in one text."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    reading = read(path)
    return [repr(each) for each in reading.found], "\n".join(reading.notes)


def figures(path: Path, content: str | bytes) -> list[str]:
    return told(path, content)[0]


def inserted(text: str, line: str, places: Iterator[int] | list[int]) -> str:
    lines = text.splitlines()
    for place in sorted(places, reverse=True):
        lines.insert(min(place, len(lines)), line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ALL)
def test_every_tools_output_is_read_however_it_arrives(tmp_path: Path, name: str) -> None:
    path = tmp_path / "f"
    plain = figures(path, ALL[name])
    assert {way: figures(path, arrive(ALL[name])) for way, arrive in ARRIVED.items()} == dict.fromkeys(ARRIVED, plain)


@pytest.mark.parametrize("name", ALL)
def test_lines_of_other_programs_change_no_figure_and_are_counted(tmp_path: Path, name: str) -> None:
    path, text = tmp_path / "f", ALL[name]
    plain, last = figures(path, text), len(text.splitlines())
    places = (0, 1, last // 2, 2, last - 1, last, last // 3)
    for number, noise in enumerate(LIKE_FIGURES):
        for place in (0, places[number % len(places)]):
            found, notes = told(path, inserted(text, noise, [place]))
            assert found == plain, (noise, place)
            assert "not understood" in notes, (noise, place)


@pytest.mark.parametrize("name", mostly_thorough(ALL, "trtexec", "benchmark_model", next(iter(ALL))))
def test_any_unknown_line_anywhere_changes_no_figure(tmp_path: Path, name: str) -> None:
    path, text = tmp_path / "f", ALL[name]
    plain, last = figures(path, text), len(text.splitlines())

    @settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(NOISE, st.lists(st.integers(0, last), min_size=1, max_size=3), st.sampled_from((None, *ARRIVED)))
    def holds(noise: str, places: list[int], way: str | None) -> None:
        with_noise = inserted(text, noise, places)
        assert figures(path, ARRIVED[way](with_noise) if way else with_noise) == plain

    holds()


UNKNOWN: tuple[Any, ...] = ({"note": "x"}, 7, "text", None, [1, 2], {"name": "x"}, {})


def with_keys(document: Any, unknown: Any) -> Any:
    """A JSON document with an unknown key in each of its objects."""
    if isinstance(document, dict):
        return {key: with_keys(value, unknown) for key, value in document.items()} | {"x_unknown": unknown}
    return [with_keys(each, unknown) for each in document] if isinstance(document, list) else document


@pytest.mark.parametrize("name", [*DOCUMENTS, "docker stats", "llama-bench -o jsonl", "AIPerf"])
def test_unknown_keys_and_entries_change_no_figure(tmp_path: Path, name: str) -> None:
    path, text = tmp_path / "f", ALL[name]
    plain, is_lines = figures(path, text), name in TEXTS
    document = [json.loads(line) for line in text.splitlines()] if is_lines else json.loads(text)
    for seed, unknown in enumerate(UNKNOWN):
        changed = with_keys(document, unknown) if name != "trtexec --exportProfile" else [*document]
        if isinstance(changed, list):
            changed.insert(random.Random(seed).randrange(len(changed) + 1), unknown)
        content = "\n".join(map(json.dumps, changed)) if is_lines else json.dumps(changed)
        found, notes = told(path, content)
        assert found == plain, unknown
        assert not isinstance(changed, list) or "not understood" in notes, unknown
