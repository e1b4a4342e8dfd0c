"""The self-test: each part that works, that fails, and that is not there."""

import json
import os
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from edgetop.cli.board import installation_checks, lacking, screen_check
from edgetop.cli.board.check_lines import check_lines
from edgetop.cli.board.installation_checks import SelfTest, check_engine, check_recordings, check_terminal
from edgetop.cli.board.lacking import PURPOSES, Lack
from edgetop.cli.running.child_run import Outcome
from edgetop.doctor.check import ok, warning
from edgetop.recording.session_folder import session_folder
from edgetop.sensors.root import Root
from tests.cli.test_first_contact import WITHOUT_RUNTIMES
from tests.support.commands import edgetop, environment
from tests.support.waiting import PATIENCE_S, scaled

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PARTS = ["settings", "engine-onnx", "engine-tflite", "recording", "report", "screen", "terminal"]


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("edgetop-self-test-*")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A self-test of this environment, which has both runtimes; the folder that it ran in."""
    home = tmp_path_factory.mktemp("whole")
    return edgetop("self-test", "--json", home=home, TMPDIR=str(home), timeout=120), home


def test_every_part_of_this_installation_works(whole):
    done, _ = whole
    found = json.loads(done.stdout)
    assert (done.returncode, found["status"]) == (0, "ok"), done.stdout
    assert [check["name"] for check in found["checks"]] == PARTS
    assert {"edgetop_version", "checks", "lacks", "seconds", "status"} == set(found)


def test_nothing_is_left_and_nothing_of_the_user_is_touched(whole):
    _, home = whole
    assert left(home) == []
    assert not (home / "state").exists()


def test_without_a_runtime_it_fails_and_says_what_to_install(tmp_path):
    program = WITHOUT_RUNTIMES.replace("main()", 'main(["self-test"])')
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(tmp_path, TMPDIR=str(tmp_path)),
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.search(r"problem +engine +no inference runtime is installed\n +fix: .*onnxruntime", done.stdout)
    assert left(tmp_path) == []


@pytest.mark.thorough
def test_what_is_not_done_in_time_is_a_problem_and_nothing_of_it_stays(tmp_path):
    done = edgetop("self-test", "--json", "--timeout", "1ms", home=tmp_path, TMPDIR=str(tmp_path), timeout=120)
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, found["engine-onnx"]["status"]) == (1, "problem")
    assert "--timeout" in found["engine-onnx"]["advice"]
    # A session may have begun before the time was over.
    assert found["screen"]["status"] == "problem"
    assert found["screen"]["found"].startswith(("not tried: there is no session", "did not open"))
    assert left(tmp_path) == []


def test_a_setting_that_stops_every_screen_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "edgetop").mkdir()
    (tmp_path / "edgetop/edgetop.toml").write_text('them = "dark"\n')
    check = installation_checks.check_settings()
    assert check.status == "problem"
    assert "them" in check.found


@pytest.mark.parametrize("name", [None, "edgetop.toml", "config.toml"])
def test_the_settings_file_is_named_if_there_is_one(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "edgetop" / (name or "edgetop.toml")
    file.parent.mkdir()
    if name:
        file.write_text('theme = "dark"\n')
    check = installation_checks.check_settings()
    assert check.status == "ok"
    assert check.found == (f"{file} is valid" if name else f"the defaults, since there is no {file}")


def test_a_runtime_that_fails_is_named_with_its_reason():
    check = check_engine("tflite", Outcome(3, None, "the engine was killed by SIGILL"))
    assert (check.name, check.status, check.found) == ("engine-tflite", "problem", "the engine was killed by SIGILL")
    assert "ai-edge-litert" in (check.fix or "")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A session of the built-in model, and what its run printed."""
    home = tmp_path_factory.mktemp("session")
    done = edgetop(
        "run",
        "--runs",
        "30",
        "--warmup-runs",
        "2",
        "--profile-every",
        "0",
        "--headless",
        "--json",
        "-o",
        "s",
        home=home,
    )
    return session_folder(home / "s"), Outcome(0, json.loads(done.stdout), "")


def test_a_report_that_differs_from_that_of_the_run_is_a_problem(session):
    folder, outcome = session
    assert [check.status for check in check_recordings({folder: outcome})] == ["ok", "ok"]
    other = json.loads(json.dumps(outcome.report))
    other["latency"]["count"] += 1
    assert [check.status for check in check_recordings({folder: Outcome(0, other, "")})] == ["ok", "problem"]


def test_a_recording_that_cannot_be_read_is_a_problem(tmp_path, session):
    checks = list(check_recordings({tmp_path / "gone.edgetop": session[1]}))
    assert [check.status for check in checks] == ["problem", "problem"]
    assert "gone" in checks[0].found


def test_a_screen_that_does_not_open_says_why(tmp_path):
    check = screen_check.check_screen(tmp_path / "gone.edgetop", os.environ, time.monotonic() + scaled(60))
    assert check.status == "problem"
    assert check.found.startswith("did not open: edgetop: ")


@pytest.mark.parametrize(
    ("variables", "size", "status", "words"),
    [
        ({"TERM": "xterm", "LANG": "C.UTF-8"}, (80, 24), "ok", "xterm, 80x24, UTF-8"),
        ({"TERM": "dumb", "LANG": "C.UTF-8"}, (80, 24), "warning", "dumb, 80x24"),
        ({"TERM": "vt220", "LANG": "C"}, (80, 24), "warning", "vt220, 80x24, no UTF-8"),
        ({"TERM": "xterm", "LANG": "C.UTF-8"}, (79, 24), "warning", "xterm, 79x24"),
        ({"LANG": "C.UTF-8"}, (80, 24), "ok", "TERM is not set, 80x24, UTF-8"),
    ],
)
def test_the_terminal_is_judged_by_what_it_can_show(variables, size, status, words, monkeypatch):
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(sys, stream, _Tty())
    check = check_terminal(variables, os.terminal_size(size))
    assert (check.status, check.found) == (status, words)


class _Tty:
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_nothing_is_wrong(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert check_terminal({}, os.terminal_size((0, 0))).status == "ok"


def test_every_extra_has_its_purpose():
    extras = set(metadata.metadata("edgetop").get_all("Provides-Extra") or ())
    assert set(PURPOSES) == extras - {"all", "dev"}


def test_what_is_not_installed_is_listed_with_the_command_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(lacking, "package_names", lambda extra: ["no-such-package"] if extra == "html" else ["click"])
    lacks = list(lacking.lacking(Root(tmp_path), find=lambda name: "/usr/bin/ssh" if name == "ssh" else None))
    assert [lack.what for lack in lacks] == ["the extra html", "a C compiler"]
    assert "bokeh" in lacks[0].fix


def test_jetson_packages_are_for_jetsons(tmp_path, monkeypatch):
    monkeypatch.setattr(lacking, "package_names", lambda _: ["no-such-package"])
    assert "the extra jetson" not in [lack.what for lack in lacking.lacking(Root(tmp_path))]
    jetson = Root(ROOT / "tests/boards/orin-nano-jp6/tree")
    assert "the extra jetson" in [lack.what for lack in lacking.lacking(jetson)]


def test_each_lack_is_followed_by_the_command_that_installs_it():
    result = SelfTest((ok("engine", "x"),), (Lack("the extra html", "charts", "pip install bokeh"),), 1.0)
    assert list(installation_checks.lines(result)) == [
        "ok       engine  x",
        "",
        "lacks    the extra html, for charts",
        "         fix: pip install bokeh",
        "",
        "no problems, no warnings, 1 ok, in 1.0 s",
    ]
    assert len(list(check_lines(result.checks))) == 3


@pytest.mark.parametrize(("columns", "widest"), [("80", 80), ("300", 100), ("20", 60)])
def test_the_lines_of_checks_fit_the_terminal(columns, widest, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    lines = list(check_lines([warning("engine", "found " * 50, "advice " * 50)]))
    assert widest - 10 < max(map(len, lines)) <= widest


def test_paths_and_names_with_hyphens_are_not_broken_in_checks(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.__stdout__", None)
    path, package = "/srv/" + "a-long-folder/" * 6 + "x", "linux-tools-common"
    found = [warning("engine", f"found in {path} or {'a' * count} {package}", path) for count in range(20)]
    lines = [line.strip() for line in check_lines(found)]
    assert sum(path in line for line in lines) == 40
    assert sum(package in line for line in lines) == 20
