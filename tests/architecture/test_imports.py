"""The house rules about who may import what, each proven and not only agreed."""

import ast
import functools
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.cli.overview import COMMANDS

pytestmark = pytest.mark.slow

PACKAGE = Path(__file__).parents[2] / "edgetop"
HEAVY = {"textual", "rich", "pyarrow", "numpy", "onnxruntime", "ai_edge_litert", "psutil"}
FILES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def import_statements(path):
    """Within functions and for the type checker too."""
    nodes = statements(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]


def statements(tree):
    """Every statement, without the expressions in it, which are nine tenths of a tree."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            left += getattr(node, field, ())


def imported_modules(path):
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module and not node.level:
            yield node.module


def module_name(path):
    return ".".join(("edgetop", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module_name(path): path for path in FILES}


@functools.cache
def own_imports(module):
    path, found = MODULES[module], set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            submodules = {f"{source}.{alias.name}" for alias in node.names} & MODULES.keys()
            found |= submodules
            if len(submodules) < len(node.names):
                found.add(source)
    return found & MODULES.keys() - {module}


def importers_of(*modules):
    return {
        path.relative_to(PACKAGE).parts[0]
        for path in FILES
        for name in imported_modules(path)
        if name.split(".")[0] in modules
    }


def loaded_by(code):
    return {name.split(".")[0] for name in modules_loaded_by(code)}


def modules_loaded_by(code):
    script = f"import sys\n{code}\nprint(*sorted(name for name, module in sys.modules.items() if module))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_imports_point_down():
    done = subprocess.run(  # noqa: PLW1510  the exit status is what is asserted
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_no_imports_go_in_circles():
    imports = {module: own_imports(module) for module in MODULES}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError, with the modules of the circle


@pytest.mark.parametrize("package", sorted({name.rpartition(".")[0] for name in MODULES} - {""}))
def test_a_folder_and_the_files_beside_it_import_each_other_one_way(package):
    depth, imports = package.count(".") + 1, {}
    for module in MODULES:
        for imported in own_imports(module):
            if module.startswith(f"{package}.") and imported.startswith(f"{package}."):
                importing, other = module.split(".")[depth], imported.split(".")[depth]
                imports.setdefault(importing, set()).update({other} - {importing})
    graphlib.TopologicalSorter(imports).prepare()


def test_imports_are_found_wherever_they_stand():
    assert "edgetop.engines.child.profilers.helper" in own_imports(
        "edgetop.engines.child.adapters"
    )  # within a function
    assert "edgetop.models.inspection" in own_imports("edgetop.runner.model_file")  # for the type checker


def test_only_the_screen_imports_textual():
    assert importers_of("textual", "rich") == {"ui"}


def test_only_recordings_and_lakes_of_them_import_arrow():
    assert importers_of("pyarrow") == {"recording", "lake"}


@pytest.mark.parametrize("module", ["edgetop.feeds.remote", "edgetop.feeds.ssh", "edgetop.relay.serve"])
def test_a_remote_session_is_watched_without_arrow(module):
    assert "pyarrow" not in loaded_by(f"import {module}")


def test_only_the_engine_child_imports_a_runtime():
    assert importers_of("onnxruntime", "ai_edge_litert", "tflite_runtime") <= {"engines"}


HELP = (["--help"], ["--version"], *([command, "--help"] for command in COMMANDS))


def test_help_loads_nothing_heavy():
    """One process shows them all: what none of them has loaded, each of them has not."""
    run = f"""
from edgetop.cli.main import main
for arguments in {HELP!r}:
    try:
        main(arguments)
    except SystemExit as end:
        assert end.code == 0, arguments
"""
    assert not loaded_by(run) & HEAVY


def test_a_model_file_is_read_without_a_runtime_or_onnx():
    loaded = loaded_by("import edgetop.cli.board.inspection_text, edgetop.models.document, edgetop.models.inspection")
    assert not loaded & {"onnx", "onnxruntime", "ai_edge_litert", "flatbuffers", "google", "textual", "pyarrow"}


def test_a_headless_session_loads_nothing_it_does_not_use():
    loaded = modules_loaded_by("import edgetop.cli.running.run_session, edgetop.cli.running.headless")
    unused = {"textual", "asyncio", "hashlib", "email", "argparse", "statistics", "ssl", "sysconfig", "edgetop.taps"}
    assert not loaded & unused


def test_a_run_is_built_before_analysis_is_loaded():
    """The engine starts first; the analysis takes as long to load as a small model."""
    assert not {
        module
        for module in modules_loaded_by("import edgetop.cli.running.run_session")
        if module.startswith("edgetop.analysis")
    }
    assert "numpy" not in loaded_by("import edgetop.engines.spawn")


def test_a_screen_loads_no_openssl():
    loaded = loaded_by(
        "import edgetop.cli.running.run_session, edgetop.cli.running.headless\n"
        "import edgetop.ui.app, edgetop.ui.monitor_screen"
    )
    assert not loaded & {"ssl", "hashlib"}


def test_the_project_speaks_of_itself_alone():
    assert not [path for path in FILES if "/work/" in path.read_text(encoding="utf-8")]


def test_every_file_has_a_name_of_its_own() -> None:
    """A traceback, an editor's tab and a word in a discussion show the name without its folder."""
    named: dict[str, list[str]] = {}
    for path in FILES:
        if path.name not in ("__init__.py", "__main__.py"):
            named.setdefault(path.name, []).append(str(path.relative_to(PACKAGE)))
    assert [paths for paths in named.values() if len(paths) > 1] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_file_of_its_name(name: str) -> None:
    module = COMMANDS[name][0].rpartition(".")[2]
    assert module == {"import": "import_file"}.get(name, name.replace("-", "_"))  # Python reserves `import`


def test_a_request_is_made_before_anything_heavy_is_loaded() -> None:
    """The engine starts right after it, and the run then splits from the process that the shell waits for."""
    request = "from edgetop.cli.running.run import command, model_request\n"
    request += "model_request(command.make_context('run', ['m.onnx', '--threads', '2']).params)"
    assert not loaded_by(request) & HEAVY
