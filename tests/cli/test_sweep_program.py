"""`edgetop sweep ... -- COMMAND`: what each run executes, what a plan cannot make anyone execute, and what is told."""

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click import BadParameter

from edgetop.cli.comparing import sweep_program
from edgetop.cli.comparing.sweep import command
from edgetop.errors import InputError
from edgetop.runner.cgroup_limits import enclosed
from edgetop.runner.engine_limit import Limit
from edgetop.sweep_plan import FILE, Plan, Settings, combined, ordered, read_plan, write_plan
from tests.support.commands import edgetop, start_edgetop
from tests.support.waiting import wait_until

MODELS = Path(__file__).parents[2] / "edgetop/roofline_models"
# It waits for a file, so that a sweep can be killed in the middle of a run, and ends with its argument.
WAITS = "while [ ! -e go ]; do sleep 0.02; done; exit $0"
SWEEP = ("--values", "code=0,3", "--values", "n=1,2", "--", "sh", "-c", WAITS, "{code}", "{n}", "{unknown}")


@pytest.mark.slow
def test_a_killed_sweep_goes_on_with_the_same_command_only(tmp_path: Path) -> None:
    process = start_edgetop("sweep", "--repeat", "2", "-o", "s", *SWEEP, home=tmp_path)
    sweep = tmp_path / "s.sweep"
    wait_until(lambda: any((folder / "journal").exists() for folder in sweep.glob("*.edgetop")))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    text = (sweep / FILE).read_text()
    assert "sleep" not in text
    assert read_plan(sweep).program == "sh"
    (tmp_path / "go").touch()
    for more, words in (
        ((), "repeat the command and its values"),
        (("--values", "code=0,3", "--values", "n=1,2", "--", "sh", "-c", "true", "{code}", "{n}"), "another command"),
        (("--values", "code=0,3", "--values", "n=1", *SWEEP[4:]), "other models or values"),
    ):
        done = edgetop("sweep", "--resume", "s.sweep", *more, home=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert words in done.stderr

    done = edgetop("sweep", "--resume", "s.sweep", "--json", *SWEEP, home=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    states = {run["combination"]: run["state"] for run in document["runs"] if run["repetition"] == 1}
    assert states == {"code=0 n=1": "done", "code=0 n=2": "done", "code=3 n=1": "failed", "code=3 n=2": "failed"}
    good, *_, bad = document["combinations"]
    assert (good["values"], len(good["sessions"])) == ({"code": "0", "n": "1"}, 2)
    assert good["usage"]["total_time_ms"] > 0
    assert "exit status 3" in bad["reason"]
    assert document["goal"] == "time"
    assert {name for rank in document["compare"]["ranking"] for name in rank["sessions"]} == {
        "code=0 n=1",
        "code=0 n=2",
    }
    assert document["recommended"]["command"].startswith("edgetop watch -- sh -c 'while")
    assert document["recommended"]["command"].endswith(" '{unknown}'")
    again = edgetop("sweep", "--resume", "s.sweep", "--csv", "s.csv", home=tmp_path)  # no run is left, so no command
    assert "recommended for total time: code=0 n=" in again.stdout
    assert "nothing was measured" not in again.stdout
    assert (tmp_path / "s.csv").read_text().splitlines()[1].count(",0,1,") == 1
    both = edgetop("compare", "s", "s.sweep", home=tmp_path)  # a sweep is a side of a comparison
    assert both.returncode == 0, both.stderr
    assert "total time: refused: 2 models are on both sides, but a line needs 3" in both.stdout
    fitted = edgetop("fit", "--from", "s", "--on", "s", home=tmp_path)
    assert fitted.returncode == 2
    assert "fit: program, sh: 2 programs are on both sides, but a line needs 3" in fitted.stderr


def can_limit(**what: float) -> bool:
    """Whether this machine lets this user limit a cgroup."""
    try:
        with enclosed(Limit(**what)):
            return True
    except InputError:
        return False


HUNGRY = "import sys; x = bytearray(int(sys.argv[1]) << 20); x[::4096] = b'1' * len(x[::4096]); print('ready')"


@pytest.mark.thorough
@pytest.mark.slow
def test_a_program_without_memory_is_a_row_and_the_sweep_goes_on(tmp_path: Path) -> None:
    given = ("--limit", "memory=80M", "--values", "mib=1,200", "--repeat", "1", "-o", "s", "--json", "--",
             sys.executable, "-c", HUNGRY, "{mib}")  # fmt: skip
    done = edgetop("sweep", *given, home=tmp_path)
    if not can_limit(memory_bytes=80 * 2**20):
        assert done.returncode == 2
        assert not (tmp_path / "s.sweep").exists()
        return
    assert done.returncode == 0, done.stderr
    small, large = json.loads(done.stdout)["combinations"]
    assert (len(small["sessions"]), small["reason"], small["usage"]["mem_limit_mib"]) == (1, None, 80.0)
    assert "out of memory at its limit of 80 MiB" in large["reason"]
    log = tmp_path / "s.sweep" / small["sessions"][0] / "program.log"
    assert log.read_text() == "ready\n"  # what a program prints is in its session, not in a log without a bound


@pytest.mark.slow
def test_models_and_threads_are_placeholders(tmp_path: Path) -> None:
    for suffix in ("onnx", "tflite"):
        (tmp_path / f"probe.{suffix}").write_bytes((MODELS / f"probe.{suffix}").read_bytes())
    (tmp_path / "list.txt").write_text("probe.tflite\n")
    given = ("--models", "probe.onnx", "--models-file", "list.txt", "--threads", "1,2", "--repeat", "1", "--dry-run")
    done = edgetop("sweep", *given, "--", "true", "{model}", "-n{threads}", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()[2:]) == [
        f"  1  probe.{suffix} {words}: true {tmp_path}/probe.{suffix} -n{n}"
        for suffix in ("onnx", "tflite") for n, words in ((1, "1 thread"), (2, "2 threads"))
    ]  # fmt: skip
    assert not list(tmp_path.glob("**/*.sweep"))


REFUSED = {
    "--values n=1": "--values applies only to a program",
    "--no-hook m.onnx": "--no-hook applies only to a program",
    "--goal time m.onnx": "--goal time applies only to a program",
    "--": "there is no command after --",
    "--values n=1 -- true": "the command has no {n}",
    "-- true {model}": "{model} in the command has no values",
    "--threads 1 --values threads=2 -- true {threads}": "{threads} is given values twice",
    "--values threads=x -- true {threads}": "--values threads: 'x' is not a valid integer",
    "--values n=1, -- true {n}": "'n=1,' are no values",
    "--values 9=1 -- true {9}": "'9=1' are no values",
    "--warmup-runs 5 -- true": "--warmup-runs does not apply to a program",
    "--scenario healthy -- true": "--scenario does not apply to a program",
    "--models nowhere.onnx -- true {model}": "nowhere.onnx: no such file",
    "--limit cpus=9000 -- true": "--limit cpus=9000: this process may use",
    "--limit memory=1G --limit memory=2G -- true": "memory is limited twice",
    "-- nowhere/at/all": "nowhere/at/all: cannot be started",
    "--repeat 1000 --values a=1,2,3,4,5,6,7,8,9,10,11 --dry-run -- true {a}": "there are too many runs",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_run_is_refused_in_a_line(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises((InputError, BadParameter)) as refused:
        command.main(line.split(), standalone_mode=False)
    assert REFUSED[line] in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_text_is_put_in_once() -> None:
    settings = Settings("/m/{x}.onnx", 2, values=(("x", "{model} $(id)"), ("y", "")))
    assert sweep_program.filled(["a", "{model}{x}", "{y}{y}", "{", "{}", "{z}"], settings) == [
        "a", "/m/{x}.onnx{model} $(id)", "", "{", "{}", "{z}"
    ]  # fmt: skip


WORDS = ("app", "{model}", "{lr}")
PAIRS = combined(["/m/a.onnx"], [None], [None], [None], [None], {"lr": ["1", "2"]})


def plan(folder: Path) -> Plan:
    runs = tuple(ordered(PAIRS, 2, 0, "app"))
    return Plan(runs, (), str(folder), 0, None, 600.0, program="app", command_sha256=sweep_program.digest(WORDS))


def test_combinations_are_named_by_what_differs(tmp_path: Path) -> None:
    assert [plan(tmp_path).name_of(one) for one in PAIRS] == ["lr=1", "lr=2"]
    alone = replace(plan(tmp_path), runs=tuple(ordered([Settings("")], 1, 0, "my app.py")), program="my app.py")
    assert (alone.name_of(Settings("")), alone.runs[0].session) == ("my app.py", "001-my-app-1.edgetop")


def test_a_plan_from_somebody_else_executes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = plan(tmp_path)
    write_plan(tmp_path, mine)
    assert read_plan(tmp_path) == mine
    sweep_program.refuse_another(tmp_path, mine, WORDS, PAIRS)
    other = replace(mine.runs[0], settings=Settings("/m/a.onnx", values=(("lr", "$(reboot)"),)))
    for changed, words in (
        (replace(mine, runs=(other, *mine.runs[1:])), "other models or values"),
        (replace(mine, folder="/tmp"), "in another folder"),
        (replace(mine, command_sha256="0"), "another command"),
        (replace(mine, program=None, command_sha256=None), "is a sweep over models"),
    ):
        with pytest.raises(InputError, match=words):
            sweep_program.refuse_another(tmp_path, changed, WORDS, PAIRS)


@pytest.mark.parametrize(
    "changes", [{"values": [["lr"]]}, {"values": [["--on-event", "x"]]}, {"values": 5}, {"model": "--on-event=x"}]
)
def test_settings_of_a_plan_have_their_form(tmp_path: Path, changes: dict[str, object]) -> None:
    write_plan(tmp_path, plan(tmp_path))
    document = json.loads((tmp_path / FILE).read_text())
    document["runs"][0]["settings"] |= changes
    (tmp_path / FILE).write_text(json.dumps(document))
    with pytest.raises(InputError, match=FILE):
        read_plan(tmp_path)
