"""Gates as a JUnit file, the form of test results that CI systems read: a test case for each gate.

There is no standard; this is the common part of what Jenkins, GitLab and GitHub's actions take
(https://github.com/testmoapp/junitxml). The file has the permissions that the umask gives, unlike
a recording: it is made to be collected by another user's process.
"""

import os
from pathlib import Path

from edgetop.analysis.report import Report
from edgetop.errors import EdgetopError, InputError, OutputError
from edgetop.formatting import clean
from edgetop.recording.export.output import NamedOutput, is_device

ELSEWHERE = "name another place with --junit"


def refuse_unwritable(path: Path) -> None:
    """Raises InputError, or OutputError, where the file cannot be made: better before a run than after it."""
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        raise InputError(f"--junit {path}: cannot be written", "give a file in a folder that is there")
    if not is_device(path) and not os.access(folder, os.W_OK):
        raise OutputError(f"--junit {path}: cannot be written: {folder} is not yours to write to", ELSEWHERE)


def write(path: Path, report: Report, error: EdgetopError | None = None) -> None:
    """`error`: what the session ended with, told as a test case of its own. Raises OutputError."""
    with NamedOutput(path, force=True, elsewhere=ELSEWHERE).stream(is_text=True) as file:
        file.write(to_xml(report, error).encode())


def to_xml(report: Report, error: EdgetopError | None = None) -> str:
    session, gates = report.session, report.gates or ()
    name = _quoted(f"edgetop.{session.name}")
    seconds = (session.duration_ns or 0) / 1e9
    failures = sum(not gate.ok for gate in gates)
    cases = [_case(name, gate.gate.text, None if gate.ok else ("failure", gate.reason)) for gate in gates]
    if error is not None:
        cases.append(_case(name, "session", ("error", str(error))))
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{int(error is not None)}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites {counts} time="{seconds:.3f}">',
            f'<testsuite name={name} {counts} time="{seconds:.3f}" timestamp={_quoted(session.created_utc[:19])}>',
            *cases,
            "</testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _case(suite: str, name: str, problem: tuple[str, str] | None) -> str:
    head = f"<testcase classname={suite} name={_quoted(name)}"
    if problem is None:
        return f"{head}/>"
    kind, text = problem
    return f"{head}><{kind} message={_quoted(text)}/></testcase>"


def _quoted(text: str) -> str:
    """As an attribute. Controls are shown as escapes: most of them must not stand in XML at all."""
    from xml.sax.saxutils import quoteattr  # noqa: PLC0415  brings an HTTP client along

    return quoteattr(clean(text).encode("utf-8", "backslashreplace").decode())
