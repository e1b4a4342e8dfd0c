"""Which modules are loaded to ask them, and how the asking is bounded."""

import json
import os
from pathlib import Path

import onnxruntime
import pytest

from edgetop.taps import loading
from edgetop.taps.loading import Loading, may_load
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

MODULE = next((Path(onnxruntime.__file__).parent / "capi").glob("onnxruntime_pybind11_state*.so"))
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def home(tmp_path):
    tmp_path.chmod(0o755)
    return tmp_path


def fake_python(folder, script):
    """An interpreter that is a script, and a module beside it."""
    python, module = folder / "python3", folder / "onnxruntime_pybind11_state.so"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    module.write_bytes(b"module")
    return str(module), str(python)


def ends(one):
    """What it finds, or why not."""
    try:
        return wait_until(one.poll)
    except ValueError as error:
        return str(error)
    finally:
        one.close()


def test_the_module_of_this_environment_is_asked():
    file = os.open(MODULE, os.O_RDONLY)
    one = Loading("/somewhere/else/" + MODULE.name, "/nowhere/python3", [], loading.digest(file))
    os.close(file)
    found = ends(one)
    assert [function.name for function in found] == ["run", "run_with_iobinding", "run_with_ort_values"]
    assert len({function.offset for function in found}) == 3
    assert len({function.returns_at for function in found}) == 1
    assert {function.version for function in found} == {onnxruntime.__version__}


def test_a_module_that_others_may_have_written_is_not_loaded(home):
    ran = home / "ran"
    module, python = fake_python(home, f"touch {ran}; echo '{{}}'")
    places = [Path(module), home, Path(python)]
    for place in places:
        mode = place.stat().st_mode
        place.chmod(0o777)
        with pytest.raises(ValueError, match="another user may have written it"):
            Loading(module, python, [], "")
        place.chmod(mode)
        if AS_ROOT:
            os.chown(place, 65534, 65534)
            with pytest.raises(ValueError, match="another user may have written it"):
                Loading(module, python, [], "")
            os.chown(place, 0, 0)
    assert not ran.exists()


def test_no_other_library_is_loaded_and_no_other_folder_is_searched(home):
    """Which file and which folders are told by the watched process's owner: of root's files, any could be named."""
    ran = home / "ran"
    module, python = fake_python(home, f"echo \"$@\" > {ran}; echo '[]'")
    other = Path(module).rename(home / "libanything.so")
    with pytest.raises(ValueError, match="it is not a module of ONNX Runtime"):
        Loading(str(other), python, [], "")
    assert not ran.exists()
    other.rename(module)
    for name in ("site-packages", "folder"):
        (home / name).mkdir(mode=0o755)
    ends(Loading(module, python, [str(home / "folder"), str(home / "site-packages")], ""))
    assert str(home / "site-packages") in ran.read_text()
    assert str(home / "folder") not in ran.read_text()


def test_a_link_is_not_followed_to_a_module(home):
    (home / "real").mkdir(mode=0o755)
    module, _ = fake_python(home / "real", "true")
    (home / "link").symlink_to("real")
    assert not may_load(str(home / "link" / Path(module).name))


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("yes AAAAAAAAAAAAAAAAAAAAAAAA", "no answer"),
        ("exit 3", "exit status 3"),
        ("echo '[]'", "were not found"),
        ('echo \'{"offsets": 7, "caller": 1, "version": 1}\'', "were not found"),
        ("head -c 5000 /dev/zero | tr '\\0' '['", "were not found"),
    ],
)
def test_an_answer_is_bounded(home, script, told, monkeypatch):
    module, python = fake_python(home, script)
    monkeypatch.setattr(loading, "may_load", lambda _: True)
    assert told in ends(Loading(module, python, [], ""))


def test_nothing_of_the_environment_reaches_what_is_asked(home, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD_OF_SOMEBODY", "1")
    monkeypatch.setattr(loading, "may_load", lambda _: True)
    out = home / "environment"
    module, python = fake_python(home, f"env > {out}; pwd >> {out}")
    ends(Loading(module, python, [], ""))
    said = out.read_text().splitlines()
    assert said[-1] == "/"
    assert not [line for line in said if "SOMEBODY" in line]


def test_a_line_of_the_answer_has_types(home, monkeypatch):
    monkeypatch.setattr(loading, "may_load", lambda _: True)
    said = json.dumps({"offsets": {"run": 4096}, "caller": 8192, "version": "1.2" * 100})
    module, python = fake_python(home, f"echo '{said}'")
    (function,) = ends(Loading(module, python, [], ""))
    assert (function.offset, function.returns_at, len(function.version)) == (4096, 8192, 64)
