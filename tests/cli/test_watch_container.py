"""`edgetop watch --container` with a program that behaves as docker and podman do (support/programs)."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.support.commands import ROOT, edgetop, start_edgetop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

FAKE = ROOT / "tests/support/programs/container_runtime.py"
IMAGE = {"Id": "sha256:1234", "Name": "python:3", "Config": {"Env": ["PYTHONPATH=/app"], "Cmd": ["python3"]}}


class Machine:
    """A home with fake runtimes in its PATH."""

    def __init__(self, home: Path, *names: str) -> None:
        self.home, self.state = home, home / "fake"
        (home / "bin").mkdir()
        for name in names:
            script = home / "bin" / name
            shutil.copy(FAKE, script)
            script.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
            script.chmod(0o755)
        for name in ("sh", "cat", "sleep", "true", "mkdir", "cc", "gcc", "as", "ld", "env"):
            if program := shutil.which(name):
                (home / "bin" / name).symlink_to(program)
        self.put("images", IMAGE)

    def put(self, kind: str, one: dict) -> None:
        folder = self.state / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{one['Name']}.json").write_text(json.dumps(one))

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.home / "bin"), "FAKE_RUNTIME": str(self.state)}

    def edgetop(self, *words: str, **more: str):
        return edgetop(*words, home=self.home, **self.environment, **more)

    def calls(self, kind: str) -> list[list[str]]:
        lines = (self.state / "calls").read_text().splitlines() if (self.state / "calls").exists() else []
        return [call for call in map(json.loads, lines) if call[1] == kind]

    def programs(self) -> list[list[str]]:
        """The calls that ran a watched program."""
        return [call for call in self.calls("run") if "--label=edgetop=run" in call]

    def left(self) -> list[str]:
        return [path.name for path in (self.state / "containers").glob("*.json")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "podman")


WATCH = ("watch", "--headless", "--json", "--no-record")


def test_a_program_runs_in_the_image_with_the_folder_and_reports_its_calls(machine: Machine) -> None:
    code = (
        "import os, time; from edgetop_probe import probe\n"
        "with probe('detector'): pass\n"
        "with probe('detector'): pass\n"
        "print('in', os.environ['FAKE_IN_CONTAINER'], os.getcwd()); time.sleep(0.5)"
    )
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'edgetop/probe')!r}); {code}"
    done = machine.edgetop(*WATCH, "--container", "python:3", "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert f"in python:3 {machine.home}" in done.stderr
    assert document["session"]["watched"]["container"] == {
        "runtime": "podman", "image": "python:3", "image_id": "sha256:1234"
    }  # fmt: skip
    assert [stream["name"] for stream in document["session"]["watched"]["streams"]] == ["detector"]
    (call,) = machine.programs()
    assert f"type=bind,source={machine.home},target={machine.home}" in call
    assert f"--workdir={machine.home}" in call
    assert "PYTHONPATH=/edgetop/probe/hook:/app" in call
    assert machine.left() == []


def test_limits_are_options_of_the_runtime_and_must_be_in_force(machine: Machine) -> None:
    """The fake runtime takes the options and limits nothing, as a rootless podman may."""
    limits = ("--limit", "cpus=1", "--limit", "memory=64M,swap=16M", "--limit", "quota=50%,period=10ms")
    done = machine.edgetop(*WATCH, *limits, "--container", "python:3", "--", "sleep", "60")
    (call,) = machine.programs()
    cpu = min(os.sched_getaffinity(0))
    wanted = {f"--cpuset-cpus={cpu}", f"--memory={64 * 2**20}", f"--memory-swap={80 * 2**20}", "--cpu-period=10000",
              "--cpu-quota=5000"}  # fmt: skip
    assert wanted <= set(call)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("edgetop: --limit: podman has not set the limit: its memory")
    assert machine.left() == []


def test_the_exit_status_is_that_of_the_program(machine: Machine) -> None:
    code = "import sys, time; time.sleep(0.4); sys.exit(3)"
    assert machine.edgetop(*WATCH, "--container", "python:3", "--", sys.executable, "-c", code).returncode == 3


def test_a_setup_runs_once_for_the_same_files_and_is_not_measured(machine: Machine) -> None:
    (machine.home / "requirements.txt").write_text("numpy\n")
    setup = "cat requirements.txt >> $PWD/installed"
    words = (*WATCH, "--container", "python:3", "--setup", setup, "--", "true")
    for _ in range(2):
        done = machine.edgetop(*words)
        assert done.returncode == 0, done.stderr
    assert (machine.home / "installed").read_text() == "numpy\n"
    assert len(machine.calls("commit")) == 1
    (machine.home / "requirements.txt").write_text("scipy\n")
    machine.edgetop(*words)
    assert (machine.home / "installed").read_text() == "numpy\nscipy\n"
    image = json.loads(next((machine.state / "images").glob("edgetop-setup*.json")).read_text())
    assert image["Config"] == {"User": "0", "WorkingDir": "/", "Entrypoint": [], "Cmd": ["python3"]}
    assert machine.left() == []


@pytest.mark.thorough
def test_a_setup_container_whose_shell_was_killed_is_removed_by_the_next_setup(machine: Machine) -> None:
    words = ("watch", "--headless", "--container", "python:3", "--setup")
    run = start_edgetop(*words, "exec sleep 60", "--", "true", home=machine.home, **machine.environment)
    wait_until(lambda: [name for name in machine.left() if name.startswith("edgetop-setup-")])
    (left,) = machine.left()
    run.kill()
    run.communicate()
    shell = int(left.removesuffix(".json").rpartition("-")[2])
    os.kill(shell, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{shell}").exists())
    os.kill(json.loads((machine.state / "containers" / left).read_text())["State"]["Pid"], signal.SIGKILL)
    other = {"Id": "1", "Name": f"edgetop-setup-0-{shell}", "State": {"Running": True, "Pid": 0}}  # of another machine
    machine.put("containers", other)
    done = machine.edgetop(*words, "true", "--", "true")
    assert done.returncode == 0, done.stderr
    assert machine.left() == [f"edgetop-setup-0-{shell}.json"]


def test_a_dockerfile_is_built_in_the_current_folder(machine: Machine) -> None:
    (machine.home / "Dockerfile").write_text("FROM python:3\n")
    done = machine.edgetop(*WATCH, "--dockerfile", "Dockerfile", "--", "true")
    assert done.returncode == 0, done.stderr
    (call,) = machine.calls("build")
    assert call[2] == "--file=Dockerfile"
    assert call[-1] == "."
    (machine.home / "Dockerfile").write_text("FROM python:3\nRUN true\n")
    machine.edgetop(*WATCH, "--dockerfile", "Dockerfile", "--", "true")
    assert len(list((machine.state / "images").glob("edgetop-build*.json"))) == 1
    done = machine.edgetop(*WATCH, "--dockerfile", "Dockerfile", "--container", "mine", "--", "true")
    assert done.returncode == 0, done.stderr
    assert (machine.state / "images/mine.json").exists()


def test_the_runtime_that_has_the_image_is_used(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "docker", "podman")
    (tmp_path / "bin/docker").write_text("#!/bin/sh\n[ $1 = ps ]\n")
    done = machine.edgetop(*WATCH, "--container", "python:3", "--", "true")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["session"]["watched"]["container"]["runtime"] == "podman"


def test_docker_runs_the_program_as_the_user_of_edgetop(tmp_path: Path) -> None:
    from edgetop.runner.container_images import user_options
    from edgetop.taps.container_runtime import Image, Runtime

    Machine(tmp_path, "docker", "podman")
    image, sailor = Image("1", "a"), Image("1", "a", user="sailor")
    docker, podman = (Runtime(name, str(tmp_path / "bin" / name)) for name in ("docker", "podman"))
    if os.geteuid() == 0:
        assert user_options(docker, image) == user_options(podman, sailor) == []
    else:
        os.environ["FAKE_RUNTIME"] = str(tmp_path / "fake")
        assert f"--user={os.geteuid()}:{os.getegid()}" in user_options(docker, image)
        assert user_options(podman, image) == []
        assert "--userns=keep-id" in user_options(podman, sailor)


@pytest.mark.parametrize(
    ("words", "message"),
    {
        "no image": (("--container", "absent", "--", "true"), "--container absent: there is no such image, and podman"),
        "setup fails": (("--container", "python:3", "--setup", "echo Error: no wheel; exit 4", "--", "true"),
                        "--setup 'echo Error: no wheel; exit 4': exit status 4: no wheel"),
        "build fails": (("--dockerfile", "bad", "--", "true"), "--dockerfile bad: podman cannot build it: no build"),
        "no container": (("--container", "gone"), "--container gone: podman has no container of this name"),
        "an image": (("--container", "python:3"), "--container python:3: it is an image, and no container"),
        "taken": (("--container", "python:3", "--container-args", "--name x", "--", "true"),
                  "--container-args --name: edgetop sets this option itself"),
        "no command": (("--dockerfile", "bad"), "--dockerfile needs a command to run"),
        "setup alone": (("--setup", "true", "--", "true"), "--setup needs --container or --dockerfile"),
        "a limit": (("--container", "python:3", "--limit", "cpus=1"), "--limit applies only to a program"),
    }.values(),
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(machine: Machine, words: tuple[str, ...], message: str) -> None:
    (machine.home / "bad").write_text("RUN true\n")
    done = machine.edgetop(*WATCH, *words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"edgetop: {message}")
    assert "Traceback" not in done.stderr
    assert machine.left() == []


def test_a_daemon_that_refuses_is_one_line(machine: Machine) -> None:
    done = machine.edgetop(*WATCH, "--container", "a", "--", "true", FAKE_RUNTIME_DOWN="permission denied")
    assert done.returncode == 2
    assert done.stderr.startswith("edgetop: --container: no container runtime can be used: podman: permission denied")


def test_without_a_runtime_the_line_says_what_to_install(tmp_path: Path) -> None:
    done = Machine(tmp_path).edgetop(*WATCH, "--container", "a", "--", "true")
    assert done.returncode == 2
    assert done.stderr.startswith("edgetop: --container: neither docker nor podman is installed")


def test_a_runtime_that_cannot_run_the_container_is_one_line(machine: Machine) -> None:
    done = machine.edgetop(
        "watch", "--headless", "-o", "s", "--container", "python:3", "--no-preload", "--app-log", "--", "true",
        FAKE_RUNTIME_FAILS="run",
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("edgetop: podman cannot run the container: run does not work today")


def test_a_running_container_is_watched_and_goes_on(machine: Machine) -> None:
    import subprocess

    with subprocess.Popen(["sleep", "600"]) as process:
        one = {"Id": "f" * 64, "Name": "camera", "State": {"Running": True, "Pid": process.pid},
               "Path": "sleep", "Args": ["600"], "Config": {"Image": "cam:1"}}  # fmt: skip
        machine.put("containers", one)
        done = machine.edgetop(*WATCH, "--container", "camera", "--duration", "2s")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["session"]["watched"]["command"] == ["sleep", "600"]
        assert document["session"]["watched"]["container"]["image"] == "cam:1"
        assert 1_900 <= document["usage"]["total_time_ms"] < 20_000
        assert process.poll() is None
        process.kill()


def test_a_second_signal_kills_the_container_and_nothing_stays(machine: Machine) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: open('asked', 'w').close())\n"
    code += "open('begun', 'w').close()\nwhile True: time.sleep(1)"
    words = (*WATCH, "--container", "python:3", "--no-preload", "--", sys.executable, "-c", code)
    run = start_edgetop(*words, home=machine.home, **machine.environment)
    wait_until((machine.home / "begun").exists)
    wait_until(lambda: machine.calls("container"))
    run.send_signal(signal.SIGINT)
    wait_until((machine.home / "asked").exists)
    run.send_signal(signal.SIGINT)
    run.communicate()
    assert {call[2] for call in machine.calls("kill")} == {"--signal=TERM", "--signal=KILL"}
    wait_until(lambda: not machine.left())


def test_a_signal_without_a_handler_is_sent_as_sigkill(machine: Machine) -> None:
    """The kernel would not deliver it to the first process of a container."""
    words = (*WATCH, "--container", "python:3", "--no-preload", "--duration", "1s", "--", "sleep", "600")
    done = machine.edgetop(*words)
    assert done.returncode == 0, done.stderr
    assert [call[2] for call in machine.calls("kill")] == ["--signal=KILL"]


def test_a_killed_edgetop_leaves_nothing_when_the_program_has_ended(machine: Machine) -> None:
    os.mkfifo(machine.home / "end")
    words = (*WATCH, "--container", "python:3", "--no-preload", "--", "sh", "-c", "echo > begun; read -r line < end")
    run = start_edgetop(*words, home=machine.home, **machine.environment)
    wait_until((machine.home / "begun").exists)
    run.kill()
    run.wait()
    assert machine.left()
    (machine.home / "end").write_text("now\n")
    wait_until(lambda: not machine.left())
    run.communicate()


@pytest.mark.thorough
def test_a_sweep_runs_its_program_in_the_image(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("models")
    for name in ("a.onnx", "b.onnx"):
        (elsewhere / name).write_text(name)
    words = ("--container", "python:3", "--setup", "echo x >> $PWD/setups", "--no-preload", "--repeat", "1")
    models = ("--models", f"{elsewhere}/a.onnx,{elsewhere}/b.onnx")
    done = machine.edgetop(
        "sweep", "--json", "-o", "s", *words, *models, "--", "sh", "-c", "cat $0; sleep 0.3", "{model}"
    )
    assert done.returncode == 0, done.stderr
    assert [run["state"] for run in json.loads(done.stdout)["runs"]] == ["done", "done"]
    assert (machine.home / "setups").read_text() == "x\n"
    call = next(call for call in machine.calls("run") if str(elsewhere / "a.onnx") in call)
    assert f"type=bind,source={elsewhere}/a.onnx,target={elsewhere}/a.onnx,readonly" in call
    plan = (machine.home / "s.sweep/sweep.json").read_text()
    assert "setups" not in plan
    assert "python:3" not in plan
