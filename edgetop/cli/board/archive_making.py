"""Makes the archive of `edgetop bundle-for`: one zip file with edgetop and its packages for another platform.

The archive has the folders of a virtual environment. Its `__main__.py` is `archive_program.py`. pip evaluates markers
such as `python_version < "3.11"` for the Python in which it runs, and not for the Python of the board. So edgetop
itself evaluates the markers of the unpacked packages for the board, and downloads the packages that are missing.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata, util
from pathlib import Path

import edgetop
from edgetop import formatting
from edgetop.cli.board import archive_needs, archive_program
from edgetop.cli.board.lacking import PURPOSES
from edgetop.cli.output import print_text, wrapped
from edgetop.cli.scratch_folder import scratch_folder
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.installation import ANY_PYTHON, packages_of
from edgetop.recording.export.export_formats import NamedOutput

ARCHITECTURES = {"aarch64": "aarch64", "arm64": "aarch64", "x86_64": "x86_64", "amd64": "x86_64"}
OLDEST_PYTHON, NEWEST_PYTHON = 10, 20  # of Python 3; a wheel decides what there is
OLDEST_GLIBC = 17  # 2.17: manylinux2014, the oldest platform that has aarch64 wheels
ROUNDS = 10  # upper bound of the chain of packages whose markers pip has judged wrongly
TIMEOUT_S = 1800
# Not needed to run: tests, headers and sources of packages, and Arrow's network protocol.
LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|tests?/.*\.py$|include/|includes/)|^bin/|\.(pxd|pyx|pxi|pyi|a|h|hpp)$"
    r"|^pyarrow/(src/|tests/|libarrow_flight|libarrow_python_flight|_flight|_pyarrow_cpp_tests)"
    r"|^edgetop/(docs/screens/|docs/[^/]*\.svg$|share/)"
)
DATE = (2020, 1, 1, 0, 0, 0)  # of every member, so that the same packages make the same file


@frozen
class Target:
    """The board for which an archive is made: its architecture, its Python, and the oldest version of its C library.

    The architecture is what `uname -m` prints there. The Python is a version such as "3.11", and the C library is the
    second part of one, such as 28 for glibc 2.28.
    """

    architecture: str
    python: str
    glibc: int  # the number after "2."


def parse_target(architecture: str, python: str, glibc: str) -> Target:
    """Return the board that a user described. Raises InputError if edgetop does not run on it.

    `architecture` is what `uname -m` prints. `python` is a version such as "py311" or "3.11", and `glibc` such as
    "2.28".

    >>> parse_target("arm64", "py311", "2.28")
    Target(architecture='aarch64', python='3.11', glibc=28)
    """
    known = ARCHITECTURES.get(architecture.lower())
    if known is None:
        raise InputError(f"{architecture}: is no architecture that edgetop runs on", "aarch64 or x86_64")
    version = re.fullmatch(r"(?:py|cp)?3\.?(\d\d)", python)
    if version is None or not OLDEST_PYTHON <= int(version[1]) < NEWEST_PYTHON:
        raise InputError(f"{python}: is no Python that edgetop runs on", f"py3{OLDEST_PYTHON} or later, such as py311")
    library = re.fullmatch(r"2\.(\d\d)", glibc)
    if library is None or int(library[1]) < OLDEST_GLIBC:
        raise InputError(f"--glibc {glibc}: is no version that packages are built for", f"2.{OLDEST_GLIBC} or later")
    return Target(known, f"3.{version[1]}", int(library[1]))


def make_archive(target: Target, output: Path, extras: Sequence[str], *, force: bool) -> None:
    """Write the archive to `output`, and print what is in it.

    `extras` are names of edgetop's extras to put in, such as "onnx". `force` allows replacing an existing file. Raises
    InputError if an extra is unknown or a package cannot be downloaded, or OutputError if `output` cannot be written.
    """
    minor = int(target.python.partition(".")[2])
    for extra in extras:
        if extra not in PURPOSES:
            raise InputError(f"--extra {extra}: there is no such extra", ", ".join(PURPOSES))
        if packages_of(extra, ANY_PYTHON) and not packages_of(extra, minor):
            raise InputError(f"--extra {extra}: has no packages for Python {target.python}", "leave it out")
    file = NamedOutput.of_option("--output", output, force=force, elsewhere="choose another path with -o")
    with scratch_folder("bundle-for") as place:
        packages = place / "packages"
        needs = [*_own_packages(), *(package for extra in extras for package in packages_of(extra, minor))]
        print_text(f"downloading the packages for Python {target.python} on {target.architecture} ...", err=True)
        download(needs, target, packages)
        _copy_own(packages)
        members = {f"lib/python{target.python}/site-packages/{name}": path for name, path in kept(packages)}
        unpacked = sum(path.stat().st_size for path in members.values())
        versions = dict(sorted((one.name, one.version) for one in metadata.distributions(path=[str(packages)])))
        contents = {
            "id": _identity(members),
            "architecture": target.architecture,
            "python": target.python,
            "libc": f"2.{target.glibc}",
            "bytes": unpacked,
            "packages": versions,
        }
        with file.stream(is_text=False) as whole, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
            _write(archive, "__main__.py", Path(archive_program.__file__).read_bytes())
            _write(archive, archive_program.CONTENTS, json.dumps(contents, indent=1).encode())
            for name, path in sorted(members.items()):
                _write(archive, name, path.read_bytes())
    sizes = f"{formatting.size(output.stat().st_size)}, {formatting.size(unpacked)} unpacked"
    line = f"{output}  {sizes}: {', '.join(f'{name} {version}' for name, version in versions.items())}"
    print_text("\n".join(wrapped(line)))
    print_text(f"On the board: python3 {output.name}")


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    archive.writestr(info, content)


def _identity(members: dict[str, Path]) -> str:
    """Return a hash of the archive's files and of the program that starts edgetop from it, as 16 hex digits.

    `members` is a dict from the name of a file in the archive to its path on this machine.
    """
    total = hashlib.sha256(Path(archive_program.__file__).read_bytes())
    for name, path in sorted(members.items()):
        total.update(f"{name}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def kept(packages: Path) -> Iterator[tuple[str, Path]]:
    """Yield the relative name and the path of each file in the folder `packages` that the board needs.

    Wheels have no links, so a library may be there up to three times: as libX.so, libX.so.1 and libX.so.1.2.3. Only
    libX.so.1 is kept then, since programs load that name.
    """
    for path in sorted(packages.rglob("*")):
        name = path.relative_to(packages).as_posix()
        library = re.match(r"(.+\.so)(?:\.(\d+)\.\d[\d.]*)?$", path.name)
        copy = library and next(iter(path.parent.glob(f"{library[1]}.{library[2] or '[0-9]*'}")), None)
        is_twice = copy and copy != path and copy.read_bytes() == path.read_bytes()
        if path.is_file() and not path.is_symlink() and not LEFT_OUT.search(name) and not is_twice:
            yield name, path


def _own_packages() -> list[str]:
    """Return the requirements of edgetop without extras, such as "click>=8"."""
    return [one for one in _metadata().requires or [] if "extra ==" not in one]


def _metadata() -> metadata.Distribution:
    try:
        return metadata.distribution("edgetop")
    except metadata.PackageNotFoundError:
        raise InputError("edgetop runs from a folder and knows no packages", "install it first") from None


def _copy_own(packages: Path) -> None:
    """Copy this edgetop and its metadata into the folder `packages`, since no package index has it."""
    own = Path(edgetop.__file__).parent
    shutil.copytree(own, packages / "edgetop", ignore=shutil.ignore_patterns("__pycache__"))
    if not (own / "themes").is_dir():  # an editable installation
        shutil.copytree(own.parent / "themes", packages / "edgetop/themes")
    found = _metadata()
    folder = packages / f"edgetop-{found.version}.dist-info"
    folder.mkdir()
    for name in ("METADATA", "entry_points.txt", "WHEEL"):
        (folder / name).write_text(found.read_text(name) or "", encoding="utf-8")


def download(needs: Sequence[str], target: Target, packages: Path) -> None:
    """Download and unpack wheels for the board `target` into the folder `packages`.

    `needs` are requirements, such as "numpy>=1.26". What these packages require is downloaded too. Raises InputError if
    the download fails.
    """
    if util.find_spec("pip") is None:
        _run(_uv_command(target, packages), needs)
        return
    _run(_pip_command(target, packages), needs)
    for _ in range(ROUNDS):
        if not (missing := archive_needs.missing(packages, target.python, target.architecture)):
            return
        _run(_pip_command(target, packages), missing)
    raise InputError(f"packages are missing for Python {target.python}: {', '.join(missing)}")


def _pip_command(target: Target, packages: Path) -> list[str]:
    platforms = [f"manylinux_2_{minor}_{target.architecture}" for minor in range(target.glibc, 4, -1)]
    return [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"),
        *("--target", str(packages), "--only-binary", ":all:", "--implementation", "cp"),
        *("--python-version", target.python),
        *(word for name in (*platforms, f"manylinux2014_{target.architecture}") for word in ("--platform", name)),
    ]


def _uv_command(target: Target, packages: Path) -> list[str]:
    uv = shutil.which("uv")
    if uv is None:
        raise InputError("the packages cannot be downloaded: this Python has no pip, and uv is not installed")
    platform = f"{target.architecture}-manylinux_2_{target.glibc}"
    return [
        *(uv, "pip", "install", "--quiet", "--target", str(packages), "--only-binary", ":all:"),
        *("--python-version", target.python, "--python-platform", platform),
    ]


def _run(command: Sequence[str], needs: Sequence[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603  edgetop's own requirements
            [*command, *needs], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"the packages were not downloaded within {TIMEOUT_S // 60} minutes") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        wrong = next((line for line in reversed(lines) if line.lower().startswith("error")), lines[-1] if lines else "")
        raise InputError(f"the packages cannot be downloaded: {wrong}", "another Python, --glibc or --extra may help")
