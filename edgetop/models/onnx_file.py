"""Reads an ONNX file: the fields of onnx/onnx.proto that say what runs and on what, and nothing else.

Weights are stepped over, those in files beside it are not opened. `Constant` nodes become
constant tensors, as ONNX Runtime makes initialisers of them when it loads a model
(onnxruntime/core/graph/graph.cc).
"""

from typing import Any

from edgetop.models import onnx_values as values
from edgetop.models import protobuf as wire
from edgetop.models.drafts import Drafts
from edgetop.models.graph import OMITTED, Graph, Model, Operator
from edgetop.models.limits import MAX_DEPTH, MAX_OPERATORS, PART_STEPS, Budget, MalformedError

MAIN_DOMAINS = {"", "ai.onnx"}  # one and the same (onnx/docs/IR.md)


def read_onnx(data: memoryview) -> Model:
    """The model in the bytes of a .onnx file. Raises MalformedError."""
    return _ModelReader(Budget()).read(data)


class _ModelReader:
    """Reads one ModelProto. Graphs within operators are collected as subgraphs."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._subgraphs: list[Graph] = []
        self._operators = 0
        self._external: dict[str, None] = {}  # in the order in which they were met

    def read(self, data: memoryview) -> Model:
        known: dict[str, Any] = {}
        graph: memoryview | None = None
        producer = {2: "", 3: ""}
        opsets: dict[str, int] = {}
        metadata: dict[str, str] = {}
        functions = 0
        for number, value in wire.fields(data, self._budget):
            if number == 1:
                known["version"] = wire.signed(value)
            elif number in producer:
                producer[number] = wire.text(value, self._budget)
            elif number == 6:
                known["description"] = wire.text(value, self._budget)
            elif number == 7:
                graph = wire.message(value)
            elif number == 8:
                opsets.update(self._opset(wire.message(value)))
            elif number == 14:
                metadata.update([values.pair(wire.message(value), self._budget)])
            elif number == 25:
                functions += 1
        if graph is None:
            raise MalformedError("no graph")
        return Model(
            "onnx",
            self._graph(graph, depth=0),
            subgraphs=tuple(self._subgraphs),
            opsets=opsets,
            functions=functions,
            producer=" ".join(part for part in producer.values() if part),
            metadata=metadata,
            external_files=tuple(self._external),
            **known,
        )

    def _opset(self, data: memoryview) -> dict[str, int]:
        domain, version = "", 0
        for number, value in wire.fields(data, self._budget):
            if number == 1:
                domain = wire.text(value, self._budget)
            elif number == 2:
                version = wire.signed(value)
        return {_domain(domain): version}

    def _graph(self, data: memoryview, depth: int) -> Graph:
        if depth > MAX_DEPTH:
            raise MalformedError("graphs within graphs without end")
        name = ""
        drafts = Drafts()
        inputs: list[int] = []
        outputs: list[int] = []
        nodes: list[memoryview] = []
        for number, value in wire.fields(data, self._budget):
            self._budget.spend(PART_STEPS)
            if number == 1:
                self._count_operator()
                nodes.append(wire.message(value))
            elif number == 2:
                name = wire.text(value, self._budget)
            elif number == 5:
                self._add_constant(drafts, values.read_tensor(wire.message(value), self._budget))
            elif number == 15:
                self._add_constant(drafts, values.read_sparse(wire.message(value), self._budget))
            elif number in {11, 12, 13}:
                info = values.read_info(wire.message(value), self._budget)
                place = drafts.declare(*info)
                if number != 13:
                    (inputs if number == 11 else outputs).append(place)
        operators = self._nodes(nodes, drafts, depth)
        # Up to IR version 3 initialisers are listed among the inputs too (onnx/docs/IR.md).
        fed = tuple(place for place in inputs if not drafts.is_constant(place))
        return Graph(name, drafts.tensors(), operators, fed, tuple(outputs))

    def _add_constant(self, drafts: Drafts, constant: values.Constant) -> None:
        drafts.define(constant.name, constant.tensor)
        if constant.external_file is not None:
            self._external[constant.external_file] = None

    def _nodes(self, nodes: list[memoryview], drafts: Drafts, depth: int) -> tuple[Operator, ...]:
        found: list[Operator] = []
        for data in nodes:
            operator = self._node(data, len(found), drafts, depth)
            if operator.op_type != "Constant" or operator.domain or not self._is_taken_as_tensor(operator, drafts):
                found.append(operator)
        return tuple(found)

    def _count_operator(self) -> None:
        self._operators += 1
        if self._operators > MAX_OPERATORS:
            raise MalformedError("more operators than any model has")

    def _is_taken_as_tensor(self, operator: Operator, drafts: Drafts) -> bool:
        constant = values.constant_of(operator.attributes)
        if constant is None or len(operator.outputs) != 1 or operator.outputs[0] == OMITTED:
            return False
        self._add_constant(drafts, constant.named(drafts.name(operator.outputs[0])))
        return True

    def _node(self, data: memoryview, position: int, drafts: Drafts, depth: int) -> Operator:
        texts = {3: "", 4: "", 7: ""}
        sides: dict[int, list[int]] = {1: [], 2: []}
        attributes: dict[str, Any] = {}
        graphs: list[memoryview] = []
        for number, value in wire.fields(data, self._budget):
            if number in sides:
                self._budget.spend(PART_STEPS)
                name = wire.text(value, self._budget)
                sides[number].append(drafts.place(name) if name else OMITTED)
            elif number in texts:
                texts[number] = wire.text(value, self._budget)
            elif number == 5:
                attribute = values.read_attribute(wire.message(value), self._budget)
                attributes[attribute.name] = attribute.value
                graphs += attribute.graphs
        own = tuple(self._add_subgraph(graph, depth) for graph in graphs)
        return Operator(
            position, texts[3], texts[4], _domain(texts[7]), tuple(sides[1]), tuple(sides[2]), attributes, own
        )

    def _add_subgraph(self, data: memoryview, depth: int) -> int:
        graph = self._graph(data, depth + 1)
        self._subgraphs.append(graph)
        return len(self._subgraphs) - 1


def _domain(name: str) -> str:
    return "" if name in MAIN_DOMAINS else name
