"""`edgetop completion`, and what the Tab key proposes: sessions, engines, providers, themes, topics, events.

The shell runs this code at each Tab. So it reads only file names and imports nothing heavy: no numpy, no Textual.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from edgetop.paths import config_home, recordings_home

SUFFIX, MANIFEST, JOURNAL, REGISTER = ".edgetop", "session.json", "journal", "sessions"  # as in edgetop.recording

# Execution providers of ONNX Runtime for Linux, without the suffix ExecutionProvider (core/graph/constants.h).
PROVIDERS = (
    "CPU", "CUDA", "Tensorrt", "ACL", "ArmNN", "CANN", "Dnnl", "MIGraphX", "OpenVINO", "QNN", "ROCM", "Rknpu",
    "VitisAI", "VSINPU", "Xnnpack", "GPU", "NPU",
)  # fmt: skip

_HARMLESS = re.compile(r"[\w.+@%,][\w.+@%,=-]*")

Proposals = list[CompletionItem]
SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_EDGETOP_COMPLETE"  # the variable that Click derives from the program name edgetop


Proposer = Callable[[click.Context, click.Parameter, str], Proposals]


def sessions(_context: click.Context, _param: click.Parameter, incomplete: str) -> Proposals:
    return _sessions(_folders(), incomplete)


def session_lists(context: click.Context, param: click.Parameter, incomplete: str) -> Proposals:
    """Return proposals for the last session in a comma-separated list.

    `incomplete` is the list as far as the user has typed it, such as `pi-a,pi-`.
    """
    before, comma, last = incomplete.rpartition(",")
    return [CompletionItem(f"{before}{comma}{one.value}", type=one.type) for one in sessions(context, param, last)]


def running_sessions(_context: click.Context, _param: click.Parameter, incomplete: str) -> Proposals:
    """Return the names of running sessions as proposals. `incomplete` is what the user has typed so far."""
    return _sessions((folder for folder in _folders() if (folder / JOURNAL).is_dir()), incomplete)


def _of(names: Callable[[], Iterable[str]]) -> Proposer:
    return lambda _context, _param, incomplete: _beginning(names(), incomplete)


def _imported(module: str, attribute: str) -> Proposer:
    """Return a function that proposes the names in `attribute` of `module`. The module is imported only when needed."""
    return _of(lambda: iter(getattr(import_module(module), attribute)))


def theme_names() -> list[str]:
    package = Path(__file__).parent.parent
    folders = (config_home() / "themes", package / "themes", package.parent / "themes")  # as in edgetop.ui.themes
    return sorted({path.stem for folder in folders for path in folder.glob("*.toml")})


def _topics() -> Iterator[str]:
    from importlib import resources  # noqa: PLC0415  a run needs none of what it loads

    names = (entry.name for entry in resources.files("edgetop").joinpath("docs").iterdir())
    return (name.removesuffix(".md") for name in names if name.endswith(".md"))


def _events() -> Iterable[str]:
    from edgetop.wording.alert_names import ANY, NAMES  # noqa: PLC0415  only where it is asked for

    return (*NAMES, ANY)


def _presets() -> Iterable[str]:
    from edgetop.files import read_toml  # noqa: PLC0415  as above

    try:
        section = read_toml(config_home() / "edgetop.toml").get("preset", {})
    except (OSError, ValueError):
        return ()
    return section if isinstance(section, dict) else ()


engines = _imported("edgetop.engines.child.adapters", "RUNTIMES")
providers = _of(lambda: PROVIDERS)
fleet_orders = _of(lambda: ("run", "stop"))
scenarios = _imported("edgetop.simulation.scenarios", "SCENARIOS")
presets = _of(_presets)
group_keys = _imported("edgetop.comparison.sample", "KEYS")
themes = _of(theme_names)
topics = _of(_topics)
events = _of(_events)


def _sessions(folders: Iterable[Path], incomplete: str) -> Proposals:
    if "/" in incomplete:
        return [CompletionItem(incomplete, type="dir")]
    return _beginning((folder.name.removesuffix(SUFFIX) for folder in folders), incomplete)


def _folders() -> Iterator[Path]:
    """Yield the folders of sessions: those in the current and the recordings folder, and registered ones elsewhere."""
    home = recordings_home()
    for place in (Path(), home):
        with contextlib.suppress(OSError):  # it was deleted, or belongs to another user
            yield from (path.parent for path in place.glob(f"*{SUFFIX}/{MANIFEST}"))
    try:
        links = list(os.scandir(home / REGISTER))
    except OSError:  # no session is registered
        return
    for link in links:
        if (Path(link.path) / MANIFEST).is_file():
            yield Path(os.readlink(link.path))  # noqa: PTH115  of a link known by its path


def _beginning(names: Iterable[str], incomplete: str) -> Proposals:
    """Return the names that begin with `incomplete` as proposals, sorted.

    Names with characters special to shells are left out.
    """
    fitting = {name for name in names if name.startswith(incomplete) and _HARMLESS.fullmatch(name)}
    return [CompletionItem(name) for name in sorted(fitting)]


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script for SHELL: commands, options, sessions, providers, themes, topics.

    \b
    Examples:
      edgetop completion bash > ~/.local/share/bash-completion/completions/edgetop
      edgetop completion zsh > ~/.zfunc/_edgetop       (with ~/.zfunc in fpath before compinit)
      edgetop completion fish > ~/.config/fish/completions/edgetop.fish
      eval "$(edgetop completion bash)"                for this shell only
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415  the others need it not

    from edgetop.cli.command_group import edgetop  # noqa: PLC0415  it knows this command by its name

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(edgetop, {}, "edgetop", VARIABLE).source())
