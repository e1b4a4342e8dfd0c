"""`edgetop doctor` as a user types it."""

import json
import os
from pathlib import Path

import pytest

from tests.support.commands import edgetop
from tests.support.trees import plant

pytestmark = pytest.mark.slow

ORIN = Path(__file__).parents[1] / "boards/orin-nano-jp6/tree"


def test_this_machine_is_judged_and_nothing_is_changed(tmp_path):
    done = edgetop("doctor", "--json", home=tmp_path)
    document = json.loads(done.stdout)
    statuses = [check["status"] for check in document["checks"]]
    assert list(document) == ["board", "checks", "status"]
    assert {tuple(check) for check in document["checks"]} == {("name", "status", "found", "advice", "fix")}
    assert done.returncode == int("problem" in statuses)
    assert document["status"] == next(s for s in ("problem", "warning", "ok") if s in statuses)
    assert list(tmp_path.iterdir()) == []


def test_the_text_says_the_same(tmp_path):
    done = edgetop("doctor", home=tmp_path)
    lines = done.stdout.splitlines()
    assert any(line.split()[:2] == ["ok", "runtimes"] for line in lines)
    assert lines[-1].endswith(" ok")
    assert max(map(len, lines)) <= 160


@pytest.mark.parametrize(("governor", "code"), [("schedutil", 0), ("performance", 1)])
def test_the_exit_code_is_1_only_where_there_is_a_problem(governor, code, tmp_path):
    done = edgetop("doctor", "--sysroot", ORIN, "--governor", governor, home=tmp_path)
    assert done.returncode == code
    assert "background-load, permissions" in done.stderr
    assert "runtimes" not in done.stdout


def test_hostile_text_never_reaches_the_terminal(tmp_path):
    hostile = "[red]\x1b[31m\x9b1m"
    files = {
        "proc/device-tree/model": hostile,
        "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": hostile,
        "sys/firmware/acpi/platform_profile": hostile,
        "run/systemd/container": hostile,
    }
    plant(tmp_path / "board", files)
    done = edgetop("doctor", "--sysroot", "board", home=tmp_path)
    assert hostile[:5] in done.stdout
    assert not set("\x1b\x9b") & set(done.stdout)


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--sysroot", "gone"], "--sysroot gone"), (["--engine-python", "/nowhere/python"], "/nowhere/python")],
)
def test_bad_input_is_one_line(options, said, tmp_path):
    done = edgetop("doctor", *options, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_another_interpreter_is_asked_for_its_runtimes(tmp_path):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no module named numpy >&2; exit 1\n")
    program.chmod(0o755)
    document = json.loads(edgetop("doctor", "--json", "--engine-python", program, home=tmp_path).stdout)
    (check,) = [check for check in document["checks"] if check["name"] == "runtimes"]
    assert (check["status"], "no module named numpy" in check["found"]) == ("problem", True)
    assert os.fspath(program) in check["found"]


def test_ceilings_are_measured_told_and_kept(tmp_path):
    asked = ("doctor", "--roofline", "--engine", "onnxruntime", "--threads", "1", "--json")
    document = json.loads(edgetop(*asked, home=tmp_path).stdout)
    (ceilings,) = document["ceilings"]
    assert (ceilings["runtime"], ceilings["threads"], ceilings["dtype"]) == ("onnxruntime", 1, "float32")
    assert ceilings["flops_per_s"] > 1e8
    kept = json.loads((tmp_path / "state/edgetop/roofline.json").read_text())
    assert kept["ceilings"][0]["flops_per_s"] == ceilings["flops_per_s"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sysroot", str(ORIN)], "--sysroot"),
        pytest.param(["--engine", "frob"], "frob", marks=pytest.mark.thorough),
        (["--provider", "Frob"], "Frob"),
    ],
)
def test_ceilings_of_what_is_not_here_are_one_line(options, said, tmp_path):
    done = edgetop("doctor", "--roofline", *options, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
