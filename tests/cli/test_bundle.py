"""`edgetop bundle`: one file for a colleague, which names no person and no machine."""

import getpass
import json
import re
import shutil
import socket
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.recording.reader import Recording
from edgetop.recording.session_folder import LOG, WriterLock, read_manifest, write_manifest
from edgetop.sensors.capture.own_words import own_words
from edgetop.sensors.capture.private import OF_EVERYONE
from edgetop.session.engine_events import ProfileBurst
from edgetop.session.manifest import Watched, WatchedStream
from edgetop.session.operators import Operator
from tests.support.commands import edgetop
from tests.support.recordings import record
from tests.support.scripts import measured

pytestmark = pytest.mark.slow

SECRET = "/home/anna/secret/model.onnx"
BOOT = "4f0c3b2a-1111-4222-8333-444455556666"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    text = f"{SECRET}: 192.168.7.31 and aa:bb:cc:dd:ee:ff of {socket.gethostname()}"
    script = measured(20).tell("mark", source="user", message=text, note=text)
    folder = tmp_path / "one.edgetop"
    record(folder, script.end().batches)
    whole = read_manifest(folder)
    changed = replace(
        whole,
        model=replace(whole.model, path=SECRET),
        clock=replace(whole.clock, boot_id=BOOT),
        load=replace(whole.load, input="/home/anna/crops"),
        labels={"site": "10.0.0.7", "enclosure": "closed", "10.0.0.9": "near"},
        methodology=replace(whole.methodology, notes=(f"copied from {SECRET}",)),
    )
    write_manifest(folder, changed)
    (folder / LOG).write_text("anna was here")
    return tmp_path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        archive.extractall(path.parent / "sent")
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_bundle_has_the_reports_the_session_its_board_and_versions(home: Path) -> None:
    done = edgetop("bundle", "one", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("one-bundle.zip  ")
    found = members(home / "one-bundle.zip")
    assert {name.partition("/")[0] for name in found} == {"one"}
    names = {name.partition("/")[2] for name in found}
    assert {"report.html", "report.txt", "report.json", "board.json", "versions.txt", "README.txt"} <= names
    assert {"one.edgetop/session.json", "one.edgetop/events.parquet", "one.edgetop/seconds.parquet"} <= names
    for name in names - {"README.txt"}:
        assert name.partition("/")[0] in done.stdout
    assert "left out: run.log" in done.stdout
    assert "removed: names of users" in found["one/README.txt"].decode()
    assert "edgetop " in found["one/versions.txt"].decode()
    given, sent = (
        json.loads(edgetop("report", path, "--json", home=home).stdout) for path in ("one", "sent/one/one.edgetop")
    )
    assert sent["latency"] == given["latency"]
    assert sent["session"]["id"] == given["session"]["id"]
    assert sent["session"]["model"]["path"] == "model.onnx"
    assert sent["session"]["labels"]["enclosure"] == "closed"


def test_nothing_in_it_names_a_person_a_machine_or_a_network(home: Path) -> None:
    assert edgetop("bundle", "one", "-o", "b.zip", home=home).returncode == 0
    found = members(home / "b.zip")
    batches = list(Recording(home / "sent/one/one.edgetop").play())
    events = " ".join(f"{event.message} {event.body}" for batch in batches for event in batch.events)
    assert "copied" in found["one/one.edgetop/session.json"].decode()
    assert "PATH" in events
    texts = [events, *(content.decode() for name, content in found.items() if ".parquet" not in name)]
    private = {
        getpass.getuser(),
        socket.gethostname(),
        "anna",
        "192.168.7.31",
        "10.0.0.7",
        "10.0.0.9",
        "aa:bb:cc",
        BOOT,
        str(home),
    }
    own = own_words(frozenset(name.lower() for name in private))  # such as a user called runner
    for name in {name for name in private if len(name) > 2 and name.lower() not in own} - set(OF_EVERYONE):
        places = [(text, at.start()) for text in texts if (at := re.search(rf"\b{re.escape(name)}\b", text))]
        assert [text[max(0, at - 40) : at + 40] for text, at in places] == []


def test_arguments_of_a_watched_program_are_removed(home: Path) -> None:
    folder = home / "one.edgetop"
    streams = (WatchedStream("/opt/anna/det.onnx"),)
    command = ("/home/anna/bin/app", "--token", "s3cr3t")
    write_manifest(folder, replace(read_manifest(folder), watched=Watched(command, streams=streams)))
    assert edgetop("bundle", "one", "-o", "b.zip", home=home).returncode == 0
    found = members(home / "b.zip")
    assert not [name for name, content in found.items() if b"s3cr3t" in content or b"/anna" in content]
    watched = json.loads(found["one/one.edgetop/session.json"])["watched"]
    assert (watched["command"], watched["streams"][0]["name"]) == (["app"], "det.onnx")


def test_names_of_operators_inputs_and_sensors_stay_wherever_they_stand(tmp_path: Path) -> None:
    """As PyTorch names them, which looks like a path. The tables have these names, too, and refer to them."""
    name, sensor = "/model.22/cv3/conv/Conv", "temp/probe:marta"
    slow = {"burst": 1, "longer": name, "longer_ns": 9, "slow_ns": 30, "usual_ns": 20, "longer_share": 0.5}
    script = measured(20).profile([Operator(name, "Conv", "CPU", 8, 5_000)])
    folder = record(
        tmp_path / "one.edgetop", script.tell("profile-burst", message=f"{name} took longer", **slow).end().batches
    )
    whole = read_manifest(folder)
    changed = replace(
        whole,
        model=replace(whole.model, inputs=(replace(whole.model.inputs[0], name="/input.1"),)),
        sensors=(replace(whole.sensors[0], id=sensor), *whole.sensors[1:]),
        methodology=replace(whole.methodology, start_temperatures={sensor: 41.0}),
        command=("edgetop", "run", "/srv/firma/m.onnx", "--ambient", sensor),
    )
    write_manifest(folder, changed)
    assert edgetop("bundle", "one", "-o", "b.zip", home=tmp_path, USER="marta").returncode == 0
    sent = read_manifest(tmp_path / "sent/one/one.edgetop") if members(tmp_path / "b.zip") else whole
    assert [one.name for one in sent.model.inputs] == ["/input.1"]
    assert sent.sensors[0].id == sensor
    assert sent.command == ("edgetop", "run", "m.onnx", "--ambient", sensor)
    assert sent.methodology.start_temperatures == {sensor: 41.0}
    events = [event.body for batch in Recording(tmp_path / "sent/one/one.edgetop").play() for event in batch.events]
    assert [body.longer for body in events if isinstance(body, ProfileBurst) and body.longer] == [name]


def test_what_cannot_be_bundled_is_said_in_a_line(home: Path) -> None:
    (home / "one.edgetop" / "journal").mkdir()
    lock = WriterLock(home / "one.edgetop")
    try:
        done = edgetop("bundle", "one", home=home)
        assert (done.returncode, "one: is being recorded" in done.stderr) == (2, True)
    finally:
        lock.release()
    (home / "one.edgetop" / "journal").rmdir()
    (home / "b.zip").write_text("mine")
    done = edgetop("bundle", "one", "-o", "b.zip", home=home)
    assert (done.returncode, "b.zip: exists already" in done.stderr) == (2, True)
    assert (home / "b.zip").read_text() == "mine"
    assert edgetop("bundle", "one", "-o", "b.zip", "--force", home=home).returncode == 0


@pytest.mark.thorough
def test_a_killed_session_is_bundled(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "recordings/v1/killed.edgetop", tmp_path / "killed.edgetop")
    done = edgetop("bundle", "killed", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert any(name.endswith("report.html") for name in members(tmp_path / "killed-bundle.zip"))
