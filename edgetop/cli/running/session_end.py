"""The end of a session: its exit code, its gates, and the result that is printed."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edgetop.cli import output
from edgetop.cli.output import print_json, print_text, text_columns
from edgetop.cli.running.live_session import LiveSession
from edgetop.cli.running.run_request import RunRequest
from edgetop.cli.shell_words import session_word
from edgetop.errors import (
    EXIT_DONE,
    EXIT_GATE_FAILED,
    EXIT_INTERRUPTED,
    EdgetopError,
    InputError,
    OutputError,
    ReaderLeftError,
)
from edgetop.frozen import frozen
from edgetop.recording.registry import write_outcome
from edgetop.recording.session_folder import FolderHandle

if TYPE_CHECKING:
    from edgetop.analysis.session_report import Report


@frozen
class End:
    error: EdgetopError | None
    interrupted: bool  # whether SIGINT ended the session
    gates_failed: bool = False
    folder: Path | None = None  # folder of the recording, if there is one

    def exit_code(self) -> int:
        """Return the exit code of the command: 0, or another code if the session was interrupted or a gate failed.

        Raises the error that ended the session, if there was one.
        """
        if self.error:
            raise self.error
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_GATE_FAILED if self.gates_failed else EXIT_DONE


def end_of(session: LiveSession, request: RunRequest) -> End:
    """Write and print the results of a session that is over. Return how it ended."""
    from edgetop.analysis.session_report import report  # noqa: PLC0415  what only the end needs does not delay the beginning
    from edgetop.cli.printing import junit  # noqa: PLC0415
    from edgetop.cli.running.early_end import print_failed_gates  # noqa: PLC0415
    from edgetop.cli.session_outcome import outcome_of  # noqa: PLC0415

    outcome = session.outcome()
    if isinstance(outcome.error, InputError):
        return End(outcome.error, session.interrupted)
    result = report(session.analysis)
    if session.folder and not session.analysis.faults.found:  # else a later edgetop may complete the results
        write_outcome(session.folder.path, outcome_of(session.analysis))
    unwritten: list[OutputError] = []
    with _note_failure(unwritten):
        _print_result(result, session.folder, request)
    showing, judging = request.showing, request.judging
    if showing.page:
        from edgetop.cli.printing.output_agreement_words import outputs_lines  # noqa: PLC0415
        from edgetop.cli.printing.report_page import write_report  # noqa: PLC0415  loads Bokeh

        outputs_folder = session.folder.path if session.folder else None
        with _note_failure(unwritten):
            write_report(showing.page, session.analysis, result, list(outputs_lines(outputs_folder, judging.judge)))
    if showing.junit:
        with _note_failure(unwritten):
            junit.write(showing.junit, result, outcome.error)
    of_outputs = [gate for gate in judging.ratio_gates if gate.is_of_outputs]
    of_turns = [gate for gate in judging.ratio_gates if not gate.is_of_outputs]
    also: list[str] = []
    if of_outputs:
        from edgetop.cli.printing.output_agreement_words import failed_gates  # noqa: PLC0415

        also = failed_gates(of_outputs, session.folder.path if session.folder else None, judging.judge)
    failed = print_failed_gates(result, of_turns, also)
    folder = session.folder.name if session.folder else None
    return End(next(filter(None, [outcome.error, *unwritten]), None), session.interrupted, failed, folder)


@contextlib.contextmanager
def _note_failure(unwritten: list[OutputError]) -> Iterator[None]:
    """Context manager: if the block cannot write an output, append the error to `unwritten` instead of raising it.

    If the output is a pipe whose reader has left, nothing is appended.
    """
    try:
        with contextlib.suppress(ReaderLeftError):
            yield
    except OutputError as error:
        unwritten.append(error)


def _print_result(result: "Report", folder: FolderHandle | None, request: RunRequest) -> None:
    outputs_folder = folder.path if folder and request.keeping.keep_outputs else None
    judge, showing = request.judging.judge, request.showing
    if outputs_folder:
        from edgetop.cli.printing.output_agreement_words import outputs_lines, with_outputs  # noqa: PLC0415
    if showing.as_json:
        from edgetop.wording.report_document import to_json  # noqa: PLC0415

        document = to_json(result)
        print_json(with_outputs(document, outputs_folder, judge) if outputs_folder else document)
        return
    from edgetop.cli.printing.report_text import brief_summary, summary, wrapped  # noqa: PLC0415
    from edgetop.cli.printing.short_result import is_short, short_result  # noqa: PLC0415

    columns = text_columns()
    text = summary(result, columns)  # the log is the only place where it is printed
    if folder:
        where = f"recorded in {folder.name}" + (f", but {folder.why_gone}" if folder.why_gone else "")
        brief = short_result(result, columns) if is_short(result) else brief_summary(result, columns)
        outputs = wrapped(outputs_lines(outputs_folder, judge), columns) if outputs_folder else ()
        more = f"edgetop report {session_word(folder.name)}"
        after = (*_fitting(where, str(folder.name)), *_fitting(f"more: {more}", more))
        text = "\n".join((brief, *outputs, *after))
    print_text(text, ascii_only=bool(showing.screen.ascii_only))


def _fitting(line: str, whole: str) -> list[str]:
    """Return a line that a script may read, and broken into lines that fit only if standard output is a terminal.

    `whole` is the path or the command in it, which is never broken, so that it can be copied.
    """
    return output.wrapped(line, whole) if sys.stdout.isatty() else [line]
