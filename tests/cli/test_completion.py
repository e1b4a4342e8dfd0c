"""What a shell proposes at Tab: through a real bash, and through Click for the others."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from edgetop.cli.command_group import edgetop
from edgetop.cli.completion import JOURNAL, MANIFEST, REGISTER, SUFFIX
from edgetop.recording import registry, session_folder
from edgetop.ui.themes import theme_files
from tests.support.commands import edgetop as run
from tests.support.commands import environment
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow


def proposed(line: str) -> list[str]:
    """For the last word of the line, which may be empty."""
    *words, last = line.split(" ")
    return [item.value for item in ShellComplete(edgetop, {}, "edgetop", "X").get_completions(words[1:], last)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sessions at home, here, and elsewhere; two have a journal."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    here = tmp_path / "here"
    hostile = [here / name for name in ("demo\x1b[2J", "a;b", "$(x)", "-rf", "`x`", "a b")]
    for folder in (tmp_path / "state/edgetop/soak-1", here / "soak-2", tmp_path / "far/soak-3", *hostile):
        session = folder.with_name(folder.name + SUFFIX)
        session.mkdir(parents=True)
        (session / MANIFEST).write_text("{}")
    (here / f"soak-2{SUFFIX}" / JOURNAL).mkdir()
    register = tmp_path / "state/edgetop" / REGISTER
    register.mkdir()
    (register / "an-id").symlink_to(tmp_path / "far" / f"soak-3{SUFFIX}")
    monkeypatch.chdir(here)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("edgetop re", ["replay", "report", "relay"]),
        ("edgetop report --js", ["--json"]),
        ("edgetop report ", ["soak-1", "soak-2", "soak-3"]),
        ("edgetop replay soak-1", ["soak-1"]),
        ("edgetop fit --on soak-1,soak-", ["soak-1,soak-1", "soak-1,soak-2", "soak-1,soak-3"]),
        ("edgetop attach ", ["soak-2"]),
        ("edgetop stop ", ["soak-2"]),
        ("edgetop run --engine lite", ["litert"]),
        ("edgetop run --provider CU", ["CUDA"]),
        ("edgetop demo --scenario th", ["thermal"]),
        ("edgetop compare a b --group-by po", ["power-mode"]),
        ("edgetop help alert", ["alerts"]),
        ("edgetop run --on-event thr", ["throttled"]),
        ("edgetop completion f", ["fish"]),
        ("edgetop export soak-1 --to per", ["perfetto"]),
        ("edgetop no-such-command --he", ["--help"]),
    ],
)
@pytest.mark.usefixtures("home")
def test_names_are_completed(line: str, told: list[str]) -> None:
    assert sorted(proposed(line)) == sorted(told)


@pytest.mark.usefixtures("home")
def test_the_users_own_themes_are_known_too(home: Path) -> None:
    (home / "config/edgetop/themes").mkdir(parents=True)
    (home / "config/edgetop/themes/mine.toml").write_text("")
    assert proposed("edgetop run --theme ") == sorted(theme_files())
    assert "mine" in proposed("edgetop run --theme m")


def test_where_recordings_may_not_be_looked_at_none_is_told(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """As those of another user. Root may look there, but for no name this long."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ("n" * 300)))
    assert proposed("edgetop report ") == ["soak-2"]


def test_names_of_files_are_those_of_recordings() -> None:
    assert (session_folder.SUFFIX, session_folder.MANIFEST, session_folder.JOURNAL, registry.REGISTER) == (
        SUFFIX,
        MANIFEST,
        JOURNAL,
        REGISTER,
    )


def test_bash_completes_a_session_by_the_script(home: Path) -> None:
    program = home / "bin/edgetop"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m edgetop "$@"\n')
    program.chmod(0o755)
    line = (
        'eval "$(edgetop completion bash)"; complete -p edgetop;'
        'COMP_WORDS=(edgetop report so); COMP_CWORD=2; _edgetop_completion edgetop; echo "${COMPREPLY[@]}"'
    )
    path = f"{program.parent}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
        env=environment(home, PATH=path),
    )
    assert done.stdout.splitlines()[-1] == "soak-1 soak-2 soak-3"
    assert "_edgetop_completion edgetop" in done.stdout.splitlines()[0]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_of_their_own(shell: str, tmp_path: Path) -> None:
    done = run("completion", shell, home=tmp_path)
    assert done.returncode == 0
    assert f"_EDGETOP_COMPLETE={shell}_complete" in done.stdout


def test_another_shell_is_refused_in_a_line(tmp_path: Path) -> None:
    done = run("completion", "tcsh", home=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "line", ["edgetop report s", "edgetop run --theme d", "edgetop run --on-event t", "edgetop help k"]
)
def test_tab_loads_nothing_heavy(line: str, tmp_path: Path) -> None:
    program = "import json, sys; from edgetop.cli.main import main\ntry: main()\nexcept SystemExit: pass\nprint(json.dumps(sorted(sys.modules)))"  # noqa: E501
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_EDGETOP_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True, cwd=tmp_path,
        env=environment(tmp_path, **words),
    )  # fmt: skip
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert not loaded & {"numpy", "textual", "rich", "pyarrow", "onnxruntime", "edgetop.analysis.analysis"}
