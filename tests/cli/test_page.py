"""Pages of `--html`: whole in one file, and text in them is only text."""

import importlib.util
import re
from pathlib import Path

import pytest

from edgetop.analysis.session_report import report
from edgetop.cli.printing.comparison_page import write_comparison
from edgetop.cli.printing.page import refuse_html
from edgetop.cli.printing.report_page import write_report
from edgetop.comparison.ratios import compare
from edgetop.errors import InputError
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.session.manifest import Model
from tests.analysis.test_ab import analysed
from tests.support.compared import group, session

pytestmark = pytest.mark.slow

HOSTILE = "</script><script>alert(1)</script>\x1b[31m"
MOST_BYTES = 3_000_000


def is_alone(page: str) -> bool:
    """No script, style or picture is elsewhere."""
    return not re.search(r"<(script|link|img|iframe)[^>]*\s(src|href)=", page)


def test_a_report_is_one_file_with_its_charts(tmp_path: Path) -> None:
    analysis = session(1, name=HOSTILE, model=Model(HOSTILE))
    write_report(NamedOutput(tmp_path / "page.html"), analysis, report(analysis))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert is_alone(page)
    assert len(page) < MOST_BYTES
    assert "<script>alert" not in page
    assert "\x1b" not in page
    for what in ("latency; throttled spans are shaded", "temperature, with its throttling trips", "marks and events"):
        assert what in page


def test_a_long_block_of_a_report_is_folded_and_not_printed(tmp_path: Path) -> None:
    analysis = session(1)
    long = "\n".join(["", "sensors   first line <b>", *(f"line {n}" for n in range(40))])
    write_report(NamedOutput(tmp_path / "page.html"), analysis, report(analysis), [long, "\nshort     as it is"])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<details><summary>sensors   first line &lt;b&gt; &hellip; 40 more lines</summary><pre" in page
    assert re.search(r'<pre class="scroll">short     as it is', page)
    assert "details:not([open]) { display: none; }" in page
    assert page.index('class="charts"') < page.index("<details>")
    assert page.index("<pre") < page.index('class="charts"')


def test_an_ab_session_has_its_own_charts_first(tmp_path: Path) -> None:
    analysis = analysed()
    write_report(NamedOutput(tmp_path / "page.html"), analysis, report(analysis), ["outputs    " + HOSTILE])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert is_alone(page)
    assert "<script>alert" not in page
    places = [page.index(what) for what in ("latency, ms: %", "ratio, 95 %", "p50 of B to A, 95 %")]
    assert places == sorted(places)
    assert page.index("marks and events") > places[-1]
    assert "outputs    &lt;/script&gt;" in page


def test_a_comparison_is_one_file_with_histograms_and_ratios(tmp_path: Path) -> None:
    found = compare([group("a", range(2)), group(HOSTILE, range(2, 4), times=1.5)])
    write_comparison(NamedOutput(tmp_path / "page.html"), found, ())
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert is_alone(page)
    assert len(page) < MOST_BYTES
    assert "<script>alert" not in page
    assert '<td class="slower">slower</td>' in page
    assert "latency, ms: % of inferences" in page
    assert "ratio, 95 %" in page


def test_no_bokeh_or_an_existing_file_is_refused_before_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "page.html"
    there.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        refuse_html(there, force=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install .*bokeh"):
        refuse_html(there, force=True)
