"""The report of a board: its steps, its questions, and what may not be in it."""

import io
import json
import os
import signal
import stat
import tarfile
import time
from pathlib import Path

import click
import numpy as np
import pytest

from edgetop.cli.board import diagnosis, observer_effect, report_making, report_steps
from edgetop.cli.board.diagnosis import Diagnosis
from edgetop.cli.board.observer_effect import Turn
from edgetop.cli.board.report_making import figures
from edgetop.cli.running.child_run import Outcome
from edgetop.doctor import state_checks
from edgetop.doctor.check import ok, warning
from edgetop.errors import EXIT_INTERRUPTED, EdgetopError
from edgetop.sensors.capture.collect import Capture, pack
from edgetop.sensors.capture.unpack import unpack
from edgetop.sensors.root import UNREADABLE
from edgetop.session.manifest import Board
from tests.support.commands import edgetop, start_edgetop
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The shortest report, of a machine with a name and a user."""
    home = tmp_path_factory.mktemp("whole")
    names = {"TMPDIR": str(home), "USER": "anna", "HOSTNAME": "annas-board", "HOME": str(home / "anna")}
    done = edgetop("board-report", "--yes", "--duration", "1s", "-o", "b.tar.gz", home=home, timeout=180, **names)
    assert done.returncode == 0, done.stderr
    return done, home


@pytest.fixture(scope="module")
def document(whole):
    return json.loads(unpack((whole[1] / "b.tar.gz").read_bytes()).report)


def test_every_step_is_done(document):
    assert [(step["name"], step["done"]) for step in document["steps"]] == [
        ("doctor", True), ("sensors", True), ("capture", True), ("soak", True), ("observer", True),
    ]  # fmt: skip
    assert document["doctor"]["checks"]
    assert document["sensors"]["sensors"]
    assert set(document["soaks"]) == {"onnx", "tflite"}
    for soak in document["soaks"].values():
        assert soak["latency"]["count"] > 0
        assert {"idle_w", "mean_w", "total_sensor"} <= set(soak["power"])
    assert set(document["observer"]["ratios"]) == {"headless", "screen"}
    assert all(set(one) == {"bare", "headless", "screen"} for one in document["observer"]["rounds"])


def test_the_board_is_captured_idle_and_under_load(whole, document):
    found = unpack((whole[1] / "b.tar.gz").read_bytes())
    assert "proc/meminfo" in found.capture.files
    assert "proc/meminfo" in found.loaded.files
    assert found.loaded.notes
    assert not found.loaded.is_cut
    assert document["sensors_loaded"]["sensors"]


def test_the_file_is_private_and_its_contents_are_listed(whole):
    done, home = whole
    assert stat.S_IMODE((home / "b.tar.gz").stat().st_mode) == 0o600
    for words in (
        "In b.tar.gz",
        "report.json",
        "meminfo",
        "tree-loaded",
        "soak onnx: ",
        "over a bare loop, 1 round: p50 ",
    ):
        assert words in done.stdout
    assert "observer: what edgetop costs the model" in done.stderr
    assert done.stderr.startswith("This takes about 30s, on a slow board at most 20m30s.")


def test_nothing_in_the_file_identifies_the_machine_or_its_user(whole):
    _, home = whole
    with tarfile.open(home / "b.tar.gz") as archive:
        for member in archive:
            assert (member.uid, member.uname, member.mtime) == (0, "", 0)
            text = member.name + (archive.extractfile(member).read().decode() if member.isreg() else "")
            for private in ("anna", str(home), Path("/proc/sys/kernel/random/boot_id").read_text().strip()):
                assert private not in text, member.name


def test_nothing_is_left_behind(whole):
    """ONNX Runtime leaves files of its own in the temporary folder and in the cache of the user."""
    _, home = whole
    assert {path.name for path in home.iterdir()} <= {"b.tar.gz", "anna", ".ses"}
    assert not [path for path in home.rglob("*") if "edgetop" in str(path.relative_to(home))]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "asks first, but there is no terminal (add --yes)"),
        (["--yes", "-o", "report.zip"], 2, "its name must end in .tar.gz"),
        (["--yes", "-o", "there.tar.gz"], 2, "already exists"),
        (["--yes", "-o", "nowhere/b.tar.gz"], 4, "there is no folder nowhere"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(arguments, code, words, tmp_path):
    (tmp_path / "there.tar.gz").write_bytes(b"x")
    began = time.monotonic()
    done = edgetop("board-report", *arguments, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert words in done.stderr
    assert time.monotonic() - began < PATIENCE_S  # a report takes minutes
    assert (tmp_path / "there.tar.gz").read_bytes() == b"x"


@pytest.mark.thorough
def test_a_signal_ends_it_and_leaves_nothing(tmp_path):
    command = ("board-report", "--yes", "--duration", "5m")
    with start_edgetop(*command, home=tmp_path, TMPDIR=str(tmp_path)) as process:
        wait_until(lambda: list(tmp_path.glob("edgetop-board-report-*/soak-*.edgetop")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == EXIT_INTERRUPTED
    assert not list(tmp_path.glob("*edgetop-*"))
    assert not (tmp_path / "board-report.tar.gz").exists()


@pytest.fixture
def steps(monkeypatch):
    """Steps that take no time; `asked` has the questions, and `answers` what is answered."""
    asked = []
    answers = {}

    def confirm(question, *, default, err):
        assert err
        asked.append(question)
        return answers.get(next((word for word in answers if word in question), ""), default)

    monkeypatch.setattr(click, "confirm", confirm)
    for name in ("doctor", "sensors"):
        monkeypatch.setattr(report_steps, name, _named(name))
    monkeypatch.setattr(report_steps, "capture", lambda: Capture({"proc/stat": b""}, {}, ()))
    monkeypatch.setattr(report_steps.Soaks, "run", lambda self: self.reports.update(onnx={"latency": {}}))
    monkeypatch.setattr(report_steps, "observe", lambda *_, put, **__: put({"ratios": {}}))
    return asked, answers


def _named(name):
    def step():
        return {"of": name}

    step.__name__ = name
    return step


def done_of(report):
    return {step["name"]: step["done"] for step in report.steps}


def test_it_asks_before_what_loads_the_board_and_only_then(steps, tmp_path):
    asked, answers = steps
    answers["all cores"] = False
    report = report_making._measured(tmp_path, 60.0, yes=False)
    assert [question.split(" for ")[0] for question in asked] == [
        "Run the built-in model on all cores",
        "Run the built-in model on one core",
    ]
    assert done_of(report) == {"doctor": True, "sensors": True, "capture": True, "soak": False, "observer": True}
    assert report.document["soaks"] is None


def test_with_yes_nothing_is_asked(steps, tmp_path):
    report = report_making._measured(tmp_path, 60.0, yes=True)
    assert steps[0] == []
    assert all(done_of(report).values())


def test_a_step_that_fails_is_noted_and_the_others_run(steps, tmp_path, monkeypatch):
    def fail():
        raise EdgetopError("no such thing")

    monkeypatch.setattr(report_steps, "capture", fail)
    report = report_making._measured(tmp_path, 60.0, yes=True)
    (failed,) = [step for step in report.steps if not step["done"]]
    assert failed == {"name": "capture", "done": False, "why": "no such thing"}
    assert report.capture is None
    assert report.document["observer"] == {"ratios": {}}


REFUSED = Capture({"proc/stat": b"", UNREADABLE: b"EACCES sys/a\nEPERM sys/b\nEIO sys/c\n"}, {}, ())


def test_root_is_asked_for_only_where_it_would_help(steps, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(report_steps.shutil, "which", lambda name: f"/usr/bin/{name}")
    report_making._measured(tmp_path, 60.0, yes=False)
    assert not [question for question in steps[0] if "sudo" in question]
    monkeypatch.setattr(report_steps, "capture", lambda: REFUSED)
    report = report_making._measured(tmp_path, 60.0, yes=False)
    assert "Only root may read 2 files of the board. Read with sudo?" in steps[0]
    assert done_of(report)["root"] is False  # the default answer


def test_what_root_reads_takes_the_place_of_what_the_user_read(tmp_path):
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nwhile [ "$1" = -n ]; do shift; done\nexec "$@"\n')
    sudo.chmod(0o755)
    capture = report_steps.capture_as_root(str(sudo), tmp_path, may_ask=False)
    assert "proc/meminfo" in capture.files
    sudo.write_text("#!/bin/sh\necho sudo: a password is required >&2; exit 1\n")
    with pytest.raises(EdgetopError, match="sudo: sudo: a password is required"):
        report_steps.capture_as_root(str(sudo), tmp_path, may_ask=False)


def test_names_of_programs_and_sentences_are_not_in_the_figures():
    report = {
        "session": {
            "name": "secret",
            "board": {},
            "methodology": {"background": [{"name": "secret"}]},
            "command": ["secret"],
        },
        "verdict": {"now": "CONTENDED", "words": "CONTENDED secret 155 %"},
        "latency": {"p50_ms": 1.0},
        "slowdowns": [{"cause": "contention", "evidence": ["secret used 155 %"], "latency_ratio": 2.0}],
        "warnings": [{"code": "busy-board", "message": "secret 155 %", "advice": ""}],
        "tail": {"summary": "secret"},
        "streams": [{"name": "secret"}],
    }
    found = report_steps.figures_of(report)
    assert "secret" not in json.dumps(found)
    assert found["slowdowns"] == [{"cause": "contention", "latency_ratio": 2.0}]
    assert (found["verdict"], found["warnings"]) == ("CONTENDED", ["busy-board"])


def test_names_of_other_programs_are_not_among_the_checks(monkeypatch):
    busy = warning(state_checks.BACKGROUND, "173 % of a core: secret 150 %, other 20 %")
    monkeypatch.setattr(diagnosis, "diagnose", lambda _: Diagnosis(Board(), (busy, ok("swap", "none: 0 B"))))
    checks = report_steps.doctor()["checks"]
    assert [check["found"] for check in checks] == ["173 % of a core", "none: 0 B"]


def test_the_ratios_are_to_the_bare_loop_of_the_same_round():
    def turn(p50, p99, rate):
        return Turn(100, p50, p99, rate)

    rounds = [
        {"bare": turn(3.0, 3.0, 30.0)},  # the next turn failed
        {"bare": turn(1.0, 2.0, 100.0), "headless": turn(1.1, 2.0, 90.0), "screen": turn(1.2, 3.0, 80.0)},
        {"bare": turn(2.0, 4.0, 50.0), "headless": turn(2.0, 4.4, 50.0), "screen": turn(2.0, 4.0, 50.0)},
        {"bare": turn(4.0, 8.0, 25.0), "headless": turn(4.2, 8.0, 25.0), "screen": turn(6.0, 8.0, 20.0)},
    ]
    ratios = observer_effect.document("onnx", 1.0, rounds)["ratios"]
    assert ratios["headless"]["p50"] == pytest.approx({"median": 1.05, "min": 1.0, "max": 1.1})
    assert ratios["screen"]["p99"] == pytest.approx({"median": 1.0, "min": 1.0, "max": 1.5})
    assert ratios["headless"]["throughput"] == pytest.approx({"median": 1.0, "min": 0.9, "max": 1.0})


def test_turns_that_ended_are_kept_when_one_does_not(tmp_path, monkeypatch):
    def fail(turns, place):
        raise turns.unended("screen", turns.limit("screen"))

    whole = {name: lambda *_: np.full(100, 1_000_000) for name in observer_effect.CONDITIONS}
    monkeypatch.setattr(observer_effect, "_RUN", whole | {"screen": fail})
    kept = []
    limits = report_steps.Limits(120.0, time.monotonic() + 3600)
    with pytest.raises(EdgetopError) as failed:
        report_steps.observe("tflite", tmp_path, {}, 18.0, lambda _: None, limits=limits, start_s=None, put=kept.append)
    assert str(failed.value) == "tflite: a turn of edgetop with its screen, of 2 s, did not end within 122 s"
    (document,) = kept
    assert set(document["ratios"]) == {"headless"}
    assert [set(one) for one in document["rounds"]] == [{"bare", "headless"}]


@pytest.mark.parametrize(
    ("loads", "most", "told"),
    [((3.0, 4.0), 4.0, 0), ((250.0, 0.0), 250.0, 1), ((0.0, 30.0), 30.0, 0), ((None, None), None, 0)],
)
def test_ratios_beside_a_load_have_a_warning(loads, most, told, tmp_path, monkeypatch):
    """Other programs make any ratio of two turns. Their load is told before the first turn, and in the report."""
    readings, lines, kept = iter(loads), [], []
    monkeypatch.setattr(report_steps, "background_pct", lambda: next(readings))
    whole = {name: lambda *_: np.full(100, 1_000_000) for name in observer_effect.CONDITIONS}
    monkeypatch.setattr(observer_effect, "_RUN", whole)
    limits = report_steps.Limits(120.0, time.monotonic() + 3600)
    report_steps.observe("tflite", tmp_path, {}, 9.0, lines.append, limits=limits, start_s=None, put=kept.append)
    (document,) = kept
    assert document["background_load"] == most
    is_loud = most is not None and most >= 10.0
    assert (document["warning"] is not None) == is_loud
    assert sum("warning" in line for line in figures({"observer": document})) == is_loud
    assert [line.startswith("warning: other programs take") for line in lines[:1]] == [bool(told)]


def test_a_soak_that_does_not_end_is_stopped_and_its_figures_are_kept(tmp_path, monkeypatch):
    class Endless:
        """A run that measures until it is stopped."""

        progress = ""

        def __init__(self, *_, **__):
            self.is_stopped = False

        def stop(self):
            self.is_stopped = True

        def run(self, look, _):
            while not self.is_stopped:
                look()
            return Outcome(143, {"session": {"end_reason": "signal"}, "latency": {"count": 7},
                                 "verdict": {"now": "STEADY"}, "warnings": ()}, "")  # fmt: skip

    monkeypatch.setattr(report_steps, "ChildRun", Endless)
    limits = report_steps.Limits(-9.5, time.monotonic() + 3600)  # as if the run had taken too long already
    soaks = report_steps.Soaks(["onnx", "tflite"], tmp_path, {}, 20.0, limits)
    with pytest.raises(EdgetopError) as failed:
        soaks.run()
    told = "the run of 10 s did not end within 0 s: what it measured until then is kept"
    assert str(failed.value) == f"onnx: {told}; tflite: {told}"
    assert {name: one["latency"]["count"] for name, one in soaks.reports.items()} == {"onnx": 7, "tflite": 7}
    assert (soaks.loaded, soaks.start_s) == (None, None)  # nothing was seen to be measured


def test_a_capture_that_outlasts_the_run_says_so(tmp_path, monkeypatch):
    """The board is read once inferences are measured, and not while the model loads."""
    seen = []

    class Short:
        progress = ""

        def __init__(self, *_, **__):
            pass

        def run(self, look, _):
            for is_measuring in (False, False, True, True):
                monkeypatch.setattr(report_steps, "measures", lambda _, is_measuring=is_measuring: is_measuring)
                look()
                seen.append(soaks.loaded is not None)
            return Outcome(0, {"session": {"end_reason": "duration"}, "latency": {"count": 7},
                               "verdict": {"now": "STEADY"}, "warnings": ()}, "")  # fmt: skip

        def has_ended(self):
            return True

    monkeypatch.setattr(report_steps, "ChildRun", Short)
    monkeypatch.setattr(report_steps, "sensors", lambda: {"sensors": []})
    monkeypatch.setattr(report_steps, "capture", lambda deadline_s: Capture({"proc/stat": b""}, {}, (f"{deadline_s}",)))
    soaks = report_steps.Soaks(["onnx"], tmp_path, {}, 0.0, report_steps.Limits(120.0, time.monotonic() + 60, 75.0))
    soaks.run()
    assert seen == [False, False, True, True]
    assert soaks.loaded.notes[1] == report_steps.RUN_ENDED
    assert 0 < float(soaks.loaded.notes[0]) <= 60  # not the 75 s for which no time is left
    document = {"versions": [""], "steps": [], "soaks": soaks.reports}
    idle = Capture({"proc/stat": b"", "proc/cpuinfo": b""}, {}, ())
    monkeypatch.setattr(report_making, "figures", lambda _: ())
    told = list(report_making._contents(tmp_path, 1, idle, soaks.loaded, document))
    assert "tree-loaded: 1 of these 2 files, read while the model ran" in told
    assert f"- {report_steps.RUN_ENDED}" in told
    assert [line for line in report_making._contents(tmp_path, 1, idle, None, document) if "no tree-loaded: " in line]


def test_a_slow_board_gets_more_patience_but_not_beyond_the_end():
    now = time.monotonic()
    quick, slow, slowest = (report_steps.Limits.of(read_s, read_s / 2, now + 3600) for read_s in (2.0, 30.0, 900.0))
    assert (quick.patience_s, slow.patience_s, slowest.patience_s) == (120.0, 300.0, 600.0)
    assert (quick.capture_s, slow.capture_s, slowest.capture_s) == (60.0, 75.0, 300.0)
    assert slow.of_run("onnx", 60.0) == 360.0
    late = report_steps.Limits.of(30.0, 15.0, now + report_steps.STOP_S + 100)
    assert 60.0 < late.of_run("onnx", 60.0) <= 100.0
    with pytest.raises(EdgetopError, match="onnx needs 200 s, and the report may take only"):
        late.of_run("onnx", 200.0)


def test_a_board_on_which_programs_start_slowly_gets_fewer_turns():
    assert observer_effect.plan(126.0)[0] == 5
    assert observer_effect.plan(126.0, 20.0) == (2, 1.0)
    assert observer_effect.plan(126.0, 500.0) == (1, 1.0)


def test_a_turn_without_an_inference_is_no_zero():
    with pytest.raises(EdgetopError):
        Turn.of(np.empty(0, np.int64))
    turn = Turn.of(np.array([1_000_000, 3_000_000]))
    assert (turn.count, turn.p50_ms, turn.throughput_hz) == (2, 2.0, 500.0)


@pytest.mark.parametrize(("total_s", "rounds"), [(0.0, 1), (7.5, 1), (18.0, 2), (126.0, 5), (3600.0, 5)])
def test_the_turns_fit_into_their_time(total_s, rounds):
    found, seconds = observer_effect.plan(total_s)
    assert found == rounds
    assert seconds >= observer_effect.LEAST_TURN_S
    taken = found * len(observer_effect.CONDITIONS) * (seconds + observer_effect.START_S)
    assert taken <= max(total_s, 7.5) + 1e-9


def test_what_is_unknown_is_said_so():
    soak = {
        "latency": {"count": 3, "p50_ms": None, "p99_ms": None},
        "power": {"idle_w": None, "mean_w": 4.25},
        "throttled": None,
    }
    lines = list(figures({"soaks": {"onnx": soak}}))
    assert lines == ["soak onnx: 3 inferences, idle power unknown, loaded 4.25 W, throttling unknown"]


def test_one_round_has_no_spread():
    spread = {"median": 1.0, "min": 0.9, "max": 1.1}
    ratios, whole = {"headless": {"p50": spread}}, {"bare": {}, "headless": {}}
    told = [
        list(figures({"observer": {"ratios": ratios, "rounds": [{"bare": {}}, *[whole] * count]}})) for count in (1, 5)
    ]
    assert told == [
        ["edgetop headless over a bare loop, 1 round: p50 1.00"],
        ["edgetop headless over a bare loop, 5 rounds: p50 1.00 (0.90 to 1.10)"],
    ]


def test_a_report_without_a_capture_is_still_an_archive():
    packed = pack(Capture({}, {}, ("the board was not captured",)), None, {"report.json": b"{}"})
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["report.json", "notes.txt"]
