"""Why no inference of a program is seen: what its process is, and what it has loaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.taps.unseen import HOOK, has_runtime, why_unseen
from tests.support.waiting import wait_until

LIBRARY = Path("/cache/ort_preload-1.so")
WAITS = "import time; print('ready', flush=True); time.sleep(60)"


@pytest.fixture
def started():
    """Starts a program and returns its number once it prints something."""
    processes = []

    def start(*command, **options):
        process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, **options)
        processes.append(process)
        assert process.stdout.readline()
        return process.pid

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def why(pid, preload=None, *, has_hook=True, has_reported=False, follows=False):
    settings = {"has_hook": has_hook, "has_reported": has_reported, "follows_children": follows}
    return why_unseen(pid, preload=preload, **settings)


def hooked(**more):
    return {"env": {**os.environ, "PYTHONPATH": f"{HOOK}:/elsewhere", **more}}


def test_a_program_without_a_runtime_is_said_to_have_none(started):
    pid = started(sys.executable, "-c", WAITS, **hooked())
    assert why(pid).startswith(f"process {pid} has loaded no known inference runtime")
    assert "apt install gcc" in why(pid)


@pytest.mark.parametrize("option", ["-I", "-sE", "-B"])
def test_python_that_ignores_its_environment_is_named(started, option):
    pid = started(sys.executable, option, "-c", WAITS, **hooked())
    assert (f"Python was started with {option}, which ignores PYTHONPATH" in why(pid)) == (option != "-B")


def test_a_replaced_path_and_a_hook_that_is_off_are_named(started):
    pid = started(sys.executable, "-c", WAITS, env={**os.environ, "PYTHONPATH": "/elsewhere"})
    assert "something has replaced PYTHONPATH" in why(pid)
    assert why(pid, has_hook=False).endswith("--no-hook was given")


def test_a_preload_library_that_did_not_come_in_is_named(started):
    pid = started(sys.executable, "-c", WAITS, **hooked())
    assert "the preload library is not loaded: the program is setuid, or something has changed LD_PRELOAD" in why(
        pid, LIBRARY
    )


def test_a_static_program_is_named(started, tmp_path):
    compiler = shutil.which("cc")
    assert compiler, "these tests need a C compiler"
    source = '#include <unistd.h>\nint main(void) { write(1, "\\n", 1); return sleep(60); }'
    order = [compiler, "-static", "-x", "c", "-o", tmp_path / "static", "-"]
    subprocess.run(order, input=source.encode(), check=True)
    assert "it is linked statically, which LD_PRELOAD cannot reach" in why(started(tmp_path / "static"), LIBRARY)


@pytest.mark.parametrize("place", ["ld-musl-x86_64.so.1", "x86_64-linux-musl/libc.so"])
def test_a_program_of_musl_is_named_by_its_loader(started, tmp_path, place):
    library = tmp_path / place
    library.parent.mkdir(exist_ok=True)
    library.write_bytes(b"x" * 8192)
    maps = f"import mmap; f = open({str(library)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
    told = why(started(sys.executable, "-c", f"{maps}; {WAITS}", **hooked()), LIBRARY)
    assert "it uses musl, for which the preload library is not built" in told


@pytest.mark.parametrize("name", ["libllama.so.0", "xllamacpp.abi3.so"])
def test_a_language_model_without_calls_is_named(started, tmp_path, name):
    library = tmp_path / name
    library.write_bytes(b"x" * 8192)
    maps = f"import mmap; f = open({str(library)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
    pid = started(sys.executable, "-c", f"{maps}; {WAITS}", **hooked())
    assert why(pid, has_reported=True) == f"{name} is loaded, no call yet"
    assert has_runtime(pid)


def test_a_runtime_that_is_loaded_is_named_also_in_what_it_started(started, tmp_path):
    library = tmp_path / "libonnxruntime.so.1"
    library.write_bytes(b"x" * 8192)
    maps = f"import mmap; f = open({str(library)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
    pid = started(sys.executable, "-c", f"{maps}; {WAITS}", **hooked())
    assert why(pid).startswith("libonnxruntime.so.1 is loaded, but no call came in a way that edgetop sees")
    assert why(pid, has_reported=True) == "libonnxruntime.so.1 is loaded, no call yet"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {f'{maps}; {WAITS}'!r}])"
    pid = started(sys.executable, "-c", starts, start_new_session=True, **hooked())
    told = wait_until(lambda: why(pid) if "which it started" in why(pid) else "")
    assert told.endswith("has loaded libonnxruntime.so.1: --follow-children watches it as well")
    assert "--follow-children" not in why(pid, LIBRARY, follows=True)
    assert "the preload library is not loaded" in why(pid, LIBRARY, follows=True)
    os.killpg(pid, 9)


def test_what_a_program_of_pyinstaller_unpacks_and_starts_is_named(started, tmp_path):
    library = tmp_path / "_MEIabc" / "libonnxruntime.so.1"
    library.parent.mkdir()
    library.write_bytes(b"x" * 8192)
    maps = f"import mmap; f = open({str(library)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {f'{maps}; {WAITS}'!r}])"
    pid = started(sys.executable, "-c", starts, start_new_session=True, **hooked())
    told = wait_until(lambda: why(pid) if "which it started" in why(pid) else "")
    assert told.endswith("has loaded libonnxruntime.so.1: it is built by PyInstaller, which ignores PYTHONPATH")
    os.killpg(pid, 9)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs of another user; CI does")
def test_a_program_of_another_user_is_named(started):
    pid = started(sys.executable, "-c", f"import os; os.setuid(65534); {WAITS}", **hooked())
    assert "it runs as user 65534, which cannot report to this edgetop" in why(pid, LIBRARY)


def test_a_process_that_is_gone_is_no_error(started):
    assert why(2**22 + 1).startswith("process ")


STATIC = r"""
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **words) {
    int file = open(words[1], O_RDONLY);
    if (mmap(0, 8192, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED) return 1;
    write(1, "\n", 1);
    return sleep(60);
}
"""


@pytest.fixture(scope="module")
def static_program(tmp_path_factory):
    """A program without libraries that maps a model as llama.cpp does."""
    compiler, out = shutil.which("cc"), tmp_path_factory.mktemp("static") / "runner"
    assert compiler, "these tests need a C compiler"
    order = [compiler, "-w", "-static", "-x", "c", "-o", out, "-"]
    subprocess.run(order, input=STATIC.encode(), check=True)
    return out


@pytest.mark.parametrize("name", ["model.gguf", "blobs/sha256-0123abc"])
def test_a_language_model_that_is_a_part_of_the_program_is_named_with_what_to_do(
    started, static_program, tmp_path, name
):
    model = tmp_path / name
    model.parent.mkdir(exist_ok=True)
    model.write_bytes(b"x" * 8192)
    told = why(started(static_program, model), LIBRARY)
    assert f"(runner) runs {model.name}, but llama.cpp is a part of the program and no library" in told
    assert told.endswith("edgetop watch --url http://127.0.0.1:PORT reads it (edgetop help llm)")


def test_a_language_model_in_a_process_that_the_program_starts_is_named(started, static_program, tmp_path):
    """So does `ollama serve`."""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"x" * 8192)
    starts = f"import subprocess; subprocess.run([{str(static_program)!r}, {str(model)!r}])"
    pid = started(sys.executable, "-c", starts, start_new_session=True, **hooked())
    told = wait_until(lambda: why(pid) if "llama.cpp" in why(pid) else "")
    assert told.startswith("process ")
    assert f"process {pid} " not in told
    os.killpg(pid, 9)
