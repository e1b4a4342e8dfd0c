"""Writes gates (`--fail-if`) as a JUnit file, which CI systems read. Each gate is a test case.

There is no standard; this is what Jenkins, GitLab and GitHub actions all accept
(https://github.com/testmoapp/junitxml). Unlike a recording, the file has the permissions of the umask, because the
process of another user may collect it.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from edgetop.analysis.session_report import Report
from edgetop.errors import EdgetopError, InputError, OutputError
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.recording.export.export_formats import NamedOutput, is_device
from edgetop.wording.gate_words import gate_words

ELSEWHERE = "choose another path with --junit"
KINDS = ("failure", "error")


def refuse_unwritable(path: Path) -> None:
    """Raise InputError or OutputError if the file cannot be written.

    Call it before a run, so that the run is not lost.
    """
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        raise InputError(f"--junit {path}: cannot be written", "choose a file in an existing folder")
    if not is_device(path) and not os.access(folder, os.W_OK):
        raise OutputError(f"--junit {path}: cannot be written: no permission to write to {folder}", ELSEWHERE)


@frozen
class Case:
    name: str
    problem: tuple[str, str] | None = None  # "failure" or "error", and its message


def write(path: Path, report: Report, error: EdgetopError | None = None) -> None:
    """Write the gates (`--fail-if`) of a report to a JUnit file, each as a test case.

    `error` is the error that ended the session, or None. It becomes a further test case. Raises OutputError if the file
    cannot be written.
    """
    write_xml(path, to_xml(report, error))


def write_xml(path: Path, xml: str) -> None:
    """Write `xml` to the file. Raises OutputError if it cannot be written."""
    with NamedOutput(path, force=True, elsewhere=ELSEWHERE).stream(is_text=True) as file:
        file.write(xml.encode())


def to_xml(report: Report, error: EdgetopError | None = None) -> str:
    session = report.session
    cases = [Case(gate.gate.text, None if gate.ok else ("failure", gate_words(gate))) for gate in report.gates or ()]
    if error is not None:
        cases.append(Case("session", ("error", str(error))))
    return suite_xml(session.name, cases, (session.duration_ns or 0) / 1e9, session.created_utc)


def suite_xml(name: str, cases: Sequence[Case], seconds: float, created_utc: str) -> str:
    suite = _quoted(f"edgetop.{name}")
    failures, errors = (sum(case.problem is not None and case.problem[0] == kind for case in cases) for kind in KINDS)
    lines = []
    for case in cases:
        head = f"<testcase classname={suite} name={_quoted(case.name)}"
        kind, text = case.problem or ("", "")
        lines.append(f"{head}><{kind} message={_quoted(text)}/></testcase>" if kind else f"{head}/>")
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites {counts} time="{seconds:.3f}">',
            f'<testsuite name={suite} {counts} time="{seconds:.3f}" timestamp={_quoted(created_utc[:19])}>',
            *lines,
            "</testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _quoted(text: str) -> str:
    """Return a text as a quoted XML attribute.

    Control characters are made visible, because XML forbids most of them.
    """
    from xml.sax.saxutils import quoteattr  # noqa: PLC0415  brings an HTTP client along

    return quoteattr(clean(text).encode("utf-8", "backslashreplace").decode())
