"""Real networks for every runtime: those of the `onnx` package with random weights, as ONNX, OpenVINO's IR and ncnn.

The three files of a network are one model: the outputs are the same but for rounding.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from tests.support.model_files import light

REAL = ("squeezenet", "shufflenet", "inception_v1", "inception_v2", "resnet50")
DEFAULT_PADS = (0, 0, 0, 0)


def real_onnx(name: str) -> onnx.ModelProto:
    """The network `name` with weights of the sizes that keep its values in range, and `data` as its only input."""
    model = onnx.load_model_from_string(light(name))
    graph, random = model.graph, np.random.default_rng(0)
    made = {node.output[0] for node in graph.node if node.op_type == "ConstantOfShape"}
    shapes = {node.output[0]: node.input[0] for node in graph.node if node.output[0] in made}
    given = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    is_residual = any(node.op_type == "Sum" for node in nodes)
    weights, sources = {}, {node.output[0]: node.input[0] for node in nodes if node.op_type == "Unsqueeze"}
    for node in nodes:
        for place, tensor in enumerate(node.input):
            source = sources.get(tensor, tensor)
            if node.op_type != "Unsqueeze" and source in made:
                weights[source] = _values(node.op_type, place, tuple(given[shapes[source]]), random)
                if is_residual and node.op_type == "BatchNormalization" and place == 1:
                    weights[source] *= 0.5  # so that the sums of many branches do not grow

    kept = [one for one in graph.initializer if any(one.name in node.input for node in nodes)]
    kept += [numpy_helper.from_array(array, tensor) for tensor, array in weights.items()]
    names = {one.name for one in kept}
    (data,) = [one for one in graph.input if one.name not in names and one.type.tensor_type.elem_type == 1
               and len(one.type.tensor_type.shape.dim) == 4]  # fmt: skip
    for node in nodes:
        node.input[:] = ["data" if tensor == data.name else tensor for tensor in node.input]
    made_input = helper.make_tensor_value_info("data", onnx.TensorProto.FLOAT, [1, 3, 224, 224])
    whole = helper.make_graph(nodes, name, [made_input], graph.output, kept)
    opset = helper.make_opsetid("", model.opset_import[0].version)
    return helper.make_model(whole, ir_version=8, opset_imports=[opset])


def _values(op_type: str, place: int, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Weights of a node's input number `place`."""
    if op_type in ("Conv", "Gemm") and place == 1:
        fan_in = np.prod(shape[1:])  # He et al. 2015, and less for the classes, so that no class has all
        array = random.normal(0, np.sqrt((2 if op_type == "Conv" else 0.01) / fan_in), shape)
    elif (op_type == "BatchNormalization" and place in (1, 4)) or op_type == "Mul":
        array = random.uniform(0.8, 1.2, shape)
    else:
        array = random.normal(0, 0.05, shape)
    return array.astype(np.float32)


def write_onnx(folder: Path, name: str) -> Path:
    path = folder / f"{name}.onnx"
    onnx.save(real_onnx(name), path)
    return path


def write_ir(folder: Path, name: str) -> Path:
    import openvino

    path = folder / f"{name}.xml"
    openvino.save_model(openvino.convert_model(write_onnx(folder, name)), path, compress_to_fp16=False)
    return path


def write_ncnn(folder: Path, name: str) -> Path:
    path = folder / f"{name}.ncnn.param"  # as pnnx names it; the weights of an IR are `NAME.bin`
    param, weights = as_ncnn(real_onnx(name))
    path.write_text(param)
    path.with_suffix(".bin").write_bytes(weights)
    return path


class _Param:
    """A param file of ncnn in the making. The numbers of parameters are those of ncnn's wiki ("operators")."""

    def __init__(self) -> None:
        self.layers: list[tuple[str, list[str], list[str], dict[int, object]]] = []
        self.weights: list[bytes] = []

    def add(self, kind: str, reads: list[str], writes: list[str], parameters: dict[int, object] | None = None) -> None:
        self.layers.append((kind, reads, writes, parameters or {}))

    def store(self, array: np.ndarray, *, tagged: bool = False) -> None:
        """`tagged`: weights begin with their type, 0 for float32."""
        self.weights.append((b"\0\0\0\0" if tagged else b"") + array.astype(np.float32).tobytes())

    def text(self) -> str:
        """The file. A blob that several layers read needs a layer of its own, which copies its reference."""
        readers: dict[str, int] = {}
        for _, reads, _, _ in self.layers:
            for blob in reads:
                readers[blob] = readers.get(blob, 0) + 1
        lines, blobs, taken = [], 0, dict.fromkeys(readers, 0)
        for number, (kind, reads, writes, parameters) in enumerate(self.layers):
            own = []
            for blob in reads:
                own.append(f"{blob}_{taken[blob]}" if readers[blob] > 1 else blob)
                taken[blob] += 1
            words = [kind, f"{kind}{number}", len(reads), len(writes), *own, *writes]
            lines.append(" ".join(map(str, words + [f"{key}={value}" for key, value in parameters.items()])))
            blobs += len(writes)
            for blob in writes:
                if (count := readers.get(blob, 0)) > 1:
                    copies = [f"{blob}_{copy}" for copy in range(count)]
                    lines.append(" ".join(map(str, ("Split", f"split_{blob}", 1, count, blob, *copies))))
                    blobs += count
        return "\n".join(["7767517", f"{len(lines)} {blobs}", *lines, ""])


def as_ncnn(model: onnx.ModelProto) -> tuple[str, bytes]:
    """The param file and the weights of a model of the operators that the networks above have."""
    graph = shape_inference.infer_shapes(model).graph
    constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    shapes = {one.name: [dim.dim_value for dim in one.type.tensor_type.shape.dim]
              for one in (*graph.value_info, *graph.input)}  # fmt: skip
    param, names = _Param(), {"data": "data"}  # names of blobs by names of tensors, without those of identities
    param.add("Input", [], ["data"], {0: 224, 1: 224, 2: 3})
    for number, node in enumerate(graph.node):
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        if node.op_type == "Unsqueeze":
            constants[node.output[0]] = constants[node.input[0]].reshape(-1)
            continue
        if node.op_type == "Reshape" and node.input[0] in constants:
            constants[node.output[0]] = constants[node.input[0]].reshape(constants[node.input[1]])
            continue
        reads = [names[tensor] for tensor in node.input if tensor in names]
        output = f"b{number}"
        if node.op_type in ("Dropout", "Reshape") or (node.op_type == "Transpose" and len(attributes["perm"]) == 5):
            before = shapes.get(node.input[0], [])
            if node.op_type == "Transpose":  # between two reshapes: the channels of groups change places
                param.add("ShuffleChannel", reads, [output], {0: before[1]})
                names[node.output[0]] = output
            else:
                names[node.output[0]] = reads[0]
            continue
        names[node.output[0]] = output
        _add(param, node.op_type, attributes, reads, output, [constants.get(tensor) for tensor in node.input])
    return param.text(), b"".join(param.weights)


def _add(param, op_type, attributes, reads, output, constants) -> None:
    top, left, bottom, right = attributes.get("pads", DEFAULT_PADS)
    if op_type == "Conv":
        weights, group = constants[1], attributes.get("group", 1)
        bias = constants[2] if len(constants) > 2 else None
        (height, width), strides = weights.shape[2:], attributes.get("strides", (1, 1))
        sizes = {0: weights.shape[0], 1: width, 11: height, 3: strides[1], 13: strides[0], 4: left, 15: right}
        sizes |= {14: top, 16: bottom, 5: int(bias is not None), 6: weights.size} | ({7: group} if group > 1 else {})
        param.add("ConvolutionDepthWise" if group > 1 else "Convolution", reads, [output], sizes)
        param.store(weights, tagged=True)
        if bias is not None:
            param.store(bias)
    elif op_type == "Gemm":
        weights = constants[1] if attributes.get("transB") else constants[1].T
        param.add("InnerProduct", reads, [output], {0: weights.shape[0], 1: 1, 2: weights.size})
        param.store(weights, tagged=True)
        param.store(constants[2])
    elif op_type in ("MaxPool", "AveragePool"):
        (height, width), strides = attributes["kernel_shape"], attributes.get("strides", (1, 1))
        sizes = {0: int(op_type == "AveragePool"), 1: width, 11: height, 2: strides[1], 12: strides[0], 3: left}
        param.add("Pooling", reads, [output], sizes | {13: top, 14: right, 15: bottom, 5: 1})
    elif op_type == "BatchNormalization":
        param.add("BatchNorm", reads, [output], {0: constants[1].size, 1: attributes.get("epsilon", 1e-5)})
        for place in (1, 3, 4, 2):  # slope, mean, variance, bias
            param.store(constants[place])
    elif op_type in ("Mul", "Add") and len(reads) == 1:
        (constant,) = [one for one in constants if one is not None]
        param.add("Scale" if op_type == "Mul" else "Bias", reads, [output], {0: constant.size})
        param.store(constant)
    else:
        others = {
            "Relu": ("ReLU", {}),
            "Concat": ("Concat", {0: 0}),
            "Sum": ("Eltwise", {0: 1}),
            "GlobalAveragePool": ("Pooling", {0: 1, 4: 1}),
            "Softmax": ("Softmax", {0: 0, 1: 1}),
            "LRN": ("LRN", {0: 0, 1: attributes.get("size"), 2: attributes.get("alpha"), 3: attributes.get("beta"),
                            4: attributes.get("bias", 1.0)}),
        }  # fmt: skip
        kind, parameters = others[op_type]
        param.add(kind, reads, [output], parameters)
