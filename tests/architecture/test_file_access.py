"""Files are opened by `edgetop.files`; every other place stands here with its reason."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "edgetop"
# Run in interpreters that have no edgetop: each has its own rules and tests.
ALONE = ("engines/child/", "probe/", "sensors/programs/", "taps/locate.py", "taps/opener.py", "taps/starter.py")

WRITES = {
    "files.py": "the home of writes",
    "cli/watching/relay.py": "a descriptor of its own standard output",
    "cli/terminal.py": "a log, by open_regular; the null device",
    "cli/watching/watch_session.py": "tries whether the file of --app-output can be opened, before the program starts",
    "cli/board/archive_program.py": "runs without edgetop; a folder of its own, and names that are replaced",
    "cli/scratch_folder.py": "a private folder that is removed",
    "cli/board/archive_making.py": "a private folder that is removed",
    "cli/running/child_run.py": "files without a name",
    "runner/container_images.py": "a file without a name",
    "cli/stored_sessions.py": "files without a name",
    "doctor/machine_checks.py": "a file without a name, to measure the disk",
    "engines/thread.py": "a descriptor of the standard error",
    "lake/place.py": "a name that pushes share, checked by descriptor",
    "lake/transfer.py": "new files (x) in a new private folder",
    "recording/catalog.py": "a stream of a session, by open_regular",
    "recording/export/export_formats.py": "a device or a pipe that the user named",
    "cli/sessions/bundling.py": "our own new files, into the archive",
    "recording/export/redacted_copy.py": "new files in a new private folder",
    "recording/export/to_text.py": "new files (x) in a new private folder",
    "recording/session_folder.py": "locks, by open_regular",
    "recording/journal.py": "streams of a session, by open_regular",
    "recording/unwritten.py": "a note whose name is what it says, by open_regular",
    "recording/kept_outputs.py": "a new file (x) in a new session",
    "recording/recovery.py": "a stream of a session, by open_regular",
    "recording/registry.py": "a link in our own folder of running sessions",
    "recording/parquet_tables.py": "a stream of a session, by open_regular",
    "metrics/prometheus.py": "a lock, by open_regular",
    "sensors/capture/collect.py": "a tar file in memory",
    "runner/cgroup_limits.py": "files of the kernel, in a cgroup",
    "simulation/virtual_board.py": "a private folder, in which nobody else can put a link",
    "simulation/competitor.py": "its own name, in /proc",
    "standard_streams.py": "the null device; a standard stream, by its descriptor",
    "sweep_plan.py": "a lock, by open_regular",
    "taps/preload.py": "a private folder to compile in",
    "taps/watched_program.py": "the log of a watched program",
    "taps/rings.py": "a private folder, in which nobody else can put a link",
    "ui/screenshot.py": "a new file under the first free number",
}
READS = {
    "imports/power_trace.py": "the first bytes of a log, by open_regular",
    "recording/csv_numbers.py": "a log in pieces, by open_regular",
    "files.py": "the home of reads",
    "cli/board/archive_making.py": "our own program, and packages in a private folder",
    "cli/sessions/bundling.py": "our own new files, in a private folder",
    "cli/board/archive_program.py": "runs without edgetop; its own archive",
    "cli/board/observer_effect.py": "an array that our own program wrote in a private folder",
    "cli/printing/output_agreement_words.py": "an array, of an open regular file",
    "cli/comparing/comparison.py": "a model, of the size that its session says",
    "cli/boards/fleet_boards.py": "the user's own model, to copy it",
    "cli/help.py": "our own topics",
    "control/lock_holders.py": "files of the kernel",
    "recording/kept_outputs.py": "a file of a session, by open_regular, whose sizes are checked first",
    "engines/formats.py": "the first bytes of a model that is a regular file",
    "engines/programs/bare_loop.py": "a model that the user runs",
    "engines/spawn.py": "a file of the kernel",
    "feeds/ssh.py": "a file of the kernel",
    "lake/transfer.py": "the machine's own id",
    "models/mapped_file.py": "the header of a model that is a regular file",
    "runner/model_file.py": "the model of a session that has just loaded it, in pieces",
    "sensors/jetson_stats.py": "the first line of a program of the PATH",
    "sensors/listening.py": "files of the kernel",
    "sensors/capture/own_words.py": "our own source",
    "session/clock.py": "a file of the kernel",
    "taps/perf.py": "files of the kernel",
    "taps/watched_process.py": "files of the kernel",
    "taps/preload.py": "our own source",
    "taps/watched_program.py": "files of the kernel",
    "taps/loading.py": "our own source",
    "taps/uprobe_reader.py": "a file of the kernel",
    "taps/unseen.py": "files of the kernel",
}
_WRITING_METHODS = ("write_text", "write_bytes", "touch", "symlink_to", "hardlink_to")
_TEMPORARY = ("mkstemp", "mkdtemp", "mktemp", "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory")
_COPIES = ("copy", "copy2", "copyfile", "copytree", "move", "copyfileobj")
_CREATING = ("O_CREAT", "O_TRUNC", "O_APPEND")
_READING = ("open", "open_regular", "read_text", "read_bytes", "load", "loads")
_LAST_NAMES = frozenset({*_WRITING_METHODS, *_TEMPORARY, *_COPIES, *_READING})
_CALL = re.compile(rf"\b({'|'.join(_LAST_NAMES)})\s*\(")


@functools.cache
def calls() -> tuple[tuple[str, ast.Call, str], ...]:
    """Return the file, the call and the text of its function, of each call whose function may open a file."""
    return tuple(_calls())


def _calls() -> Iterator[tuple[str, ast.Call, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name, text = str(path.relative_to(PACKAGE)), path.read_text(encoding="utf-8")
        if not name.startswith(ALONE) and _CALL.search(text):  # to parse every file takes two seconds
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and _last_name(node.func) in _LAST_NAMES:
                    yield name, node, ast.unparse(node.func)


def _last_name(function: ast.expr) -> str | None:
    return getattr(function, "attr", None) or getattr(function, "id", None)


def mode_of(call: ast.Call, position: int) -> str | None:
    """Return the mode of `open`; None if it is no text."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"] or call.args[position : position + 1]
    if not given:
        return "r"
    return given[0].value if isinstance(given[0], ast.Constant) and isinstance(given[0].value, str) else None


def is_write(call: ast.Call, function: str) -> bool:
    _, _, last = function.rpartition(".")
    if function == "open" or (last == "open" and function.startswith(("io.", "gzip.", "codecs."))):
        return (mode_of(call, 1) or "w").strip("rbt+U") != "" or "+" in (mode_of(call, 1) or "")
    if function == "os.open" or last == "open_regular":
        flags = call.args[1] if len(call.args) > 1 else None
        is_hidden = isinstance(flags, ast.Name) and flags.id.islower()  # in a variable: anything may be in it
        return is_hidden or any(name in ast.unparse(call) for name in _CREATING)
    if last == "open":  # of a path; other things that open have no mode
        mode = mode_of(call, 0)
        return mode is not None and set(mode) <= set("rwaxbt+") and not set(mode) <= set("rbt")
    return last in _WRITING_METHODS or last in _TEMPORARY or (last in _COPIES and function.startswith("shutil."))


def is_read(call: ast.Call, function: str) -> bool:
    owner, _, last = function.rpartition(".")
    if function == "open":
        return (mode_of(call, 1) or "r").strip("rbt") == ""
    if last == "open":
        mode = mode_of(call, 0)
        return bool(call.args) and mode is not None and set(mode) <= set("rbt") and owner not in ("os", "tarfile")
    if last in ("read_text", "read_bytes"):
        return not is_of_root(owner, call)
    return function in ("tomllib.load", "tomllib.loads", "json.load", "np.load")


def is_of_root(owner: str, call: ast.Call) -> bool:
    """Whether files are read below a `Root`, which has bounds of its own, or by a function of that name."""
    return owner == "" or owner.rpartition(".")[2] in (
        "root",
        "_root",
        "trtexec",
        "benchmark_model",
        "perf_test",
        "self",
    )


@pytest.mark.parametrize(("kind", "known"), [(is_write, WRITES), (is_read, READS)], ids=["writes", "reads"])
def test_files_are_opened_in_one_place_or_stand_in_the_list(kind, known):
    found = {}
    for name, call, function in calls():
        if kind(call, function) and not (kind is is_read and name.startswith("sensors/")):
            found.setdefault(name, f"{name}:{call.lineno}: {ast.unparse(call)[:100]}")
    assert sorted(text for name, text in found.items() if name not in known) == []
    if kind is is_write:
        assert sorted(set(known) - set(found)) == []


def test_the_test_sees_every_kind_of_write():
    for text in (
        'open("a", "w")', 'open("a", mode="ab")', 'path.open("x")', 'path.open("r+b")', 'path.write_text("a")',
        'os.open("a", os.O_WRONLY | os.O_CREAT)', "tempfile.mkstemp()", "shutil.copy2(a, b)", "path.touch()",
        "open(path, mode)",
    ):  # fmt: skip
        call = ast.parse(text).body[0].value
        assert is_write(call, ast.unparse(call.func)), text
    for text in ('open("a")', 'path.open("rb")', "path.read_text()", "json.load(file)", "np.load(path)"):
        call = ast.parse(text).body[0].value
        assert is_read(call, ast.unparse(call.func)), text
        assert not is_write(call, ast.unparse(call.func)), text
