"""Advice names only what the kind of session has: an option of its command, or another command in full."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest

import edgetop
from edgetop.analysis import findings as of
from edgetop.analysis.findings import EVENT_CODES, Finding
from edgetop.analysis.notices import notices
from edgetop.analysis.recent_events import Lasting
from edgetop.cli.command_group import COMMANDS
from edgetop.cli.command_group import edgetop as command_group
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.manifest import SessionKind, Watched
from edgetop.session.seconds import NS
from edgetop.wording.notice_words import ADVICE, ADVICE_IN, notice
from tests.support.sessions import back_to_back, ended_event, folded, make_manifest, phase_event, seconds_of

KINDS: tuple[SessionKind, ...] = get_args(SessionKind)
PACKAGE = Path(edgetop.__file__).parent

# Codes that say something of operators: only `run`, `demo`, `ops` and an imported profile have their times.
OF_OPERATORS = {
    "fell-back", "crossings", "dominant-operator", "slow-kernel", "conversions-time", "dynamic-quantisation",
    "not-fused", "small-for-delegate", "thread-imbalance", "threads-moved",
}  # fmt: skip
# Codes that a kind of session cannot have.
NEVER: dict[SessionKind, set[str]] = {
    "run": {"coarse-times", "tool-summary", "no-starts", "no-inference", "calls-unseen", "streams-full"},
    "ab": {"one-input", "overloaded", "coarse-times", "tool-summary", "no-starts"},  # its turns run back to back
    # edgetop loads no model in it and plans no starts.
    "watch": {
        "one-input",
        "assumed-shape",
        "assumed-signature",
        "data-dependent",
        "overloaded",
        "partly-accelerated",
        "short-warmup",
    }
    | OF_OPERATORS,
    # Nothing of edgetop ran, so it has only the warnings of imports; operators without their threads.
    "import": (EVENT_CODES - {"coarse-times", "tool-summary", "no-starts"})
    | {"one-input", "overloaded", "monitor-cost", "thread-imbalance", "threads-moved"},
}


def options_of(name: str) -> set[str]:
    command = command_group.get_command(click.Context(command_group), name)
    assert command is not None
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def impossible(text: str, has: set[str]) -> list[str]:
    """Return the options in a text that are neither among these nor belong to the command before them."""
    found = []
    for clause in re.split(r"[;(]", text):
        for match in re.finditer(r"(?<![\w-])--[a-zA-Z][\w-]*", clause):
            before = clause[: match.start()]
            named = re.findall(rf"edgetop (?:{'|'.join(COMMANDS)})\b|\btrtexec\b", before)
            if named and named[-1] == "trtexec":
                continue
            known = options_of(named[-1].split()[1]) if named else has
            found += [] if match[0] in known else [match[0]]
    return found


def finding_of(code: str, kind: SessionKind) -> Finding | None:
    """Return a finding whose advice depends on the kind of session; None: it has the same in all."""
    if code in EVENT_CODES:
        return of.EventTold(Lasting(read_event(0, code, "warning", "engine", "it happened"), 0), kind)
    if code in ("short-sustained", "short-power"):
        return {"short-sustained": of.SustainedShort, "short-power": of.PowerShort}[code](NS, kind)
    if code == "short-warmup":
        return of.WarmupShort(1, was_imported=kind == "import")
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_every_advice_of_a_kind_of_session_can_be_followed(kind: SessionKind) -> None:
    has = options_of(kind)
    wrong = {}
    for code in {*ADVICE, "short-warmup"} - NEVER[kind]:
        finding = finding_of(code, kind)
        advice = ADVICE[code] if finding is None else notice(finding).advice
        if options := impossible(advice, has):
            wrong[code] = options
    assert not wrong


def test_no_advice_is_kept_for_what_cannot_be() -> None:
    assert not [(kind, code) for kind, code in ADVICE_IN if code in NEVER[kind] or code not in ADVICE]


def test_an_option_that_a_command_lacks_is_found() -> None:
    assert impossible("leave --warmup-runs at 50", options_of("watch")) == ["--warmup-runs"]
    assert impossible("leave --warmup-runs at 50", options_of("run")) == []
    assert impossible("measure it alone: edgetop run --warmup-runs 50", options_of("watch")) == []
    assert impossible("edgetop watch --warmup-runs 50", options_of("run")) == ["--warmup-runs"]


def sentences(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the file and the text of each string that is no documentation."""
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        tree = ast.parse(path.read_text())
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                yield path.name, node.value


@pytest.mark.parametrize("folder", ["analysis", "wording", "comparison"])
def test_what_is_said_of_any_session_names_the_command(folder: str) -> None:
    anywhere = options_of("run") & options_of("ab") & options_of("watch")
    of_comparisons = (
        options_of("compare") | options_of("fit") | options_of("sweep") if folder == "comparison" else set()
    )
    has = anywhere | of_comparisons
    own = {"ab_words.py": options_of("ab"), "notice_words.py": options_of("run") | options_of("import")}
    wrong = [(file, text, impossible(text, has | own.get(file, set()))) for file, text in sentences(folder)]
    assert [one for one in wrong if one[2]] == []


def test_a_watched_program_warms_up_as_it_likes() -> None:
    inferences = back_to_back(0, [1_000_000] * 7_000)
    end = ended_event(10 * NS, "duration", last_end_ns=10 * NS, warmup_runs=0)
    for manifest, codes in ((make_manifest(), ["short-warmup"]), (make_manifest(watched=Watched(("app",))), [])):
        start = Batch(manifest=manifest, events=(phase_event(0, "measure"),), restart=True)
        found = notices(folded([start, Batch(10 * NS, inferences, seconds_of(inferences), events=(end,))]))
        assert [finding.code for finding in found] == codes
