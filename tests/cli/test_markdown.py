"""Markdown of reports: what GitHub's rules make of it, whatever the names hold."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_report import report
from edgetop.cli.printing.comparison_markdown import comparison_markdown
from edgetop.cli.printing.markdown import MOST_CODE, block, code, escaped, folded, markdown_table
from edgetop.cli.printing.report_markdown import report_markdown
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import Group
from edgetop.formatting import clean
from edgetop.recording.reader import Recording
from tests.support.commands import edgetop
from tests.support.compared import made

V1 = Path(__file__).parents[1] / "recordings/v1"
HOSTILE = [
    "a|b", "a\\|b", "`", "``x`", "a`|`b", "<script>alert(1)</script>", "[x](http://evil)", "*b* _i_ ~s~", "@user",
    "#12", "www.evil.com", "http://evil.com", "# head", "- list", "1. one", "&amp;", "a\nb", "\x1b[31m", "| x | y |",
    "GH-12", "2026-11-28", "1) one", "3.5 ms", "\\", "$x$", "+ p", "=",
]  # fmt: skip


def parsed(text: str) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse(text)


def cells(text: str) -> list[list[Token]]:
    """Return the cells of all tables, by row."""
    tokens, rows = parsed(text), []
    for place, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        if token.type in ("td_open", "th_open"):
            rows[-1].append(tokens[place + 1])
    return rows


def inner(token: Token) -> Sequence[Token]:
    return token.children or ()


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=3))
def test_a_name_in_a_cell_is_one_code_span_and_moves_no_other_cell(names: list[str]) -> None:
    text = "\n".join(markdown_table(["n", "m"], [[code(name), "2"] for name in names], ["m"]))
    rows = cells(text)
    assert [len(row) for row in rows] == [2] * (1 + len(names))
    for name, row in zip(names, rows[1:], strict=True):
        shown = clean(" ".join(name.split()))
        assert [token.type for token in inner(row[0])] == (["code_inline"] if shown else ["text"])
        assert row[1].content == "2"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_they_are(name: str) -> None:
    (_, row) = cells("\n".join(markdown_table(["n"], [[code(name)]])))
    (span,) = inner(row[0])
    assert span.type == "code_inline"
    assert re.sub(r"\\+\|", "|", span.content) == re.sub(r"\\+\|", "|", clean(" ".join(name.split())))
    heading = parsed(f"### report {code(name)}")
    assert [token.type for token in inner(heading[1])] == ["text", "code_inline"]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_acts_in_a_sentence(text: str) -> None:
    tokens = parsed(escaped(text))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert {token.type for token in inner(tokens[1])} <= {"text", "text_special"}
    shown = "".join(token.content for token in inner(tokens[1]))
    assert shown.replace("\u200b", "") == clean(" ".join(text.split()))
    assert not re.search(r"[@#]\w|://|www\.", escaped(text))  # GitHub looks for these behind the parser


def test_a_long_name_keeps_both_ends() -> None:
    assert len(code("a" * 5000 + "b")) == MOST_CODE + 5
    assert code("a" * 5000 + "b").endswith("ab`")


def test_folded_text_cannot_close_its_fence() -> None:
    tokens = parsed("\n".join(folded("all", block("a\n```\n</details>\n````\nb"))))
    (fence,) = [token for token in tokens if token.type == "fence"]
    assert fence.content == "a\n```\n</details>\n````\nb\n"


@pytest.mark.parametrize("name", ["finished", "killed"])
def test_a_report_has_its_verdict_first_and_tables(name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(V1 / f"{name}.edgetop", tmp_path / f"{name}.edgetop")  # reading the killed one recovers it
    result = report(Analysis.of(Recording(folder).play()))
    text = "\n".join(report_markdown(result))
    assert text.splitlines()[0] == f"### edgetop report `{result.session.name}`"
    assert text.splitlines()[2].startswith("**")
    rows = {row[0].content: row for row in cells(text)}
    heads = [cell.content for cell in rows["latency"]]
    assert float(rows["ms"][heads.index("p50")].content.rstrip("?")) == pytest.approx(result.latency.p50_ms, rel=5e-3)
    assert {"model", "engine", "board"} <= set(rows)


def test_a_comparison_has_a_row_for_each_figure() -> None:
    groups = [Group(name, tuple(made(n, times=times) for n in range(at, at + 5))) for name, times, at in
              (("a|b", 1.0, 0), ("slow", 1.2, 20))]  # fmt: skip
    text = "\n".join(comparison_markdown(compare(groups)))
    assert re.search(r"\nslow is slower than a\\\|b: p50 \+\d+\.\d % ", text)
    whole = text.index("<details><summary>All figures</summary>")
    for part in (text[:whole], text[whole:]):
        (p50,) = [row for row in cells(part) if row[0].content == "p50 ms"]
        assert [cell.content for cell in p50][5] == "slower"
    assert not [row for row in cells(text[:whole]) if {cell.content for cell in row[1:]} == {"-", ""}]
    assert len({len(row) for row in cells(text) if row[0].content in ("p50 ms", "p99 ms", "throughput 1/s")}) == 1


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("finished", "killed"):
        shutil.copytree(V1 / f"{name}.edgetop", tmp_path / f"{name}.edgetop")
    return tmp_path


@pytest.mark.slow
def test_reports_and_comparisons_are_written_and_printed(home: Path) -> None:
    printed = edgetop("report", "finished", "--md", "-", home=home)
    assert (printed.returncode, printed.stderr) == (0, "")
    assert printed.stdout.startswith("### edgetop report `")
    written = edgetop("report", "finished", "--md", "r.md", home=home)
    assert written.returncode == 0
    assert (home / "r.md").read_text() == printed.stdout
    assert written.stdout == f"{home / 'r.md'}\n"
    again = edgetop("report", "finished", "--md", "r.md", home=home)
    assert (again.returncode, "r.md: exists already" in again.stderr) == (2, True)
    assert edgetop("report", "finished", "--md", "r.md", "--force", home=home).returncode == 0
    compared = edgetop("compare", "finished", "killed", "--md", "-", home=home)
    assert compared.stdout.startswith("### edgetop compare `test`, `test (2)`\n\nIt is not known whether test (2)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "finished", "--json", "--md", "-"), "--json and --md - both need standard output"),
        (("compare", "finished", "killed", "--csv", "-", "--md", "-"), "--csv - and --md - both need standard output"),
        (("report", "finished", "--csv", "x", "--md", "x"), "--csv and --md name the same file: x"),
        (("report", "finished", "--md", "gone/x.md"), "--md gone/x.md: gone is not a folder"),
    ],
)
def test_outputs_that_do_not_go_together_are_refused(arguments: tuple[str, ...], words: str, home: Path) -> None:
    done = edgetop(*arguments, home=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
