"""Options of the test run."""

import atexit
import compileall
import contextlib
import gc
import importlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from edgetop.analysis.faults import occurred
from tests.support import plain_environment
from tests.support.waiting import scaled

# The same examples in every run, so that a change is judged by what it changed.
# `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("steady", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("steady")


MEMORY = "/dev/shm"
ROOM_BYTES = 2 << 30  # all folders of a whole run take 0.2 GiB if none is removed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-snapshots",
        action="store_true",
        help="store what the screens show now in tests/ui/snapshots, instead of comparing with it",
    )


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sessions of this process are registered, and its settings are read, in folders that no user of edgetop has."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        yield


@pytest.fixture(autouse=True)
def _no_internal_errors() -> Iterator[None]:
    """No test passes over an error that the analysis has survived; one that provokes it forgets it in the end."""
    occurred.clear()
    yield
    left = [fault.traceback for fault in occurred.values()]
    occurred.clear()
    assert not left, left[0]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give programs under test, which inherit them, the signals of a user's shell."""
    config.option.timeout = scaled(float(config.getini("timeout")))
    _keep_folders_in_memory()
    # nohup and shells without job control make processes ignore these.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without compiled modules each start of edgetop takes a second longer and 17 MiB more.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    atexit.register(_silence_leak_reports)
    _compile_a_share(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart() -> None:
    """Before the workers start, which inherit this, and after pytest has asked the caller's terminal for colours."""
    plain_environment.enter()


def _keep_folders_in_memory() -> None:
    """Have the folders of tests in memory where it has room: on a disk they spend a third of their time in waiting.

    A worker takes the folder that it is given by the first process.
    """
    with contextlib.suppress(OSError):
        memory = os.statvfs(MEMORY)
        if os.access(MEMORY, os.W_OK) and memory.f_bavail * memory.f_frsize >= ROOM_BYTES:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def _silence_leak_reports() -> None:
    """Keep pytest's closing line the last one: LiteRT's binding (nanobind) reports leaks when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stderr__.fileno() if sys.__stderr__ else 2)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three more than there are CPUs, for the slow tests wait; none for a choice, which starts sooner so."""
    is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    waits = config.option.markexpr != "not slow"
    return len(os.sched_getaffinity(0)) + 3 * waits if is_whole else 0


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave measurements unread where none is wanted: they import much. `-m thorough` reads only files that name it."""
    wanted = config.option.markexpr
    if collection_path.name == "benchmarks":
        return True if wanted in ("not slow", "thorough") or "not benchmark" in wanted else None
    if wanted == "thorough" and collection_path.match("test_*.py"):
        return None if "thorough" in collection_path.read_text(encoding="utf-8") else True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Without looking for garbage: among the thousands of tests, all of which stay, it takes an eighth of the time."""
    gc.disable()
    _import_a_share(session.config)
    result = yield
    gc.freeze()
    gc.enable()
    return result


def _compile_a_share(config: pytest.Config) -> None:
    """Compile every nth module of edgetop if this is one of n workers.

    All of them import all of edgetop and collect all tests. In a fresh clone each would compile every module, which
    takes longer than the rest of collecting; after this it finds most of them compiled by the others.
    """
    if worker := getattr(config, "workerinput", None):
        for path in sorted((config.rootpath / "edgetop").rglob("*.py"))[_share(worker)]:
            compileall.compile_file(path, quiet=2)


def _share(worker: Mapping[str, Any]) -> slice:
    return slice(int(worker["workerid"].removeprefix("gw")), None, worker["workercount"])


def _import_a_share(config: pytest.Config) -> None:
    """Import every nth test module if this is one of n workers."""
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    places = [config.invocation_params.dir / argument.split("::")[0] for argument in config.args]
    found = {path for place in places for path in (place.rglob("test_*.py") if place.is_dir() else [place])}
    chosen = sorted(
        path for path in found if not any(pytest_ignore_collect(one, config) for one in (path, *path.parents))
    )
    for path in chosen[_share(worker)]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting it raises the same, and reports it
            importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    for item in items:
        if own := item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(scaled(own.args[0])), append=False)
        if item.get_closest_marker("benchmark") or item.get_closest_marker("thorough"):
            item.add_marker("slow")  # `-m "not slow"` takes the place of the expression that leaves these out
    result = yield  # leaves out what was not asked for
    _mix(items)
    return result


def _mix(items: list[pytest.Item]) -> None:
    """Sort the files of `items` so that tests that wait for processes run beside tests that need a CPU.

    Both kinds of files are spread evenly, by their number of tests. Larger files come first, and the last ones have no
    slow test, so that no worker is alone with a long file in the end.
    """
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    quick = Counter(item.path for item in items if item.path not in slow)
    place: dict[Path, float] = {}
    for counts, until in ((slow, 0.9), (quick, 1.0)):
        before = 0
        for path, count in counts.most_common():
            place[path] = until * before / counts.total()
            before += count
    items.sort(key=lambda item: place[item.path])
