"""llama.cpp in a process that runs already: each batch is a call of `llama_decode`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.engines.child.llama_library import library_path
from edgetop.taps import perf
from edgetop.taps.runtimes import functions, runtime_of
from edgetop.taps.watched_process import ProcessSpec, WatchedProcess
from tests.support.gguf_models import language_model
from tests.support.waiting import wait_until

CAN_SEE = not perf.why_not() and perf.may_set()
PROGRAM = """
import ctypes, sys, time
from edgetop.engines.child.llama_library import Llama
llama = Llama()
model = llama.load(sys.argv[1], None)
context = llama.context(model, 512, 1)
tokens = (ctypes.c_int32 * 8)(*range(3, 11))
while True:
    llama.llama_memory_clear(llama.llama_get_memory(context), False)
    llama.llama_decode(context, llama.llama_batch_get_one(ctypes.addressof(tokens), 8))
    print("called", flush=True)
    time.sleep(0.01)
"""


def test_the_exported_functions_are_found_in_the_library():
    path = library_path()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = functions(path, descriptor)
    finally:
        os.close(descriptor)
    assert [(each.runtime, each.name) for each in found] == [
        ("llama.cpp", name) for name in ("llama_decode", "llama_encode", "llama_process")
    ]
    assert len({each.offset for each in found}) == 3
    assert found[0].succeeded(0)
    assert not found[0].succeeded(2**32 - 1)


@pytest.mark.parametrize("name", ["libllama.so", "libllama.so.0.0.1", "libllama.v0.5.0.so", "xllamacpp.abi3.so"])
def test_llama_cpp_is_recognised_by_the_name_of_its_library(name):
    assert runtime_of(f"/usr/lib/{name}") == "llama.cpp"
    assert runtime_of("/usr/lib/libllamafile.txt") == ""


@pytest.mark.slow
@pytest.mark.skipif(not CAN_SEE, reason="uprobes need root and a kernel that has them; other tests see the refusal")
def test_batches_of_a_running_process_are_seen(tmp_path):
    model = tmp_path / "model.gguf"
    model.write_bytes(language_model())
    root = Path(__file__).parents[2]
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, model], stdout=subprocess.PIPE, cwd=root)
    watched = WatchedProcess(ProcessSpec((), program.pid))
    try:
        assert program.stdout.readline() == b"called\n"
        watched.start_helpers()
        watched.start()
        seen = []
        wait_until(lambda: seen.extend(watched.poll().records) or len(seen) > 20)
        assert all(one["ok"] for one in seen)
    finally:
        watched.close()
        program.kill()
        program.wait()
        program.stdout.close()
