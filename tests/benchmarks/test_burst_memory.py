"""What two hundred bursts leave in the memory of the engine and of what profiles for it."""

import psutil
import pytest

from edgetop.engines.engine_protocol import BurstTaken
from tests.benchmarks.profiled_engines import RUNTIMES, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

FIRST, BURSTS = 10, 200  # the first ones load what profiles
LIMIT_MIB = 5


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_engine_does_not_grow_with_its_bursts(runtime, tmp_path, capsys):
    with started(runtime, "ladder", tmp_path, 10**11) as (engine, heard):

        def profile(count: int) -> None:
            for _ in range(count):
                before = len(heard.all(BurstTaken))
                engine.profile()
                wait_until(lambda: heard.listen(engine) or len(heard.all(BurstTaken)) > before, 60)  # noqa: B023
                heard.batches.clear()

        profile(FIRST)
        after_first = _rss_mib(engine.pid)
        profile(BURSTS)
        grown = {name: mib - after_first[name] for name, mib in _rss_mib(engine.pid).items()}
        assert len(heard.all(BurstTaken)) == FIRST + BURSTS
    with capsys.disabled():
        print(
            f"\n{runtime:>16}: "
            + ", ".join(f"{name} {after_first[name]:.1f} {mib:+.2f} MiB" for name, mib in grown.items())
        )
    assert max(grown.values()) <= LIMIT_MIB


def _rss_mib(pid: int) -> dict[str, float]:
    """Of the engine, and of the helper where it has one."""
    engine = psutil.Process(pid)
    processes = [engine, *engine.children(recursive=True)]
    names = ["engine", *(f"helper {number}" for number in range(1, len(processes)))]
    return {name: process.memory_info().rss / 2**20 for name, process in zip(names, processes, strict=True)}
