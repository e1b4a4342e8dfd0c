"""Rules for each type of operator: sizes and dtypes of its outputs, multiply-accumulates, and other arithmetic.

Operators of ONNX (onnx/docs/Operators.md) and com.microsoft (onnxruntime/docs/ContribOperators.md) have all four rules.
Operators of TFLite (tensorflow/lite/kernels) only have the two rules for the work, because their files contain shapes
and dtypes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from edgetop.models.cost import work_rules as work
from edgetop.models.cost.work_rules import each, each_input, none
from edgetop.models.graph import Operator, Sizes
from edgetop.models.onnx_values import DTYPES, Constant
from edgetop.models.shapes import moves, products
from edgetop.models.shapes.node import Node, broadcast

SizesRule = Callable[[Node], list[Sizes | None]]
DtypesRule = Callable[[Node], list[str | None]]

DOMAINS = {"", "com.microsoft"}  # of ONNX; a name means the same operator in both


# The dtype of each output. Source: the type constraints of onnx/docs/Operators.md and ContribOperators.md.


def _first(node: Node) -> list[str | None]:
    return [node.tensor(0).dtype if node.has(0) else None] * len(node.operator.outputs)


def _always(*dtypes: str) -> DtypesRule:
    return lambda _: [*dtypes]


def _of_input(*places: int) -> DtypesRule:
    return lambda node: [node.tensor(place).dtype for place in places]


def _of_zero_point(place: int, otherwise: str = "uint8") -> DtypesRule:
    """Return a rule for the dtype of an output: the dtype of the zero point, or
    `otherwise` if the zero point is omitted.

    `place` is the index of the zero point among the inputs.
    """
    return lambda node: [node.tensor(place).dtype if node.has(place) else otherwise]


def _with(dtype: str) -> DtypesRule:
    return lambda node: [node.tensor(0).dtype, dtype]


def _quantised(node: Node) -> list[str | None]:
    if node.has(2):
        return [node.tensor(2).dtype]
    return [DTYPES.get(node.attribute("output_dtype", 0), "uint8")]


def _constant_of_shape(node: Node) -> list[str | None]:
    value = node.attribute("value")
    return [value.tensor.dtype if isinstance(value, Constant) else "float32"]


def _generated(node: Node) -> list[str | None]:
    """Return, in a list, the output's dtype for an operator that generates values, such as RandomNormalLike.

    The attribute `dtype` says the dtype. Without that attribute, the output has the dtype of the first input, or
    float32 without an input.
    """
    return [DTYPES.get(node.attribute("dtype", 0), node.tensor(0).dtype if node.has(0) else "float32")]


_BOOL, _INT64, _INT32 = _always("bool"), _always("int64"), _always("int32")


class Op(NamedTuple):
    sizes: SizesRule | None = None
    flops: work.Rule | None = None  # FLOPs other than those of MACs; None if unknown
    macs: work.Rule | None = none
    dtypes: DtypesRule = _first


def _all(names: str, op: Op) -> dict[str, Op]:
    return dict.fromkeys(names.split(), op)


def _same(node: Node) -> list[Sizes | None]:
    return [node.sizes()]


def _elementwise(node: Node) -> list[Sizes | None]:
    return [broadcast(*(node.sizes(place) for place in range(len(node.inputs))))]


ONNX: dict[str, Op] = {
    **_all("""
        Relu LeakyRelu PRelu Elu Selu Celu ThresholdedRelu Sigmoid HardSigmoid Tanh Softplus Softsign Clip Gelu
        FastGelu QuickGelu BiasGelu HardSwish Mish Swish Shrink Abs Neg Sign Exp Log Sqrt Reciprocal Floor Ceil
        Round Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh BitwiseNot QLinearSigmoid
        QLinearLeakyRelu CumSum
    """, Op(_same, each(1))),
    **_all("Not IsNaN IsInf", Op(_same, each(1), dtypes=_BOOL)),
    **_all("""
        Add Sub Mul Div Pow Mod BitShift BitwiseAnd BitwiseOr BitwiseXor
    """, Op(_elementwise, each(1))),
    **_all("And Or Xor Equal Less LessOrEqual Greater GreaterOrEqual", Op(_elementwise, each(1), dtypes=_BOOL)),
    **_all("Sum Max Min", Op(_elementwise, work.of_many)),
    "Mean": Op(_elementwise, lambda node: len(node.inputs) * node.out),
    "Where": Op(_elementwise, none, dtypes=_of_input(1)),
    # In QLinearAdd and QLinearMul, each tensor is followed by its scale and its zero point.
    **_all("QLinearAdd QLinearMul", Op(lambda node: [broadcast(node.sizes(0), node.sizes(3))], each(1))),
    **_all("""
        InstanceNormalization GroupNormalization GroupNorm LpNormalization MeanVarianceNormalization
        RMSNormalization SimplifiedLayerNormalization Softmax LogSoftmax Hardmax QLinearSoftmax
    """, Op(_same, each(5))),
    "BatchNormalization": Op(_same, each(2)),
    # LRN is a sum of squares over the neighbours, followed by a multiplication, an addition, a power and a division.
    "LRN": Op(_same, lambda node: (2 * int(node.attribute("size", 0)) + 4) * node.out),
    "LayerNormalization": Op(moves.layer_norm, each(5)),
    **_all("SkipLayerNormalization SkipSimplifiedLayerNormalization", Op(moves.skip_norm, each(6))),
    **_all("ReduceSum ReduceMax ReduceMin ReduceProd", Op(moves.reduce, work.reduction)),
    **_all("ReduceMean ReduceLogSum", Op(moves.reduce, each_input(1))),
    **_all("ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp", Op(moves.reduce, each_input(2))),
    **_all("ArgMax ArgMin", Op(moves.arg_reduce, work.reduction, dtypes=_INT64)),
    **_all("Conv FusedConv", Op(products.convolution, work.bias(2), work.convolution)),
    "ConvInteger": Op(products.convolution, none, work.convolution, _INT32),
    "QLinearConv": Op(products.convolution, work.bias(8), work.convolution, _of_zero_point(7)),
    "ConvTranspose": Op(products.transposed_convolution, work.bias(2), work.transposed_convolution),
    "MaxPool": Op(products.pool, work.window, dtypes=_with("int64")),
    **_all("AveragePool LpPool QLinearAveragePool", Op(products.pool, work.window)),
    **_all("GlobalAveragePool GlobalMaxPool QLinearGlobalAveragePool", Op(products.global_pool, each_input(1))),
    **_all("MatMul FusedMatMul", Op(products.matmul, none, work.matmul)),
    "MatMulInteger": Op(products.matmul, none, work.matmul, _INT32),
    "QLinearMatMul": Op(products.matmul, none, work.matmul, _of_zero_point(7)),
    "MatMulIntegerToFloat": Op(products.matmul, each(1), work.matmul, _of_input(2)),
    "DynamicQuantizeMatMul": Op(products.matmul, each(1), work.matmul, _of_input(0)),
    "MatMulNBits": Op(products.matmul_of_blocks, each(1), lambda node: node.out * int(node.attribute("K"))),
    **_all("Gemm FusedGemm", Op(products.gemm, work.bias(2), work.matmul)),
    "QGemm": Op(products.gemm, work.bias(2), work.matmul, _of_zero_point(8, "float32")),
    "Einsum": Op(products.einsum, none, work.einsum),
    **dict.fromkeys(products.GATES, Op(products.recurrent, work.recurrent, work.recurrent_macs)),
    "MultiHeadAttention": Op(products.multi_head_attention, work.attention_softmax, work.multi_head),
    "GroupQueryAttention": Op(products.multi_head_attention, macs=None),
    "QAttention": Op(products.attention, work.attention_softmax, work.attention, _of_input(2)),
    "Attention": Op(products.any_attention, work.attention_softmax, work.any_attention),
    "RotaryEmbedding": Op(_same, each(3)),
    "QuantizeLinear": Op(_same, each(2), dtypes=_quantised),
    "DequantizeLinear": Op(_same, each(2), dtypes=_of_input(1)),
    "DynamicQuantizeLinear": Op(
        lambda node: [node.sizes(), (), ()], each_input(4), dtypes=_always("uint8", "float32", "uint8")
    ),
    **_all("Resize Upsample", Op(moves.resize, work.resize)),
    **_all("ScatterND ScatterElements Scatter", Op(_same, work.scatter)),
    # Operators that only move or select elements.
    **_all("Identity Trilu ReverseSequence", Op(_same, none)),
    "Cast": Op(_same, none, dtypes=lambda node: [DTYPES.get(node.attribute("to", 0))]),
    "CastLike": Op(_same, none, dtypes=_of_input(1)),
    "EyeLike": Op(_same, none, dtypes=_generated),
    "Dropout": Op(lambda node: [node.sizes()] * 2, none, dtypes=_with("bool")),
    "Reshape": Op(moves.reshape, none),
    "Flatten": Op(moves.flatten, none),
    "Squeeze": Op(moves.squeeze, none),
    "Unsqueeze": Op(moves.unsqueeze, none),
    "Transpose": Op(moves.transpose, none),
    "Concat": Op(moves.concat, none),
    "QLinearConcat": Op(moves.quantised_concat, none, dtypes=_of_zero_point(1)),
    "Split": Op(moves.split, none),
    "Slice": Op(moves.slice_, none),
    "Gather": Op(moves.gather, none),
    "GatherElements": Op(lambda node: [node.sizes(1)], none),
    "GatherND": Op(moves.gather_nd, none),
    "Pad": Op(moves.pad, none),
    "Expand": Op(lambda node: [broadcast(node.sizes(), [int(size) for size in node.value(1).reshape(-1)])], none),
    "Tile": Op(moves.tile, none),
    "DepthToSpace": Op(moves.depth_to_space, none),
    "SpaceToDepth": Op(moves.space_to_depth, none),
    "Shape": Op(moves.shape, none, dtypes=_INT64),
    "Size": Op(lambda _: [()], none, dtypes=_INT64),
    "ConstantOfShape": Op(moves.constant_of_shape, none, dtypes=_constant_of_shape),
    "Range": Op(moves.range_, none),
    "OneHot": Op(moves.one_hot, none, dtypes=_of_input(2)),
    "TopK": Op(moves.top_k, none, dtypes=_with("int64")),
    "NonZero": Op(lambda node: [(len(node.sizes()), None)], none, dtypes=_INT64),
    "NonMaxSuppression": Op(lambda _: [(None, 3)], none, dtypes=_INT64),
    **_all("""
        Unique Compress MaxUnpool CenterCropPad BitCast TensorScatter SequenceAt SequenceConstruct SequenceEmpty
        SequenceErase SequenceInsert SequenceLength ConcatFromSequence SplitToSequence Optional
        OptionalGetElement OptionalHasElement
    """, Op(flops=none)),
    # Operators without MACs whose other arithmetic is not counted: random numbers, windows, samples between pixels,
    # transforms (whose algorithm depends on the runtime), texts.
    "EmbedLayerNormalization": Op(products.embeddings, dtypes=_of_input(2)),
    "GlobalLpPool": Op(products.global_pool),
    "GridSample": Op(lambda node: [(*node.sizes()[:2], *node.sizes(1)[1:-1])]),
    **_all("RoiAlign MaxRoiPool", Op(moves.pooled_regions)),
    **_all("RandomNormal RandomUniform", Op(moves.from_attribute, dtypes=_generated)),
    **_all("Bernoulli RandomNormalLike RandomUniformLike", Op(_same, dtypes=_generated)),
    **_all("""
        BlackmanWindow Col2Im CumProd DFT HammingWindow HannWindow ImageDecoder MelWeightMatrix Multinomial
        NegativeLogLikelihoodLoss RegexFullMatch STFT SoftmaxCrossEntropyLoss StringConcat StringNormalizer
        StringSplit SwiGLU TfIdfVectorizer
    """, Op()),
}  # fmt: skip

TFLITE: dict[str, Op] = {
    **_all("""
        RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 TANH LOGISTIC ELU HARD_SWISH LEAKY_RELU PRELU GELU ABS NEG EXP LOG
        SQRT SQUARE SIN COS FLOOR CEIL ROUND SIGN LOGICAL_NOT POW MAXIMUM MINIMUM FLOOR_DIV FLOOR_MOD EQUAL
        NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL LOGICAL_AND LOGICAL_OR ATAN2 CUMSUM BITWISE_XOR
        RIGHT_SHIFT
    """, Op(flops=each(1))),
    **_all("ADD SUB MUL DIV", Op(flops=lambda node: node.out + work.activation(node))),
    **_all("RSQRT SQUARED_DIFFERENCE QUANTIZE DEQUANTIZE", Op(flops=each(2))),
    "ADD_N": Op(flops=work.of_many),
    **_all("SOFTMAX LOG_SOFTMAX", Op(flops=each(5))),
    "L2_NORMALIZATION": Op(flops=each(3)),
    **_all("""
        SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL ARG_MAX ARG_MIN
    """, Op(flops=work.reduction)),
    "MEAN": Op(flops=each_input(1)),
    **_all("AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D", Op(flops=work.tflite_window)),
    "RESIZE_BILINEAR": Op(flops=each(8)),
    "COMPLEX_ABS": Op(flops=each(4)),  # two squares, a sum, a square root
    "RFFT2D": Op(flops=work.real_transform),
    "CONV_2D": Op(flops=work.bias(2), macs=work.convolution),
    # Weights are [1, kernel height, kernel width, outputs].
    "DEPTHWISE_CONV_2D": Op(flops=work.bias(2), macs=lambda node: node.out * math.prod(node.full_sizes(1)[1:3])),
    # Weights are [outputs, kernel height, kernel width, inputs]; the data is the third input.
    "TRANSPOSE_CONV": Op(flops=work.bias(3), macs=lambda node: node.elements(2) * math.prod(node.full_sizes(1)[:-1])),
    # Weights are [depth, height, width, inputs, outputs].
    "CONV_3D": Op(flops=work.bias(2), macs=lambda node: node.out * math.prod(node.full_sizes(1)[:-1])),
    "FULLY_CONNECTED": Op(flops=work.bias(2), macs=lambda node: node.out * node.full_sizes(1)[1]),
    "BATCH_MATMUL": Op(flops=none, macs=work.tflite_matmul),
    # SVDF computes features and then their weighted sum over time (tensorflow/lite/kernels/svdf.cc).
    "SVDF": Op(flops=each(2), macs=lambda node: node.full_sizes(0)[0] * (node.elements(1) + node.elements(2))),
    "UNIDIRECTIONAL_SEQUENCE_RNN": Op(flops=each(2), macs=work.tflite_recurrent),
    # Four biases, and nine other operations as in ONNX's LSTM.
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Op(flops=each(13), macs=work.tflite_recurrent),
    # Operators that only move or select elements. CALL_ONCE runs only in the first inference (kernels/call_once.cc).
    **_all("""
        RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE CONCATENATION SPLIT SPLIT_V SLICE STRIDED_SLICE GATHER GATHER_ND
        EMBEDDING_LOOKUP PAD PADV2 MIRROR_PAD TILE BROADCAST_TO PACK UNPACK DEPTH_TO_SPACE SPACE_TO_DEPTH
        BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND SHAPE RANK FILL ZEROS_LIKE CAST ONE_HOT REVERSE_V2 REVERSE_SEQUENCE
        SELECT SELECT_V2 WHERE RANGE BITCAST RESIZE_NEAREST_NEIGHBOR VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE
        DYNAMIC_UPDATE_SLICE SCATTER_ND TOPK_V2 NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 UNIQUE
        BROADCAST_ARGS MATRIX_DIAG MATRIX_SET_DIAG SPARSE_TO_DENSE DENSIFY HASHTABLE HASHTABLE_FIND
        HASHTABLE_IMPORT HASHTABLE_LOOKUP HASHTABLE_SIZE IMAG REAL CALL_ONCE
    """, Op(flops=none)),
    # Operators without MACs whose other arithmetic is not counted.
    **_all("""
        BUCKETIZE EMBEDDING_LOOKUP_SPARSE FAKE_QUANT LOCAL_RESPONSE_NORMALIZATION LSH_PROJECTION MULTINOMIAL
        RANDOM_STANDARD_NORMAL RANDOM_UNIFORM REDUCE_WINDOW SEGMENT_SUM SKIP_GRAM UNSORTED_SEGMENT_MAX
        UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
    """, Op()),
}  # fmt: skip

CUSTOM = {"TFLite_Detection_PostProcess": Op()}  # tensorflow/lite/kernels/detection_postprocess.cc

# OpenVINO's operation sets (openvino/docs/articles_en/documentation/openvino-ir-format/operation-sets).
OPENVINO: dict[str, Op] = {
    **_all("""
        ReLU PRelu Elu Selu Sigmoid HSigmoid Tanh SoftPlus SoftSign Clamp Gelu HSwish Mish Swish Abs Negative Sign Exp
        Log Sqrt Floor Ceiling Round Erf Sin Cos Tan Maximum Minimum Power Mod FloorMod Equal NotEqual Less LessEqual
        Greater GreaterEqual LogicalAnd LogicalOr LogicalNot LogicalXor CumSum Add Subtract Multiply Divide
    """, Op(flops=each(1))),
    "SquaredDifference": Op(flops=each(2)),
    **_all("Softmax SoftMax LogSoftmax MVN NormalizeL2", Op(flops=each(5))),
    "BatchNormInference": Op(flops=each(2)),
    **_all("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2", Op(flops=each_input(1))),
    # Weights are [outputs, inputs, kernel...], and with groups [groups, outputs / group, inputs / group, kernel...].
    "Convolution": Op(flops=none, macs=lambda node: node.out * math.prod(node.full_sizes(1)[1:])),
    "GroupConvolution": Op(flops=none, macs=lambda node: node.out * math.prod(node.full_sizes(1)[2:])),
    # Weights are [inputs, outputs, kernel...], and with groups [groups, inputs / group, outputs / group, kernel...].
    "ConvolutionBackpropData": Op(flops=none, macs=lambda node: node.elements(0) * math.prod(node.full_sizes(1)[1:])),
    "GroupConvolutionBackpropData": Op(
        flops=none, macs=lambda node: node.elements(0) * math.prod(node.full_sizes(1)[2:])
    ),
    "MatMul": Op(flops=none, macs=work.openvino_matmul),
    **_all("""
        Reshape Squeeze Unsqueeze Transpose Concat Split VariadicSplit Slice StridedSlice Gather GatherND GatherElements
        Pad Tile Broadcast Convert ConvertLike ShapeOf Range Select DepthToSpace SpaceToDepth OneHot TopK ScatterUpdate
        ScatterNDUpdate ScatterElementsUpdate NonZero NonMaxSuppression ReverseSequence ShuffleChannels Assign ReadValue
    """, Op(flops=none)),
    # Operators without MACs whose other arithmetic is not counted.
    **_all("MaxPool AvgPool AdaptiveAvgPool AdaptiveMaxPool Interpolate FakeQuantize LRN ROIPooling ROIAlign", Op()),
}  # fmt: skip

# ncnn's layers (ncnn/docs/developer-guide/operation-param-weight-table.md). The weights are one flat input.
NCNN: dict[str, Op] = {
    **_all("""
        ReLU PReLU ELU SELU Sigmoid TanH Clip HardSwish HardSigmoid Mish Swish GELU UnaryOp BinaryOp Eltwise Bias Exp
        Log AbsVal
    """, Op(flops=each(1))),
    **_all("BatchNorm Scale", Op(flops=each(2))),
    **_all("Softmax InstanceNorm GroupNorm LayerNorm", Op(flops=each(5))),
    **_all("Convolution ConvolutionDepthWise", Op(flops=none, macs=work.ncnn_convolution)),
    "InnerProduct": Op(flops=none, macs=lambda node: node.elements(len(node.inputs) - 1)),
    **_all("Split Concat Reshape Flatten Permute Crop Slice Padding Dropout Noop Cast Packing", Op(flops=none)),
    **_all("Pooling Interp LRN Quantize Dequantize Requantize Reduction", Op()),
}  # fmt: skip

_BY_DOMAIN = {
    **dict.fromkeys(DOMAINS, ONNX), "tflite": TFLITE, "custom": CUSTOM, "openvino": OPENVINO, "ncnn": NCNN,
}  # fmt: skip
_UNKNOWN = Op(macs=None)


def op_of(operator: Operator) -> Op:
    """Return the rules for an operator, by its domain and type.

    For an unknown operator, the rules for sizes, multiply-accumulates and other arithmetic are None.
    """
    return _BY_DOMAIN.get(operator.domain, {}).get(operator.op_type, _UNKNOWN)


def has_products(operator: Operator) -> bool:
    return op_of(operator).macs not in {None, none}
