"""Hints name the environment that the user has, and no package of ours on a public index: there is none."""

import re
import sys
from pathlib import Path

import pytest

from edgetop import installation
from edgetop.installation import extra_command, install_command, packages_of

ROOT = Path(__file__).parents[1]
ON_AN_INDEX = re.compile(
    r"\b(?:pipx|pip3?|uv|uv tool|uv pip) (?:install|run)(?: [^`\n]*)?[ '\"]edgetop(?:['\"\[ =<>)]|$)", re.MULTILINE
)
TEXTS = sorted([ROOT / "README.md", *(ROOT / "edgetop").rglob("*.py"), *(ROOT / "edgetop").rglob("*.md")])


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_takes_edgetop_from_an_index(path):
    assert not ON_AN_INDEX.search(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("words", ["pip install 'edgetop[html]'", "pipx install edgetop", "uv tool install edgetop"])
def test_such_a_text_would_be_found(words):
    assert ON_AN_INDEX.search(words)


def test_an_extra_is_its_packages():
    assert packages_of("lake") == ["duckdb>=1.1"]
    names = [re.match(r"[\w-]+", one)[0] for one in packages_of("otel")]
    assert names == ["opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"]
    assert packages_of("no such extra") == []
    assert "pyproject.toml" in extra_command("no such extra")


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An environment that is elsewhere."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venvs" / "edgetop"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venvs" / "edgetop" / "bin" / "python"))
    (tmp_path / "venvs" / "edgetop").mkdir(parents=True)
    return tmp_path / "venvs" / "edgetop"


def test_the_command_fits_the_environment(prefix, monkeypatch):
    assert install_command("duckdb") == f"{sys.executable} -m pip install duckdb"
    monkeypatch.setattr(installation, "_has_pip", lambda: False)
    assert install_command("daft[ray]") == f"uv pip install --python {sys.executable} 'daft[ray]'"
    (prefix / "pipx_metadata.json").touch()
    assert install_command("duckdb", "bokeh") == "pipx inject edgetop duckdb bokeh"


def test_a_managed_system_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(installation.sysconfig, "get_path", lambda _: str(tmp_path))
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    assert "--break-system-packages" in install_command("duckdb")
