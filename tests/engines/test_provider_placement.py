"""Which provider of ONNX Runtime would run which operators of a model, asked of the runtime before any run."""

from pathlib import Path

import pytest

from edgetop.engines.provider_placement import placement
from edgetop.engines.spec import EngineSpec
from edgetop.errors import InputError
from tests.engines.child.profilers.test_onnx_placement import BUILT, CUDA, MORE, NO_KERNEL
from tests.support import interpreters
from tests.support.onnx_models import onnx_tiny

pytestmark = pytest.mark.slow

PLACED = """
t [V:onnxruntime:, inference_session.cc:9 VerifyEachNode]  Node(s) placed on [CUDAExecutionProvider]. Number of nodes: 2
t [V:onnxruntime:, inference_session.cc:9 VerifyEachNode]   Conv (a)
t [V:onnxruntime:, inference_session.cc:9 VerifyEachNode]   Conv (b)
t [V:onnxruntime:, inference_session.cc:9 VerifyEachNode]  Node(s) placed on [CPUExecutionProvider]. Number of nodes: 1
t [V:onnxruntime:, inference_session.cc:9 VerifyEachNode]   Pad (p)
""".replace("VerifyEachNode", "VerifyEachNodeIsAssignedToAnEp")


@pytest.fixture
def tiny(tmp_path: Path) -> EngineSpec:
    path = tmp_path / "tiny.onnx"
    path.write_bytes(onnx_tiny())
    return EngineSpec(str(path), "onnx", engine="onnxruntime", providers=(("CPU", {}),))


def test_the_installed_runtime_says_what_the_cpu_takes(tiny: EngineSpec) -> None:
    found = placement(tiny)
    assert found.runtime.startswith("onnxruntime 1.")
    assert found.operators.keys() == {"CPU"}
    assert sum(found.operators["CPU"].values()) > 0
    assert (found.why.left_out, found.why.counts()) == ("", ())


def test_an_older_runtime_says_it_in_its_log_with_the_reasons(tmp_path: Path, tiny: EngineSpec) -> None:
    python = interpreters.with_runtime(tmp_path)
    module = tmp_path / "runtime" / "onnxruntime.py"
    more = MORE.format(log=PLACED + CUDA, built=BUILT, has=BUILT)
    module.write_text(f"{module.read_text()}{more}\nSessionOptions.add_session_config_entry = lambda *given: None\n")
    found = placement(EngineSpec(tiny.model, "onnx", engine="onnxruntime", providers=(("CUDA", {}),)), python)
    assert found.operators == {"CUDA": {"Conv": 2}, "CPU": {"Pad": 1}}
    assert dict(found.why.counts())[f"{NO_KERNEL}Shape"] == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('echo "no numpy here" >&2; exit 1', "no numpy here"),
        ("exit 5", "ended with status 5"),
        ("echo '{}'", "ended with status 0"),
        ("exec sleep 60", "is not loaded after 0.2 s"),
    ],
)
def test_an_interpreter_that_gives_no_answer_is_one_line(
    tmp_path: Path, tiny: EngineSpec, body: str, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        placement(tiny, interpreters.shell(tmp_path / "python", body), timeout_s=0.2 if "sleep" in body else 60.0)


def test_a_model_that_does_not_load_is_one_line(tiny: EngineSpec) -> None:
    Path(tiny.model).write_bytes(b"no model")
    with pytest.raises(InputError, match=r"tiny\.onnx: "):
        placement(tiny)
