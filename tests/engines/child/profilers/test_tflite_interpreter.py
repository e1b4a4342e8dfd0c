"""The profiler for tflite-runtime: refused where its layouts are not known. That it works, contracts show."""

import ctypes
from pathlib import Path

import pytest

from edgetop.engines.child.profilers import ProfilingError
from edgetop.engines.child.profilers.tflite_events import OPERATOR, names_of
from edgetop.engines.child.profilers.tflite_interpreter import LIBRARY, InterpreterProfiler, Listener


@pytest.mark.parametrize("version", ["2.13.0", "2.15.0", "unknown"])
def test_another_version_is_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(ProfilingError, match=version):
        InterpreterProfiler(object(), str(tmp_path), version)


def test_an_installation_without_the_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfilingError, match="no profiler for the interpreter"):
        InterpreterProfiler(object(), str(tmp_path), "2.14.0")


def test_a_library_without_the_functions_is_refused(tmp_path: Path) -> None:
    other = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    (tmp_path / LIBRARY).symlink_to(other)
    with pytest.raises(ProfilingError, match="undefined symbol"):
        InterpreterProfiler(object(), str(tmp_path), "2.14.0")


def test_the_listener_is_called_through_its_table_as_cpp_would() -> None:
    listener = Listener()
    table = ctypes.c_void_p.from_address(listener.address).value
    assert table
    begin, _, end, add = (ctypes.c_void_p.from_address(table + 8 * i).value for i in (2, 3, 4, 5))
    handle = ctypes.CFUNCTYPE(
        ctypes.c_uint32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int64
    )(begin)(listener.address, b"SOFTMAX", 2, 7, 0)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32)(end)(listener.address, handle)
    ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_int64, ctypes.c_int64
    )(add)(listener.address, b"\xff Add", 8, 12, 3, 0)
    softmax, added = listener.take()
    assert softmax[:4] == (2, "SOFTMAX", 7, 0)
    assert 0 <= softmax[4] < 10**9
    assert added == (8, "\ufffd Add", 3, 0, 12_000, None, None)
    assert listener.take() == []


def test_the_listener_knows_what_was_told_while_an_operator_ran() -> None:
    listener = Listener()
    invoke, delegate = (listener._begin(0, tag, kind, 0, 0) for tag, kind in ((b"Invoke", 1), (b"Gpu", OPERATOR)))
    listener._add(0, b"conv", 8, 3, 0, 0)
    listener._end(0, delegate)
    listener._add(0, b"Add", 8, 3, 0, 0)
    listener._end(0, invoke)
    assert [event.within for event in listener.take()] == [None, None, 1, None]


class Interpreter:
    def get_tensor_details(self) -> list[dict[str, object]]:
        return [{"index": 4, "name": "probabilities"}, {"index": 5, "name": ""}]

    def _get_ops_details(self) -> list[dict[str, object]]:
        return [{"index": 0, "outputs": [4]}, {"index": 1, "outputs": [5]}, {"index": 2, "outputs": []}]


def test_an_operator_is_named_by_its_output_or_type_and_place() -> None:
    name_of = names_of(Interpreter())
    assert [name_of(i, "ADD") for i in range(4)] == ["probabilities", "ADD:1", "ADD:2", "ADD:3"]
    assert names_of(object())(3, "ADD") == "ADD:3"
