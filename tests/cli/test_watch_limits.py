"""`edgetop watch --limit` with real programs: what holds for them and their children, and what is told of it."""

import json
import os
import sys
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.recording.reader import Recording
from edgetop.runner.cgroup_limits import PREFIX, enclosed
from edgetop.runner.engine_limit import Limit
from tests.support.commands import edgetop, start_edgetop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

CHILD_CPUS = "import os, subprocess, sys; print('cpus', os.sched_getaffinity(0)); sys.stdout.flush(); "
# Touches 60 MiB in a child, which is killed if there are only 40, and then goes on.
HUNGRY = (
    "python3 -c 'x = bytearray(60 * 2**20)\nfor i in range(0, len(x), 4096): x[i] = 1'; echo child ended with $?; true"
)


def can_limit(**what: float) -> bool:
    """Whether this machine lets this user limit a cgroup."""
    try:
        with enclosed(Limit(**what)):
            return True
    except InputError:
        return False


def cgroups(pid: int) -> list[Path]:
    """The cgroups that an edgetop with this process id has made."""
    found: list[Path] = []
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        found += [Path(folder, name) for name in names if name.startswith(f"{PREFIX}{pid}-")]
    return found


def test_the_program_and_its_children_have_as_many_cpus_as_the_limit(tmp_path):
    code = CHILD_CPUS + f"subprocess.run([sys.executable, '-c', {CHILD_CPUS!r}])"
    done = edgetop("watch", "--headless", "--no-record", "--limit", "cpus=1", "--", sys.executable, "-c", code,
                   home=tmp_path)  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("cpus")]
    first = min(os.sched_getaffinity(0))
    assert lines == [f"cpus {{{first}}}"] * 2


def test_the_environment_is_that_without_a_limit(tmp_path):
    if not can_limit(quota_pct=200):
        return  # what happens then is the next test
    shows = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = []
    for limit in ([], ["--limit", "quota=200%"]):
        done = edgetop("watch", "--headless", "--no-record", *limit, "--", sys.executable, "-c", shows, home=tmp_path)
        line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
        seen.append(json.loads(line))
    assert seen[0] == seen[1]


def test_an_oom_kill_of_a_child_is_an_event_and_the_program_goes_on(tmp_path):
    words = ("watch", "--headless", "-o", "s", "--limit", "memory=40M", "--", "sh", "-c", HUNGRY)
    run = start_edgetop(*words, home=tmp_path)
    output, errors = run.communicate()
    if not can_limit(memory_bytes=40 * 2**20):
        assert run.returncode == 2
        assert errors.startswith("edgetop: --limit: no cgroup can be made here that limits memory (")
        assert not (tmp_path / "s.edgetop").exists()
        return
    assert "child ended with 137" in output
    recording = Recording(tmp_path / "s.edgetop")
    events = [event for batch in recording.play() for event in batch.events]
    (kill,) = (event.body for event in events if event.kind == "oom-kill")
    assert kill.limit_mib == 40.0
    assert kill.process is None or kill.process.startswith("python3")
    assert kill.rss_mib is None or kill.rss_mib < 48
    (end,) = (event.body for event in events if event.kind == "program-ended")
    assert end.total_ns > 0
    assert recording.manifest.constraints.memory_bytes == 40 * 2**20
    assert not cgroups(run.pid)


def test_a_program_out_of_memory_ends_the_session(tmp_path):
    if not can_limit(memory_bytes=40 * 2**20):
        return  # tested above
    code = HUNGRY.partition("python3 -c '")[2].partition("'")[0]
    words = ("watch", "--headless", "--json", "--no-record", "--limit", "memory=40M")
    done = edgetop(*words, "--", sys.executable, "-c", code, home=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 137
    assert "out of memory at its limit of 40 MiB" in document["verdict"]["words"]
    assert "oom-kill" in {warning["code"] for warning in document["warnings"]}


def test_a_killed_edgetop_leaves_the_cgroup_only_as_long_as_the_program_runs(tmp_path):
    if not can_limit(quota_pct=200):
        return
    os.mkfifo(tmp_path / "end")
    words = ("watch", "--headless", "--no-record", "--limit", "quota=200%")
    run = start_edgetop(*words, "--", "sh", "-c", "echo begun > begun; read -r line < end", home=tmp_path)
    wait_until((tmp_path / "begun").exists)
    assert cgroups(run.pid)
    run.kill()
    run.wait()
    assert cgroups(run.pid)
    (tmp_path / "end").write_text("now\n")
    wait_until(lambda: not cgroups(run.pid))
    run.communicate()
