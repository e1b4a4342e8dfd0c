"""Options of the test run."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from tests.support.waiting import scaled

# The same examples in every run, so that a change is judged by what it changed.
# `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("steady", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-snapshots",
        action="store_true",
        help="store what the screens show now in tests/ui/snapshots, instead of comparing with it",
    )


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What runs in this process registers its sessions where no user of edgetop finds them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give programs under test, which inherit it, the environment of a user's shell."""
    config.option.timeout = scaled(float(config.getini("timeout")))
    # nohup and shells without job control make processes ignore these.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without compiled modules each start of edgetop takes a second longer and 17 MiB more.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    atexit.register(_silence_leak_reports)


def _silence_leak_reports() -> None:
    """Keep pytest's closing line the last one: LiteRT's binding (nanobind) reports leaks when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stderr__.fileno() if sys.__stderr__ else 2)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more than there are CPUs, for the slow tests wait much; none for a choice, which starts sooner so."""
    is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    waits = config.option.markexpr != "not slow"
    return len(os.sched_getaffinity(0)) + 2 * waits if is_whole else 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without looking for garbage: among the thousands of tests, all of which stay, it takes an eighth of the time."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if own := item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(scaled(own.args[0])), append=False)
        if item.get_closest_marker("benchmark"):
            item.add_marker("slow")  # `-m "not slow"` takes the place of `-m "not benchmark"`
