"""Bad input gets one clear line on stderr: what, where, what to do; exit code 2; no recording."""

import sys

import numpy as np
import pytest

from tests.support import onnx_models, tflite_models
from tests.support.commands import complaints, edgetop
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow

ONNX = onnx_models.onnx_dynamic


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of models and arrays, good and bad."""
    folder = tmp_path_factory.mktemp("input")
    good = ONNX()
    files = {
        "good.onnx": good,
        "empty.onnx": b"",
        "cut.onnx": good[: len(good) // 2],
        "garbage.onnx": bytes(range(256)) * 20,
        "cut.tflite": tflite_models.tflite_mobile()[:9_000],
        "garbage.tflite": b"\x07" * 5_000,
        "custom.tflite": tflite_models.tflite_custom_operator(),
        "unknown.onnx": onnx_models.onnx_unknown_operator(),
        "strings.onnx": onnx_models.onnx_string_input(),
        "width.onnx": onnx_models.onnx_needs_width(48),
        "hostile.onnx": onnx_models.onnx_hostile_names(),
        "good.tflite": tflite_models.tflite_tiny(),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    np.save(folder / "shape.npy", np.zeros((1, 3, 9), np.float32))
    np.save(folder / "dtype.npy", np.zeros((1, 3, 8, 8), np.int32))
    (folder / "text.npy").write_text("not an array")
    (folder / "diary.csv").write_text("Monday,\n")
    (folder / "taken.edgetop").mkdir()
    (folder / "a-file").write_text("")
    return folder


CASES = {
    "missing file": (["nowhere.onnx"], "nowhere.onnx: no such file"),
    "a folder": (["."], "is a folder"),
    "empty file": (["empty.onnx"], "is empty"),
    "cut onnx": (["cut.onnx"], "cut.onnx"),
    "garbage onnx": (["garbage.onnx"], "garbage.onnx"),
    "cut tflite": (["cut.tflite"], "cut.tflite"),
    "garbage tflite": (["garbage.tflite"], "garbage.tflite"),
    "unsupported operator, tflite": (["custom.tflite"], "Frobnicate"),
    "unsupported operator, onnx": (["unknown.onnx"], "Frobnicate"),
    "strings": (["strings.onnx"], "string"),
    "shape of another rank": (["good.onnx", "--shape", "x:1,3"], "--shape x:1,3"),
    "shape the model refuses": (["width.onnx"], "MatMul"),
    "shape of an input it has not": (["good.onnx", "--shape", "y:1"], "it has x"),
    "shape without elements that the model has not": (["good.onnx", "--shape", "x:0"], "--shape x:0 does not fit"),
    "shape that is none": (["good.onnx", "--shape", "x:1,-3"], "NAME:1,3,224,224"),
    "array of another shape": (["good.onnx", "--input", "x=shape.npy", "--shape", "x:1,3,8,8"], "shape.npy"),
    "array of another dtype": (["good.onnx", "--input", "x=dtype.npy"], "int32"),
    "array that is none": (["good.onnx", "--input", "x=text.npy"], "text.npy"),
    "array that is missing": (["good.onnx", "--input", "x=gone.npy"], "gone.npy: no such file"),
    "array for an input it has not": (["good.onnx", "--input", "y=dtype.npy"], "it has x"),
    "an input beyond all memory": (
        ["good.onnx", "--shape", "x:1,3,4000000000,4000000000"],
        "input x: [1,3,4000000000,4000000000] float32 needs 192,000,000,000,000,000,000 bytes of memory",
    ),
    "an input beyond all memory, tflite": (["good.tflite", "--batch", "2000000000000"], "bytes of memory"),
    "hostile names": (["hostile.onnx", "--shape", "y:1"], r"\x1b"),
    "a battery that is none": (["good.onnx", "--battery", "3.7V"], "write 3.7V,1000mAh"),
    "unknown engine": (["good.onnx", "--engine", "onnxruntme"], "did you mean onnxruntime?"),
    "engine of another format": (["good.onnx", "--engine", "litert"], "use onnxruntime"),
    "unknown provider": (["good.onnx", "--provider", "Frob"], "--provider Frob"),
    "provider for tflite": (["good.tflite", "--provider", "CUDA"], "--delegate"),
    "delegate that is missing": (["good.tflite", "--delegate", "/nowhere/lib.so"], "/nowhere/lib.so"),
    "delegate for onnx": (["good.onnx", "--delegate", "/nowhere/lib.so"], "--provider"),
    "negative duration": (["good.onnx", "--duration", "-5s"], "write 500ms, 10s, 5m or 2h"),
    "no duration at all": (["good.onnx", "--duration", "0s"], "is not longer than zero"),
    "unknown option": (["good.onnx", "--duratoin", "5s"], "did you mean --duration?"),
    "output that exists": (["good.onnx", "-o", "taken"], "exists already"),
    "output under a file": (["good.onnx", "-o", "a-file/x"], "a-file is not a folder"),
    "output where nothing can be": (["good.onnx", "-o", "/proc/nowhere"], "cannot be written"),
    "output that is the folder here": (["good.onnx", "-o", "."], "-o .: a folder, and no name of a session"),
    "output that is the folder above": (["good.onnx", "-o", "a/.."], "-o a/..: a folder, and no name of a session"),
    "output without a name": (["good.onnx", "-o", ".edgetop"], "-o .edgetop: a folder, and no name of a session"),
    "output of a name too long": (["good.onnx", "-o", "x" * 300], "File name too long"),
    "sysroot of a name too long": (["good.onnx", "--sysroot", "x" * 300], "x: cannot be used: File name too long"),
    "folder of metrics of a name too long": (["good.onnx", "--prom-textfile", "x" * 300], "File name too long"),
    "interpreter of a name too long": (["good.onnx", "--engine-python", "x" * 300], "no such file"),
    "interpreter of nobody": (["good.onnx", "--engine-python", "~nobody-is-called-so/python"], "no such file"),
    "cpus for edgetop that are not there": (["good.onnx", "--monitor-cpus", "900"], "--monitor-cpus"),
    "sysroot that is not there": (["good.onnx", "--sysroot", "gone"], "--sysroot gone"),
    "interpreter that is not there": (["good.onnx", "--engine-python", "/nowhere/python"], "/nowhere/python"),
    "interpreter that is none": (["good.onnx", "--engine-python", "/bin/true"], "/bin/true"),
    "cpus that are not there": (["good.onnx", "--engine-cpus", "900"], "--engine-cpus"),
    "thread in another interpreter": (
        ["good.onnx", "--isolation", "thread", "--engine-python", sys.executable],
        "--isolation process",
    ),
    "recorded and not recorded": (["good.onnx", "--no-record", "-o", "x"], "contradict"),
    "a chip at no address": (["good.onnx", "--i2c", "1:40:ina226:0.002"], "0x40 to 0x4f"),
    "a bus that is not there": (["good.onnx", "--i2c", "250:0x40:ina226:0.002"], "there is no /dev/i2c-250"),
    "a bus of a captured board": (["good.onnx", "--sysroot", ".", "--i2c", "1:0x40:ina226:0.002"], "captured board"),
    "a power log of no format": (["good.onnx", "--power-log", "dtype.npy"], "--power-log-format"),
    "a power log that is none": (
        ["good.onnx", "--power-log", "diary.csv", "--power-log-format", "csv"],
        "diary.csv: no column of time",
    ),
    "a voltage of no log": (["good.onnx", "--power-volts", "5V"], "--power-log FILE"),
    "no voltage": (["good.onnx", "--power-volts", "five"], "write 5V"),
    "not an offset": (["good.onnx", "--power-log-offset", "1m"], "write 2.5s or -1.2s"),
    "a rate that is none": (["good.onnx", "--hz", "0"], "--hz"),
    "size that is none": (["good.onnx", "--max-size", "much"], "write 512M or 1G"),
    "size in which nothing fits": (["good.onnx", "--max-size", "100K"], "write 4M or more"),
    "interval that is none": (["good.onnx", "--fsync-interval", "0s"], "is not longer than zero"),
    "no rate": (["good.onnx", "--rate", "0"], "--rate"),
    "a rate that is no number": (["good.onnx", "--rate", "nan"], "'nan' is not a number"),
    "arrivals of no rate": (["good.onnx", "--arrivals", "poisson"], "--arrivals poisson needs --rate"),
    "a delay under a rate": (["good.onnx", "--rate", "5", "--delay", "1s"], "--delay and --rate contradict"),
    "a duty cycle that is none": (["good.onnx", "--duty", "2s"], "write ON:OFF, as in 2s:8s"),
    "a duty cycle without work": (["good.onnx", "--duty", "0s:8s"], "is not longer than zero"),
    "no stream": (["good.onnx", "--streams", "0"], "--streams"),
    "a gate of no name": (["good.onnx", "--fail-if", "p98>3ms"], "did you mean p9"),
    "a gate without a unit": (["good.onnx", "--fail-if", "p99>33"], "the unit is missing"),
    "misses of no deadline": (["good.onnx", "--fail-if", "misses>1%"], "needs --deadline"),
    "a rule on misses of no deadline": (["good.onnx", "--alert", "misses>1%"], "--alert misses needs --deadline"),
    "a file of no gates": (["good.onnx", "--junit", "x.xml"], "--junit needs a gate"),
    "fast without gates": (["good.onnx", "--fail-fast"], "--fail-fast needs a gate"),
    "a file in no folder": (["good.onnx", "--fail-if", "errors", "--junit", "gone/x.xml"], "--junit gone/x.xml"),
    "unknown theme": (["good.onnx", "--theme", "drak"], "did you mean dark?"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_one_line_and_exit_code_2(case, folder):
    arguments, said = CASES[case]
    before = sorted(folder.iterdir())
    done = edgetop("run", *arguments, "--headless", "--runs", "3", home=folder)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert [line[:9] for line in complaints(done)] == ["edgetop: "]
    assert "\x1b" not in done.stderr
    assert done.stdout == ""
    assert [path for path in folder.iterdir() if path not in before and path.name != "state"] == []
    assert not list((folder / "state").rglob("session.json"))


OTHERS = {
    "unknown command": (["rnu"], "did you mean run?"),
    "a model where a command is expected": (["good.onnx"], "edgetop run good.onnx"),
    "unknown recording": (["report", "nowhere"], "nowhere: no such recording"),
    "a name that begins with a dash": (
        ["report", "-dash"],
        "a name that begins with a dash stands after --: edgetop report -- -dash)",
    ),
    "such a name after two dashes": (["report", "--", "-dash"], "-dash: no such recording"),
    "an option with one dash": (["report", "-json"], "no such option: -json (did you mean --json?)"),
    "an unknown letter": (["report", "-z"], "no such option: -z (see edgetop report --help)"),
    "a folder that is no recording": (["report", "."], "no session.json"),
    "a recording that is not there": (["replay", "nowhere"], "nowhere: no such recording"),
    "a folder to replay that is no recording": (["replay", "."], "no session.json"),
    "a speed that is none": (["replay", "x", "--speed", "0"], "0.1<=x<=1000"),
    "a speed that is no number": (["replay", "x", "--speed", "fast"], "'fast' is not a number"),
    "threads that are no list": (["sweep", "good.onnx", "--threads", "1-4"], "'1-4' is not a whole number"),
    "a program without a terminal": (["watch", "true"], "edgetop watch --headless"),
    "a speed as the screen shows it": (["replay", "x", "--speed", "10x"], "x: no such recording"),
    "a time that is none": (["replay", "x", "--from", "soon"], "'soon' is not a time; write 01:02:05"),
    "unknown topic": (["help", "quikstart"], "did you mean quickstart?"),
    "a screen without a terminal": (["run", "good.onnx"], "--headless"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_bad_usage_gets_one_line_and_exit_code_2(case, folder):
    arguments, said = OTHERS[case]
    done = edgetop(*arguments, home=folder)
    assert (done.returncode, len(complaints(done))) == (2, 1), done.stderr
    assert said in done.stderr


# Each of these starts an engine, as other cases of the same kind do that stay in the list.
# That nothing can be made in /proc, or with a name too long, is found when it is tried.
_LIKE_OTHERS = {
    *("cut onnx", "garbage onnx", "cut tflite", "garbage tflite", "unsupported operator, onnx", "strings"),
    *("shape of another rank", "hostile names", "shape of an input it has not", "delegate for onnx"),
    *("shape without elements that the model has not", "array that is none", "array of another dtype"),
    *("array for an input it has not", "an input beyond all memory, tflite", "provider for tflite"),
    *("output where nothing can be", "output of a name too long"),
}


# One of each kind: a model, an engine, its interpreter, an output, a combination, a gate, and what the board has not.
_KINDS = ("missing file", "unknown engine", "interpreter that is none", "output that exists", "a delay under a rate",
          "misses of no deadline", "a bus that is not there", "unknown theme")  # fmt: skip


@pytest.mark.parametrize("case", mostly_thorough(sorted(set(CASES) - _LIKE_OTHERS), *_KINDS))
def test_bad_input_is_told_before_a_screen_is_missed(case, folder):
    arguments, said = CASES[case]
    done = edgetop("run", *arguments, "--runs", "3", home=folder)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("ab", "good.onnx", "nowhere.onnx"), "nowhere.onnx: no such file"),
        (("ab", "good.onnx", "--b", "--input x=gone.npy"), "gone.npy: no such file"),
        (("watch", "--", "no-such-program"), "no-such-program: cannot be started"),
        (("watch", "--", "./a-file"), "./a-file: cannot be started: Permission denied"),
        (("watch", "--pid", "999999999"), "there is no such process"),
        (("watch", "-o", "taken", "--", "true"), "exists already"),
        (("ab", "good.onnx", "--b", "--input x=shape.npy"), "B: shape.npy: shape [1,3,9], but input x wants"),
        (("ab", "good.onnx", "--b", "--provider Frob", "--soak", "1s"), "B: --provider Frob"),
        (("ab", "good.onnx", "--b", "--seed 2", "--html", "gone/x.html"), "--html gone/x.html: gone is not a folder"),
        (("sweep", "nowhere.onnx"), "nowhere.onnx: no such file"),
        (("sweep", "good.onnx", "--input", "x=dtype.npy"), "dtype.npy: dtype int32, but input x wants float32"),
        (("sweep", "good.onnx", "good.tflite", "--shape", "x:1,3"), "--shape x:1,3 does not fit"),
        (("sweep", "good.onnx", "--provider", "Frob,Nicate"), "--provider Frob"),
        (("sweep", "good.onnx", "--engine-cpus", "900"), "--engine-cpus"),
        (("sweep", "good.onnx", "--power-log", "dtype.npy"), "--power-log-format"),
        (("sweep", "good.onnx", "--csv", "gone/x.csv"), "--csv gone/x.csv: gone is not a folder"),
    ],
)
def test_bad_input_of_others_is_told_before_a_screen_is_missed_or_anything_runs(command, said, folder):
    done = edgetop(*command, home=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(complaints(done)) == 1
    assert not [path for kind in ("*.sweep", "soak-*") for path in (folder / "state").rglob(kind)]
