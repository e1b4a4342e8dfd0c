"""Reads an ONNX file: the fields of onnx/onnx.proto that say what runs and on what, and nothing else.

Weights are stepped over, those in files beside it are not opened. `Constant` nodes become
constant tensors, as ONNX Runtime makes initialisers of them when it loads a model
(onnxruntime/core/graph/graph.cc).
"""

from dataclasses import replace
from typing import Any

from edgetop.models import onnx_values as values
from edgetop.models import protobuf as wire
from edgetop.models.graph import OMITTED, Graph, Model, Operator, Shape, Tensor
from edgetop.models.limits import MAX_DEPTH, MAX_OPERATORS, MAX_TENSORS, PART_STEPS, Budget, MalformedError


class Drafts:
    """Tensors of a graph while its file is read: found by name, declared and defined in any order."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._tensors: list[Tensor] = []

    def place(self, name: str) -> int:
        """Where the tensor of that name stands; a name not met before gets a place."""
        place = self._places.get(name)
        if place is None:
            if len(self._tensors) >= MAX_TENSORS:
                raise MalformedError("more tensors than any model has")
            place = self._places[name] = len(self._tensors)
            self._tensors.append(Tensor(name, None, None))
        return place

    def declare(self, name: str, dtype: str | None, shape: Shape | None) -> int:
        """What the file says of a tensor; a constant knows better itself."""
        place = self.place(name)
        if not self._tensors[place].is_constant:
            self._tensors[place] = Tensor(name, dtype, shape)
        return place

    def define(self, name: str, constant: Tensor) -> None:
        self._tensors[self.place(name)] = replace(constant, name=name)

    def name(self, place: int) -> str:
        return self._tensors[place].name

    def has(self, name: str) -> bool:
        return name in self._places

    def tensor(self, name: str) -> Tensor:
        """As far as it is known by now. Raises KeyError where no tensor has that name."""
        return self._tensors[self._places[name]]

    def is_constant(self, place: int) -> bool:
        return self._tensors[place].is_constant

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(self._tensors)


Scopes = tuple[Drafts, ...]  # the tensors of a graph, behind those of the graphs that it stands in

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
        functions: list[Graph] = []
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
                functions.append(self._function(wire.message(value)))
        if graph is None:
            raise MalformedError("no graph")
        return Model(
            "onnx",
            self._graph(graph),
            subgraphs=tuple(self._subgraphs),
            opsets=opsets,
            functions=tuple(functions),
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

    def _function(self, data: memoryview) -> Graph:
        """A FunctionProto: its weights are `Constant` nodes, its inputs and outputs mere names."""
        name, drafts = "", Drafts()
        ends: dict[int, list[int]] = {4: [], 5: []}
        nodes: list[memoryview] = []
        for number, value in wire.fields(data, self._budget):
            self._budget.spend(PART_STEPS)
            if number == 1:
                name = wire.text(value, self._budget)
            elif number in ends:
                ends[number].append(drafts.place(wire.text(value, self._budget)))
            elif number == 7:
                self._count_operator()
                nodes.append(wire.message(value))
        operators = self._nodes(nodes, (drafts,))
        return Graph(name, drafts.tensors(), operators, tuple(ends[4]), tuple(ends[5]))

    def _graph(self, data: memoryview, around: Scopes = ()) -> Graph:
        """`around`: the graphs that it stands in, the outermost first."""
        depth = len(around)
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
        operators = self._nodes(nodes, (*around, drafts))
        # Up to IR version 3 initialisers are listed among the inputs too (onnx/docs/IR.md).
        fed = tuple(place for place in inputs if not drafts.is_constant(place))
        captures = self._captures(drafts, operators, set(inputs), outputs, around)
        return Graph(name, drafts.tensors(), operators, fed, tuple(outputs), captures)

    def _captures(
        self, drafts: Drafts, operators: tuple[Operator, ...], given: set[int], outputs: list[int], around: Scopes
    ) -> dict[int, int]:
        """What is read here and made in a graph around this one, known here as it is there."""
        if not around:
            return {}
        made = given.union(*(operator.outputs for operator in operators))
        read = set(outputs).union(*((*operator.inputs, *operator.captures) for operator in operators))
        found: dict[int, int] = {}
        for place in sorted(read - made - {OMITTED}):
            self._budget.spend(PART_STEPS)
            name = drafts.name(place)
            holder = next((outer for outer in reversed(around) if outer.has(name)), None)
            if holder is not None and not drafts.is_constant(place):
                drafts.define(name, holder.tensor(name))
                found[place] = around[-1].place(name)
        return found

    def _add_constant(self, drafts: Drafts, constant: values.Constant) -> None:
        drafts.define(constant.name, constant.tensor)
        if constant.external_file is not None:
            self._external[constant.external_file] = None

    def _nodes(self, nodes: list[memoryview], scopes: Scopes) -> tuple[Operator, ...]:
        found: list[Operator] = []
        for data in nodes:
            operator = self._node(data, len(found), scopes)
            if operator.op_type != "Constant" or operator.domain or not self._becomes_tensor(operator, scopes[-1]):
                found.append(operator)
        return tuple(found)

    def _count_operator(self) -> None:
        self._operators += 1
        if self._operators > MAX_OPERATORS:
            raise MalformedError("more operators than any model has")

    def _becomes_tensor(self, operator: Operator, drafts: Drafts) -> bool:
        constant = values.constant_of(operator.attributes)
        if constant is None or len(operator.outputs) != 1 or operator.outputs[0] == OMITTED:
            return False
        self._add_constant(drafts, constant.named(drafts.name(operator.outputs[0])))
        return True

    def _node(self, data: memoryview, position: int, scopes: Scopes) -> Operator:
        texts = {3: "", 4: "", 7: ""}
        sides: dict[int, list[int]] = {1: [], 2: []}
        attributes: dict[str, Any] = {}
        graphs: list[memoryview] = []
        for number, value in wire.fields(data, self._budget):
            if number in sides:
                self._budget.spend(PART_STEPS)
                name = wire.text(value, self._budget)
                sides[number].append(scopes[-1].place(name) if name else OMITTED)
            elif number in texts:
                texts[number] = wire.text(value, self._budget)
            elif number == 5:
                attribute = values.read_attribute(wire.message(value), self._budget)
                attributes[attribute.name] = attribute.value
                graphs += attribute.graphs
        own = tuple(self._add_subgraph(graph, scopes) for graph in graphs)
        captures = tuple(sorted({place for number in own for place in self._subgraphs[number].captures.values()}))
        return Operator(
            position, texts[3], texts[4], _domain(texts[7]), tuple(sides[1]), tuple(sides[2]), attributes, own, captures
        )

    def _add_subgraph(self, data: memoryview, scopes: Scopes) -> int:
        graph = self._graph(data, scopes)
        self._subgraphs.append(graph)
        return len(self._subgraphs) - 1


def _domain(name: str) -> str:
    return "" if name in MAIN_DOMAINS else name
