"""Options of the test run."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

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


def pytest_configure() -> None:
    """Heed what nohup and shells without job control have processes ignore: programs under test inherit it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
