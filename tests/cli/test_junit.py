"""The JUnit file: a test case for each gate, whatever stands in them."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.analysis.session_gates import Gate, GateResult
from edgetop.analysis.session_report import Report, report
from edgetop.cli.printing.junit import refuse_unwritable, to_xml, write
from edgetop.cli.sessions.report import command
from edgetop.errors import EngineDiedError, InputError
from edgetop.session.batch import Batch
from tests.support.recordings import back_to_back, record, session
from tests.support.sessions import folded, make_manifest

HOSTILE = 'p99>1ms & "<b>" \x1b[31m \x00 \udc80'


def judged(*gates: tuple[str, bool]) -> Report:
    session = make_manifest(name=HOSTILE, duration_ns=12_500_000_000, created_utc="2026-11-21T10:15:02.123456Z")
    results = tuple(GateResult(Gate(expr, "p99"), 2.0, ok) for expr, ok in gates)
    return replace(report(folded([Batch(manifest=session, restart=True)])), gates=results)


def test_each_gate_is_a_test_case_and_one_that_failed_says_why() -> None:
    suite = ET.fromstring(to_xml(judged(("p99>33ms", True), (HOSTILE, False))))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    passed, failed = suite
    assert (passed.get("name"), list(passed)) == ("p99>33ms", [])
    assert failed[0].tag == "failure"
    assert 'p99>1ms & "<b>"' in failed[0].get("message", "")
    assert suite.get("time") == "12.500"


def test_an_engine_that_died_is_an_error_beside_the_gates() -> None:
    suite = ET.fromstring(to_xml(judged(("p99>33ms", True)), EngineDiedError("killed <now>")))[0]
    assert (suite.get("tests"), suite.get("errors")) == ("2", "1")
    assert suite[1][0].get("message") == "killed <now>"


def test_the_file_is_whole_or_not_there(tmp_path: Path) -> None:
    write(tmp_path / "gates.xml", judged(("throttled", True)))
    assert [path.name for path in tmp_path.iterdir()] == ["gates.xml"]
    ET.fromstring((tmp_path / "gates.xml").read_text())


def test_a_file_that_cannot_be_made_is_refused_before_the_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent" / "gates.xml"):
        with pytest.raises(InputError, match="--junit"):
            refuse_unwritable(path)


def test_a_report_without_gates_makes_no_file_that_would_pass(tmp_path: Path) -> None:
    folder = record(tmp_path / "s.edgetop", list(session(back_to_back(50, 20e6))))
    with pytest.raises(InputError, match="--junit needs a gate"):
        command.main([str(folder), "--junit", str(tmp_path / "gates.xml")], standalone_mode=False)
    assert not (tmp_path / "gates.xml").exists()
