"""`edgetop sensors` as a user types it: listed, watched, captured."""

import json
import os
import signal
import stat
import tarfile
from pathlib import Path

import pytest

from tests.support.commands import edgetop, environment, start_edgetop
from tests.support.terminal import Terminal
from tests.support.trees import plant
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

ORIN = Path(__file__).parents[1] / "boards/orin-nano-jp6/tree"
HOSTILE = "[red]\x1b[31m\x1b]0;owned\x07\x9b1m"
KEYS = ["id", "value", "unit", "source", "role", "read_us", "cadence_s", "note"]


@pytest.fixture
def hostile(tmp_path):
    files = {
        "sys/class/thermal/thermal_zone0/type": HOSTILE,
        "sys/class/thermal/thermal_zone0/temp": HOSTILE,
        "proc/device-tree/model": HOSTILE + "\0",
        "etc/os-release": f'PRETTY_NAME="{HOSTILE}"\n',
    }
    plant(tmp_path / "hostile", files)
    return tmp_path / "hostile"


@pytest.fixture
def on_terminal(tmp_path):
    opened = []

    def run(*arguments, columns=100, rows=24):
        terminal = Terminal([*map(str, arguments)], columns, rows, environment(tmp_path), template="commands")
        opened.append(terminal)
        return terminal

    yield run
    for terminal in opened:
        terminal.close()


def test_json_is_the_board_its_sensors_and_what_is_missing(tmp_path):
    done = edgetop("sensors", "--json", "--sysroot", ORIN, home=tmp_path)
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(document) == ["board", "sensors", "missing"]
    assert document["board"]["soc"] == "nvidia,tegra234"
    assert [key for sensor in document["sensors"] for key in sensor if key not in KEYS] == []
    sensors = {sensor["id"]: sensor for sensor in document["sensors"]}
    assert sensors["temp/cpu-thermal"]["value"] == 49.687
    assert sensors["temp/cpu-thermal"]["read_us"] > 0
    gap = sensors["temp/cv0-thermal"]
    assert gap["value"] is None
    assert gap["note"].startswith("EAGAIN: ")


def test_what_is_missing_says_why(tmp_path):
    plant(tmp_path / "empty", {"proc/version": ""})
    done = edgetop("sensors", "--json", "--sysroot", tmp_path / "empty", home=tmp_path)
    document = json.loads(done.stdout)
    assert document["sensors"] == []
    missing = {entry["what"]: entry for entry in document["missing"]}
    assert list(missing["temperature"]) == ["what", "why", "fix"]
    assert missing["temperature"]["why"].startswith("no thermal zone in /sys/class/thermal")


def test_this_machine_is_told_as_it_is(tmp_path):
    document = json.loads(edgetop("sensors", "--json", home=tmp_path).stdout)
    sensors = {sensor["id"]: sensor for sensor in document["sensors"]}
    assert 0 <= sensors["load/cpu"]["value"] <= 100 * os.cpu_count() * 1.2
    assert document["board"]["kernel"] == os.uname().release
    assert os.uname().nodename not in json.dumps(document["board"])


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_hostile_text_never_reaches_the_terminal(options, hostile, on_terminal):
    terminal = on_terminal("sensors", "--sysroot", hostile, *options)
    assert terminal.wait_for_exit() == 0
    assert b"[red]" in terminal.output
    assert b"\x1b" not in terminal.output
    assert b"\xc2\x9b" not in terminal.output


def test_on_a_terminal_it_is_drawn_again_until_ctrl_c(on_terminal):
    terminal = on_terminal("sensors", "--watch", "--refresh", "100ms", "--sysroot", ORIN, rows=12)
    terminal.wait_for("temp/cpu-thermal", "more lines")
    terminal._wait(lambda: terminal.output.count(b"\x1b[H") > 4, "it to be drawn again")
    shown = terminal.output.rpartition(b"\x1b[H")[2]
    assert shown.count(b"\n") < 12
    terminal._process.send_signal(signal.SIGINT)
    assert terminal.wait_for_exit() == 130
    assert terminal.attributes() == terminal.attributes_before
    assert terminal.text.rstrip().endswith("edgetop: interrupted")
    assert b"\x1b[?" not in terminal.output


def test_into_a_pipe_it_is_lines_until_ctrl_c(tmp_path):
    process = start_edgetop("sensors", "--watch", "--refresh", "50ms", "--sysroot", ORIN, home=tmp_path)
    lines = [process.stdout.readline() for _ in range(60)]
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaint.strip()) == (130, "edgetop: interrupted")
    assert lines[0].split("\t")[1:] == ["temp/cpu-thermal", "49.7", "°C\n"]
    assert not any("\x1b" in line for line in lines)


def test_watched_as_json_it_is_one_document_a_line(tmp_path):
    process = start_edgetop("sensors", "--watch", "--json", "--refresh", "50ms", "--sysroot", ORIN, home=tmp_path)
    documents = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.stdout.close()  # the reader leaves
    assert process.wait(timeout=PATIENCE_S) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert [list(document) for document in documents] == [["board", "sensors", "missing"]] * 3


def captured(tmp_path, *options, name="board.tar.gz"):
    return edgetop("sensors", "--sysroot", ORIN, "--capture", tmp_path / name, *options, home=tmp_path)


def test_a_capture_is_listed_written_and_replayed(tmp_path):
    done = captured(tmp_path, "--yes")
    assert (done.returncode, done.stdout) == (0, "")
    assert "sys/class/thermal/thermal_zone0: cdev0_trip_point" in done.stderr
    assert stat.S_IMODE((tmp_path / "board.tar.gz").stat().st_mode) == 0o600
    with tarfile.open(tmp_path / "board.tar.gz") as archive:
        archive.extractall(tmp_path / "board", filter="data")
    table = edgetop("sensors", "--sysroot", tmp_path / "board", home=tmp_path).stdout
    assert table.startswith("NVIDIA Jetson Orin Nano")
    assert "temp/cpu-thermal" in table


def test_this_machine_captured_gives_the_same_sensors(tmp_path):
    done = edgetop("sensors", "--capture", tmp_path / "here.tar.gz", "--yes", home=tmp_path)
    assert done.returncode == 0
    with tarfile.open(tmp_path / "here.tar.gz") as archive:
        archive.extractall(tmp_path / "here", filter="data")
    live, replayed = (
        json.loads(edgetop("sensors", "--json", *options, home=tmp_path).stdout)
        for options in ([], ["--sysroot", tmp_path / "here"])
    )
    assert [sensor["id"] for sensor in live["sensors"]] == [sensor["id"] for sensor in replayed["sensors"]]
    assert {**live["board"], "cores": 0} == {**replayed["board"], "cores": 0}


@pytest.mark.parametrize(
    ("answer", "written"), [("y", True), pytest.param("n", False, marks=pytest.mark.thorough), ("", False)]
)
def test_on_a_terminal_it_asks_first(answer, written, on_terminal, tmp_path):
    terminal = on_terminal("sensors", "--sysroot", ORIN, "--capture", tmp_path / "board.tar.gz", columns=200)
    terminal.wait_for("thermal_zone0: cdev0_trip_point", "[y/N]")
    assert not (tmp_path / "board.tar.gz").exists()
    terminal.send(f"{answer}\r")
    assert terminal.wait_for_exit() == 0
    assert (tmp_path / "board.tar.gz").exists() == written


REFUSED = {
    "nobody to ask": ([], "--yes"),
    "a file that exists": (["--yes", "--capture", "taken.tar.gz"], "already exists"),
    "a folder that is not there": (["--yes", "--capture", "gone/x.tar.gz"], "No such file or directory"),
    "a name of another kind": (["--yes", "--capture", "board.zip"], "must end in .tar.gz"),
    "json of a capture": (["--json"], "cannot be combined with --json or --watch"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_capture_that_cannot_be_made_is_one_line(case, tmp_path):
    (tmp_path / "taken.tar.gz").write_text("precious")
    options, said = REFUSED[case]
    done = captured(tmp_path, *options)
    is_seen_late = case == "a folder that is not there"  # when it is written
    assert done.returncode == (4 if is_seen_late else 2)
    assert said in done.stderr.splitlines()[-1]
    assert done.stderr.count("\n") == 1 or is_seen_late
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken.tar.gz"]
    assert (tmp_path / "taken.tar.gz").read_text() == "precious"


def test_force_writes_over_a_file(tmp_path):
    (tmp_path / "board.tar.gz").write_text("old")
    assert captured(tmp_path, "--yes", "--force").returncode == 0
    assert tarfile.is_tarfile(tmp_path / "board.tar.gz")


@pytest.mark.parametrize("options", [["--yes"], ["--force"]])
def test_options_of_a_capture_alone_are_refused(options, tmp_path):
    done = edgetop("sensors", *options, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


def test_nothing_is_written_and_nothing_is_run_for_a_listing(tmp_path):
    plant(tmp_path / "board", {"commands/vcgencmd_get_throttled": "throttled=0x0\n", "proc/stat": "cpu 1 2 3\n"})
    before = sorted(tmp_path.rglob("*"))
    assert edgetop("sensors", "--sysroot", "board", home=tmp_path).returncode == 0
    assert sorted(tmp_path.rglob("*")) == before
