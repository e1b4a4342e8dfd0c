"""Every install command in the program, the docs and the scripts names packages that are known to be what they seem.

A name that nobody has registered leads to whoever registers it first. edgetop itself is on no package index yet, so no
text may take it from one; after its publication (edgetop/docs/releasing.md) it may be named, and a misspelling not.
"""

import functools
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetop.cli.board.lacking import PURPOSES
from edgetop.engines.child.adapters import RUNTIMES
from edgetop.installation import extra_command, packages_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

IS_PUBLISHED = False
NAME_ON_THE_INDEX = "edgetop"

ROOT = Path(__file__).parents[1]
SUFFIXES = ("*.py", "*.md", "*.c", "*.h", "*.bash", "*.zsh", "*.fish")
TEXTS = sorted(
    [
        ROOT / "README.md",
        *(path for suffix in SUFFIXES for path in (ROOT / "edgetop").rglob(suffix)),
        *(path for path in (ROOT / ".github").rglob("*") if path.is_file()),
        *(path for path in (ROOT / ".ci").iterdir() if path.is_file() and path.name != "constraints.txt"),
    ]
)
RELEASING = ROOT / "edgetop/docs/releasing.md"  # it has the command for the time after the publication

# Packages of others that are no dependency of edgetop, and who publishes each.
OTHERS = {
    "adlfs": "fsspec, for Azure",
    "build": "PyPA",
    "cyclonedx-bom": "OWASP CycloneDX",
    "daft": "Eventual",
    "fsspec": "fsspec",
    "glances": "nicolargo",
    "jetson-stats": "rbonghi",
    "onnxruntime-gpu": "Microsoft",
    "pipx": "PyPA",
    "pillow": "python-pillow",
    "pre-commit": "pre-commit",
    "s-tui": "amanusk",
    "scikit-learn": "scikit-learn",
    "tflite-runtime": "Google",
    "twine": "PyPA",
    "uv": "Astral",
}

_COMMAND = re.compile(
    r"(?:\b(?P<runs>uvx|uv tool run|pipx run)|\b(?P<adds>pipx inject)"
    r"|\b(?:pip3?|pipx|uv pip|uv tool)[\"']? (?:install|download)|\buv add)\b(?P<words>[^\n`|&]*)"
)
_TAKES_VALUE = ("-c", "-r", "--constraint", "--python", "--target", "--prefix", "-d", "--outdir", "--index-url")
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[\w,-]*\])?(?:[<>=!~].*)?")


def packages(text: str) -> Iterator[str]:
    """Yield the name of each package that a command of the text takes from an index."""
    for match in _COMMAND.finditer(text):
        words = re.split(r" {2,}| #|;|\\n", match["words"])[0]
        try:
            tokens = shlex.split(words)
        except ValueError:  # a quotation mark of the language around it
            tokens = words.replace("'", " ").replace('"', " ").split()
        named = _arguments(tokens)
        if match["adds"]:
            next(named, None)  # the name of an environment
        for token in named:
            if not _is_place(token):
                found = _REQUIREMENT.fullmatch(token)
                if not found:  # the sentence goes on
                    break
                yield found[1].lower().replace("_", "-")
            if match["runs"]:  # what follows is the command line of the program
                break


def _arguments(tokens: list[str]) -> Iterator[str]:
    """Yield what is to be installed: `name @ place` as one argument, and no options."""
    while tokens:
        token = tokens.pop(0)
        if token == "--":  # the command goes on after the quoted one: edgetop watch --setup 'pip install x' -- app
            return
        if token in _TAKES_VALUE:
            tokens[:1] = []
        elif not token.startswith("-"):
            if tokens[:1] == ["@"]:
                token, tokens = " ".join([token, *tokens[:2]]), tokens[2:]
            yield token.rstrip(".,:)\"'")
            if token.endswith((",", ".", ":")) and len(token) > 1:  # the sentence goes on after the command
                return


def _is_place(argument: str) -> bool:
    """Whether an argument says from where, so that no index is asked."""
    return argument.startswith((".", "/", "~", "$", "{")) or argument.endswith((".whl", ".gz")) or " @ " in argument


@functools.cache
def declared() -> set[str]:
    """Return the packages that edgetop, its extras and its tests depend on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / ".ci/constraints.txt").read_text(), re.MULTILINE)
    names = {re.split(r"[\s\[<>=!~;]", line)[0].lower() for line in lines}
    return (names | set(pinned)) - {NAME_ON_THE_INDEX}


def strangers(text: str, *, is_published: bool) -> list[str]:
    """Return the names in a text that are neither declared nor known."""
    known = declared() | set(OTHERS) | ({NAME_ON_THE_INDEX} if is_published else set())
    return [name for name in packages(text) if name not in known and name != "what"]  # WHAT stands for a place


def test_every_text_names_known_packages():
    found = {}
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        found[path] = strangers(text, is_published=IS_PUBLISHED or path == RELEASING)
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("extra", PURPOSES)
def test_every_hint_of_the_program_does_too(extra):
    command = extra_command(extra)
    assert list(packages(command)) or not packages_of(extra)
    assert strangers(command, is_published=False) == []


def test_so_do_the_hints_of_the_engine():
    assert {runtime[4] for runtime in RUNTIMES.values()} <= declared()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install 'edgetop[html]'", ["edgetop"]),
        ("edgetop watch --setup 'pip install -r a.txt numpy' -- app x", ["numpy"]),
        ("pipx install edgetop", ["edgetop"]),
        ("uv tool install --python 3.13 edgetop", ["edgetop"]),
        ("uvx edgetop run", ["edgetop"]),
        ("`pipx run --spec edgetop==1 edgetop run x`", ["edgetop"]),
        ("python -m pip install -q duckdb>=1.1 edgetop-extras", ["duckdb", "edgetop-extras"]),
        ("sudo pip3 install Jetson_Stats.", ["jetson-stats"]),
        ("pipx inject edgetop bokeh", ["bokeh"]),
        ("uvx --from edgetop-cli edgetop", ["edgetop-cli"]),
        ("pip install '.[all]'", []),
        ("pip install -e '.[dev]' -c .ci/constraints.txt", []),
        ("pipx install ./edgetop-0.1.0-py3-none-any.whl", []),
        ("pip install 'edgetop[onnx] @ git+https://host/edgetop'", []),
        ("uvx --from /tmp/edgetop.whl edgetop", []),
        ("pip install x    and a comment", ["x"]),
        ("pip install x, or convert the files", ["x"]),
        ("`pip install` refuses", []),
    ],
)
def test_commands_are_read_as_their_programs_read_them(text, found):
    assert list(packages(text)) == found


@pytest.mark.parametrize("is_published", [False, True])
def test_before_and_after_the_publication(is_published):
    assert strangers("pipx install 'edgetop[onnx]'", is_published=is_published) == ([] if is_published else ["edgetop"])
    assert strangers("pipx install edge-top", is_published=is_published) == ["edge-top"]


def test_the_texts_have_commands_to_look_at():
    assert len([name for path in TEXTS for name in packages(path.read_text(encoding="utf-8"))]) > 10
