"""What is shipped: everything the program needs, and nothing it does not."""

import importlib.util
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest

import edgetop
from edgetop.cli import command_group
from edgetop.cli.man_page import page
from edgetop.cli.overview import COMMANDS
from tests.support.commands import environment
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def shared(wheel):
    """What is installed below `share` of the environment: contents by path."""
    place = "edgetop-" + edgetop.__version__ + ".data/data/share/"
    with zipfile.ZipFile(wheel) as archive:
        return {
            name.removeprefix(place): archive.read(name).decode()
            for name in archive.namelist()
            if name.startswith(place)
        }


@pytest.fixture(scope="module")
def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.slow
def test_themes_travel_inside_the_package(names):
    assert {f"edgetop/themes/{path.name}" for path in (ROOT / "themes").glob("*.toml")} <= names


def test_the_demo_model_travels_in_both_formats(names):
    assert {"edgetop/demo/demo.onnx", "edgetop/demo/demo.tflite"} <= names


def test_the_probe_travels_in_both_formats(names):
    assert {"edgetop/roofline_models/probe.onnx", "edgetop/roofline_models/probe.tflite"} <= names


def test_the_docs_and_the_engine_child_travel(names):
    assert {
        "edgetop/probe/ort_preload.c",
        "edgetop/probe/llama_preload.h",
        "edgetop/probe/edgetop_probe.h",
        "edgetop/probe/hook/sitecustomize.py",
    } <= names
    assert {"edgetop/docs/quickstart.md", "edgetop/engines/child/__main__.py"} <= names


def test_no_test_travels(names):
    assert not [name for name in names if "tests" in name.split("/") or name.rpartition("/")[2].startswith("test_")]


def test_the_licence_travels(names):
    assert [name for name in names if name.endswith("licenses/LICENSE")]


@pytest.mark.slow
def test_an_installed_copy_finds_its_themes_and_its_model(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from edgetop import demo\nfrom edgetop.ui.themes import theme_files\n"
        "assert demo.__file__.startswith(sys.argv[1]), demo.__file__\n"
        "assert demo.model_path('tflite').is_file()\nprint(*sorted(theme_files()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert {"dark", "light", "16"} <= set(done.stdout.split())


def test_all_pulls_in_neither_tflite_runtime_nor_jetson_stats(wheel):
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith("METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    pulled = [line for line in lines if line.startswith("Requires-Dist:") and "extra == 'all'" in line]
    assert pulled
    assert not [line for line in pulled if "tflite-runtime" in line or "jetson" in line]


def test_the_man_page_has_every_command_and_option(shared):
    text = shared["man/man1/edgetop.1"]
    assert text == page()
    for name in COMMANDS:
        command = command_group.edgetop.get_command(click.Context(command_group.edgetop), name)
        written = name.replace("-", "\\-")
        section = text.partition(f'.SS "edgetop {written} ')[2].partition(".SS")[0].partition(".SH")[0]
        assert section, name
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        missing = [one.opts for one in options if max(one.opts, key=len).replace("-", "\\-") not in section]
        assert not missing, name


def test_the_man_page_holds_no_line_that_roff_would_take_for_a_request(shared):
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi", ".B"}
    lines = shared["man/man1/edgetop.1"].splitlines()
    assert {line.split()[0] for line in lines if line.startswith((".", "'"))} == known


def test_the_man_page_is_made_with_click_alone():
    """The build environment has nothing else."""
    code = (
        "import sys; from edgetop.cli.man_page import page; page()\n"
        "places = [str(getattr(module, '__file__', '')) for module in sys.modules.values()]\n"
        "print(*{one.split('site-packages/')[1].split('/')[0] for one in places if 'site-packages/' in one})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"click", "_distutils_hack", "_virtualenv.py", "typing_extensions.py"}


def test_completions_travel_to_where_shells_look(shared):
    assert set(shared) == {
        "man/man1/edgetop.1",
        "bash-completion/completions/edgetop",
        "zsh/site-functions/_edgetop",
        "fish/vendor_completions.d/edgetop.fish",
    }
    assert shared["zsh/site-functions/_edgetop"].startswith("#compdef edgetop\n")


def test_bash_completes_with_the_file_that_is_installed(shared, tmp_path):
    (tmp_path / "completion").write_text(shared["bash-completion/completions/edgetop"])
    program = tmp_path / "bin/edgetop"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m edgetop "$@"\n')
    program.chmod(0o755)
    words = "COMP_WORDS=(edgetop self); COMP_CWORD=1"
    line = f'source completion; {words}; _edgetop_completion edgetop; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=True,
        env=environment(tmp_path, PATH=f"{program.parent}:/usr/local/bin:/usr/bin:/bin"),
    )  # fmt: skip
    assert done.stdout == "self-test\n"


def test_an_old_python_is_refused_in_one_line_before_pip_looks_for_other_packages(monkeypatch):
    spec = importlib.util.spec_from_file_location("build_hook", ROOT / ".ci/build_hook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook = module.ManPage(str(ROOT), {}, None, None, "", "wheel")
    monkeypatch.setattr(module.sys, "version_info", (3, 9, 2))
    with pytest.raises(SystemExit, match=r"^edgetop needs Python 3\.10 or later, and this is Python 3\.9$"):
        hook.initialize("standard", {"shared_data": {}})
