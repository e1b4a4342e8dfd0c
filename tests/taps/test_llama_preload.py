"""llama.cpp in programs that edgetop starts: each batch is an inference with its tokens, the program runs as alone."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edgetop.probe import edgetop_probe as layout
from edgetop.taps.preload import preload_library, preloaded
from edgetop.taps.ring import Ring
from edgetop.taps.token_batches import TokenBatches
from tests.support.environments import CACHE
from tests.support.gguf_models import language_model

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parents[1] / "support" / "programs"
HOOK = Path(layout.__file__).parent / "hook"
# A program of llama-cpp-python, whose module `llama_cpp.llama_cpp` looks for its functions as this one does.
PACKAGE = """
import ctypes, functools
from edgetop.engines.child.llama_library import _FUNCTIONS, library_path
_lib = ctypes.CDLL(library_path())
for name in ("llama_get_model",):
    _FUNCTIONS[name] = (ctypes.c_void_p, [ctypes.c_void_p])
_FUNCTIONS["llama_encode"] = _FUNCTIONS["llama_decode"]
for name, (result, arguments) in _FUNCTIONS.items():
    function = getattr(_lib, name)
    function.restype, function.argtypes = result, arguments
    globals()[name] = function
"""
PROGRAM = """
import ctypes, sys
from llama_cpp.llama_cpp import *
from llama_cpp import llama_cpp
model = llama_cpp.llama_model_load_from_file(sys.argv[1].encode(), llama_cpp.llama_model_default_params())
context = llama_cpp.llama_init_from_model(model, llama_cpp.llama_context_default_params())
tokens = (ctypes.c_int32 * 8)(*range(3, 11))
said = []
for count in (8, 1, 1, 1, 1000, 1):
    batch = llama_cpp.llama_batch_get_one(ctypes.addressof(tokens), min(count, 8))
    if count == 1000:
        tokens[0] = -5  # invalid
    said.append(llama_cpp.llama_decode(context, batch))
    tokens[0] = 3
print(said, llama_cpp.llama_decode.__name__)
llama_cpp.llama_free(context)
context = llama_cpp.llama_init_from_model(model, llama_cpp.llama_context_default_params())
said.append(llama_cpp.llama_decode(context, batch))
"""

CLEARS = """
import ctypes, sys
from llama_cpp import llama_cpp
model = llama_cpp.llama_model_load_from_file(sys.argv[1].encode(), llama_cpp.llama_model_default_params())
context = llama_cpp.llama_init_from_model(model, llama_cpp.llama_context_default_params())
tokens = (ctypes.c_int32 * 8)(*range(3, 11))
memory = llama_cpp.llama_get_memory(context)
for count in (8, 1, 1, 0, 8, 1, 1, 4, 1, -11, 6, 1):
    if count == 0:
        llama_cpp.llama_memory_clear(memory, True)
    elif count < 0:
        llama_cpp.llama_memory_seq_rm(memory, 0, -count, -1)
    else:
        batch = llama_cpp.llama_batch_get_one(ctypes.addressof(tokens), count)
        assert llama_cpp.llama_decode(context, batch) == 0
"""


SERVER = """
import json, os, sys, urllib.request, xllamacpp
options = xllamacpp.CommonParams()
options.model.path, options.n_ctx, options.n_parallel, options.warmup = sys.argv[1], 256, 1, False
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(options)
address = server.listening_address + "/completion"
for count in (5, 9):
    asked = {"prompt": "w1 w2 w3", "n_predict": count, "ignore_eos": True, "cache_prompt": False}
    request = urllib.request.Request(address, json.dumps(asked).encode(), {"Content-Type": "application/json"})
    answer = json.loads(urllib.request.urlopen(request, timeout=60).read())["timings"]
    print(answer["prompt_n"], answer["predicted_n"])
sys.stdout.flush()
os._exit(0)
"""


def build(out, source, *options):
    out.parent.mkdir(exist_ok=True)
    order = ["g++", "-std=c++17", "-O2", "-w", "-o", out, PROGRAMS / source, *options, "-ldl", "-lpthread"]
    subprocess.run(list(map(str, order)), check=True)
    return out


def built_program(folder, *options, name="libllama.so.0", loads=False):
    """Build the library and a program for it. `loads`: the program finds it by dlopen(3)."""
    library = build(folder / name, "llama_library.cpp", "-shared", "-fPIC", f"-Wl,-soname,{name}", *options)
    linked = [f'-DLOADS="{library}"'] if loads else [library, f"-Wl,-rpath,{folder}"]
    return build(folder / "program", "llama_program.cpp", *options, *linked)


@pytest.fixture(scope="module")
def library():
    return preload_library(CACHE / "preload")


@pytest.fixture(name="run")
def fixture_run(library, tmp_path):
    """Run a command alone and watched. Returns both results and what was reported, as (kind, name, call)."""

    def run(*words, preload=True, environment=(), **more):
        rings = tmp_path / "rings"
        rings.mkdir()
        alone = {**os.environ, **more}
        watched = {**alone, "EDGETOP_TAP": str(rings), **dict(environment)}
        if preload:
            watched["LD_PRELOAD"] = preloaded(library)
        words = list(map(str, words))
        done = [subprocess.run(words, env=env, capture_output=True, check=False) for env in (alone, watched)]
        return *done, read(rings)

    return run


def read(folder):
    rows = []
    for path in sorted(folder.glob("*.tap")):
        ring = Ring(path)
        ring.find_whole()
        rows += [(int(call["kind"]), ring.name(int(call["name"])), call) for call in ring.read()]
        assert ring.lost == 0
        ring.close()
    return rows


def counts(rows):
    return Counter((name.model, bool(call["ok"])) for kind, name, call in rows if kind == layout.CALL)


def sizes(rows, model):
    """The sizes that were reported of a model's calls, in order."""
    return [int(call["number"]) for kind, name, call in rows if kind == layout.SIZE and name.model == model]


# 72 bytes: the structure of 2024; 120: of a version that is still to come.
@pytest.mark.parametrize(
    ("options", "loads"),
    [
        ((), False),
        ((), True),
        pytest.param(("-DOLD", "-DBATCH_BYTES=72"), False, marks=pytest.mark.thorough),
        (("-DBATCH_BYTES=120",), True),
    ],
    ids=["linked", "loaded", "of-2024", "of-later"],
)
def test_batches_are_inferences_with_their_tokens(run, tmp_path, options, loads):
    program = built_program(tmp_path / "built", *options, loads=loads)
    alone, watched, rows = run(program, "/m/first.gguf", "/m/other.gguf")
    assert (watched.returncode, watched.stdout, watched.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert (alone.returncode, alone.stdout) == (7, b"0 1 2 -1 1\n")
    seen = counts(rows)
    threads = {key: seen.pop(key) for key in list(seen) if re.fullmatch(r"/m/first\.gguf#\d", key[0])}
    assert set(threads) <= {(f"/m/first.gguf#{number}", True) for number in range(2, 6)}
    assert sum(threads.values()) == 400
    processed = 0 if "-DOLD" in options else 2
    assert seen == {
        ("/m/first.gguf", True): 8 + 1 + processed + 2,
        ("/m/first.gguf", False): 2,
        ("/m/other.gguf", True): 1,
        ("/m/other.gguf#2", True): 4,
    }
    filled = [6, 2] if processed and not loads else []  # the calls that fill a batch are seen if they are linked
    assert sizes(rows, "/m/first.gguf") == [40, 1, 8, 1, 2, 1003, 1004, 1, *filled, 1]
    assert {(name.runtime, name.version) for _, name, _ in rows} == {("llama.cpp", "")}
    models = [(name.model, int(call["number"])) for kind, name, call in rows if kind == layout.LOAD]
    assert models == [("/m/first.gguf", 4), ("/m/other.gguf", 4)]


def test_the_library_takes_little_of_the_stack_of_every_thread(library):
    """The C library takes a thread's static memory (TLS) from its stack, and threads may have small ones."""
    words = ["readelf", "-lW", library]
    rows = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    sizes = [int(row.split()[5], 16) for row in rows if row.split()[:1] == ["TLS"]]
    assert len(sizes) == 1
    assert sizes[0] < 512


def test_a_plug_in_that_keeps_its_library_to_itself(run, tmp_path):
    """So does node-llama-cpp. Two plug-ins have a library of their own each."""
    words = []
    for folder, bytes_, runs in (("one", 56, 10), ("two", 72, 20)):
        shared = ("-shared", "-fPIC", f"-DBATCH_BYTES={bytes_}")
        own = build(tmp_path / folder / "libllama.v0.5.0.so", "llama_library.cpp", *shared)
        plugin = build(tmp_path / folder / "addon.node", "llama_program.cpp", *shared, own, "-Wl,-rpath,$ORIGIN")
        words += [plugin, f"/m/{folder}.gguf", runs]
    host = tmp_path / "host"
    subprocess.run(["gcc", "-w", "-o", host, PROGRAMS / "plugin_host.c", "-ldl"], check=True)
    alone, watched, rows = run(host, *words)
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    assert alone.returncode == 7
    assert counts(rows) == {("/m/one.gguf", True): 10, ("/m/two.gguf", True): 20}


def test_a_call_of_the_library_that_fails_changes_nothing(library, tmp_path):
    """Calls of the C library for memory, files, limits."""
    program = built_program(tmp_path / "built")
    failing, count = tmp_path / "failing.so", tmp_path / "count"
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", failing, PROGRAMS / "failing_calls.c", "-ldl"], check=True)

    def run(at, **more):
        watched = {"LD_PRELOAD": f"{preloaded(library)} {failing}", "EDGETOP_TAP": str(tmp_path), "FAIL_AT": at}
        words = [str(program), "/m/first.gguf", "/m/other.gguf"]
        done = subprocess.run(words, env={**os.environ, **watched, **more}, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert run("0", FAIL_COUNT=str(count)) == (7, b"0 1 2 -1 1\n", b"")
    total = int(count.read_text())
    assert total >= 5
    names = [f"{number}{more}" for number in range(1, total + 1) for more in ("", "+")]
    assert [name for name in names if run(name)[:2] != (7, b"0 1 2 -1 1\n")] == []


def test_another_function_of_that_name_is_left_alone(run, tmp_path):
    program = built_program(tmp_path / "built", "-DFOREIGN", name="libother.so.1")
    alone, watched, rows = run(program)
    assert (watched.returncode, watched.stdout, rows) == (alone.returncode, alone.stdout, [])
    assert alone.stdout == b"3298534883378.25\n"


def python_program(folder, program=PROGRAM):
    package = folder / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text("from .llama_cpp import *\n")
    (package / "llama_cpp.py").write_text(PACKAGE)
    model = folder / "model.gguf"
    model.write_bytes(language_model())
    (folder / "program.py").write_text(program)
    return [sys.executable, folder / "program.py", model]


@pytest.mark.parametrize("how", ["hook", "preload", "both"])
def test_llama_cpp_in_python(run, tmp_path, how):
    """By llama.cpp's own library, as llama-cpp-python calls it. Each call is seen once."""
    words = python_program(tmp_path)
    root = Path(__file__).parents[2]
    hooked = {"PYTHONPATH": f"{HOOK}:{root}"} if how != "preload" else {}
    alone, watched, rows = run(*words, preload=how != "hook", environment=hooked, PYTHONPATH=str(root))
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    assert alone.stdout == b"[0, 0, 0, 0, -1, 0] llama_decode\n"
    model = str(words[-1])
    assert counts(rows) == {(model, True): 6, (model, False): 1}
    assert sizes(rows, model) == [8, 1, 8, 1, 1]
    assert {(name.runtime, name.version) for _, name, _ in rows} == {("llama.cpp", "")}
    (load,) = [call for kind, _, call in rows if kind == layout.LOAD]
    assert load["number"] > 1
    assert load["end_ns"] > load["start_ns"]


@pytest.mark.parametrize("how", ["hook", "preload"])
def test_positions_that_are_left_to_llama_cpp_are_those_of_its_cache(run, tmp_path, how):
    """The program clears the cache after a request, and cuts it at position 11 later."""
    words = python_program(tmp_path, CLEARS)
    root = Path(__file__).parents[2]
    hooked = {"PYTHONPATH": f"{HOOK}:{root}"} if how == "hook" else {}
    _, watched, rows = run(*words, preload=how == "preload", environment=hooked, PYTHONPATH=str(root))
    assert watched.returncode == 0, watched.stderr
    runs = np.array([call for kind, _, call in rows if kind == layout.TOKENS])
    seen = list(zip((runs["cpu_us"].astype(int) - 1).tolist(), runs["number"].tolist(), strict=True))
    assert seen == [(0, 8), (8, 1), (9, 1), (0, 8), (8, 1), (9, 1), (10, 4), (14, 1), (11, 6), (17, 1)]
    batches = TokenBatches()
    batches.add(1, runs)
    _, requests = batches.release(2**62, 2**62, is_over=True)
    told = zip(requests["tokens_in"].tolist(), requests["tokens_cached"].tolist(), strict=True)
    assert list(told) == [(8, 0), (8, 0), (14, 10), (17, 11)]


def test_the_server_of_xllamacpp(run, tmp_path):
    """The module calls llama_process of its own library, which the loader binds to the preloaded one."""
    model = tmp_path / "model.gguf"
    model.write_bytes(language_model())
    alone, watched, rows = run(sys.executable, "-c", SERVER, model)
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    assert alone.returncode == 0
    prompts, generated = zip(*(map(int, line.split()) for line in alone.stdout.decode().splitlines()), strict=True)
    assert generated == (5, 9)
    calls = [call for kind, _, call in rows if kind == layout.CALL]
    assert {name.model for _, name, _ in rows} == {str(model)}
    assert all(call["ok"] for call in calls)
    told = {int(call["start_ns"]): int(call["number"]) for kind, _, call in rows if kind == layout.SIZE}
    tokens, size = [], 0
    for call in calls:
        size = told.get(int(call["start_ns"]), size)
        tokens.append(size)
    # A prompt, then each token but the last one. Before, the server tries what the model can do.
    assert tokens[-(5 + 9) :] == [prompts[0], *[1] * 4, prompts[1], *[1] * 8]
