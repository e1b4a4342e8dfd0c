"""Writes .tflite files field by field, as tensorflow/lite/schema/schema.fbs has them.

Needs `ai-edge-litert`, whose generated schema it uses, and `flatbuffers` 25.12 or later:
before it, tables of unlike size shared a layout entry, and the bytes came out other.
"""

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

Array = NDArray[np.generic]


def table(kind: str, /, **fields: Any) -> Any:
    """One of the schema's tables, e.g. "Tensor". Before ai-edge-litert 2 its class took no fields itself."""
    made = getattr(schema, f"{kind}T")()
    for field, value in fields.items():
        if not hasattr(made, field):
            raise AttributeError(f"{kind} has no field {field}")
        setattr(made, field, value)
    return made


class TfliteFile:
    """A TFLite file in the making; field by field as tensorflow/lite/schema/schema.fbs has it."""

    def __init__(self, description: str) -> None:
        # Buffer 0 must be empty: it is the buffer of every tensor without data.
        self._model = table("Model", version=3, description=description, buffers=[table("Buffer")])
        self._graphs = self._model.subgraphs = []
        self._operator_codes = self._model.operatorCodes = []
        self.signatures = self._model.signatureDefs = []
        self._codes: dict[tuple[str, int], int] = {}

    def add_graph(self, name: str) -> "TfliteGraph":
        """A subgraph more; the first one is what an interpreter runs."""
        graph = table("SubGraph", tensors=[], inputs=[], outputs=[], operators=[], name=name)
        self._graphs.append(graph)
        return TfliteGraph(self, graph)

    def add_buffer(self, array: Array) -> int:
        data = np.frombuffer(array.astype(array.dtype.newbyteorder("<")).tobytes(), np.uint8)
        buffer = _AlignedBuffer()
        buffer.data = data
        self._model.buffers.append(buffer)
        return len(self._model.buffers) - 1

    def operator_code(self, operator: str, version: int) -> int:
        """The index of an operator: one of the schema's names, or "CUSTOM:" and a name of one's own."""
        if (operator, version) not in self._codes:
            builtin, _, custom = operator.partition(":")
            code = getattr(schema.BuiltinOperator, builtin)
            self._codes[operator, version] = len(self._codes)
            # The deprecated field is for readers from before 2020 and holds what fits in 7 bits.
            fields = {"builtinCode": code, "deprecatedBuiltinCode": min(code, 127), "version": version}
            self._operator_codes.append(table("OperatorCode", customCode=custom or None, **fields))
        return self._codes[operator, version]

    def serialise(self) -> bytes:
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self._model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


class _AlignedBuffer(schema.BufferT):  # type: ignore[misc]
    """A buffer that starts at a multiple of 16, as the schema's force_align demands; Python's packer forgets."""

    def Pack(self, builder: flatbuffers.Builder) -> int:
        builder.Prep(16, len(self.data))
        return super().Pack(builder)  # type: ignore[no-any-return]


class TfliteGraph:
    """One graph of a `TfliteFile`. Tensors are known by the number they got when added."""

    def __init__(self, file: TfliteFile, graph: Any) -> None:
        self._file, self._graph = file, graph

    def add_tensor(
        self, name: str, shape: Sequence[int], dtype: str = "float32", data: Array | None = None, **fields: Any
    ) -> int:
        """A tensor; with `data` a constant, whose dtype counts. `fields` are further ones of the schema's Tensor."""
        buffer = 0
        if data is not None:
            dtype, buffer = data.dtype.name, self._file.add_buffer(data)
        kind = getattr(schema.TensorType, dtype.upper())
        self._graph.tensors.append(table("Tensor", name=name, shape=list(shape), type=kind, buffer=buffer, **fields))
        return len(self._graph.tensors) - 1

    def add_operator(
        self, operator: str, options: Any, inputs: list[int], outputs: list[int], version: int = 1
    ) -> None:
        """An operator; `options` is the schema's options object for it, or None."""
        union = "NONE" if options is None else type(options).__name__.removesuffix("T")
        self._graph.operators.append(
            table(
                "Operator",
                opcodeIndex=self._file.operator_code(operator, version),
                inputs=inputs,
                outputs=outputs,
                builtinOptionsType=getattr(schema.BuiltinOptions, union),
                builtinOptions=options,
            )
        )

    def set_signature(
        self, inputs: list[int], outputs: list[int], key: str = "serving_default", place: int = 0
    ) -> None:
        """What this graph, number `place` of the file, takes and gives, by the names of its tensors."""
        self._graph.inputs, self._graph.outputs = inputs, outputs
        taken, given = (
            [table("TensorMap", name=self._graph.tensors[tensor].name, tensorIndex=tensor) for tensor in side]
            for side in (inputs, outputs)
        )
        self._file.signatures.append(
            table("SignatureDef", signatureKey=key, inputs=taken, outputs=given, subgraphIndex=place)
        )
