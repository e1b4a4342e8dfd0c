"""`edgetop bundle-for`: the archive for a board without pip or network. No package is downloaded here."""

import json
import os
import platform
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgetop import __version__
from edgetop.cli.board import archive_making, archive_needs
from edgetop.cli.board.archive_making import Target, kept, make_archive, parse_target
from edgetop.errors import InputError
from tests.support.commands import edgetop
from tests.support.waiting import PATIENCE_S

HERE = Target(platform.machine(), "{}.{}".format(*sys.version_info[:2]), 17)
pytestmark = pytest.mark.skipif(HERE.architecture not in ("x86_64", "aarch64"), reason="edgetop runs nowhere else")


def put(packages: Path, name: str, content: str | bytes = "") -> None:
    path = packages / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def put_package(packages: Path, name: str, *needs: str) -> None:
    lines = [f"Name: {name}", "Version: 1.0", "Metadata-Version: 2.1", *(f"Requires-Dist: {need}" for need in needs)]
    put(packages, f"{name}-1.0.dist-info/METADATA", "\n".join(lines))


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Return a function that makes an archive of edgetop and a package without a need, and returns its path."""

    def download(_: Sequence[str], __: Target, packages: Path) -> None:
        put_package(packages, "tiny")
        put(packages, "tiny/__init__.py")
        put(packages, "tiny/tests/test_tiny.py")

    monkeypatch.setattr(archive_making, "download", download)

    def archive(target: Target = HERE) -> Path:
        path = tmp_path / "edgetop.pyz"
        make_archive(target, path, (), force=True)
        return path

    return archive


def started(what: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(what), *arguments]
    return subprocess.run(
        command,
        env={**os.environ, **variables},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_an_extra_is_judged_for_the_python_of_the_board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = ["click>=8", "tiny<2; python_version < '3.12' and extra == 'tflite-runtime'"]
    monkeypatch.setattr(archive_making.metadata, "requires", lambda _: lines)
    asked: list[str] = []

    def download(needs: Sequence[str], _: Target, packages: Path) -> None:
        asked.extend(needs)
        put(packages, "tiny.py")

    monkeypatch.setattr(archive_making, "download", download)
    make_archive(Target("aarch64", "3.11", 28), tmp_path / "a.pyz", ("tflite-runtime",), force=True)
    assert "tiny<2" in asked
    with pytest.raises(InputError, match=r"--extra tflite-runtime: has no packages for Python 3\.13"):
        make_archive(Target("aarch64", "3.13", 28), tmp_path / "a.pyz", ("tflite-runtime",), force=True)


def test_the_archive_starts_edgetop_and_is_unpacked_once(make, tmp_path: Path) -> None:
    archive = make()
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = started(archive, "--help", **cache)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == edgetop("--help", home=tmp_path).stdout
    (folder,) = (tmp_path / "cache/edgetop").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    before = (folder / "archive.json").stat().st_mtime_ns
    assert started(archive, "--help", **cache).returncode == 0
    assert (folder / "archive.json").stat().st_mtime_ns == before
    assert [one.name for one in (tmp_path / "cache/edgetop").iterdir()] == [folder.name]


def test_the_unpacked_folder_is_an_environment_of_its_own(make, tmp_path: Path) -> None:
    with zipfile.ZipFile(make()) as archive:
        archive.extractall(tmp_path / "here")
    assert started(tmp_path / "here", "--help").returncode == 0
    code = "import sys, edgetop, tiny; print(sys.prefix, edgetop.__file__)"
    inside = [tmp_path / "here/bin/python", "-c", code]
    prefix, file = subprocess.run(inside, cwd="/", capture_output=True, text=True, check=True).stdout.split()
    assert (prefix, Path(file).is_relative_to(tmp_path / "here")) == (str(tmp_path / "here"), True)
    # Its command can be linked from a folder of PATH.
    (tmp_path / "edgetop").symlink_to(tmp_path / "here/bin/edgetop")
    assert subprocess.run([tmp_path / "edgetop", "--help"], capture_output=True, check=False).returncode == 0
    # A copy of the folder elsewhere, or with another interpreter, makes its own links.
    (tmp_path / "here").rename(tmp_path / "there")
    assert started(tmp_path / "there", "--help").returncode == 0
    assert str(tmp_path / "there") in (tmp_path / "there/bin/edgetop").read_text()


def test_the_archive_tells_what_it_was_made_for(make, tmp_path: Path) -> None:
    with zipfile.ZipFile(make()) as archive:
        contents = json.loads(archive.read("archive.json"))
        names = archive.namelist()
    assert contents["packages"] == {"edgetop": __version__, "tiny": "1.0"}
    inside = f"lib/python{HERE.python}/site-packages"
    assert f"{inside}/edgetop/themes/dark.toml" in names
    assert f"{inside}/edgetop/demo/demo.onnx" in names
    assert not [name for name in names if "tests" in name or "__pycache__" in name]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        pytest.param(
            Target("sparc64", HERE.python, 17), f"is for Python {HERE.python} on sparc64", marks=pytest.mark.thorough
        ),
        (Target(HERE.architecture, "3.19", 17), "is for Python 3.19 on"),
        (Target(HERE.architecture, HERE.python, 99), "needs glibc 2.99 or later"),
    ],
)
def test_another_board_is_refused_in_one_line(make, tmp_path: Path, target: Target, words: str) -> None:
    done = started(make(target), "--help", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_is_one_line(make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = started(make(), "--help", EDGETOP_ARCHIVE_DIR=str(tmp_path / "file/cache"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be unpacked" in done.stderr


def test_a_marker_counts_on_the_python_of_the_board(tmp_path: Path) -> None:
    put_package(tmp_path, "One", "old>=2; python_version < '3.11'", "two[extra]", 'left-out; extra == "other"')
    put_package(tmp_path, "two", "there", "far.away[x]>=3; extra == 'extra' and platform_machine == 'aarch64'")
    put_package(tmp_path, "there", "windows; sys_platform == 'win32'")
    assert archive_needs.missing(tmp_path, "3.10", "x86_64") == ["old>=2"]
    assert archive_needs.missing(tmp_path, "3.12", "aarch64") == ["far.away[x]>=3"]


def test_a_library_that_is_there_three_times_is_kept_once(tmp_path: Path) -> None:
    for name in ("libx.so", "libx.so.26", "libx.so.26.1.0"):
        put(tmp_path, f"arrow/{name}", b"same")
    put(tmp_path, "arrow/liby.so", b"one")
    put(tmp_path, "arrow/liby.so.1", b"another")
    put(tmp_path, "arrow/module.cpython-311-aarch64-linux-gnu.so", b"same")
    assert [name for name, _ in kept(tmp_path)] == [
        "arrow/libx.so.26", "arrow/liby.so", "arrow/liby.so.1", "arrow/module.cpython-311-aarch64-linux-gnu.so"
    ]  # fmt: skip


@pytest.mark.parametrize("words", [("arm64", "py311"), ("aarch64", "3.11"), ("AARCH64", "cp311")])
def test_a_board_has_several_names(words: tuple[str, str]) -> None:
    assert parse_target(*words, "2.28") == Target("aarch64", "3.11", 28)


@pytest.mark.parametrize(
    "words",
    [("riscv64", "py311", "2.28"), ("aarch64", "py39", "2.28"), ("aarch64", "py3", "2.28"), ("aarch64", "py311", "3")],
)
def test_other_boards_are_refused(words: tuple[str, str, str]) -> None:
    with pytest.raises(InputError):
        parse_target(*words)


def test_an_existing_file_and_an_unknown_extra_are_refused_before_a_download(tmp_path: Path) -> None:
    (tmp_path / "edgetop.pyz").write_text("mine")
    done = edgetop("bundle-for", "aarch64", "py311", "-o", str(tmp_path / "edgetop.pyz"), home=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--force" in done.stderr
    done = edgetop("bundle-for", "aarch64", "py311", "--extra", "cuda", "-o", str(tmp_path / "new.pyz"), home=tmp_path)
    assert (done.returncode, "no such extra" in done.stderr) == (2, True)
    assert (tmp_path / "edgetop.pyz").read_text() == "mine"
