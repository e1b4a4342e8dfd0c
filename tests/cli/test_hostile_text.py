"""Foreign text is only text: wherever it shows, no control, no direction mark and no markup of it does anything."""

import dataclasses
import io
import json
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_gates import Gate, GateResult
from edgetop.analysis.session_report import Report, report
from edgetop.cli.board.diagnosis import Diagnosis, lines
from edgetop.cli.board.sensor_table import table as sensor_table
from edgetop.cli.board.sensor_table import value_lines
from edgetop.cli.output import print_text
from edgetop.cli.printing import junit
from edgetop.cli.printing.report_text import summary
from edgetop.cli.running.early_end import print_failed_gates
from edgetop.cli.running.headless import follow, plain_line
from edgetop.cli.running.operator_output import operator_tables
from edgetop.cli.sessions.session_list import Listed
from edgetop.cli.sessions.session_list import table as session_table
from edgetop.cli.terminal import how_to_come_back
from edgetop.doctor.check import Check
from edgetop.recording.export.export_formats import StreamOutput
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, sensor
from edgetop.sensors.survey import Survey
from edgetop.session.batch import Batch
from edgetop.session.manifest import Board
from edgetop.session.seconds import NS
from edgetop.wording.clue_words import clue_words
from tests.cli.test_operator_output import made
from tests.support.commands import edgetop, environment
from tests.support.exports import export
from tests.support.recordings import record
from tests.support.screens import opened, view_of
from tests.support.scripts import ListFeed, hostile, throttled_by
from tests.support.terminal import Terminal
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow

WAYS = (
    "[red]x[/red]",
    "\x1b]0;owned\x07\x1b[2J\x1b[31m",
    "\x9b31m\x9d0;owned\x9c",
    "\u202etxt\u2066\u200f",
    "中文\u0301\u0301 a\u0300",
    "one\ntwo\r\x0b\x0c\x85\u2028three\t",
    "x" * 10_000,
)


def shortly(text: str) -> str:
    return ascii(text)[:30]


def acts(text: str, but: str = "\n") -> list[str]:
    """Characters that do something: controls (C0 and C1), directions and other formats, lines and paragraphs."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return [repr(c) for c in text if unicodedata.category(c) in kinds and c not in but]


def everywhere(value: Any, text: str) -> Any:
    """A report with `text` behind every string of it that comes from elsewhere."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **everywhere(fields, text))
    if isinstance(value, Mapping):
        return {key: everywhere(each, text) if key not in OWN_WORDS else each for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(everywhere(each, text) for each in value)
    return f"{value}{text}" if isinstance(value, str) else value


# Of the report: what a reader looks up, and does not print as it is.
OWN_WORDS = frozenset(
    {"state", "end_reason", "mode", "code", "isolation", "id", "cause", "phase", "format", "bound", "kind", "also"}
)


class Rails:
    name, cadence_s = "rails", 2.0

    def __init__(self, text: str) -> None:
        about = {"role": "total", "note": text, "accuracy": text}
        self.sensors = (sensor("power", text, text, **about), sensor("temp", f"{text}2", text))
        self._reason = text

    def read(self) -> list[float | Gap]:
        return [9.3, Gap(self._reason)]


def board(text: str) -> Board:
    return Board(model=text, cpu=text, os=text, kernel=text, governor=text, power_mode=text)


def survey(text: str) -> Survey:
    read = Survey(board(text), Found((Rails(text),), (Missing(text, text, text),)))
    read.read_due()
    return read


def listed(text: str) -> Listed:
    return Listed(text, text, text, "finished", 1.0, 1, text, text, text, text)


def profile(text: str, folder: Path) -> str:
    return operator_tables(text, made(folder / "m.onnx", reason=text, way=text))


@cache
def slowed(text: str) -> Batch:
    return throttled_by(text).end().whole()


@cache
def folded(text: str) -> Report:
    analysis = Analysis()
    analysis.fold(slowed(text))
    return report(analysis)


@cache
def reported(text: str) -> Report:
    return everywhere(folded(text), text)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The recording of a session of a text, which is made once: tests only read it."""

    @cache
    def made(text: str) -> Path:
        return record(tmp_path_factory.mktemp("recorded") / "s.edgetop", hostile(text).end().batches)

    return made


def gated(text: str) -> Report:
    return replace(folded("[x]"), gates=(GateResult(Gate(text, "p99"), None, ok=False),))


def check(text: str) -> Diagnosis:
    return Diagnosis(board(text), (Check("governor", "problem", text, text, text),), ())


SAID: dict[str, Callable[[str, Path], object]] = {
    "summary": lambda text, _: print_text(summary(reported(text))),
    "sessions": lambda text, _: print_text("\n".join(session_table([listed(text)], None))),
    "sessions of a terminal": lambda text, _: print_text("\n".join(session_table([listed(text)], 80))),
    "sensors": lambda text, _: print_text("\n".join(sensor_table(survey(text), 80))),
    "doctor": lambda text, _: print_text("\n".join(lines(check(text)))),
    "operators": lambda text, folder: print_text(profile(text, folder)),
    "the way back": lambda text, _: print_text(how_to_come_back(Path(f"/tmp/{text}.edgetop"))),
    "gates": lambda text, _: print_failed_gates(gated(text)),
    "live lines": lambda text, _: print_text(plain_line(view_of(throttled_by(text)))),
    "attached, live": lambda text, _: followed(text, live_ns=NS),
    "attached": lambda text, _: followed(text, live_ns=None),
}


def test_a_slowdown_names_its_hostile_witnesses() -> None:
    (slowdown,) = reported("[x]").slowdowns or ()
    assert "cooling device [x]" in " ".join(map(clue_words, slowdown.evidence))


def followed(text: str, live_ns: int | None) -> None:
    feed = ListFeed([slowed(text)], ends=True)
    feed.trouble = text
    follow(feed, Analysis(), live_ns=live_ns, notifies=True)


@pytest.mark.parametrize("text", WAYS, ids=shortly)
@pytest.mark.parametrize("place", SAID)
def test_what_is_said_in_lines_does_nothing(
    place: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SAID[place](text, tmp_path)
    out, err = capsys.readouterr()
    assert out + err
    assert acts(out + err) == []


@pytest.mark.parametrize("text", WAYS, ids=shortly)
def test_lines_for_machines_keep_their_columns(text: str) -> None:
    rows = value_lines(survey(text), 1.0)
    assert [acts(row, but="\t") for row in rows] == [[], []]
    assert [row.count("\t") for row in rows] == [row.count("\t") for row in value_lines(survey("x"), 1.0)]


@pytest.mark.parametrize("text", WAYS, ids=shortly)
def test_gates_as_xml_can_be_read_and_do_nothing(text: str) -> None:
    hostile_report = gated(text)
    session = replace(hostile_report.session, name=text, created_utc=text)
    xml = junit.to_xml(replace(hostile_report, session=session))
    assert acts(xml) == []
    assert ET.fromstring(xml).find(".//failure") is not None


class Tty(io.BytesIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("text", WAYS, ids=shortly)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_export_to_a_terminal_does_nothing(form: str, text: str, recorded: Callable[[str], Path]) -> None:
    from edgetop.recording.export.export_formats import Selection, load
    from edgetop.recording.reader import Recording
    from edgetop.recording.rows import Span

    shown = Tty()
    load(form)(Selection(Recording(recorded(text)), Span(), ("events",)), StreamOutput(shown))
    told = shown.getvalue().decode()
    assert told.count("\n") > 10
    assert acts(told) == []


@pytest.mark.parametrize("text", WAYS, ids=shortly)
def test_the_wide_table_and_the_trace_take_any_name(text: str, recorded: Callable[[str], Path], tmp_path: Path) -> None:
    for form in ("parquet", "perfetto"):
        assert export(recorded(text), form, tmp_path / form) == []


SCREENS: tuple[tuple[str, ...], ...] = (
    *(((str(i),)) for i in range(1, 9)),
    ("r",),
    ("e",),
    ("m",),
    ("q",),
    ("ctrl+p",),
    ("question_mark",),
    ("slash",),
)


@pytest.mark.parametrize(
    "text",
    mostly_thorough(WAYS, WAYS[1]),
    ids=shortly,
)
async def test_nothing_on_the_screen_does_anything(text: str, tmp_path: Path) -> None:
    name = text.replace("/", "").replace("\0", "")[:60] or "x"
    async with opened(hostile(text), (120, 40), notifications=True, recording=tmp_path / f"{name}.edgetop") as screen:
        for keys in SCREENS:
            await screen.press(*keys)
            assert acts("".join(screen.rows), but="") == [], keys
            await screen.press("escape")
        assert acts(screen.app.export_screenshot()) == []
        screen.feed.put(slowed(text))
        await screen.tick()
        assert acts("".join(screen.rows), but="") == []
        assert not screen.app._exit


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_export_escapes_for_a_terminal_and_is_raw_for_a_pipe(form: str, tmp_path: Path) -> None:
    folder = record(tmp_path / "s.edgetop", [throttled_by(WAYS[1]).end().whole()])
    argv = ["export", str(folder), "--to", form, "--table", "events", "-o", "-"]
    terminal = Terminal(argv, 200, 50, environment(tmp_path), template="commands")
    try:
        assert terminal.wait_for_exit() == 0
        shown = terminal.output.decode()
    finally:
        terminal.close()
    assert "owned" in shown
    assert acts(shown, "\r\n") == []
    data = edgetop(*argv, home=tmp_path).stdout
    assert (WAYS[1] if form == "csv" else json.dumps(WAYS[1])[1:-1]) in data
