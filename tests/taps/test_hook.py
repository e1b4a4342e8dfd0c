"""The hook in Python programs: nothing that fails in it, and nothing that it does, reaches the program.

The runtime is a package of three lines, so that a program takes a tenth of a second.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.probe.edgetop_probe import CALL, COLLECT, COLLECT_NS, SIZE
from edgetop.taps.ring import Ring

pytestmark = pytest.mark.slow

HOOK = Path(__file__).parents[2] / "edgetop" / "probe" / "hook"
RUNTIME = """
class Interpreter:
    def __init__(self, model_path=None, num_threads=None):
        self.model_path = model_path
    def invoke(self, how=None):
        '''Run it.'''
        return how() if how else "result"
"""


@pytest.fixture
def program(tmp_path):
    """Run a script alone or watched. Returns what it prints, as JSON, and its exit status."""
    package = tmp_path / "packages" / "ai_edge_litert"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '9.9'\n")
    (package / "interpreter.py").write_text(RUNTIME)
    rings = tmp_path / "rings"
    rings.mkdir()

    def run(script, *, watched=True, before="", **more):
        environment = {**os.environ, "PYTHONPATH": str(package.parent), **more}
        if watched:
            environment.update(PYTHONPATH=f"{HOOK}:{package.parent}", EDGETOP_TAP=str(rings))
        (tmp_path / "script.py").write_text(script)
        words = ["sh", "-c", f'{before or "true"}; exec "$@"', "sh", sys.executable, str(tmp_path / "script.py")]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        return done.stdout and json.loads(done.stdout.splitlines()[-1]), done.returncode, done.stderr

    run.rings = rings
    return run


def calls_in(folder):
    """Rows of name and whether it went well, of all rings; and the highest cost in ns."""
    rows, cost = [], 0
    for path in sorted(folder.glob("*.tap")):
        ring = Ring(path)
        ring.find_whole()
        calls = ring.read()
        rows += [(ring.name(call[4]).model, bool(call[6])) for call in calls[calls["kind"] == 1].tolist()]
        cost = max(cost, ring.cost_ns)
        ring.close()
    return rows, cost


BEGIN = """
import json
from ai_edge_litert.interpreter import Interpreter
one = Interpreter("/m/a.tflite")
"""


def test_calls_are_counted_and_their_cost_is_measured(program):
    said, status, err = program(BEGIN + "print(json.dumps([one.invoke() for _ in range(100)]))")
    assert (said, status, err) == (["result"] * 100, 0, "")
    rows, cost = calls_in(program.rings)
    assert rows == [("/m/a.tflite", True)] * 100
    assert 0 < cost < 10_000_000


@pytest.mark.parametrize("calls", [2, 7, 8, 16])
def test_each_call_of_a_program_that_calls_its_models_in_turns_is_sampled(program, calls):
    """The CPU time and the wait of a few calls is measured, of each model alike. A clock of 5 ms saves real time."""
    script = f"""
import itertools, json, time
clock = itertools.count(time.monotonic_ns(), 5_000_000)
time.monotonic_ns = lambda: next(clock)
from ai_edge_litert.interpreter import Interpreter
models = [Interpreter(f"/m/{{number}}.tflite") for number in range({calls})]
for turn in range(1_200):
    for model in models:
        model.invoke(lambda: sum(range(500)))
print(json.dumps(0))
"""
    assert program(script)[1:] == (0, "")
    (path,) = program.rings.glob("*.tap")
    ring = Ring(path)
    ring.find_whole()
    made = ring.read()
    sampled = [ring.name(row["name"]).model for row in made[(made["kind"] == CALL) & (made["cpu_us"] > 0)]]
    ring.close()
    counts = [sampled.count(f"/m/{number}.tflite") for number in range(calls)]
    assert max(counts) <= 3 * min(counts), counts


def test_a_lost_cpu_is_not_the_cost_of_timing_a_call(program):
    script = """
import time
real, looks = time.monotonic_ns, 0
def sometimes_late():
    global looks
    looks += 1
    return real() + looks // 11 * 20_000_000
time.monotonic_ns = sometimes_late
"""
    _, status, _ = program(script + BEGIN + "print(json.dumps([one.invoke() for _ in range(2000)]))")
    rows, cost = calls_in(program.rings)
    assert (status, len(rows)) == (0, 2000)
    assert 0 < cost < 1_000_000


def test_what_a_call_raises_is_the_programs_and_an_interrupt_is_no_failure(program):
    script = (
        BEGIN
        + """
import sys, traceback
class Odd(BaseException): pass
seen = []
for error in (ValueError("wrong"), KeyboardInterrupt(), SystemExit(4), Odd(), MemoryError(), GeneratorExit()):
    def fails():
        raise error
    for _ in range(20):
        try:
            one.invoke(fails)
        except BaseException as raised:
            frames = [frame.name for frame in traceback.extract_tb(raised.__traceback__)]
            seen.append(raised is error and raised.__context__ is None and frames[-1] == "fails")
            raised.__traceback__ = None
print(json.dumps(seen))
"""
    )
    said, status, err = program(script)
    assert (said, status, err) == ([True] * 120, 0, "")
    assert calls_in(program.rings)[0] == [("/m/a.tflite", False)] * 40  # of ValueError and MemoryError


def test_a_program_finds_the_same_modules_and_settings_as_alone(program):
    script = """
import json, os, signal, sys, warnings
import threading  # whose state is not touched
print(json.dumps({
    "modules": sorted(sys.modules), "path": sys.path, "flags": list(sys.flags), "argv": sys.argv[1:],
    "filters": [str(each) for each in warnings.filters], "threads": threading.active_count(),
    "signals": [str(signal.getsignal(each)) for each in sorted(signal.valid_signals())],
    "environment": {key: value for key, value in os.environ.items() if key != "_"},
    "cache": sorted(sys.path_importer_cache),
    "hooks": [repr(sys.excepthook), repr(sys.displayhook), repr(sys.breakpointhook)], "cwd": os.getcwd(),
    "descriptors": sorted(os.listdir("/proc/self/fd")),
}))
"""
    assert program(script) == program(script, watched=False)


def test_a_sitecustomize_of_the_program_runs_as_alone(program):
    home = program.rings.parent / "packages"
    (home / "sitecustomize.py").write_text("import sys\nsys.was_customized = __file__\n")
    script = "import json, sys\nprint(json.dumps([sys.was_customized, sys.modules['sitecustomize'].__file__]))"
    assert program(script) == program(script, watched=False)
    (home / "sitecustomize.py").write_text("1 / 0\n")
    script = "import json, sys\nprint(json.dumps('sitecustomize' in sys.modules))"
    (said, status, err), alone = program(script), program(script, watched=False)
    assert (said, status) == alone[:2] == (False, 0)
    assert err.splitlines()[-1] == alone[2].splitlines()[-1]


def test_a_session_looks_as_alone(program):
    script = (
        BEGIN
        + """
import copy, inspect, pickle
class Mine(Interpreter):
    def invoke(self):
        return "mine of " + super().invoke()
mine = Mine("/m/b.tflite")
one.invoke()
copied = pickle.loads(pickle.dumps(one)), copy.deepcopy(one), copy.copy(one)
print(json.dumps([
    mine.invoke(), isinstance(mine, Interpreter),
    str(inspect.signature(Interpreter.invoke)), Interpreter.invoke.__doc__,
    Interpreter.invoke.__name__, Interpreter.invoke.__qualname__, [each.invoke() for each in copied],
    str(inspect.signature(Interpreter)),
]))
"""
    )
    assert program(script) == program(script, watched=False)
    assert len(calls_in(program.rings)[0]) == 5


# Each of these fails when it is called for the first, second ... time.
FAILING = """
import builtins, json, sys, os, time, mmap, struct
from ai_edge_litert.interpreter import Interpreter
number, kind = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ["NUMBER"]), os.environ["KIND"]
count = 0
def failing(real):
    def fails(*args, **options):
        global count
        count += 1
        if count >= number:
            raise OSError(24, "too many") if kind == "OSError" else getattr(builtins, kind)()
        return real(*args, **options)
    return fails
import ctypes
for module, names in ((os, ("open", "close", "posix_fallocate", "unlink", "fspath", "getpid")), (mmap, ("mmap",))):
    for name in names:
        setattr(module, name, failing(getattr(module, name)))
one = Interpreter("/m/a.tflite")
results = [one.invoke() for _ in range(50)]
sys.stdout.write(json.dumps(results) + "\\n")
"""


@pytest.mark.parametrize("kind", ["OSError", "MemoryError", "RecursionError"])
def test_what_fails_in_the_hook_stays_there(program, kind):
    for number in range(1, 8):
        said, status, err = program(FAILING, NUMBER=str(number), KIND=kind)
        assert (said, status, err) == (["result"] * 50, 0, ""), number


def test_a_program_whose_descriptors_run_out_in_a_call_runs(program):
    script = """
import json, os, resource
import ctypes  # by which the hook reads how long the thread waited
from ai_edge_litert.interpreter import Interpreter
one = Interpreter("/m/a.tflite")
one.invoke()
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
files, results = [], []
def exhaust():
    try:
        while True:
            files.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return "result"
for _ in range(64):
    results.append(one.invoke(exhaust))
    while files:
        os.close(files.pop())
print(json.dumps(sorted(set(results))))
"""
    assert program(script) == (["result"], 0, "")
    assert len(calls_in(program.rings)[0]) == 65


@pytest.mark.parametrize("before", ["ulimit -f 0", "ulimit -f 100", "ulimit -n 5", "ulimit -s 256"])
def test_limits_of_the_program_are_not_met_by_the_hook(program, before):
    script = BEGIN + "print(json.dumps([one.invoke() for _ in range(40)]))"
    assert program(script, before=before) == program(script, before=before, watched=False)


def test_forked_and_threaded_calls_are_counted_under_one_name(program):
    script = (
        BEGIN
        + """
import os, threading
one.invoke()
for _ in range(5):
    if not os.fork():
        for _ in range(10): one.invoke()
        os._exit(0)
    os.wait()
def work():
    for _ in range(50): one.invoke()
threads = [threading.Thread(target=work) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
print(json.dumps("done"))
"""
    )
    assert program(script) == ("done", 0, "")
    assert calls_in(program.rings)[0] == [("/m/a.tflite", True)] * 251


def test_more_models_than_names_are_the_others(program):
    script = (
        BEGIN
        + """
for number in range(100):
    Interpreter(f"/m/{number}.tflite").invoke()
print(json.dumps("done"))
"""
    )
    assert program(script) == ("done", 0, "")
    names = [name for name, _ in calls_in(program.rings)[0]]
    assert len(names) == 100
    assert names.count("others") == 100 - len(set(names)) + 1
    assert all(names.count(name) == 1 for name in set(names) - {"others"})


ONNX_RUNTIME = """
class InferenceSession:
    def __init__(self, path):
        self._model_path = path
    def get_providers(self):
        return ["CPUExecutionProvider"]
    def run(self, outputs, feed):
        return []
"""


def test_each_change_of_shape_is_reported_with_the_number_of_elements(program, tmp_path):
    package = tmp_path / "packages" / "onnxruntime"
    (package / "capi").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession\n"
    )
    (package / "capi" / "__init__.py").write_text("")
    (package / "capi" / "onnxruntime_inference_collection.py").write_text(ONNX_RUNTIME)
    script = """
import onnxruntime
class Array:
    def __init__(self, *shape):
        self.shape = shape
session = onnxruntime.InferenceSession("m.onnx")
for shape in (1, 8), (1, 8), (1, 12), (1, 12), (2, 8):
    session.run(None, {"tokens": Array(*shape), "mask": Array(1)})
print(1)
"""
    assert program(script)[:2] == (1, 0)
    (path,) = program.rings.glob("*.tap")
    ring = Ring(path)
    ring.find_whole()
    calls = ring.read()
    sizes, made = calls[calls["kind"] == SIZE], calls[calls["kind"] == CALL]
    assert sizes["number"].tolist() == [9, 13, 17]
    assert sizes["start_ns"].tolist() == made["start_ns"][[0, 2, 4]].tolist()


COLLECTING = (
    BEGIN
    + """
import gc, os
gc.disable()
garbage = [[] for _ in range(200_000)]
def collects():
    gc.collect()
    return "result"
results = [one.invoke(), one.invoke(collects)]
child = os.fork()
if not child:
    one.invoke()
    one.invoke(collects)
    os._exit(0)
os.wait()
print(json.dumps([results, [each.__name__ for each in gc.callbacks]]))
"""
)


def test_garbage_collections_of_the_program_and_of_its_children_are_reported(program):
    assert program(COLLECTING) == ([["result"] * 2, ["collected"]], 0, "")
    for path in program.rings.glob("*.tap"):
        ring = Ring(path)
        ring.find_whole()
        rows = ring.read()
        ring.close()
        garbage, calls = rows[rows["kind"] == COLLECT], rows[rows["kind"] == CALL]
        (full,) = garbage[garbage["number"] == 2]
        last = calls[-1]
        assert last["start_ns"] < full["start_ns"] < full["start_ns"] + COLLECT_NS < full["end_ns"] < last["end_ns"]


def test_a_short_garbage_collection_is_not_reported(program):
    script = BEGIN + "import gc\ngc.disable()\ngc.collect()\nprint(json.dumps(one.invoke(lambda: gc.collect(0))))"
    assert program(script)[1:] == (0, "")
    (path,) = program.rings.glob("*.tap")
    ring = Ring(path)
    ring.find_whole()
    rows = ring.read()
    ring.close()
    assert [int(row["number"]) for row in rows[rows["kind"] == COLLECT]] == [2]
