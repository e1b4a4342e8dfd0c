"""What every way of profiling operators promises, whichever runtime it is and wherever the profiler lives."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from onnxruntime import __version__ as ort_version

from edgetop.engines.child.profilers import onnx_runs
from edgetop.engines.engine_protocol import BurstTaken, Engine, PhaseBegan, ProfilerChosen, Started
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from edgetop.engines.thread import OutputCapture, ThreadEngine
from tests.support import onnx_models, tflite_models
from tests.support.delegates import claiming_delegate
from tests.support.engine_runs import Heard, hear_more, hear_until_measuring, take_burst
from tests.support.environments import environment, find_interpreter
from tests.support.processes import is_running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

RUNS, HELPER = "run-level profiling of the live session", "a profiled session in a helper process"
ATTACHED = "a profiler attached to the live interpreter"
HELPER_ATTACHED, LITERT = (
    "a profiler attached to an interpreter in a helper process",
    "LiteRT's own profiler in a helper process",
)
ISOLATED = "estimate (isolated): each operator run by itself in a helper process"
EVERY_NS = 10_000_000_000
BURSTS = 4
BIGGEST = 5  # operators that the models have of clearly different size


@dataclass(frozen=True)
class Way:
    name: str
    engine: str
    format: str
    way: str
    because: str = ""  # why it is not a better one
    python: str = ""
    requirements: tuple[str, ...] = ()
    in_thread: bool = False
    delegate: str = ""  # with one that takes nothing, other ways are taken

    def __str__(self) -> str:
        return self.name

    @contextlib.contextmanager
    def made(self, spec: EngineSpec) -> Iterator[Engine]:
        """An engine that is started; closed in the end."""
        with contextlib.ExitStack() as stack:
            if self.in_thread:
                engine: Engine = ThreadEngine(spec, stack.enter_context(OutputCapture()))
            else:
                engine = ProcessEngine(spec, self.interpreter())
            stack.callback(engine.close)
            engine.start()
            yield engine

    def interpreter(self) -> str | None:
        """As --engine-python gives it."""
        if not self.requirements:
            return None
        python = find_interpreter(self.python)
        assert python
        return str(environment(python, *self.requirements))


TFLITE_RUNTIME = ("tflite-runtime==2.14.*", "numpy<2")


def onnxruntime(version: str, python: str, because: str) -> Way:
    """An older one, in an environment of its own."""
    requirements = (f"onnxruntime=={version}", "numpy")
    return Way(f"onnxruntime-{version}", "onnxruntime", "onnx", HELPER, because, python, requirements)


# Of a Python for which ONNX Runtime goes no further than 1.23, the newest there is.
HAS_RUNS = tuple(map(int, ort_version.split(".")[:2])) >= onnx_runs.FIRST_VERSION
HERE = (RUNS, "") if HAS_RUNS else (HELPER, f"ONNX Runtime {ort_version} is older than 1.25")
ALL = [
    Way("onnxruntime", "onnxruntime", "onnx", *HERE),
    Way("onnxruntime-thread", "onnxruntime", "onnx", *HERE, in_thread=True),
    onnxruntime("1.24.*", "3.11", "ONNX Runtime 1.24."),
    onnxruntime("1.23.2", "3.11", "ONNX Runtime 1.23.2 is older than 1.25"),
    onnxruntime("1.19.*", "3.8", "ONNX Runtime 1.19."),
    Way("litert", "litert", "tflite", LITERT),
    Way("litert-isolated", "litert", "tflite", ISOLATED, "cannot be had with --delegate", delegate="takes nothing"),
    Way("tflite-runtime", "tflite-runtime", "tflite", HELPER_ATTACHED, "", "3.11", TFLITE_RUNTIME),
    Way(
        "tflite-runtime-attached",
        "tflite-runtime",
        "tflite",
        ATTACHED,
        "",
        "3.11",
        TFLITE_RUNTIME,
        delegate="takes nothing",
    ),
]
WAYS = {way.name: way for way in ALL if not way.python or find_interpreter(way.python)}
# Ways that are so similar to another one that only the thorough tests profile with them.
SIMILAR = ("onnxruntime-thread", "onnxruntime-1.24.*", "onnxruntime-1.19.*", "tflite-runtime-attached")
LADDERS = {"onnx": onnx_models.onnx_ladder, "tflite": tflite_models.tflite_ladder}
MAKES_AN_ENVIRONMENT = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Profiled:
    """A session of the ladder, in which bursts were asked for."""

    way: Way
    heard: Heard
    rss_mib: Sequence[float]  # of the engine, after each burst
    traces_left: set[str]

    @property
    def bursts(self) -> list[BurstTaken]:
        return self.heard.all(BurstTaken)

    @property
    def fastest(self) -> dict[tuple[str, str], float]:
        """What each operator takes in ns, in the burst in which other processes disturbed it least."""
        means: dict[tuple[str, str], list[float]] = {}
        for burst in self.bursts:
            for operator in burst.operators:
                means.setdefault((operator.name, operator.op_type), []).append(operator.total_ns / operator.calls)
        return {key: min(found) for key, found in means.items()}


def traces(pids: Iterable[int]) -> set[str]:
    """Folders of traces in memory, of these processes."""
    return {path.name for pid in pids for path in Path("/dev/shm").glob(f"edgetop-{pid}-*")}


def spec_for(way: Way, folder: Path) -> EngineSpec:
    """A session of the ladder."""
    model = folder / f"{way.name}.{way.format}"
    model.write_bytes(LADDERS[way.format]())
    delegates = ((str(claiming_delegate(folder)), {}),) if way.delegate else ()
    return EngineSpec(
        str(model),
        way.format,
        engine=way.engine,
        threads=1,
        warmup_runs=5,
        profile_every_ns=EVERY_NS,
        delegates=delegates,
    )


def profiled(way: Way, folder: Path, bursts: int = BURSTS) -> Profiled:
    rss = []
    with way.made(spec_for(way, folder)) as engine:
        heard = hear_until_measuring(engine)
        pids = [heard.one(Started).pid, *helpers_of(engine)]
        while len(heard.all(BurstTaken)) < bursts:
            take_burst(engine, heard)
            rss.append(resident_mib(engine))
        hear_more(engine, heard)
        engine.stop()
        wait_until(lambda: heard.listen(engine))
    return Profiled(way, heard, rss, traces(pids))


def resident_mib(engine: Engine) -> float:
    pid = engine.pid if isinstance(engine, ProcessEngine) else os.getpid()
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class ProfiledOnce(dict[str, Profiled]):
    """A session of each way, made when the first test asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __missing__(self, name: str) -> Profiled:
        self[name] = profiled(WAYS[name], self._folder)
        return self[name]


@pytest.fixture(scope="module")
def all_profiled(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Profiled]:
    return ProfiledOnce(tmp_path_factory.mktemp("ladders"))


def ways(beginning: str = "") -> list[Any]:
    """The ways whose names begin so, as parameters."""
    named = [name for name in WAYS if name.startswith(beginning)]
    marks = {name: [MAKES_AN_ENVIRONMENT, *([pytest.mark.thorough] if name in SIMILAR else [])] for name in named}
    return [pytest.param(name, marks=marks[name]) for name in named]


@pytest.fixture(params=ways())
def session(request: pytest.FixtureRequest, all_profiled: Mapping[str, Profiled]) -> Profiled:
    return all_profiled[request.param]


def test_it_says_how_it_is_done_and_why_not_better(session: Profiled) -> None:
    chosen = session.heard.one(ProfilerChosen)
    assert chosen.way == session.way.way
    assert session.way.because in chosen.reason
    assert bool(chosen.reason) == bool(session.way.because)


def test_it_is_chosen_before_the_warm_up(session: Profiled) -> None:
    messages = session.heard.messages
    warmup = next(i for i, m in enumerate(messages) if isinstance(m, PhaseBegan) and m.phase == "warmup")
    assert messages.index(session.heard.one(ProfilerChosen)) < warmup


def test_it_tells_of_every_operator_of_a_model_of_eighty(session: Profiled) -> None:
    for burst in session.bursts:
        assert len(burst.operators) >= 60
        assert all(o.calls == len(burst.run_ns) and o.total_ns >= 0 and o.op_type for o in burst.operators)
        assert len({(o.name, o.op_type) for o in burst.operators}) == len(burst.operators)


def test_it_says_who_ran_them(session: Profiled) -> None:
    names = {o.provider for burst in session.bursts for o in burst.operators}
    assert names == {"CPU" if session.way.format == "onnx" else "XNNPACK"}


def test_operators_are_in_the_same_run_order_in_every_burst(session: Profiled) -> None:
    orders = {tuple(o.name for o in burst.operators) for burst in session.bursts}
    assert len(orders) == 1


def test_operators_add_up_to_an_uninstrumented_inference(session: Profiled) -> None:
    fastest = np.sort(session.heard.in_phase("measure")["latency_ns"])
    sums = [sum(o.total_ns for o in burst.operators) / len(burst.run_ns) for burst in session.bursts]
    low, high = fastest[0] * 0.9, np.percentile(fastest, 75) * 1.1
    if session.way.way == ISOLATED:  # without neighbours, in warm caches
        low *= 0.8
    assert any(low <= total <= high for total in sums), (sums, fastest[0], np.median(fastest))


def test_no_instrumented_inference_is_among_the_records(session: Profiled) -> None:
    starts = session.heard.records["t_ns"]
    for burst in session.bursts:
        end = burst.monotonic_ns + burst.duration_ns
        assert not ((starts >= burst.monotonic_ns) & (starts < end)).any()
        assert sum(burst.run_ns) <= burst.duration_ns


def test_it_leaves_no_trace_behind(session: Profiled) -> None:
    assert session.traces_left == set()


# One way against another, on the same model.


def largest(session: Profiled) -> list[tuple[str, str]]:
    """Name and type, by name: their times lie close together, and who shares the machine decides their order."""
    return sorted(sorted(session.fastest, key=lambda key: -session.fastest[key])[:BIGGEST])


def top_shares(session: Profiled) -> list[float]:
    return sorted(session.fastest[key] / sum(session.fastest.values()) for key in largest(session))


@pytest.fixture
def agree(all_profiled: Mapping[str, Profiled], tmp_path: Path) -> Callable[..., bool]:
    """Whether two ways do, both as is said of them and on the shares of the five largest.

    Where they do not, another process may have disturbed one of few bursts: both are profiled anew, for longer.
    """

    def agree(one: str, another: str, expected: Callable[[Profiled, Profiled], bool]) -> bool:
        for bursts in (BURSTS, 12, 30):
            pair = [
                all_profiled[n] if bursts == BURSTS else profiled(WAYS[n], tmp_path, bursts) for n in (one, another)
            ]
            if expected(*pair) and np.abs(np.subtract(*map(top_shares, pair))).max() <= 0.10:
                return True
        return False

    return agree


@pytest.mark.parametrize("other", ways("onnxruntime-"))
def test_ways_of_onnx_runtime_agree_on_the_five_largest(other: str, agree: Callable[..., bool]) -> None:
    rungs = [(f"rung{i}", "MatMul") for i in range(BIGGEST)]
    assert agree("onnxruntime", other, lambda one, another: largest(one) == largest(another) == rungs)


@pytest.mark.parametrize("other", ways("tflite-runtime"))
def test_the_tflite_runtimes_agree_on_the_five_largest(other: str, agree: Callable[..., bool]) -> None:
    """They name them differently and may run branches in another order: alike are their type and what they take."""
    kinds = {"Fully Connected (NC, F32) GEMM"}
    assert agree("litert", other, lambda one, another: {kind for _, kind in largest(one) + largest(another)} == kinds)


@MAKES_AN_ENVIRONMENT
def test_the_estimate_agrees_on_the_five_largest(
    agree: Callable[..., bool],
) -> None:
    wide = [(f"wide{i}", "FULLY_CONNECTED") for i in range(BIGGEST)]
    assert agree("litert", "litert-isolated", lambda _, estimate: largest(estimate) == wide)


# What it must not cost.


@pytest.mark.benchmark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", WAYS)
def test_two_hundred_bursts_cost_the_engine_no_memory(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rss = profiled(WAYS[name], tmp_path, bursts=200).rss_mib
    with capsys.disabled():
        print(f"\n{name:>20} {rss[0]:.1f} MiB after one burst, {rss[-1]:.1f} after {len(rss)}, at most {max(rss):.1f}")
    assert rss[-1] - rss[0] <= 5


@pytest.fixture
def helper_session(tmp_path: Path) -> Iterator[tuple[Engine, Heard]]:
    """A session of LiteRT, which has a helper process, in its measured phase."""
    way = WAYS["litert"]
    with way.made(spec_for(way, tmp_path)) as engine:
        yield engine, hear_until_measuring(engine)


def helpers_of(engine: Engine) -> list[int]:
    pid = engine.pid if isinstance(engine, ProcessEngine) else os.getpid()
    return [child.pid for child in psutil.Process(pid).children()]


def test_a_killed_helper_ends_profiling_and_not_the_session(helper_session: tuple[Engine, Heard]) -> None:
    engine, heard = helper_session
    (helper,) = helpers_of(engine)
    os.kill(helper, 9)
    engine.profile()
    wait_until(lambda: heard.listen(engine) or len(heard.all(ProfilerChosen)) > 1)
    assert heard.all(ProfilerChosen)[-1].way == ""
    assert "the helper process ended with status -9" in heard.all(ProfilerChosen)[-1].reason
    hear_more(engine, heard)


class Shifted(onnx_runs.OwnMemory):
    """Memory in which every structure has grown by a word before its fields."""

    def read(self, address: int, size: int) -> bytes:
        return super().read(address - 8, size)


@pytest.mark.skipif(not HAS_RUNS, reason="no ONNX Runtime for this Python profiles single runs")
def test_where_the_layout_has_changed_it_falls_back_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_runs, "OwnMemory", Shifted)
    way = WAYS["onnxruntime-thread"]
    with way.made(spec_for(way, tmp_path)) as engine:
        heard = hear_until_measuring(engine)
        chosen = heard.one(ProfilerChosen)
        assert (chosen.way, chosen.reason) == (
            HELPER,
            "no run-level profiling: its objects are laid out in another way",
        )
        take_burst(engine, heard)
        assert len(heard.one(BurstTaken).operators) >= 60
        hear_more(engine, heard)


def test_a_helper_ends_with_its_engine(helper_session: tuple[Engine, Heard]) -> None:
    engine, _ = helper_session
    (helper,) = helpers_of(engine)
    assert isinstance(engine, ProcessEngine)
    assert engine.pid
    os.kill(engine.pid, 9)
    wait_until(lambda: not is_running(helper))


def test_without_a_period_nothing_is_profiled(tmp_path: Path) -> None:
    way = WAYS["litert"]
    with way.made(dataclasses.replace(spec_for(way, tmp_path), profile_every_ns=0)) as engine:
        heard = hear_until_measuring(engine)
        assert helpers_of(engine) == []
        assert heard.all(ProfilerChosen) == []
