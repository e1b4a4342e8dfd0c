"""The totals of every model that the tests can make: no change of the rules may make one of them worse unseen."""

import json
from functools import partial
from pathlib import Path

import pytest

from edgetop.demo import model_path
from edgetop.engines.process_engine import SHAPES_S, measure_shapes
from edgetop.engines.spec import EngineSpec
from edgetop.models.graph import input_names
from edgetop.models.inspection import inspected
from edgetop.roofline_models import probe_path
from tests.support import onnx_models, tflite_models
from tests.support.model_files import LIGHT_MODELS, light, read, squeezenet_1_0
from tests.support.waiting import scaled

EXPECTED = Path(__file__).with_name("totals.json")
SIZES = {None: 2, 0: 2, "N": 2, "batch": 2}  # of what a model leaves open

MODELS = {
    **{
        name: partial(build, 7) if name == "onnx_needs_width" else build
        for module in (onnx_models, tflite_models)
        for name, build in vars(module).items()
        if name.startswith(("onnx_", "tflite_"))
    },
    **{f"light_{name}": partial(light, name) for name in LIGHT_MODELS},
    "squeezenet_1_0": squeezenet_1_0,
    **{path(kind).name: path(kind).read_bytes for path in (model_path, probe_path) for kind in ("onnx", "tflite")},
}


def totals(content, folder):
    model = read(content)
    tensors = (model.graph.tensors[place] for place in model.graph.inputs)
    shapes = [[SIZES.get(dim, dim if isinstance(dim, int) else 64) for dim in tensor.shape] for tensor in tensors]
    given = dict(zip(input_names(model), shapes, strict=True))
    path = folder / "model"
    path.write_bytes(content)
    spec = EngineSpec(str(path), model.format, shapes=given)
    measure = partial(measure_shapes, spec, timeout_s=scaled(SHAPES_S))
    found = inspected(model, given, measure).totals
    keys = ("macs", "macs_unknown", "flops", "flops_unknown", "bytes", "bytes_unknown", "folded")
    return {key: getattr(found, key) for key in keys}


@pytest.mark.parametrize("name", MODELS)
def test_the_totals_of_a_model_are_as_they_were(name, tmp_path):
    assert totals(MODELS[name](), tmp_path) == json.loads(EXPECTED.read_text())[name]


def test_there_are_at_least_forty():
    assert len(MODELS) >= 40
