"""`edgetop sweep` as a user runs it: on the virtual board, killed, resumed, and refused."""

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest
from click import BadParameter, Context

from edgetop.cli.comparing.sweep import command
from edgetop.cli.comparing.sweep_run import models_of
from edgetop.cli.watching.stop import sweep_meant
from edgetop.errors import InputError
from edgetop.sweep_plan import FILE, hold, read_plan
from tests.support.commands import edgetop, start_edgetop
from tests.support.waiting import wait_until

MODELS = Path(__file__).parents[2] / "edgetop/roofline_models"
SHORT = ("--runs", "10", "--warmup-runs", "2", "--profile-every", "0", "--keep-outputs", "2")
VIRTUAL = ("--scenario", "healthy", "--speed", "300x", "--cooldown-max", "2s")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with two models, and one that is none."""
    for suffix in ("onnx", "tflite"):
        (tmp_path / f"probe.{suffix}").write_bytes((MODELS / f"probe.{suffix}").read_bytes())
    (tmp_path / "broken.onnx").write_bytes(b"nonsense")
    return tmp_path


@pytest.mark.thorough
@pytest.mark.slow
def test_a_killed_sweep_resumes_and_ends_with_the_same_table(home: Path) -> None:
    sweep = home / "s.sweep"
    given = ("probe.onnx", "probe.tflite", "--threads", "1", "--repeat", "2", *SHORT, *VIRTUAL, "-o", "s")
    process = start_edgetop("sweep", *given, home=home)
    wait_until(
        lambda: (sweep / FILE).exists() and read_plan(sweep).runs[1].session in {p.name for p in sweep.iterdir()}
    )
    process.send_signal(signal.SIGKILL)
    process.communicate()
    plan = read_plan(sweep)
    assert [run.state for run in plan.runs] == ["done", "planned", "planned", "planned"]
    assert plan.cooldown_to_c == pytest.approx(plan.start_c + 2)

    done = edgetop("sweep", "--resume", "s.sweep", "--json", home=home)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [run["session"] for run in document["runs"]] == [run.session for run in plan.runs]
    assert document["runs"][0] == {**document["runs"][0], **plan.runs[0].figures}  # it was not run again
    assert {run["state"] for run in document["runs"]} == {"done"}
    assert all(run["cooldown_s"] is not None and run["cooldown_c"] for run in document["runs"])
    assert [one["name"] for one in document["combinations"]] == ["probe.onnx", "probe.tflite"]
    assert all(len(one["sessions"]) == 2 for one in document["combinations"])
    assert document["compare"]["sessions"] == ["probe.onnx", "probe.tflite"]
    assert document["recommended"]["command"].startswith(f"edgetop run {home}/probe.")
    assert document["combinations"][0]["outputs"] is None  # it is what the others are compared with
    assert "output/" in str(document["compare"]["rows"])
    again = edgetop("sweep", "--resume", "s.sweep", "--csv", "s.csv", home=home)
    assert "recommended for p99: probe." in again.stdout
    assert (home / "s.csv").read_text().count("probe.") == 2
    markdown = edgetop("sweep", "--resume", "s.sweep", "--md", "-", home=home).stdout
    assert markdown.startswith("### edgetop sweep: recommended for p99: `probe.")
    assert f"```sh\n{document['recommended']['command']}\n```" in markdown
    assert "\n| `probe.onnx` | " in markdown
    assert "\n### edgetop compare `probe.onnx`, `probe.tflite`" in markdown


@pytest.mark.thorough
@pytest.mark.slow
def test_a_failure_is_a_row_with_its_reason_and_not_retried(home: Path) -> None:
    given = ("broken.onnx", "probe.onnx", "--repeat", "2", *SHORT, *VIRTUAL, "-o", "s", "--json")
    done = edgetop("sweep", *given, home=home)
    assert done.returncode == 0, done.stderr
    broken, probe = json.loads(done.stdout)["combinations"]
    assert "broken.onnx" in broken["reason"]
    assert (broken["sessions"], len(probe["sessions"])) == ([], 2)
    states = [run["state"] for run in json.loads(done.stdout)["runs"] if run["combination"] == "broken.onnx"]
    assert states == ["failed", "planned"]


def test_a_sweep_that_cools_down_is_found_without_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    folders = [tmp_path / "a.sweep", tmp_path / "b.sweep", tmp_path / "over.sweep"]
    for folder in folders:
        folder.mkdir()
        (folder / FILE).write_text("{}")
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, hold(folders[0]))
        assert sweep_meant(None) == folders[0]
        stack.callback(os.close, hold(folders[1]))
        assert sweep_meant("b") == folders[1]
        assert sweep_meant("over") is None
        assert sweep_meant("over.sweep") == Path("over.sweep")  # whose folder is named: that it does not run is said
        with pytest.raises(InputError, match="2 sweeps run now"):
            sweep_meant(None)
    assert sweep_meant(None) is None


@pytest.mark.slow
def test_stopped_it_says_how_to_go_on(home: Path) -> None:
    process = start_edgetop("sweep", "probe.onnx", "--repeat", "2", "--duration", "60s", *VIRTUAL, "-o", "s", home=home)
    session = home / "s.sweep/001-probe-1.edgetop/session.json"
    wait_until(session.exists)
    busy = edgetop("sweep", "--resume", "s.sweep", home=home)
    assert (busy.returncode, busy.stderr.count("\n")) == (2, 1)
    assert "this sweep is already running" in busy.stderr
    stopped = edgetop("stop", "s.sweep", home=home)
    assert (stopped.returncode, stopped.stdout) == (0, "stopped; edgetop sweep --resume s.sweep continues it\n")
    _, said = process.communicate()
    assert process.returncode == 0
    assert "stopped after 0 of 2 runs; continue: edgetop sweep --resume" in said
    assert json.loads(session.read_text())["end_reason"] == "signal"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no model is given"),
        (("probe.onnx", "--threads", "1,x"), "'x' is not a whole number"),
        (("--resume", "nowhere"), "no sweep is there"),
        (("probe.onnx", "--input", "x=none.npy"), "none.npy: no such file"),
        (("probe.onnx", "--engine-python", "nowhere"), "--engine-python nowhere: no such file"),
    ],
)
def test_what_it_cannot_do_it_says_in_one_line(arguments: tuple[str, ...], words: str, home: Path) -> None:
    done = edgetop("sweep", *arguments, home=home)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("probe.onnx", "--speed", "20x"), "--speed needs --scenario"),
        (("probe.onnx", "--duration", "5"), "'5' is not a duration"),
        (("--resume", "nowhere", "--threads", "2"), "--threads cannot change"),
        (("probe.onnx", "--json", "--detach"), "--json and --detach contradict each other"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises((BadParameter, InputError), match=words):
        command.main(list(arguments), standalone_mode=False)


@pytest.mark.slow
def test_the_table_has_what_was_asked_and_what_ran(home: Path) -> None:
    """XNNPACK is a TFLite runtime's default; `--provider CPU` leaves it out, as in `run` and `ab`."""
    long_enough = (*SHORT, "--runs", "40")  # for readings of power
    given = ("probe.tflite", "--provider", "CPU,XNNPACK,xnnpack", "--repeat", "1", *long_enough, *VIRTUAL, "-o", "s")
    done = edgetop("sweep", *given, home=home)
    assert done.returncode == 0, done.stderr
    assert "merged     xnnpack ran on XNNPACK, CPU too: in the row of XNNPACK" in done.stdout
    row = next(cells for line in done.stdout.splitlines() if (cells := line.split()) and "CPU" in cells[:2])
    assert [cell[-1] == "?" for cell in row[row.index("CPU") + 3 :][:2]] == [False, True]  # p99 of 40 inferences
    again = json.loads(edgetop("sweep", "--resume", "s.sweep", "--json", home=home).stdout)
    found = [(one["provider"], one["ran_on"], one["merged"], len(one["sessions"])) for one in again["combinations"]]
    assert found == [("CPU", ["CPU"], [], 1), ("XNNPACK", ["XNNPACK", "CPU"], ["xnnpack"], 2)]
    assert again["compare"]["sessions"] == ["CPU", "XNNPACK"]
    figures = again["combinations"][0]["model_figures"]
    assert (figures["model_bytes"], figures["flops"]) == ((home / "probe.tflite").stat().st_size, 272_629_760)
    assert figures["gflops_per_w"] > 0  # the virtual board has a power sensor
    (heads,) = [line for line in done.stdout.splitlines() if line.startswith("bench ")]  # one table for all
    # Columns whose figures need a second of readings, such as "CPU %", may be missing after runs as short as these.
    for column in ("size", "parameters", "FLOPs", "depth", "bits", "p50 ms", "GFLOP/s/W"):
        assert column in heads
    assert "p99 spread %" in heads  # of the two sessions of XNNPACK
    assert again["combinations"][0]["p99_spread"] is None
    assert again["combinations"][1]["p99_spread"] >= 0
    assert "p99_spread" in [row["key"] for row in again["compare"]["rows"]]
    assert edgetop("sweep", "--resume", "s.sweep", "--md", "-", home=home).stdout.count("GFLOP/s/W") == 1


def parsed(*arguments: str) -> Context:
    return command.make_context("sweep", list(arguments))


def test_models_are_named_or_listed_in_a_file(home: Path) -> None:
    (home / "models.txt").write_text("# two\nprobe.onnx\n\nprobe.tflite\n")
    assert models_of((home / "probe.onnx",), home / "models.txt") == [f"{home}/probe.onnx", f"{home}/probe.tflite"]
    both = Path(f"{home}/probe.onnx,{home}/probe.tflite")
    assert models_of((both,), None) == [f"{home}/probe.onnx", f"{home}/probe.tflite"]
    with pytest.raises(InputError, match="no such file"):
        models_of((home / "nothing",), None)


def test_lists_and_what_each_run_is_given(home: Path) -> None:
    context = parsed(
        f"{home}/probe.onnx", "--threads", "1,4", "--provider", "CPU, XNNPACK", "--provider", "CUDA:a=1,b=2",
        "--rate", "10,30.5", "--duration", "2m", "--label", "a=b", "--label", "c=d", "--no-xnnpack",
    )  # fmt: skip
    params = context.params
    assert (params["threads"], params["rate"]) == ((1, 4), (10.0, 30.5))
    assert params["providers"] == (("CPU", "XNNPACK"), ("CUDA:a=1,b=2",))
    assert (params["duration"], params["labels"]) == ("2m", ("a=b", "c=d"))  # as they were written


@pytest.mark.slow
def test_a_dry_run_says_what_would_run_and_runs_nothing(home: Path) -> None:
    done = edgetop("sweep", "probe.onnx", "--threads", "1,2", "--duration", "1m", "--dry-run", home=home)
    first, second, *order = done.stdout.splitlines()
    assert first == "6 of 6 runs to go: 2 combinations, 3 times each, in random order"
    assert second == "  1:00 each: about 7:00 without cool-downs, 1:07:00 at most"
    assert sorted(order) == [f"  {n}  {t}" for n in (1, 2, 3) for t in ("1 thread", "2 threads")]
    assert not list(home.glob("**/*.sweep"))
