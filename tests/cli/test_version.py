"""The version, and what a bug report needs beside it."""

import getpass
import os
import re
import sys
from pathlib import Path

import pytest

from edgetop import __version__
from edgetop.cli import versions
from tests.support.commands import edgetop

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("line", ["--version", "-V", "--version run no-such-model.onnx"])
def test_the_version_is_one_line(line, tmp_path):
    done = edgetop(*line.split(), home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"edgetop {__version__}\n", "")


@pytest.mark.parametrize("line", ["--version --verbose", "--verbose -V"])
def test_verbose_names_what_matters_for_a_bug(line, tmp_path):
    done = edgetop(*line.split(), home=tmp_path)
    assert done.returncode == 0
    first, *rest = done.stdout.splitlines()
    assert first == f"edgetop {__version__}"
    told = dict(line.split(maxsplit=1) for line in rest)
    assert set(told) >= {"python", "platform", "onnxruntime", "litert", "textual", "numpy", "psutil"}
    assert told["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert os.uname().machine in told["platform"]
    assert re.fullmatch(r"onnxruntime \d\S+", told["onnxruntime"])
    assert re.fullmatch(r"\d\S+", told["textual"])


def test_verbose_names_the_packages_of_extras(monkeypatch):
    told = dict(line.split(maxsplit=1) for line in versions.verbose_lines())
    assert re.search(r"(^|, )bokeh \d\S*(,|$)", told["extras"])
    assert "onnxruntime" not in told["extras"]
    monkeypatch.setattr(versions, "_of", lambda _: "-")
    assert list(versions.verbose_lines())[-1].split() == ["extras", "-"]


def test_verbose_alone_is_refused_in_a_line(tmp_path):
    done = edgetop("--verbose", home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "edgetop: --verbose needs --version\n")


def test_nothing_of_it_identifies_a_person(monkeypatch):
    """A kernel that somebody built at home has his host's name in its release."""
    machine = os.uname().machine
    own = os.uname_result(("Linux", "annas-desk", "6.1.0-annas-desk", "#1", machine))
    monkeypatch.setattr(os, "uname", lambda: own)
    text = "\n".join(versions.verbose_lines())
    assert "6.1.0-xxxxx-xxxx" in text
    private = {"annas-desk", str(Path.home()), sys.prefix, getpass.getuser()}
    assert not [word for word in private if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)]


def test_a_package_that_is_not_installed_is_a_dash(monkeypatch):
    monkeypatch.setattr(versions, "PACKAGES", ("no-such-package",))
    assert ["no-such-package", "-"] in [line.split() for line in versions.verbose_lines()]
