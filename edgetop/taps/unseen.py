"""Find out why no inference of a program is seen, so that the screen is not empty without a reason.

Everything is read from the files of the process in /proc (proc(5)). The process is not trusted, and no path that it
names is opened.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from edgetop.formatting import clean
from edgetop.probe import edgetop_probe
from edgetop.taps.container_run import PROBE
from edgetop.taps.runtimes import TFLITE, Mapping, mappings

SEEN_LIBRARIES = ("onnxruntime", "openvino", "ncnn", "llama", *TFLITE)  # those whose calls edgetop can see
RUNTIME_LIBRARIES = (*SEEN_LIBRARIES, "tensorflow", "nvinfer", "rknn", "hailo")
HOOK = Path(edgetop_probe.__file__).parent / "hook"  # folder that is added to PYTHONPATH
PYINSTALLER = "/_MEI"  # part of the paths that a one-file program of PyInstaller unpacks
MUSL = ("/ld-musl-", "-linux-musl/libc.so")  # loader and C library of musl, which are one file: on Alpine, on Debian
SEPARATOR, PRELOAD_SEPARATORS = ":", " :$"  # characters that a path in PYTHONPATH or LD_PRELOAD cannot have (ld.so(8))
SHELL_OPTIONS = "IE"  # options with which Python ignores PYTHONPATH
MOST_PROCESSES = 2_000  # most processes to examine
OLLAMA_STORE = "/blobs/sha256-"  # part of the paths of models in Ollama's store (server/modelpath.go)
MOST_NAME = 80  # most characters of a model's name
READ_SERVER = "edgetop watch --url http://127.0.0.1:PORT reads it (edgetop help llm)"


def why_unseen(pid: int, *, preload: Path | None, has_hook: bool, has_reported: bool, follows_children: bool) -> str:
    """Return a sentence that says which runtimes the process has loaded, and why edgetop sees no calls of these.

    `preload` is the path of the library for C programs with which the process was started, or None. `has_hook` says
    whether it was started with the Python hook. `has_reported` says whether any process of the program reports calls.
    `follows_children` says whether --follow-children is set.
    """
    maps = mappings(pid)
    loaded = _runtimes(maps)
    if not loaded:
        if inside := language_model_inside(pid):
            return inside
        if child := _child_with_runtime(pid, preload, has_hook=has_hook, follows_children=follows_children):
            return child
        loads_none = f"process {pid} has loaded no known inference runtime"
        return "; ".join((loads_none, *_obstacles(pid, maps, preload, has_hook=has_hook)))
    names = f"{', '.join(sorted(loaded)[:3])} is loaded"
    if has_reported:
        return f"{names}, no call yet"
    obstacles = tuple(_obstacles(pid, maps, preload, has_hook=has_hook))
    return "; ".join((f"{names}, but no call came in a way that edgetop sees", *obstacles))


def language_model_inside(pid: int) -> str:
    """Return a sentence which says that the process runs a language model without a library, and what to do.

    Such a program has llama.cpp linked statically, as the runner of Ollama before 0.30 and many builds of llama-server
    have. It is recognised by the model file that it has mapped. If the process leads a POSIX session (setsid(2)), the
    other processes of the session are examined, too. Returns "" if there is none.
    """
    for number in (pid, *_of_session(pid)):
        maps = mappings(number)
        model = next((one.path.rpartition("/")[2] for one in maps if _is_language_model(one.path)), "")
        if model and not any("llama" in name for name in _runtimes(maps)):
            command = _name(number)
            return (
                f"process {number}{command and f' ({command})'} runs {clean(model)[:MOST_NAME]}, but llama.cpp is a "
                f"part of the program and no library, so its calls are not seen: if it is a server, {READ_SERVER}"
            )
    return ""


def _is_language_model(path: str) -> bool:
    """Whether the name of a mapped file is that of a language model: a GGUF file, or a model in Ollama's store."""
    return path.endswith(".gguf") or OLLAMA_STORE in path


def _name(pid: int) -> str:
    """Return the name of the process's program, or "" if it is unknown."""
    with contextlib.suppress(OSError):
        return clean(Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip())
    return ""


def has_runtime(pid: int) -> bool:
    """Whether a process has loaded a runtime whose calls edgetop can see.

    If the process leads a POSIX session (setsid(2)), it is enough that another process of this session has loaded one.
    """
    loaded = (_runtimes(maps) for maps in (mappings(pid), *(maps for _, maps in _with_runtime(pid))))
    return any(word in name for names in loaded for name in names for word in SEEN_LIBRARIES)


def _runtimes(maps: list[Mapping]) -> set[str]:
    """Return the names of the mapped files that are libraries of known runtimes."""
    names = {one.path.rpartition("/")[2] for one in maps}
    return {clean(name) for name in names if ".so" in name and any(word in name for word in RUNTIME_LIBRARIES)}


def _obstacles(pid: int, maps: list[Mapping], preload: Path | None, *, has_hook: bool) -> Iterator[str]:
    """Yield reasons why the Python hook and the preload library do not report calls of the process `pid`.

    `maps` are the files that the process has mapped. `preload` is the path of the library for C programs with which it
    was started, or None. `has_hook` says whether it was started with the Python hook.
    """
    user = _user(pid)
    if user not in (None, os.geteuid()):
        yield f"it runs as user {user}, which cannot report to this edgetop"
    if maps:
        yield from _of_preload({one.path for one in maps}, preload)
        yield from _of_hook(pid, maps, has_hook=has_hook)


def _of_preload(paths: set[str], preload: Path | None) -> Iterator[str]:
    if any(name in path for path in paths for name in MUSL):
        yield "it uses musl, for which the preload library is not built"
    elif not any("/ld-" in path or "/ld." in path for path in paths):
        yield "it is linked statically, which LD_PRELOAD cannot reach"
    elif preload is None:
        why = "--no-preload, no C compiler (apt install gcc), or a space, a colon or a $ in the path of ~/.cache"
        yield f"it has no preload library, which C programs need: {why}"
    elif str(preload) not in paths:
        yield "the preload library is not loaded: the program is setuid, or something has changed LD_PRELOAD"


def _of_hook(pid: int, maps: list[Mapping], *, has_hook: bool) -> Iterator[str]:
    words = _words(pid)
    is_python = bool(words) and "python" in words[0].rpartition("/")[2]
    if any(PYINSTALLER in one.path for one in maps):
        yield "it is built by PyInstaller, which ignores PYTHONPATH"
    elif is_python and (option := _python_option(words)):
        yield f"Python was started with {option}, which ignores PYTHONPATH"
    elif is_python and not has_hook:
        yield "--no-hook was given"
    elif is_python and SEPARATOR in str(HOOK):
        yield "edgetop is installed in a folder with a colon, which PYTHONPATH cannot name"
    elif is_python and not _has_hook(pid):
        yield "something has replaced PYTHONPATH, through which the hook is loaded"


def _words(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()[:4096].decode("utf-8", "replace").split("\0")
    return []


def _python_option(words: list[str]) -> str:
    """Return the option by which Python ignores its environment, such as "-I", or "" if there is none.

    `words` are the words of the command line.

    >>> _python_option(["python3", "-I", "main.py"])
    '-I'
    """
    for word in words[1:]:
        if not word.startswith("-") or word.startswith(("-c", "-m", "--")):
            return ""
        if any(letter in word for letter in SHELL_OPTIONS):
            return clean(word)
    return ""


def _has_hook(pid: int) -> bool:
    """Whether the process was started with the Python hook. True if the kernel refuses to show its environment."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return True
    paths = next((value for value in variables if value.startswith(b"PYTHONPATH=")), b"")
    given = paths.partition(b"=")[2].split(b":")
    return os.fsencode(HOOK) in given or f"{PROBE}/{HOOK.name}".encode() in given


def _user(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return None


def _child_with_runtime(pid: int, preload: Path | None, *, has_hook: bool, follows_children: bool) -> str:
    """Return a sentence on a child of the process that has loaded a runtime, and why the child's calls are not seen.

    Returns "" if there is no such child. `preload` is the path of the library for C programs with which the program was
    started, or None. `has_hook` says whether it was started with the Python hook. `follows_children` says whether
    --follow-children is set.
    """
    for number, maps in _with_runtime(pid):
        with contextlib.suppress(OSError):
            command = _name(number)
            loaded = ", ".join(sorted(_runtimes(maps))[:3])
            what = f"process {number} ({command}), which it started, has loaded {loaded}"
            return f"{what}: {_of_child(number, maps, preload, has_hook=has_hook, follows=follows_children)}"
    return ""


def _with_runtime(pid: int) -> Iterator[tuple[int, list[Mapping]]]:
    """Yield (process id, mapped files) for each other process in the POSIX session (setsid(2)) that `pid` leads.

    Only processes that have loaded a known inference runtime are yielded.
    """
    for number in _of_session(pid):
        maps = mappings(number)
        if _runtimes(maps):
            yield number, maps


def _of_session(pid: int) -> Iterator[int]:
    """Yield the ids of the other processes in the POSIX session (setsid(2)) that `pid` leads."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  names alone
    for number in numbers[-MOST_PROCESSES:]:
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{number}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[3]) == pid != number:
                yield number


def _of_child(pid: int, maps: list[Mapping], preload: Path | None, *, has_hook: bool, follows: bool) -> str:
    """Return why calls of the child process `pid` are not seen, or that --follow-children would show them.

    `maps` are the files that the child has mapped. `preload` is the path of the library for C programs with which the
    program was started, or None. `has_hook` says whether it was started with the Python hook. `follows` says whether
    --follow-children is set.
    """
    if any(PYINSTALLER in one.path for one in maps):
        return next(_of_hook(pid, maps, has_hook=has_hook))
    if not follows:
        return "--follow-children watches it as well"
    return "; ".join(_obstacles(pid, maps, preload, has_hook=has_hook)) or "no call yet"
