"""Whether a logout ends what runs on, as logind says or its files do."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetop.doctor import logout
from edgetop.doctor.check import Check
from tests.support.facts import facts
from tests.support.trees import plant

BOOTED = {"run/systemd/system/keep": ""}
ANSWER = "commands/loginctl_show-session_--property=KillUserProcesses_--value"
MAIN, DROP_IN = "etc/systemd/logind.conf", "etc/systemd/logind.conf.d/{}.conf"
YES, NO = "[Login]\nKillUserProcesses=yes\n", "[Login]\nKillUserProcesses=no\n"


def judged(tree: Path, files: Mapping[str, str], uid: int = 12345) -> Check:
    (check,) = logout.check(facts(tree, {**BOOTED, **files}), uid)
    return check


def test_without_systemd_nothing_is_ended(tmp_path: Path) -> None:
    (check,) = logout.check(facts(tmp_path, {ANSWER: "yes\n"}), 12345)
    assert check.status == "ok"


def test_as_logind_says(tmp_path: Path) -> None:
    assert judged(tmp_path, {ANSWER: "no\n", MAIN: YES}).status == "ok"
    check = judged(tmp_path, {ANSWER: "yes\n", MAIN: NO})
    assert check.status == "problem"
    assert str(check.fix).startswith("loginctl enable-linger; systemd-run --scope --user")


def test_roots_processes_are_spared(tmp_path: Path) -> None:
    assert judged(tmp_path, {ANSWER: "yes\n"}, uid=0).status == "ok"


def test_who_lingers_has_only_to_start_it_elsewhere(tmp_path: Path) -> None:
    check = judged(tmp_path, {ANSWER: "yes\n", "var/lib/systemd/linger/12345": ""})
    assert check.status == "problem"
    assert str(check.fix).startswith("systemd-run --scope --user")


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({}, None),
        ({MAIN: "[Login]\n#KillUserProcesses=yes\n"}, None),
        ({MAIN: YES}, True),
        ({MAIN: "[Login]\n KillUserProcesses = true \n"}, True),
        ({MAIN: YES, DROP_IN.format("10-board"): NO}, False),
        ({DROP_IN.format("90-late"): YES, DROP_IN.format("10-early"): NO}, True),
        ({"usr/lib/systemd/logind.conf.d/90-vendor.conf": YES, DROP_IN.format("10-mine"): NO}, True),
        ({"usr/lib/systemd/logind.conf.d/50-a.conf": YES, DROP_IN.format("50-a"): NO}, False),
        ({"usr/lib/systemd/logind.conf": YES, MAIN: NO}, False),
        ({f"{MAIN}.d/notes.txt": YES}, None),
    ],
)
def test_its_files_are_read_as_systemd_reads_them(tmp_path: Path, files: dict[str, str], kills: bool | None) -> None:
    assert logout.ask(plant(tmp_path, {**BOOTED, **files})) is kills


def test_what_nobody_tells_is_unknown(tmp_path: Path) -> None:
    assert judged(tmp_path, {f"{ANSWER}.exit": "1\n", ANSWER: "Failed to connect\n"}).found.startswith("unknown")
