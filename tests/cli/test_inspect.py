"""`edgetop inspect` as a user types it."""

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import edgetop.demo
from edgetop.cli.board import inspection_text
from tests.support import interpreters, onnx_models, tflite_models
from tests.support.commands import edgetop as run_edgetop
from tests.support.gguf_models import gguf, language_model

pytestmark = pytest.mark.slow

DEMO = Path(edgetop.demo.__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    named = onnx.load_from_string(onnx_models.onnx_hostile_names())
    named.producer_name = "\x1b[31mmaker\n"
    named.doc_string = "[bold]\u202e"
    onnx.helper.set_model_props(named, {"\x1b]0;owned\x07": "\r\n"})
    files = {
        "dynamic.onnx": onnx_models.onnx_dynamic(),
        "hostile.onnx": named.SerializeToString(),
        "hostile.tflite": tflite_models.tflite_hostile_names(),
        "cut.tflite": tflite_models.tflite_mobile()[:9000],
        "cut.onnx": onnx_models.onnx_dynamic()[:-30],
        "batch.tflite": tflite_models.tflite_dynamic_batch(),
        "diagonal.tflite": tflite_models.tflite_open_diagonal(),
        "strings.onnx": onnx_models.onnx_string_input(),
        "empty.onnx": b"",
        "tiny.gguf": language_model(kind="Q8_0"),
        "cut.gguf": language_model()[:70_000],
        "hostile.gguf": gguf({"general.architecture": "\x1b[31m", "general.name": "\x1b]0;owned\x07\r\u202e"}, {}),
        "runtime.ort": b"\x18\0\0\0ORTM" + bytes(100),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def inspect(folder, *arguments):
    return run_edgetop("inspect", *arguments, home=folder)


@pytest.mark.parametrize("fmt", ["onnx", "tflite"])
def test_the_demo_model_is_shown_as_text(folder, fmt):
    done = inspect(folder, DEMO / f"demo.{fmt}")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for said in ("image float32", "254 k parameters", "221 MFLOPs (108 MMACs)", "block3/pointwise", "probabilities"):
        assert said in done.stdout


def test_the_json_document_holds_every_operator(folder):
    done = inspect(folder, DEMO / "demo.tflite", "--json")
    document = json.loads(done.stdout)
    assert document["model"]["path"].endswith("demo.tflite")
    assert document["model"]["size_bytes"] == (DEMO / "demo.tflite").stat().st_size
    assert len(document["operators"]) == document["totals"]["operators"] == 24


def test_every_key_is_documented(folder):
    document = json.loads(inspect(folder, DEMO / "demo.onnx", "--json").stdout)
    topic = (DEMO.parent / "docs/inspect.md").read_text(encoding="utf-8")
    keys = {*document, *document["totals"], *document["model"], *document["operators"][0], *document["by_type"][0]}
    assert [key for key in sorted(keys) if f"`{key}`" not in topic] == []


def test_shapes_the_file_lacks_come_from_the_runtime_and_say_so(folder):
    done = inspect(folder, "diagonal.tflite", "--batch", "3")
    assert "work       1920 FLOPs (960 MACs)" in done.stdout
    assert "shapes     some from litert 2." in done.stdout


def test_open_sizes_take_the_defaults_of_run_and_are_told(folder):
    done = inspect(folder, "dynamic.onnx", "--json")
    document = json.loads(done.stdout)
    assert document["inputs"][0]["runs_as"] == [1, 3, 224, 224]
    assert "it runs as [1,3,224,224]" in document["assumptions"][0]


def test_shapes_and_a_batch_are_taken(folder):
    by_shape = json.loads(inspect(folder, "dynamic.onnx", "--shape", "x:2,3,32,32", "--json").stdout)
    assert by_shape["inputs"][0]["runs_as"] == [2, 3, 32, 32]
    assert by_shape["assumptions"] == []
    one, four = (json.loads(inspect(folder, "batch.tflite", "--batch", n, "--json").stdout)["totals"] for n in "14")
    assert four["macs"] == 4 * one["macs"]


def test_a_language_model_is_shown_as_text(folder):
    done = inspect(folder, "tiny.gguf")
    assert done.returncode == 0, done.stderr
    for said in ("architecture  llama", "Q8_0 ", "context  512 tokens", "256 B per token", "128.0 KiB when it is full"):
        assert said in done.stdout


def test_every_key_of_a_language_model_is_documented(folder):
    document = json.loads(inspect(folder, "tiny.gguf", "--json").stdout)
    assert document["model"]["format"] == "gguf"
    assert document["precision"]["weights"]["Q8_0"]["parameters"] == 161_280
    topic = (DEMO.parent / "docs/inspect.md").read_text(encoding="utf-8")
    keys = {*document, *(key for part in ("model", "context", "totals") for key in document[part])}
    assert [key for key in sorted(keys) if f"`{key}`" not in topic] == []


def test_the_division_among_providers_is_shown_and_documented(folder):
    done = inspect(folder, DEMO / "demo.onnx", "--provider", "XNNPACK", "--provider", "cpu", "--json")
    placed = json.loads(done.stdout)["placement"]
    absent, cpu = placed["providers"]
    assert (absent["name"], absent["asked"], absent["operators"]) == ("XNNPACK", True, 0)
    assert (cpu["name"], cpu["asked"], cpu["op_types"]["Conv"]) == ("CPU", True, 21)
    assert "has no Xnnpack" in placed["left_out"]
    topic = (DEMO.parent / "docs/inspect.md").read_text(encoding="utf-8")
    assert [key for key in (*placed, *cpu) if f"`{key}`" not in topic] == []
    text = inspect(folder, DEMO / "demo.onnx", "--provider", "XNNPACK").stdout
    assert "  XNNPACK    0 operators\n" in text
    assert "  left out   this build of ONNX Runtime has no Xnnpack" in text
    assert json.loads(inspect(folder, DEMO / "demo.onnx", "--json").stdout)["placement"] is None


def test_a_runtime_that_does_not_say_what_a_provider_takes_leaves_it_unknown(folder, tmp_path):
    (tmp_path / "tiny.onnx").write_bytes(onnx_models.onnx_tiny())
    python = interpreters.with_runtime(tmp_path)
    module = tmp_path / "runtime" / "onnxruntime.py"
    more = "SessionOptions.add_session_config_entry = set_default_logger_severity = lambda *given: None\n"
    module.write_text(f"{module.read_text()}\n{more}")
    asked = tmp_path / "tiny.onnx", "--provider", "CPU", "--engine-python", python
    placed = json.loads(inspect(folder, *asked, "--json").stdout)["placement"]
    assert placed["providers"] == [{"name": "CPU", "asked": True, "operators": None, "op_types": None}]
    text = inspect(folder, *asked).stdout
    assert "  CPU        -\n" in text
    assert "this version of ONNX Runtime does not say which operators a provider takes" in text


def test_a_provider_that_takes_nothing_is_said_even_if_the_runtime_gives_no_reason():
    one = {"asked": True, "op_types": {}}
    providers = [one | {"name": "OpenVINO", "operators": 0}, one | {"name": "CPU", "operators": 3}]
    placed = {"runtime": "onnxruntime 1", "providers": providers, "left_out": None, "reasons": []}
    said = "OpenVINO takes no operator, and the runtime gives no reason"
    assert said in "\n".join(inspection_text._providers({"placement": placed}))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((DEMO / "demo.tflite", "--provider", "CPU"), "--provider is for ONNX models"),
        ((DEMO / "demo.onnx", "--provider", "Nope"), "ONNX Runtime knows no such provider"),
        ((DEMO / "demo.onnx", "--engine-python", "python3"), "--engine-python needs --provider"),
        ((DEMO / "demo.onnx", "--provider", "CPU", "--engine-python", "absent"), "no such file"),
    ],
)
def test_a_provider_that_cannot_be_asked_is_one_line(folder, arguments, said):
    done = inspect(folder, *arguments)
    assert (done.returncode, said in done.stderr, len(done.stderr.splitlines())) == (2, True, 1), done.stderr


def test_inputs_that_no_engine_could_feed_are_still_inspected(folder):
    assert "string" in inspect(folder, "strings.onnx").stdout


@pytest.mark.parametrize("name", ["hostile.onnx", "hostile.tflite", "hostile.gguf"])
def test_hostile_names_are_shown_and_do_nothing(folder, name):
    done = inspect(folder, name)
    assert done.returncode == 0, done.stderr
    assert r"\x1b" in done.stdout
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(done.stdout)


@pytest.mark.parametrize("name", ["hostile.onnx", "hostile.tflite"])
def test_hostile_names_stay_as_they_are_in_json(folder, name):
    assert json.loads(inspect(folder, name, "--json").stdout)["inputs"][0]["name"].count("\x1b") == 1


BAD = {
    "missing": (["nowhere.onnx"], "no such file"),
    "empty": (["empty.onnx"], "is empty"),
    "cut tflite": (["cut.tflite"], "damaged or incomplete"),
    "cut onnx": (["cut.onnx"], "cut short"),
    "cut gguf": (["cut.gguf"], "is cut short: 70000 of at least"),
    "a shape for tokens": (["tiny.gguf", "--batch", "2"], "a language model takes tokens"),
    "runtime's own format": (["runtime.ort"], "inspect the .onnx file"),
    "an input it has not": (["dynamic.onnx", "--shape", "y:1"], "it has x"),
    "a shape of another rank": (["dynamic.onnx", "--shape", "x:1"], "does not fit"),
    "a shape twice": (["dynamic.onnx", "--shape", "x:1,3,8,8", "--shape", "x:1,3,9,9"], "twice"),
    "no batch at all": (["dynamic.onnx", "--batch", "0"], "--batch"),
    "a batch it cannot have": ([str(DEMO / "demo.onnx"), "--batch", "2"], "fixed first dimension"),
    "no model": ([], "missing argument"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line_and_exit_code_2(folder, case):
    arguments, said = BAD[case]
    done = inspect(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_runtime_and_no_screen_is_loaded():
    code = (
        "import sys\nfrom edgetop.cli.main import main\n"
        f"try:\n    main(['inspect', {str(DEMO / 'demo.tflite')!r}])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"onnx", "onnxruntime", "ai_edge_litert", "flatbuffers", "textual", "pyarrow", "google"}
