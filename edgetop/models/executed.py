"""Find, for each operator that a runtime ran, the operators of the model's file from which the runtime made it.

A runtime merges, splits and renames operators. Operators are only matched as documented for the runtime, and not
because their names look alike.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from edgetop.frozen import frozen
from edgetop.models.graph import OMITTED
from edgetop.models.inspection import Inspection
from edgetop.models.operator_costs import OperatorCost
from edgetop.session.operators import OperatorInfo

_LONGEST_MERGER = 6  # most operators that become one: convolution, normalisation, scale, shift, activation


@frozen
class Origin:
    """The operators of a model's file for which one executed operator stands: one, or several that were fused."""

    costs: tuple[OperatorCost, ...]
    has_other_dtypes: bool = False  # whether it runs on other dtypes than in the file, as after quantisation

    @property
    def flops(self) -> int | None:
        flops = [cost.flops for cost in self.costs]
        return None if None in flops else sum(number or 0 for number in flops)

    @property
    def bytes(self) -> int | None:
        """Bytes that the first operator reads plus bytes that the last one writes, or None if unknown."""
        # Data between the operators stays in registers.
        read, written = self.costs[0].read_bytes, self.costs[-1].written_bytes
        return None if read is None or written is None or self.has_other_dtypes else read + written

    @property
    def name(self) -> str:
        """The operators' names in the file, joined by " + ".

        A nameless operator is given by its position, such as `#12`.
        """
        return " + ".join(cost.operator.name or f"#{cost.operator.position}" for cost in self.costs)

    @property
    def main(self) -> OperatorCost:
        """Return the operator with the most FLOPs."""
        return max(self.costs, key=lambda cost: cost.flops or 0)


def origins(inspection: Inspection, infos: Sequence[OperatorInfo]) -> tuple[Origin | None, ...]:
    """Return, for each operator that ran, the operators of the file from which it was made, or None if unknown.

    `infos` are the operators that ran, in run order. The result has the same length.
    """
    if inspection.model.format == "onnx":
        return _OnnxRuntime(inspection).origins(infos)
    return _tflite(inspection, infos)


# ONNX Runtime names operators that it makes itself in a few ways. An operator on blocked channels is named after the
# tensor that it writes, which may be the output of an operator that was merged into it (onnxruntime/core/optimizer/
# nchwc_transformer.cc). A merged operator is named after one of its nodes (core/optimizer/matmul_add_fusion.cc and
# others), with a number if that would not be unique (core/graph/graph.cc, GenerateNodeName). A node without a name is
# named after its type and its place in the file (core/framework/sequential_executor.cc).
_NCHWC = re.compile(r"(.+)_nchwc$")
_SCALE = re.compile(r"_(bn|mul)$")  # a normalisation or product that runs as a convolution of each channel
_TOKEN = re.compile(r"(.+)_token_\d+$")
_FUSION = re.compile(r"(.+)/\w+Fusion/?$")
_NUMBERED = re.compile(r"(\w+)_(\d+)$")
_FUSED = "fused "  # a product with its activation (core/optimizer/gemm_activation_fusion.cc)
# Prefix of a function's nodes and tensors; in the second and later calls it has a number
# (core/graph/function_utils.cc).
_FUNCTION = "_inlfunc_"
_CALL = re.compile(rf"({_FUNCTION}.+?)_token_\d+_")

_MATRIX_PRODUCTS = {"Gemm", "MatMul", "MatMulNBits", "MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"}


def _kind(op_type: str) -> str:
    """Return the kind of an operator: the same for its plain, fused and quantised forms.

    >>> _kind("FusedConv"), _kind("QLinearConv"), _kind("QGemm"), _kind("Gather")
    ('Conv', 'Conv', 'MatMul', 'Gather')
    >>> _kind("FusedGemm"), _kind("FusedMatMul"), _kind("Upsample")
    ('MatMul', 'MatMul', 'Resize')
    """
    short = op_type.removeprefix("QLinear").removeprefix("Fused")
    if short == "Upsample":  # the name of Resize on blocked channels
        return "Resize"
    return "MatMul" if short in _MATRIX_PRODUCTS or short == "QGemm" else short


class _Named:
    """Finds an operator of the model's file by its name. An ambiguous name gives None."""

    def __init__(self, named: Iterable[tuple[str, OperatorCost]]) -> None:
        self._costs: dict[str, list[OperatorCost]] = {}
        for name, cost in named:
            self._costs.setdefault(_in_any_call(name), []).append(cost)
        self._costs.pop("", None)

    def __contains__(self, name: str) -> bool:
        return _in_any_call(name) in self._costs

    def get(self, name: str) -> OperatorCost | None:
        costs = self._costs.get(_in_any_call(name), [])
        # The operators of a function have the same names in each call. If their work is the same too, each `get`
        # returns that of the next call.
        if name.startswith(_FUNCTION):
            return costs.pop(0) if len({(cost.flops, cost.bytes) for cost in costs}) == 1 else None
        return costs[0] if len(costs) == 1 else None


def _in_any_call(name: str) -> str:
    return _CALL.sub(r"\1_", name)


class _OnnxRuntime:
    def __init__(self, inspection: Inspection) -> None:
        graph = inspection.model.graph
        # By position, which is what numbers in ONNX Runtime's names mean, unless the model has functions.
        self._costs: Sequence[OperatorCost] = () if inspection.model.functions else inspection.operators
        self._named = _Named((cost.operator.name, cost) for cost in inspection.operators)
        written = ((place, cost) for cost in inspection.operators for place in cost.operator.outputs)
        self._makers = {place: cost for place, cost in written if place != OMITTED}
        self._by_output = _Named((graph.tensors[place].name, cost) for place, cost in self._makers.items())

    def origins(self, infos: Sequence[OperatorInfo]) -> tuple[Origin | None, ...]:
        last = [self._last(info) for info in infos]
        taken = {cost.operator.position for cost in last if cost is not None}
        return tuple(
            None if cost is None else self._merged(info, cost, taken) for info, cost in zip(infos, last, strict=True)
        )

    def _last(self, info: OperatorInfo) -> OperatorCost | None:
        """Return the operator of the file that the name of the executed operator `info` refers to, or None if unknown.

        If the runtime made `info` from several operators, the last of them is returned.
        """
        name = info.name.removeprefix(_FUSED)
        if token := _TOKEN.match(name):
            name = token[1] if token[1].endswith("_nchwc") or name not in self._named else name
        if blocked := _NCHWC.match(name):
            return self._by_output.get(blocked[1]) or self._by_output.get(_SCALE.sub("", blocked[1]))
        if fusion := _FUSION.match(name):
            name = fusion[1]
        cost = self._named.get(name)
        if cost is None and (numbered := _NUMBERED.match(name)) and int(numbered[2]) < len(self._costs):
            there = self._costs[int(numbered[2])]
            cost = there if not there.operator.name and there.operator.op_type == numbered[1] else None
        return cost

    def _merged(self, info: OperatorInfo, last: OperatorCost, taken: set[int]) -> Origin | None:
        """Return the chain of operators of the file that the runtime merged into `info`, or None if it is unknown.

        The chain ends with `last`. `taken` are the positions of operators that are matched already.
        """
        if info.op_type == "QuickGelu":
            return self._swish(last)
        chain = [last]
        while _kind(chain[0].operator.op_type) != _kind(info.op_type):
            first = chain[0].operator.inputs[:1]
            before = self._makers.get(first[0]) if first else None
            if before is None or before.operator.position in taken or len(chain) == _LONGEST_MERGER:
                is_scale = info.op_type == "Conv" and last.operator.op_type in ("BatchNormalization", "Mul")
                return Origin((last,)) if is_scale else None
            chain.insert(0, before)
        was, became = chain[0].operator.op_type, info.op_type
        return Origin(tuple(chain), has_other_dtypes=became.startswith("Q") and not was.startswith("Q"))

    def _swish(self, product: OperatorCost) -> Origin | None:
        """Return the operators that compute x * sigmoid(x) or x * sigmoid(a * x) and end
        with the multiplication `product`.

        None if `product` ends no such formula. Source: onnxruntime/core/optimizer/quick_gelu_fusion.cc.
        """
        for x, gated in itertools.permutations(product.operator.inputs, 2):
            gate = self._makers.get(gated)
            if product.operator.op_type != "Mul" or gate is None or gate.operator.op_type != "Sigmoid":
                continue
            argument = gate.operator.inputs[0]
            scale = self._makers.get(argument)
            if argument == x:
                return Origin((gate, product))
            if scale is not None and scale.operator.op_type == "Mul" and x in scale.operator.inputs:
                return Origin((scale, gate, product))
        return None


# TFLite's types by XNNPACK's names of operators (XNNPACK, src/enums/operator-type.c) up to the bracket.
_PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_XNNPACK: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Convolution", "Fully Connected"), _PRODUCTS),  # a 1x1 convolution may be run as either
    "Clamp": ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"), "Constant Pad": ("PAD", "PADV2"),
    "Deconvolution": ("TRANSPOSE_CONV",), "Max Pooling": ("MAX_POOL_2D",), "Average Pooling": ("AVERAGE_POOL_2D",),
    "Add": ("ADD",), "Subtract": ("SUB",), "Multiply": ("MUL",), "Divide": ("DIV",), "Maximum": ("MAXIMUM",),
    "Minimum": ("MINIMUM",), "Squared Difference": ("SQUARED_DIFFERENCE",), "Sigmoid": ("LOGISTIC",),
    "Tanh": ("TANH",), "HardSwish": ("HARD_SWISH",), "ELU": ("ELU",), "PReLU": ("PRELU",),
    "Leaky ReLU": ("LEAKY_RELU",), "Softmax": ("SOFTMAX",), "Resize Bilinear": ("RESIZE_BILINEAR",),
    "Transpose": ("TRANSPOSE",), "Batch Matrix Multiply": ("BATCH_MATMUL",),
}  # fmt: skip


def _tflite(inspection: Inspection, infos: Sequence[OperatorInfo]) -> tuple[Origin | None, ...]:
    """Return, for each operator that TFLite ran, the operator of the file from
    which it was made, or None if unknown.
    """
    by_name = {(cost.operator.name, cost.operator.op_type): cost for cost in inspection.operators}
    ran = [by_name.get((info.name, info.op_type)) for info in infos]
    alone = {cost.operator.position for cost in ran if cost is not None}
    left = [cost for cost in inspection.operators if not cost.is_folded and cost.operator.position not in alone]
    for place, cost in _in_order(infos, left):
        ran[place] = cost
    return tuple(None if cost is None else Origin((cost,)) for cost in ran)


def _in_order(infos: Sequence[OperatorInfo], left: Sequence[OperatorCost]) -> Iterator[tuple[int, OperatorCost]]:
    """Yield pairs of an index in `infos` and an operator of the file, for operators that XNNPACK ran.

    `left` are the operators of the file without a match so far. A kind of operator is left out if XNNPACK ran more or
    fewer operators of this kind than `left` has.
    """
    places: dict[tuple[str, ...], list[int]] = {}
    for place, info in enumerate(infos):
        types = _XNNPACK.get(info.op_type.partition(" (")[0]) if info.provider == "XNNPACK" else None
        if types:
            places.setdefault(types, []).append(place)
    for types, those in places.items():
        costs = [cost for cost in left if cost.operator.op_type in types]
        pairs = list(zip(those, costs, strict=False))
        fits = all(
            cost.operator.op_type == "DEPTHWISE_CONV_2D"
            for place, cost in pairs
            if infos[place].op_type.endswith("DWConv")
        )
        if len(those) == len(costs) and fits:
            yield from pairs


def with_work(inspection: Inspection, infos: Sequence[OperatorInfo]) -> tuple[OperatorInfo, ...]:
    """Return `infos`, the operators that a runtime ran, with the names in the model's
    file, FLOPs and bytes if known.
    """
    return tuple(
        info if origin is None else replace(info, flops=origin.flops, bytes=origin.bytes, origin=origin.name)
        for info, origin in zip(infos, origins(inspection, infos), strict=True)
    )


def main_dtype(costs: Iterable[OperatorCost]) -> str | None:
    """Return the dtype in which most multiply-accumulates are done, such as `float32`, or None if unknown."""
    macs: Counter[str] = Counter()
    for cost in costs:
        macs[cost.dtype or ""] += cost.macs or 0
    most = macs.most_common(1)
    return most[0][0] or None if most and most[0][1] else None
