"""OpenVINO and a shared ncnn in C and C++ programs: every inference is counted once, and the program runs as alone."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import openvino
import pytest

from edgetop.probe import edgetop_probe as layout
from edgetop.taps.preload import preload_library, preloaded
from edgetop.taps.ring import Ring
from tests.support import openvino_models
from tests.support.environments import CACHE

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
OPENVINO = Path(openvino.__file__).parent


def build(out, source, *options):
    order = ["g++", "-std=c++17", "-w", "-o", out, PROGRAMS / source, *options, "-lpthread"]
    subprocess.run(list(map(str, order)), check=True)
    return out


@pytest.fixture(scope="module")
def library():
    return preload_library(CACHE / "preload")


def run(library, rings, *words):
    """Run a command alone and with the preloaded library. Returns both results.

    A program that ends with 99 could not bring about what it is to show, and is run again.
    """
    watched = {**os.environ, "LD_PRELOAD": preloaded(library), "EDGETOP_TAP": str(rings)}
    results = []
    for env in (dict(os.environ), watched):
        for _ in range(5):
            shutil.rmtree(rings, ignore_errors=True)
            rings.mkdir()
            done = subprocess.run(list(map(str, words)), env=env, capture_output=True, check=False)
            if done.returncode != 99:
                break
        results.append(done)
    return results


def read(folder):
    """Rows of (kind, name, call) of all rings."""
    rows = []
    for path in sorted(folder.glob("*.tap")):
        ring = Ring(path)
        ring.find_whole()
        rows += [(int(call["kind"]), ring.name(int(call["name"])), call) for call in ring.read()]
        ring.close()
    return rows


def counts(rows):
    return Counter((name.model, bool(call["ok"])) for kind, name, call in rows if kind == layout.CALL)


def test_openvinos_library_for_arm64_has_all_functions_that_are_replaced(library):
    """Their names must be the same there, since the watched program is linked to them by name."""
    exported = set((Path(__file__).parent / "openvino-aarch64.txt").read_text().splitlines())
    names = {name.decode() for name in re.findall(rb"_ZNK?2ov\w+", library.read_bytes())}
    assert len(names) >= 12
    assert names <= exported
    assert "get_openvino_version" in exported


@pytest.fixture(scope="module")
def openvino_program(tmp_path_factory):
    libraries = OPENVINO / "libs"
    linked = [next(libraries.glob(f"lib{name}.so.*")) for name in ("openvino", "openvino_c")]
    paths = [f"-Wl,{option},{libraries}" for option in ("-rpath", "-rpath-link")]
    out = tmp_path_factory.mktemp("program") / "calls"
    return build(out, "openvino_calls.cpp", "-I", OPENVINO / "include", *linked, *paths)


def test_openvino_in_c_and_cpp(openvino_program, library, tmp_path):
    first, second = (openvino_models.write_products(tmp_path / name) for name in ("first.xml", "second.xml"))
    alone, watched = run(library, tmp_path / "rings", openvino_program, first, second)
    assert (watched.returncode, watched.stdout, watched.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert (alone.returncode, alone.stdout) == (7, b"6 0 2 0\n")
    rows = read(tmp_path / "rings")
    read_first = str(first) if platform.machine() == "x86_64" else "products"  # elsewhere, a model's own name
    by_cpp, by_c = str(second), f"{second}#2"
    assert counts(rows) == {
        (read_first, True): 10 + 5 + 6,
        (by_cpp, True): 4 + 1 + 1,
        (by_cpp, False): 1,
        (by_c, True): 4 + 3,
    }
    version = openvino.__version__.split("-")[0]
    assert {(name.runtime, name.version) for kind, name, _ in rows if kind == layout.CALL} == {("openvino", version)}
    assert [name.model for kind, name, _ in rows if kind == layout.LOAD] == [read_first, by_cpp, by_c]
    firsts = [name.model for kind, name, call in rows if kind == layout.CALL and call["flags"] & layout.FIRST]
    assert firsts == [read_first, by_cpp, by_c]


def test_openvino_in_python_is_left_to_the_hook(library, tmp_path):
    model = openvino_models.write_products(tmp_path / "net.xml")
    script = (
        "import sys, numpy as np, openvino as ov\n"
        "compiled = ov.Core().compile_model(sys.argv[1], 'CPU')\n"
        "request = compiled.create_infer_request()\n"
        "for _ in range(3): request.start_async(np.ones((1, 8), np.float32)); request.wait()\n"
        "print([compiled(np.ones((1, 8), np.float32))[0].tolist() for _ in range(4)])\n"
    )
    hook = Path(layout.__file__).parent / "hook"
    words = ("env", f"PYTHONPATH={hook}", sys.executable, "-c", script, model)
    alone, watched = run(library, tmp_path / "rings", *words)
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    assert alone.returncode == 0
    assert counts(read(tmp_path / "rings")) == {(str(model), True): 7}


def test_a_shared_ncnn(library, tmp_path):
    shared = build(tmp_path / "libncnn.so.1", "ncnn_shared.cpp", "-DLIBRARY", "-shared", "-fPIC")
    program = build(tmp_path / "program", "ncnn_shared.cpp", shared, f"-Wl,-rpath,{tmp_path}")
    alone, watched = run(library, tmp_path / "rings", program, "/m/first.param", "/m/second.param")
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    assert (alone.returncode, alone.stdout) == (7, b"0 -1\n")
    rows = read(tmp_path / "rings")
    assert counts(rows) == {
        ("/m/first.param", True): 5 + 1,
        ("/m/second.param", True): 4 + 1 + 2,
        ("/m/second.param", False): 1,
        ("", True): 3,
    }
    assert {name.runtime for kind, name, _ in rows if kind == layout.CALL} == {"ncnn"}
    took = {name.model: [] for _, name, _ in rows}
    for kind, name, call in rows:
        if kind == layout.CALL and call["ok"]:
            took[name.model].append(call["end_ns"] - call["start_ns"])
    assert min(took["/m/first.param"]) >= 4_000_000  # two outputs of 2 ms each are one inference
    assert min(took["/m/second.param"]) >= 2_000_000
