"""What is shipped: everything the program needs, and nothing it does not."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    return next(folder.glob("*.whl"))


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
