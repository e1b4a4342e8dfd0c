"""The preloaded library in programs whose runtime is a plug-in's, or is not there at all: they run as alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.taps.preload import PRELOAD_SOURCE, preload_library, preloaded
from edgetop.taps.ring import Ring

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"


def build(out, source, *options):
    out.parent.mkdir(exist_ok=True)
    order = ["gcc", "-O2", "-w", "-o", out, PROGRAMS / source, *options, "-ldl", "-lpthread"]
    subprocess.run(list(map(str, order)), check=True)
    return out


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with two runtimes of one name, plug-ins of both kinds for each, one of TFLite, and their host."""
    folder = tmp_path_factory.mktemp("plugins")
    shared = ("-shared", "-fPIC", "-Wl,-rpath,$ORIGIN")
    for name, version in (("old", "1.17.3"), ("new", "1.20.0")):
        home = folder / name
        library = build(home / "libonnxruntime.so.1", "runtime.c", *shared, f'-DVERSION="{version}"')
        build(home / "linked.so", "plugin.c", *shared, library)
        build(home / "loads.so", "plugin.c", *shared, f'-DLOADS="{library}"')
    lite = build(folder / "lite" / "libtensorflowlite_c.so", "runtime.c", *shared, "-DLITE")
    build(folder / "lite" / "linked.so", "plugin.c", *shared, "-DLITE", lite)
    build(folder / "host", "plugin_host.c")
    build(folder / "other.so", "runtime.c", *shared, "-DLITE")  # what the user preloads
    return folder


@pytest.fixture(scope="module")
def library(place):
    return preload_library(place / "cache")


@pytest.fixture(name="preloaded")
def fixture_preloaded(library, tmp_path):
    """Run a command alone and with the library. Returns both results, and the calls that were seen, by model."""

    def run(*command, preload="", children=False):
        words = list(map(str, command))
        alone = {**os.environ, "LD_PRELOAD": preload}
        if not preload:
            del alone["LD_PRELOAD"]
        watched = {**os.environ, "LD_PRELOAD": f"{preloaded(library)} {preload}".strip(), "EDGETOP_TAP": str(tmp_path)}
        if children:
            watched["EDGETOP_TAP_CHILDREN"] = "1"
        done = [subprocess.run(words, env=env, capture_output=True, check=False) for env in (alone, watched)]
        return *done, seen(tmp_path)

    return run


def seen(folder):
    """Calls by runtime, version and model, and of how many rings."""
    counts = {}
    for path in sorted(folder.glob("*.tap")):
        ring = Ring(path)
        ring.find_whole()
        calls = ring.read()
        assert ring.lost == 0
        for call in calls[calls["kind"] == 1].tolist():
            name = ring.name(call[4])
            key = name.runtime, name.version, name.model
            counts[key] = counts.get(key, 0) + 1
        ring.close()
    return counts


@pytest.mark.parametrize("way", ["linked", "loads"])
def test_a_runtime_of_a_plug_in_is_seen(place, preloaded, way):
    alone, watched, calls = preloaded(place / "host", place / "old" / f"{way}.so", "/m/a.onnx", 1000)
    assert (watched.returncode, watched.stdout, watched.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert alone.returncode == 7
    assert calls == {("onnxruntime", "1.17.3", "/m/a.onnx"): 1000}


def test_two_runtimes_in_one_process_keep_apart(place, preloaded):
    words = [(place / home / f"{way}.so", f"/m/{home}-{way}.onnx", runs)
             for home, way, runs in (("old", "linked", 10), ("new", "linked", 20), ("new", "loads", 30))]  # fmt: skip
    alone, watched, calls = preloaded(place / "host", *(word for each in words for word in each))
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    assert calls == {
        ("onnxruntime", "1.17.3", "/m/old-linked.onnx"): 10,
        ("onnxruntime", "1.20.0", "/m/new-linked.onnx"): 20,
        ("onnxruntime", "1.20.0", "/m/new-loads.onnx"): 30,
    }


def test_a_fork_after_the_load_keeps_the_name(place, preloaded):
    alone, watched, calls = preloaded(place / "host", "fork", place / "old" / "linked.so", "/m/a.onnx", 50)
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    assert calls == {("onnxruntime", "1.17.3", "/m/a.onnx"): 51}


def test_tensorflow_lite_of_a_plug_in_is_seen(place, preloaded):
    alone, watched, calls = preloaded(place / "host", place / "lite" / "linked.so", "-", 200)
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    assert list(calls.values()) == [200]


def test_a_program_without_a_runtime_finds_none(place, preloaded):
    """Nor does it get another answer from dlerror(3)."""
    alone, watched, calls = preloaded(place / "host")
    assert b"OrtGetApiBase not there error\nTfLiteInterpreterInvoke not there error" in alone.stdout
    assert (watched.returncode, watched.stdout, calls) == (alone.returncode, alone.stdout, {})


def test_what_the_user_preloads_stays(place, preloaded):
    alone, watched, _ = preloaded(place / "host", preload=str(place / "other.so"))
    assert f"preloaded {place / 'other.so'}\n".encode() in alone.stdout
    assert watched.stdout == alone.stdout


def test_programs_that_it_starts_find_the_environment_as_alone(place, preloaded):
    words = ("sh", "-c", "echo $LD_PRELOAD; exec env")
    for preload in ("", str(place / "other.so")):
        alone, watched, _ = preloaded(*words, preload=preload)
        lines = [line for line in watched.stdout.splitlines() if not line.startswith((b"EDGETOP_TAP", b"_="))]
        assert lines == [line for line in alone.stdout.splitlines() if not line.startswith(b"_=")]


@pytest.mark.parametrize("count", [70, 5000])
def test_sessions_one_after_the_other_are_all_counted(place, preloaded, count):
    """A session that was released gives its name to the next one of the same model."""
    words = [str(word) for number in range(count) for word in (place / "old" / "linked.so", "/m/a.onnx", 1)]
    _, watched, calls = preloaded(place / "host", *words)
    assert (watched.returncode, calls) == (7, {("onnxruntime", "1.17.3", "/m/a.onnx"): count})


def test_models_that_do_not_fit_are_the_others(place, preloaded):
    words = [str(word) for number in range(100) for word in (place / "old" / "linked.so", f"/m/{number}.onnx", 2)]
    _, _, calls = preloaded(place / "host", *words)
    assert calls.pop(("", "", "others")) == 2 * 37
    assert set(calls.values()) == {2}
    assert len(calls) == 63


def test_a_python_program_with_ctypes_is_seen_once(place, library, tmp_path):
    """The hook takes EDGETOP_TAP away before the C library is loaded."""
    script = (
        "import ctypes, sys\n"
        "lite = ctypes.CDLL(sys.argv[1])\n"
        "session = ctypes.create_string_buffer(8)\n"
        "for _ in range(300): assert lite.TfLiteInterpreterInvoke(session) == 0\n"
    )
    hook = Path(__file__).parents[2] / "edgetop" / "probe" / "hook"
    environment = {
        **os.environ,
        "LD_PRELOAD": preloaded(library),
        "EDGETOP_TAP": str(tmp_path),
        "PYTHONPATH": str(hook),
    }
    words = [sys.executable, "-c", script, str(place / "lite" / "libtensorflowlite_c.so")]
    subprocess.run(words, env=environment, check=True)
    assert list(seen(tmp_path).values()) == [300]


def test_a_ring_that_cannot_be_made_changes_nothing(place, library):
    """No folder, a full disk, no descriptor, a limit on files: the program runs, unseen."""
    words = [str(place / "host"), str(place / "old" / "linked.so"), "/m/a.onnx", "100"]
    for before in ("true", "ulimit -f 1", "ulimit -n 4", "ulimit -v 60000"):
        for folder in ("/nowhere", "/proc", "/dev/full", str(place)):
            env = {**os.environ, "LD_PRELOAD": preloaded(library), "EDGETOP_TAP": folder}
            command = ["sh", "-c", f'{before}; exec "$@"', "sh", *words]
            done = subprocess.run(command, env=env, capture_output=True, check=False)
            assert (done.returncode, done.stderr) == (7, b""), (before, folder)


def test_a_call_of_the_library_that_fails_changes_nothing(place, library, tmp_path):
    """Calls of the C library for memory, files, limits. The program runs two plug-ins, one of them twice."""
    failing = build(place / "failing.so", "failing_calls.c", "-shared", "-fPIC")
    plugins = [place / "old" / "linked.so", place / "new" / "loads.so", place / "old" / "loads.so"]
    words = [str(word) for each in plugins for word in (each, "/m/a.onnx", 20)]
    count = tmp_path / "count"

    def run(before, at="", **more):
        env = {**os.environ, "LD_PRELOAD": f"{before}{failing}", "FAIL_AT": at, **more}
        done = subprocess.run([str(place / "host"), *words], env=env, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    watched = {"EDGETOP_TAP": str(tmp_path)}
    alone, before = run(""), f"{preloaded(library)} "
    assert run(before, "0", FAIL_COUNT=str(count), **watched) == alone
    assert sum(seen(tmp_path).values()) == 60
    total = int(count.read_text())
    assert total > 30
    names = [f"{number}{more}" for number in range(1, total + 1) for more in ("", "+")]
    assert [name for name in names if not is_as_alone(run(before, name, **watched), alone)] == []


def is_as_alone(done, alone):
    """Whether a program ended as alone. Without memory its environment keeps the name of the library."""
    own = re.sub(rb"preloaded \S*ort_preload\S*so[ :]", b"preloaded ", done[1])
    return (done[0], own, done[2]) == alone


def test_the_source_compiles_without_a_warning(tmp_path):
    order = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", tmp_path / "one.so", PRELOAD_SOURCE]
    done = subprocess.run([*map(str, order), "-ldl", "-lpthread"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
