"""The figures that papers and model zoos publish for their networks, within 2 %."""

import pytest

from edgetop.models.graph import input_names
from edgetop.models.inspection import inspected
from tests.support.built_models.demo import Network, build_onnx, build_tflite, mobilenet
from tests.support.model_files import light, read, squeezenet_1_0

# Table 1 of Howard et al. 2017, arXiv:1704.04861: filters and stride of each depthwise-separable block.
PAPER_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))


def inspection(content, **shapes):
    model = read(content)
    names = dict(zip(input_names(model), model.graph.inputs, strict=True))
    return inspected(model, {name: shapes.get(name, model.graph.tensors[place].shape) for name, place in names.items()})


def paper_mobilenet(width) -> Network:
    return mobilenet("paper", side=224, width=width, classes=1000, blocks=PAPER_BLOCKS)


# Multiply-accumulates, and where they are published. "GFLOPS" of torchvision are MACs: its 4.09 of
# ResNet-50 are the 4.1 billion multiply-adds of the version with the stride in the 3x3 convolution,
# which the `onnx` package's is too (He et al. count 3.8 with the stride in the 1x1).
TORCHVISION = "https://docs.pytorch.org/vision/stable/models.html, table of all classification weights"
MACS = {
    "squeezenet 1.1": (lambda: light("squeezenet"), 0.35e9, TORCHVISION),
    "squeezenet 1.0": (squeezenet_1_0, 0.82e9, TORCHVISION),
    "resnet-50": (lambda: light("resnet50"), 4.09e9, TORCHVISION),
    "densenet-121": (lambda: light("densenet121"), 2.83e9, TORCHVISION),
    "vgg-19": (lambda: light("vgg19"), 19.6e9, "He et al. 2015, arXiv:1512.03385, section 3.3"),
    "googlenet": (lambda: light("inception_v1"), 1.43e9, "Sze et al. 2017, arXiv:1703.09039, table II"),
    "mobilenet 0.5 onnx": (lambda: build_onnx(paper_mobilenet(0.5)), 149e6, "arXiv:1704.04861, table 6"),
    "mobilenet 0.5 tflite": (lambda: build_tflite(paper_mobilenet(0.5)), 149e6, "arXiv:1704.04861, table 6"),
    "mobilenet 0.25 tflite": (lambda: build_tflite(paper_mobilenet(0.25)), 41e6, "arXiv:1704.04861, table 6"),
}


@pytest.mark.parametrize("name", MACS)
def test_multiply_accumulates_are_those_published(name):
    build, published, _ = MACS[name]
    totals = inspection(build()).totals
    assert totals.macs_unknown == 0
    assert totals.macs == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize("name", MACS)
def test_flops_are_twice_that_and_little_more(name):
    totals = inspection(MACS[name][0]()).totals
    assert totals.flops_unknown == 0
    assert 2 * totals.macs < totals.flops < 1.04 * 2 * totals.macs


# For images of 227x227 pixels, a multiply-add being two: github.com/forresti/SqueezeNet, SqueezeNet_v1.1/README.md.
@pytest.mark.parametrize(
    ("content", "published"),
    [(squeezenet_1_0(227, classifier_pad=1), 1.72e9), (light("squeezenet"), 0.72e9)],
    ids=["squeezenet 1.0", "squeezenet 1.1"],
)
def test_squeezenets_flops_are_those_of_its_authors(content, published):
    name = input_names(read(content))[0]
    assert inspection(content, **{name: (1, 3, 227, 227)}).totals.flops == pytest.approx(published, rel=0.02)


# torchvision's num_params, but for batch norms' means and variances, which inference needs too.
PARAMETERS = {
    "squeezenet 1.1": (lambda: light("squeezenet"), 1_235_496),
    "squeezenet 1.0": (squeezenet_1_0, 1_248_424),
    "resnet-50": (lambda: light("resnet50"), 25_557_032 + 2 * 26_560),
    "vgg-19": (lambda: light("vgg19"), 143_667_240),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_counted_to_the_last(name):
    build, published = PARAMETERS[name]
    weights = inspection(build()).weights
    assert (weights.parameters, weights.bytes) == (published, 4 * published)


def test_both_formats_of_one_network_cost_the_same():
    onnx, tflite = (inspection(build(paper_mobilenet(0.25))).totals for build in (build_onnx, build_tflite))
    assert (onnx.macs, onnx.flops) == (tflite.macs, tflite.flops)
