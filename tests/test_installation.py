"""Hints name the environment that the user has. The names of packages are looked at in test_install_hints.py."""

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

from edgetop import installation
from edgetop.cli.running import session_parts
from edgetop.errors import InputError
from edgetop.installation import extra_command, install_command, packages_of

ROOT = Path(__file__).parents[1]


def test_an_extra_is_its_packages():
    assert packages_of("lake") == ["duckdb>=1.1"]
    names = [re.match(r"[\w-]+", one)[0] for one in packages_of("otel")]
    assert names == ["opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"]
    assert packages_of("no such extra") == []
    assert "pyproject.toml" in extra_command("no such extra")


def test_what_needs_an_old_numpy_has_an_arrow_that_takes_it():
    """pyarrow 26 refuses NumPy 1, and its packages do not say so."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    old = [line for line in text.splitlines() if '"numpy<2' in line]
    assert old
    assert all('"pyarrow<26' in line for line in old)


@pytest.fixture
def old_only(monkeypatch):
    """An extra whose packages end with Python 3.11."""
    lines = [
        "tiny>=2; python_version < '3.12' and extra == 'old'",
        "small<2; (python_version < '3.12') and extra == 'old'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda _: lines)


def test_an_extra_without_packages_for_a_python_is_no_command(old_only, prefix):
    assert packages_of("old", 11) == ["small<2", "tiny>=2"]
    assert packages_of("old", 12) == []
    is_older = sys.version_info < (3, 12)
    assert ("pip install" in extra_command("old")) == is_older
    assert ("only for older versions" in extra_command("old")) != is_older


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


def test_an_archive_is_made_anew(prefix):
    (prefix / "archive.json").touch()
    assert extra_command("lake") == "make the archive anew with --extra lake (edgetop bundle-for)"


def test_a_tool_of_pipx_is_found_where_it_is(prefix, monkeypatch):
    (prefix / "pipx_metadata.json").touch()
    home = prefix.parent.parent
    monkeypatch.delenv("PIPX_HOME", raising=False)
    assert install_command("duckdb") == f"env PIPX_HOME={home} pipx inject edgetop duckdb"
    monkeypatch.setenv("PIPX_HOME", str(home))
    assert install_command("duckdb", "bokeh") == "pipx inject edgetop duckdb bokeh"
    monkeypatch.setenv("PIPX_GLOBAL_HOME", str(home))
    assert install_command("duckdb") == "pipx inject --global edgetop duckdb"


@pytest.fixture
def receipt(prefix, monkeypatch):
    """Writes what uv keeps of a tool."""
    monkeypatch.setattr(installation, "_has_pip", lambda: False)
    monkeypatch.setenv("UV_TOOL_DIR", str(prefix.parent))
    monkeypatch.delenv("XDG_BIN_HOME", raising=False)
    monkeypatch.setenv("UV_TOOL_BIN_DIR", "/home/pi/.local/bin")

    def write(*requirements, more=""):
        lines = "".join(f"    {{ {one} }},\n" for one in requirements)
        entry = '[{ name = "edgetop", install-path = "/home/pi/.local/bin/edgetop", from = "edgetop" }]'
        text = f"[tool]\nrequirements = [\n{lines}]\nentrypoints = {entry}\n{more}"
        (prefix / "uv-receipt.toml").write_text(text)

    return write


def test_a_tool_of_uv_is_installed_again_with_all_it_has(receipt, prefix, monkeypatch, tmp_path):
    """What `uv pip install` adds to a tool is gone after `uv tool upgrade`."""
    receipt(f'name = "edgetop", extras = ["onnx"], directory = "{tmp_path}"', more='python = "/usr/bin/python3.12"')
    python = "uv tool install --python /usr/bin/python3.12"
    assert install_command("duckdb>=1.1") == f"{python} --with 'duckdb>=1.1' '{tmp_path}[onnx]'"
    receipt('name = "duckdb", specifier = ">=1"', 'name = "bokeh"', f'name = "edgetop", editable = "{tmp_path}"')
    kept = "uv tool install --with bokeh --with 'duckdb>=1.1' --editable"
    assert install_command("duckdb>=1.1") == f"{kept} {tmp_path}"
    receipt('name = "edgetop", git = "https://host/edgetop?subdirectory=x&rev=v1"')
    assert install_command("a") == "uv tool install --with a 'edgetop @ git+https://host/edgetop@v1#subdirectory=x'"
    receipt('name = "edgetop", url = "https://host/edgetop.whl"')
    assert install_command("a") == "uv tool install --with a 'edgetop @ https://host/edgetop.whl'"
    monkeypatch.delenv("UV_TOOL_DIR")
    monkeypatch.delenv("UV_TOOL_BIN_DIR")
    monkeypatch.setenv("HOME", "/home/pi")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert install_command("a").startswith(f"env UV_TOOL_DIR={prefix.parent} uv tool install --with a ")


@pytest.mark.parametrize(
    ("requirement", "more"),
    [
        ('name = "edgetop"', ""),
        ('name = "edgetop", specifier = ">=0.1"', ""),
        ('name = "edgetop", path = "/gone/edgetop.whl"', ""),
        ('name = "edgetop", directory = "/"', 'constraints = [{ name = "numpy", specifier = "<2" }]'),
        ('name = "edgetop", directory = "/"', "[tool.options]\nindex-url = 'https://host'"),
        ("broken", ""),
        ("name = 1", ""),
    ],
)
def test_a_tool_of_uv_that_cannot_be_installed_again_is_added_to(requirement, more, receipt):
    """Its name alone would be looked up on an index."""
    receipt(requirement, more=more)
    assert install_command("duckdb") == f"uv pip install --python {sys.executable} duckdb"


def test_a_users_own_packages_stay_his(monkeypatch):
    monkeypatch.setattr(installation.site, "getusersitepackages", lambda: str(ROOT))
    assert install_command("duckdb") == f"{sys.executable} -m pip install --user duckdb"


def test_a_managed_system_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    assert install_command("duckdb") == f"{sys.executable} -m pip install --break-system-packages duckdb"


def test_uv_is_told_of_a_managed_system_and_of_a_users_own_packages(tmp_path, monkeypatch):
    """A system's Python often has no pip; uv refuses a managed one and has no `--user`."""
    monkeypatch.setattr(installation, "_has_pip", lambda: False)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    command = f"uv pip install --python {sys.executable} --break-system-packages"
    assert install_command("duckdb") == f"{command} duckdb"
    monkeypatch.setattr(installation.site, "getusersitepackages", lambda: str(ROOT))
    assert install_command("duckdb") == f"{command} --target {ROOT} duckdb"


@pytest.mark.parametrize(
    ("engine", "model_format", "told", "package"),
    [("auto", "onnx", "no runtime for onnx models is installed", "onnxruntime"),
     ("litert", "tflite", "litert is not installed", "ai-edge-litert")],
)  # fmt: skip
def test_a_missing_runtime_of_this_python_has_the_hint_of_this_installation(engine, model_format, told, package):
    """The engine's process knows only its own interpreter, which may have no pip."""
    hint = extra_command(session_parts.EXTRAS[engine if engine != "auto" else "onnxruntime"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_parts.importlib.util, "find_spec", lambda _: None)
        patch.setattr(installation, "_has_pip", lambda: True)
        with pytest.raises(InputError, match=told) as raised:
            session_parts._require_runtime(engine, model_format)
    assert package in str(raised.value)
    assert hint in str(raised.value)
