"""Files are told apart by what they hold; what is of no use is refused in one line."""

import os

import pytest

from edgetop.errors import InputError
from edgetop.imports.measured import Layers, Times
from edgetop.imports.read import MAX_BYTES, read, read_all
from tests.support import trtexec


def kept(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_which_file_holds_what_is_told_by_its_content(tmp_path):
    one = kept(tmp_path, "a", trtexec.profile())
    other = kept(tmp_path, "b", trtexec.times(5))
    measured = read_all([one, other])
    assert (measured.files, measured.measured, measured.layers.runs) == (("a", "b"), 5, 400)
    assert measured.end_ns == measured.times.end_ns
    assert read_all([one]).end_ns == 800_000_000


@pytest.mark.parametrize("name", ['a "quoted" layer', "C:\\temp\\conv", 'end", "timeMs', "tab\there", "\x1b[31mred"])
def test_names_that_trtexec_writes_as_they_are_are_read(tmp_path, name):
    (found,) = read(kept(tmp_path, "p", trtexec.profile(((name, 1.0),)))).found
    assert isinstance(found, Layers)
    assert [operator.name for operator in found.operators] == [name]


def test_a_mark_of_byte_order_is_no_content(tmp_path):
    assert isinstance(read(kept(tmp_path, "t", "\ufeff" + trtexec.times(2))).found[0], Times)


BAD = {
    "empty": (" \n", "empty"),
    "cut off": (trtexec.times(50)[:-200], "not JSON, or cut off"),
    "no JSON": ("Usage: trtexec [options]", "no output of a tool that is known"),
    "NaN": (trtexec.times(3).replace('"latencyMs" : 2.375', '"latencyMs" : NaN', 1), "NaN is no number"),
    "nan, as C++ has it": (trtexec.profile().replace("12.5", "-nan"), "not JSON, or cut off"),
    "infinite": (trtexec.times(3).replace('"latencyMs" : 2.375', '"latencyMs" : Infinity', 1), "Infinity is no number"),
    "nested": ("[" * 100_000, "nested too deep"),
    "an object": ("{}", "nothing that trtexec"),
    "another list": ('[{"name": "x", "dur": 5}]', "nothing that trtexec"),
    "an empty list": ("[]", "nothing that trtexec"),
    "a number": ("5", "no output of a tool that is known"),
    "a bad entry": (
        trtexec.times(3).replace('"latencyMs" : 2.375', '"latencyMs" : -1', 1),
        "entry 0: latencyMs is no time",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_is_of_no_use_is_refused_with_its_name(tmp_path, case):
    text, why = BAD[case]
    path = kept(tmp_path, "f.json", text)
    with pytest.raises(InputError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_oversized_or_special_file_is_refused_unread(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    large = kept(tmp_path, "large", trtexec.times(3))
    os.truncate(large, MAX_BYTES + 1)
    for path, why in (
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path, "not a regular file"),
        (tmp_path / "no", "No such file"),
    ):
        with pytest.raises(InputError, match=why):
            read(path)
    with pytest.raises(InputError, match="larger than 128"):
        read(large)


def test_two_of_a_kind_are_two_sessions(tmp_path):
    files = [kept(tmp_path, name, trtexec.times(3)) for name in "ab"]
    with pytest.raises(InputError, match=r"/a and .*/b: both hold times"):
        read_all(files)


OTHERS = {
    "docker stats": (
        "CONTAINER ID   NAME   CPU %   MEM USAGE\nab12   cam   9.1%   1MiB\n",
        "--format json",
    ),
    "llama-bench": (
        "| model | test | t/s |\n| --- | --- | ---: |\n| m | tg128 | 14 ± 1 |\n",
        "-o json",
    ),
    "nvidia-smi": ("timestamp, power.draw [W]\n2025/11/20 10:00:00.123, 60.12 W\n", "has no inferences"),
    "turbostat": ("Core\tCPU\tAvg_MHz\tBusy%\tBzy_MHz\n-\t-\t310\t10.2\t3040\n", "has no inferences"),
    "vcgencmd": ("10:00:00 temp=51.6'C throttled=0x0\n", "has no inferences"),
}


@pytest.mark.parametrize("tool", OTHERS)
def test_output_of_another_tool_is_named_with_what_helps(tmp_path, tool):
    text, advice = OTHERS[tool]
    (tmp_path / "log").write_text(text)
    with pytest.raises(InputError) as refused:
        read(tmp_path / "log")
    assert tool in str(refused.value)
    assert advice in str(refused.value)
