"""`edgetop fleet`: which boards, what they are told, and how a script learns of it."""

import io
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from edgetop.cli.boards import fleet, fleet_boards
from edgetop.cli.boards.fleet_boards import addresses, chosen, start, stop
from edgetop.cli.boards.fleet_run import (
    exit_code_of_answers,
    failing,
    have_answered,
    parse_fleet_gate,
    print_failed,
    table,
)
from edgetop.errors import InputError
from edgetop.feeds.ssh import NOT_FOUND, SSH_FAILED
from tests.support.commands import edgetop
from tests.support.fleets import Saying, address, fleet_of, unreachable, view, wait_for
from tests.support.relays import LiveRecording, plant_program
from tests.support.scripts import Script

BOARDS = """
[boards.desk-1]
ssh = "pi@a"
group = "desk"
labels = { enclosure = "closed" }
[boards.field]
ssh = "b:soak"
command = "~/.local/bin/edgetop"
"""


@pytest.fixture
def file(tmp_path) -> Path:
    (tmp_path / "boards.toml").write_text(BOARDS)
    return tmp_path / "boards.toml"


def test_boards_come_from_arguments_and_file_by_group_and_label(file):
    found = addresses(["ssh:pi@c"], file, "edgetop")
    assert [(of.name, of.target.host, of.target.session, of.group, of.command) for of in found] == [
        ("pi@c", "pi@c", None, "", "edgetop"),
        ("desk-1", "pi@a", None, "desk", "edgetop"),
        ("field", "b", "soak", "", "~/.local/bin/edgetop"),
    ]
    assert [of.name for of in chosen(found, ["desk"], [("enclosure", "closed")])] == ["desk-1"]
    with pytest.raises(InputError, match=r"--group desc: no board is in it \(did you mean desk"):
        chosen(found, ["desc"], [])
    with pytest.raises(InputError, match="no board has these labels"):
        chosen(found, [], [("enclosure", "open")])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("boards = 5", "has no boards"),
        ("[bords.a]", "unknown key bords"),
        ("[boards.a]\nshh = 'x'", r"boards.a: unknown key shh \(did you mean ssh\?\)"),
        ("[boards.a]\nssh = 5", "boards.a: ssh, group and command must be strings"),
        ("[boards.a]\nlabels = {a = 1}\nssh = 'b'", "labels a table of strings"),
        ("[boards.a]\nssh = '-oProxyCommand=reboot'", r"boards.a: ssh = '\[USER@\]HOST\[:SESSION\]'"),
        ("[boards.a]", "boards.a: ssh ="),
        ("[boards.'a b']\nssh = 'x'", "boards.a b: a name has"),
        ("[boards", "cannot be read"),
    ],
)
def test_a_file_of_boards_that_is_not_in_order_is_one_line(file, text, words):
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        addresses([], file, "edgetop")


def test_a_board_named_twice_and_no_board_at_all_are_refused():
    with pytest.raises(InputError, match="a: two boards have this name"):
        addresses(["ssh:a", "ssh:a"], None, "edgetop")
    with pytest.raises(InputError, match="no boards"):
        addresses([], None, "edgetop")


def context(*words: str) -> click.Context:
    return fleet.command.make_context("fleet", list(words))


def test_an_order_is_the_last_words_and_fleet_options_may_follow():
    found = context(
        "ssh:run", "--group", "stop", "run", "m.onnx", "--duration", "10m", "--headless", "--fail-if", "any throttled"
    )
    assert found.obj == ["run", "m.onnx", "--duration", "10m"]
    assert found.params["targets"] == ("ssh:run",)
    assert (found.params["groups"], found.params["headless"]) == (("stop",), True)
    assert [gate.gate for gate in found.params["gates"]] == ["throttled"]
    assert context("ssh:a").obj == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run"], "run: no model is given"),
        (["run", "m.onnx", "--detach"], "run --detach: cannot be used with fleet"),
        (["run", "m.onnx", "-o", "x"], "run --output: cannot be used with fleet"),
    ],
)
def test_what_run_cannot_do_there_is_reported_before_copying(words, told):
    with pytest.raises(InputError, match=told):
        fleet.command.main(["ssh:a", *words, "--json"], standalone_mode=False)


def test_a_gate_over_all_boards_fails_if_one_or_each_fails(capsys):
    failed = {"p99>33ms": "p99>33ms: 40 ms"}
    views = [view("a", word="STEADY", failed_gates={}), view("b", word="SLOWED", failed_gates=failed)]
    any_, all_ = parse_fleet_gate("any p99>33ms"), parse_fleet_gate("all p99>33ms")
    assert failing(any_, views) == {"b": "p99>33ms: 40 ms"}
    assert print_failed([any_], views)
    assert not print_failed([all_], views)
    assert print_failed([all_], views[1:])
    assert failing(any_, [view("c", "unreachable")]) == {"c": "p99>33ms: unknown: unreachable"}
    assert "gate failed: any p99>33ms: b: p99>33ms: 40 ms" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no value is called p98"):
        parse_fleet_gate("any p98>33ms")


def test_a_script_that_learns_nothing_of_any_board_fails(capsys):
    gone, idle = view("gone", "unreachable", reason="no route to host"), view("b", "idle")
    assert [exit_code_of_answers(views) for views in ([gone, view("a", word="STEADY")], [gone, idle], [gone])] == [
        0,
        0,
        2,
    ]
    assert capsys.readouterr().err == "edgetop: no board answered: gone: no route to host\n"


def test_the_table_has_a_line_per_board_with_reasons_for_no_data():
    lines = table([view("a", word="STEADY", p99_ms=19.1), view("b", "unreachable", reason="no route to host")])
    assert "STEADY" in lines[1] and "19.10?" in lines[1]  # noqa: PT018
    assert lines[2].split() == ["b", "X", "UNREACHABLE", "no", "route", "to", "host"]


def test_all_have_answered_when_each_has_a_summary_or_a_reason():
    found = fleet_of(a=unreachable, b=Saying())
    wait_for(found, "a", "unreachable")
    assert not have_answered(found)
    found.close(0.1)


class Boards:
    """What `ssh` does: each board keeps what it is told."""

    def __init__(self, monkeypatch) -> None:
        self.files: dict[str, bytes] = {}
        self.told: list[tuple[str, str]] = []
        self.answers: dict[tuple[str, str], tuple[int, str]] = {}  # by host and first word: exit code, and output
        monkeypatch.setattr(fleet_boards.subprocess, "Popen", self)

    def __call__(self, line, *, stdin, **_more) -> "Ended":
        host, command = line[-2], line[-1]
        self.told.append((host, command))
        if command.startswith("sh -c"):
            if stdin != subprocess.DEVNULL:
                self.files[host] = stdin.read()
            return Ended(*self.answers.get((host, "sh"), (0, "Welcome\n/m/x.onnx\n" if host in self.files else "")))
        return Ended(*self.answers.get((host, "edgetop"), (0, "")))


class Ended:
    """A process that has printed this."""

    def __init__(self, code: int, output: str) -> None:
        self._code, self.stdout = code, io.BytesIO(output.encode())

    def wait(self) -> int:
        return self._code

    def kill(self) -> None:
        self._code = -9

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_model_is_copied_once_and_run_or_a_reason_is_given(monkeypatch, tmp_path):
    boards, model = Boards(monkeypatch), tmp_path / "x.onnx"
    model.write_bytes(b"weights")
    boards.files["pi@has"] = b"weights"
    goes_on = "edgetop: the run continues, recorded in /home/pi/x.edgetop\n  edgetop attach x   shows it again\n"
    for host in ("pi@has", "pi@new"):
        boards.answers[host, "edgetop"] = (0, goes_on)
    boards.answers["pi@bare", "edgetop"] = (NOT_FOUND, "sh: edgetop: not found\n")
    boards.answers["pi@gone", "sh"] = (SSH_FAILED, "ssh: No route to host\n")
    boards.answers["pi@old", "edgetop"] = (2, "noise\nedgetop: x.onnx: cannot be loaded\n")
    boards.answers["pi@floods", "sh"] = (0, "y\n" * 100_000)
    names = ("has", "new", "bare", "gone", "old", "floods")
    done = {one.address.name: one for one in start([address(name) for name in names], model, ["--duration", "10m"])}
    assert {name: one.reason.split(":")[0] for name, one in done.items()} == {
        "has": "", "new": "", "bare": "no edgetop on pi@bare", "gone": "ssh", "old": "x.onnx",
        "floods": "it prints too much to be edgetop",
    }  # fmt: skip
    assert done["new"].address.target.session == "/home/pi/x.edgetop"
    assert sum(host == "pi@has" and command.startswith("sh -c") for host, command in boards.told) == 1
    assert boards.files["pi@new"] == b"weights"
    assert ("pi@new", "edgetop run /m/x.onnx --duration 10m --detach") in boards.told


def test_each_board_is_stopped_and_one_that_runs_nothing_says_so(monkeypatch):
    boards = Boards(monkeypatch)
    boards.answers["pi@a", "edgetop"] = (0, "STOPPED\n")
    boards.answers["pi@b", "edgetop"] = (2, "edgetop: no session runs now\n")
    done = {one.address.name: (one.reason, one.said) for one in stop([address("a"), address("b")])}
    assert done == {"a": ("", "STOPPED"), "b": ("no session runs now", "")}


# Does what sshd does: the user's shell runs the command, in a home that is that of the host.
SSH = """#!/bin/sh
for last; do before=$word; word=$last; done
export XDG_STATE_HOME="$FLEET/$before" XDG_CACHE_HOME="$FLEET/$before/cache"
exec sh -c "$last"
"""


@pytest.mark.slow
def test_the_copy_is_compared_by_its_sum_over_there(tmp_path):
    """As a real shell and the real sha256sum do it."""
    model = tmp_path / "model.onnx"
    model.write_bytes(b"weights")
    place = {"sum": "0" * 64, "name": "model.onnx"}
    script = fleet_boards._shell(fleet_boards._COPY % place)
    env = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path)}
    with model.open("rb") as file:
        done = subprocess.run(["sh", "-c", script], stdin=file, capture_output=True, check=False, env=env)
    assert done.returncode == 1
    assert b"another SHA-256" in done.stderr
    assert list((tmp_path / "edgetop/models" / ("0" * 64)).iterdir()) == []


@pytest.mark.slow
def test_a_script_sees_running_boards_and_those_not_answering(tmp_path):
    """End to end: ssh's stand-in, the real relay, its analysis, and the document."""
    plant_program(tmp_path / "bin", "ssh", SSH)
    plant_program(tmp_path / "bin", "edgetop", f'#!/bin/sh\nexec {sys.executable} -m edgetop "$@"\n')
    script = Script().load().warm_up().begin().measure(20)
    (tmp_path / "a/edgetop").mkdir(parents=True)
    live = LiveRecording(tmp_path / "a/edgetop/soak.edgetop", script.batches)
    (tmp_path / "boards.toml").write_text("[boards.desk-1]\nssh = 'a'\n[boards.none]\nssh = 'b'\n")
    path = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "FLEET": str(tmp_path)}
    done = edgetop("fleet", "-f", "boards.toml", "--json", "--fail-if", "all p50>1ms", home=tmp_path, **path)
    live.die()
    document = json.loads(done.stdout)
    desk, none = document["boards"]
    assert (desk["state"], desk["summary"]["word"], desk["summary"]["p50_ms"]) == (
        "live",
        "MEASURING",
        pytest.approx(5, 0.05),
    )
    assert (none["state"], none["summary"]) == ("idle", None)
    assert document["gates"][0]["boards"].keys() == {"desk-1", "none"}
    assert (done.returncode, done.stderr.count("gate failed")) == (1, 2)
