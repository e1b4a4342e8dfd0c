"""Engines of other packages: the example of the documentation, and packages that misbehave."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgetop.engines.engine_protocol import Died, Ended, Failed, Loaded, LogLine, ProfilerChosen
from edgetop.engines.formats import identify
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec, engine_for
from edgetop.errors import InputError
from edgetop.recording.kept_outputs import read_outputs
from edgetop.recording.session_folder import read_manifest
from tests.support import plugins
from tests.support.commands import start_python
from tests.support.engine_runs import Heard, run_whole
from tests.support.processes import is_running
from tests.support.thorough import mostly_thorough
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "edgetop/docs/plugins.md"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package on the page, and install it into a folder for PYTHONPATH."""
    blocks = dict(re.findall(r"```(toml|python)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    (source / "pyproject.toml").write_text(blocks["toml"])
    (source / "edgetop_product.py").write_text(blocks["python"])
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", target, source], check=True, capture_output=True)
    return target


def model(folder: Path) -> Path:
    path = folder / "net.product"
    with path.open("wb") as file:
        np.savez(file, weights=np.eye(4, 3, dtype=np.float32))
    return path


def test_the_example_of_the_page_runs_a_session(example: Path, tmp_path: Path) -> None:
    options = ("--headless", "--json", "--runs", 300, "--shape", "x:2,4", "--keep-outputs", 2, "-o", "made")
    started = start_python("run", model(tmp_path), *options, home=tmp_path, PYTHONPATH=str(example))
    out, err = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 0, err
    session = json.loads(out)["session"]
    engine = session["engine"]
    assert (engine["runtime"], engine["providers"]) == ("product", ["CPU"])
    assert engine["settings"] == {"precision": "f32"}
    assert session["model"]["inputs"] == [{"name": "x", "shape": [2, 4], "dtype": "float32"}]
    assert "y" in str(read_outputs(tmp_path / "made.edgetop"))


def test_the_list_of_engines_has_it(example: Path, tmp_path: Path) -> None:
    started = start_python("engines", "--json", home=tmp_path, PYTHONPATH=str(example))
    rows = {row["name"]: row for row in json.loads(started.communicate(timeout=PATIENCE_S)[0])["engines"]}
    product = rows["product"]
    assert (product["usable"], product["suffixes"], product["plugin"]) == (True, [".product"], True)
    assert product["package"] == "edgetop-product 0.1"
    assert rows["onnxruntime"]["usable"]
    assert rows["openvino"]["suffixes"] == [".onnx", ".tflite", ".lite", ".xml"]


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the misbehaving engine for this process and its children, and return a model of it."""
    folder = plugins.install(tmp_path / "packages", "odd_engine", plugins.MISBEHAVING)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    path = tmp_path / "model.odd"
    path.write_bytes(b"odd")
    return path


def heard(path: Path, **options: object) -> Heard:
    fields = {"warmup_runs": 1, "runs": 5, **options}
    return run_whole(ProcessEngine(EngineSpec(str(path), "odd", **fields)))  # type: ignore[arg-type]


def test_it_is_found_by_its_suffix_and_by_its_name(odd: Path) -> None:
    assert identify(odd).format == "odd"
    other = odd.with_suffix(".bin")
    odd.rename(other)
    assert identify(other, "odd").format == "odd"
    assert engine_for("odd", "odd") == "auto"
    assert engine_for("odd", "onnx") == "odd"
    with pytest.raises(InputError, match="no model of a known format"):
        identify(other)


def test_one_that_behaves_runs(odd: Path) -> None:
    told = heard(odd)
    assert told.one(Loaded).settings == {"mode": "fast"}
    assert told.one(Ended).reason == "runs"


@pytest.mark.parametrize(
    ("what", "stage", "words"),
    [
        ("raise@open", "model", "odd cannot open it: 'boom'"),
        ("raise@run", "first", "the first inference failed: 'boom'"),
        ("exit@open", "model", "odd cannot open it: SystemExit: 5"),
        ("bytes@open", "model", r"caf\udce9.odd"),
        *(
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in (
                ("raise@inputs", "model", "engine odd: inputs failed: KeyError: 'boom'"),
                ("raise@bind", "first", "engine odd: bind failed: KeyError: 'boom'"),
                ("raise@describe", "runtime", "engine odd: describe failed"),
                ("interrupt@inputs", "model", "engine odd: inputs failed: KeyboardInterrupt"),
                ("speechless@open", "model", "odd cannot open it: Speechless"),
            )
        ),
    ],
)
def test_one_that_raises_ends_with_its_name_or_words(
    what: str, stage: str, words: str, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PLUGIN", what)
    failed = heard(odd).one(Failed)
    assert failed.stage == stage
    assert words in failed.message


@pytest.mark.parametrize(("what", "words"), [("vanish@run", "exit status 7"), ("crash@run", "SIGSEGV")])
def test_one_that_is_gone_has_died(what: str, words: str, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PLUGIN", what)
    assert words in heard(odd).one(Died).cause


@pytest.mark.parametrize("where", [pytest.param("open", marks=pytest.mark.thorough), "later"])
def test_one_that_ends_the_process_from_a_thread_leaves_a_recording_that_the_next_command_completes(
    where: str, odd: Path, tmp_path: Path
) -> None:
    """Nothing of edgetop can say a word, since `os._exit` ends all of its threads at once."""
    options = ("--headless", "--isolation", "thread", "--rate", 20, "--fail-if", "p99>1ns", "-o", "gone")
    started = start_python("run", odd, *options, home=tmp_path, TEST_PLUGIN=f"vanish@{where}")
    out, err = started.communicate(timeout=PATIENCE_S)
    assert (started.returncode, out, "Traceback" in err) == (7, "", False)
    assert read_manifest(tmp_path / "gone.edgetop").state == "live"
    reported = start_python("report", "gone", "--json", home=tmp_path)
    document = json.loads(reported.communicate(timeout=PATIENCE_S)[0])
    assert (document["session"]["state"], document["session"]["end_reason"]) == ("recovered", "writer-killed")
    assert document["verdict"]["first"] == "CUT SHORT: edgetop was killed"


def test_what_it_prints_is_logged_and_a_process_that_it_leaves_behind_holds_nothing_up(
    odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PLUGIN", "print@open")
    told = heard(odd)
    assert any("a line with" in line.message for line in told.all(LogLine))
    monkeypatch.setenv("TEST_PLUGIN", "fork@open")
    told = heard(odd)
    assert told.one(Ended).reason == "runs"
    (line,) = (line.message for line in told.all(LogLine) if "left behind" in line.message)
    wait_until(lambda: not is_running(int(line.split()[-1])))  # it would disturb what is measured next


def test_inferences_before_one_that_exits_count(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PLUGIN", "exit@later")
    told = heard(odd, warmup_runs=10, runs=1000)
    assert "SystemExit: 5" in told.one(Failed).message
    assert len(told.in_phase("measure")) == 9  # the first inference and the warm-up come before


def test_one_that_closes_the_pipe_to_edgetop_is_ended(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PLUGIN", "close@later")
    spec = EngineSpec(str(odd), "odd", warmup_runs=1, duration_ns=600 * 10**9)
    died = run_whole(ProcessEngine(spec, closed_timeout_s=0.2)).one(Died)
    assert "closed the pipe" in died.cause or "exit status 3" in died.cause


@pytest.mark.parametrize(
    "given",
    mostly_thorough(
        ["5", "[1]", '[["x", [1], "float99"]]', '[["x", [1], "float32"], ["x", [1], "float32"]]', '"x"', "null"],
        "5", '[["x", [1], "float99"]]',
    ),
)  # fmt: skip
def test_nonsense_names_the_engine(given: str, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_INPUTS", given)
    failed = heard(odd).one(Failed)
    assert failed.message.startswith("engine odd: its inputs() gave what the interface does not allow")


@pytest.mark.parametrize(
    "given",
    mostly_thorough(
        ["5", '{"providers": 5}', '{"providers": "CPU"}', '{"settings": [1]}', '{"asked": {}}',
         '{"providers": ["CPU", null]}'],
        '{"providers": "CPU"}', '{"providers": ["CPU", null]}',
    ),
)  # fmt: skip
def test_a_description_that_is_nonsense_names_the_engine(
    given: str, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_DESCRIPTION", given)
    failed = heard(odd, providers=(("CPU", {}),)).all(Failed)
    assert [one.message[:28] for one in failed] == ([] if "null" in given else ["engine odd: its describe() g"])


@pytest.mark.parametrize(
    "given",
    mostly_thorough(
        ["null", "[1]", '[-5, [["a", "A", "CPU", 1]]]', '[5, [["a", "A", "CPU", -1]]]', "[NaN, []]", "[5, null]",
         '[1e300, [["a", "A", "CPU", 1]]]', '[0, [["a", "A", "CPU", 1]]]', '[5, [["a"]]]'],
        "null", '[5, [["a", "A", "CPU", -1]]]', "[NaN, []]",
    ),
)  # fmt: skip
def test_impossible_times_of_operators_are_refused_and_the_session_goes_on(
    given: str, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PROFILE", given)
    told = heard(odd, profile_every_ns=10**9)
    chosen = told.one(ProfilerChosen)
    assert (chosen.way, "engine odd: its profile() gave" in chosen.reason) == ("", True)
    assert told.one(Ended).reason == "runs"


@pytest.mark.parametrize("name", ["two  spaces\n", "x" * 500, "caf\udce9"])
def test_an_engine_gets_its_inputs_by_its_own_names(name: str, odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_INPUTS", json.dumps([[name, [1, 4], "float32"]]))
    monkeypatch.setenv("TEST_FEED", name.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape"))
    told = heard(odd)
    assert told.one(Ended).reason == "runs"
    (shown,) = told.one(Loaded).inputs
    assert len(shown.name) <= 200
    assert shown.name.isprintable()


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("crash", "SIGSEGV"),
        ("hang", "said nothing"),
        *(
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in (
                ("raise", "unusable failed: KeyError"),
                ("interrupt", "KeyboardInterrupt"),
                ("vanish", "exit status 7"),
                ("nothing", "usable"),
            )
        ),
    ],
)
def test_the_list_of_engines_names_one_that_fails_and_has_the_others(
    what: str, reason: str, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PLUGIN", f"{what}@unusable")
    script = "from edgetop.engines.child import runtime_queries as asked; import json\n"
    script += f"asked.PATIENCE_S = {0.5 if what == 'hang' else 45.0}; print(json.dumps(asked.inventory()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert reason in (found["plugins"]["odd"]["error"] or "usable")
    assert what == "hang" or found["runtimes"]["onnxruntime"]["error"] is None


def test_another_version_of_the_interface_is_refused(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_INTERFACE", "9")
    failed = heard(odd).one(Failed)
    assert "version 9 of the interface, and this edgetop has 1" in failed.message


def test_each_stream_without_another_opens_the_model_again(odd: Path) -> None:
    told = heard(odd, streams=2, runs=4)
    assert set(told.records["stream"]) == {0, 1}
