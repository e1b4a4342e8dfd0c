"""Read an ONNX file: only the fields of onnx/onnx.proto that say which operators run on which tensors.

Weights are skipped, and files beside the model are not opened. Two things are changed as ONNX Runtime does when it
loads a model. `Constant` nodes become constant tensors. A call of a function that the model defines is replaced by the
function's nodes (onnxruntime/core/graph/graph.cc, core/graph/function_utils.cc).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgetop.models import onnx_values as values
from edgetop.models import protobuf as wire
from edgetop.models.graph import OMITTED, External, Graph, Model, Operator, Shape, Tensor
from edgetop.models.reading_limits import MAX_DEPTH, MAX_OPERATORS, MAX_TENSORS, PART_STEPS, Budget, MalformedError


@dataclass(slots=True)
class Function:
    """One operator that the model itself defines by other operators (FunctionProto)."""

    name: str = ""
    domain: str = ""
    overload: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[memoryview] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)  # of attributes that a call may omit
    constants: set[str] = field(default_factory=set)  # names of tensors that are the same in every call

    @property
    def prefix(self) -> str:
        """The text with which ONNX Runtime begins the names of the function's nodes, such as `_inlfunc_MyNorm`."""
        return f"_inlfunc_{self.name}"


class Drafts:
    """The tensors of one graph by name, while the graph is read. A tensor may be used before it is defined."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.tensors: list[Tensor] = []
        self.arguments: Mapping[str, Any] = {}  # only calls have any

    def place(self, name: str) -> int:
        """Return the index of the tensor with this name. A new name gets a new tensor."""
        place = self.places.get(name)
        if place is None:
            if len(self.tensors) >= MAX_TENSORS:
                raise MalformedError("more tensors than any model has")
            place = self.places[name] = len(self.tensors)
            self.tensors.append(Tensor(name, None, None))
        return place

    def declare(self, name: str, dtype: str | None, shape: Shape | None) -> int:
        """Set the dtype and shape of the tensor `name`, unless the tensor is constant. Return the tensor's index."""
        place = self.place(name)
        if not self.tensors[place].is_constant:
            self.tensors[place] = Tensor(name, dtype, shape)
        return place

    def define(self, place: int, constant: Tensor) -> None:
        self.tensors[place] = replace(constant, name=self.tensors[place].name)

    @property
    def graph(self) -> "Drafts":
        return self


class Call:
    """One call of a function that the model defines.

    Maps the names of the function's tensors to tensors of the graph.
    """

    def __init__(self, graph: Drafts, function: Function, number: int, operator: Operator) -> None:
        """Map the tensors of `function` to tensors of `graph`, for the call `operator`.

        `number` is the number of earlier calls of the same function, which makes the names of new tensors distinct.
        """
        self.graph = graph
        self.function = function
        self.arguments: Mapping[str, Any] = {**function.defaults, **operator.attributes}
        self._prefix = f"{function.prefix}_token_{number}" if number else function.prefix
        written = zip(function.outputs, operator.outputs, strict=False)
        given = (*operator.inputs, *[OMITTED] * len(function.inputs))
        self.places = {name: place for name, place in written if place != OMITTED}
        self.places.update(zip(function.inputs, given, strict=False))

    def place(self, name: str) -> int:
        place = self.places.get(name)
        if place is None:
            prefix = self.function.prefix if name in self.function.constants else self._prefix
            place = self.places[name] = self.graph.place(f"{prefix}_{name}")
        return place


Scope = Drafts | Call
# The names of the surrounding graphs, the outermost first, then those of a graph or function.
Scopes = tuple[Scope, ...]


def read_onnx(data: memoryview) -> Model:
    """Return the model in the bytes of an .onnx file. Raises MalformedError if the file is invalid."""
    return _ModelReader(Budget()).read(data)


class _ModelReader:
    """Reads one ModelProto. Graphs inside operators, such as the branches of `If`, are collected as subgraphs."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._subgraphs: list[Graph] = []
        self._functions: dict[tuple[str, str, str], Function] = {}  # by domain, name and overload
        self._calls: Counter[str] = Counter()  # calls of each function, by name
        self._depth = 0  # nesting depth of graphs and functions
        self._operators = 0
        self._external: dict[str, External] = {}  # by file, in the order of the model

    def read(self, data: memoryview) -> Model:
        known = wire.read(
            data,
            self._budget,
            {1: wire.signed, 2: wire.text, 3: wire.text, 6: wire.text, 7: wire.message},
            {8: _opset, 14: values.pair, 25: self._function},
            PART_STEPS,
        )
        if 7 not in known:
            raise MalformedError("no graph")
        self._functions = {(function.domain, function.name, function.overload): function for function in known[25]}
        return Model(
            "onnx",
            self._graph(known[7]),
            subgraphs=tuple(self._subgraphs),
            version=known.get(1),
            opsets=dict(known[8]),
            functions=len(self._functions),
            producer=" ".join(part for part in (known.get(2), known.get(3)) if part),
            description=known.get(6, ""),
            metadata=dict(known[14]),
            external=self._external,
        )

    def _function(self, value: wire.Value, budget: Budget) -> Function:
        constants: set[str] = set()

        def read_node(value: wire.Value, budget: Budget) -> memoryview:
            node = self._counted(value, budget)
            constants.update(_same_in_every_call(node, budget))
            return node

        texts = dict.fromkeys((1, 10, 13), wire.text)
        lists = {4: wire.text, 5: wire.text, 7: read_node, 11: values.read_attribute}
        known = wire.read(value, budget, texts, lists, PART_STEPS)
        return Function(
            known.get(1, ""),
            _domain(known.get(10, "")),
            known.get(13, ""),
            inputs=known[4],
            outputs=known[5],
            nodes=known[7],
            defaults={attribute.name: attribute.value for attribute in known[11]},
            constants=constants,
        )

    def _counted(self, value: wire.Value, _: Budget) -> memoryview:
        """Return the bytes of a node, and count the node. Raises MalformedError if there are too many nodes."""
        self._count_operators(1)
        return wire.message(value)

    def _graph(self, data: memoryview, around: Scopes = ()) -> Graph:
        """Return the graph in `data`. `around` are the graphs that contain this graph, the outermost first."""
        self._enter()
        drafts = Drafts()
        lists: dict[int, wire.Reader] = {1: self._counted, 5: values.read_tensor, 15: values.read_sparse}
        lists.update(dict.fromkeys((11, 12, 13), values.read_info))
        known = wire.read(data, self._budget, {2: wire.text}, lists, PART_STEPS)
        for constant in (*known[5], *known[15]):
            self._add_constant(drafts, constant)
        inputs, outputs, _ = ([drafts.declare(*info) for info in known[number]] for number in (11, 12, 13))
        operators = self._nodes(known[1], (*around, drafts))
        # Up to IR version 3, initialisers are also listed as inputs (onnx/docs/IR.md).
        fed = tuple(place for place in inputs if not drafts.tensors[place].is_constant)
        captures = self._captures(drafts, operators, set(inputs), outputs, around)
        self._depth -= 1
        return Graph(known.get(2, ""), tuple(drafts.tensors), operators, fed, tuple(outputs), captures)

    def _captures(
        self, drafts: Drafts, operators: tuple[Operator, ...], given: set[int], outputs: list[int], around: Scopes
    ) -> dict[int, int]:
        """Map each tensor that a graph takes from surrounding graphs to its index in the graph directly around.

        Keys are indices in this graph, to which `drafts`, `operators` and `outputs` belong. `given` are its tensors
        that exist before an operator runs. `around` are the surrounding graphs, the outermost first.
        """
        if not around:
            return {}
        made = given.union(*(operator.outputs for operator in operators))
        read = set(outputs).union(*((*operator.inputs, *operator.captures) for operator in operators))
        captured: dict[int, int] = {}
        for place in sorted(read - made - {OMITTED}):
            self._budget.spend(PART_STEPS)
            name = drafts.tensors[place].name
            holder = next((outer for outer in reversed(around) if outer.places.get(name, OMITTED) != OMITTED), None)
            if holder is not None and not drafts.tensors[place].is_constant:
                # The dtype and shape of the definition.
                drafts.define(place, holder.graph.tensors[holder.place(name)])
                captured[place] = around[-1].place(name)
        return captured

    def _count_operators(self, number: int) -> None:
        self._operators += number
        if self._operators > MAX_OPERATORS:
            raise MalformedError("more operators than any model has")

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise MalformedError("graphs within graphs without end")

    def _add_constant(self, drafts: Drafts, constant: values.Constant) -> None:
        drafts.define(drafts.place(constant.name), constant.tensor)
        if constant.external_file is not None:
            before = self._external.get(constant.external_file, External(0, 0))
            needed = max(before.needed_bytes, constant.external_end or 0)
            self._external[constant.external_file] = External(before.tensors + 1, needed)

    def _nodes(self, nodes: Sequence[memoryview], scopes: Scopes, first: int = 0) -> tuple[Operator, ...]:
        """Return the operators in `nodes`, with positions from `first` on.

        The last of `scopes` is the graph (or call of a function) with the nodes. The others are the graphs around it,
        the outermost first.
        """
        operators: list[Operator] = []
        for data in nodes:
            operator, function = self._node(data, first + len(operators), scopes)
            if function is not None:
                operators += self._inlined(operator, function, scopes[-1].graph)
            elif operator.op_type != "Constant" or operator.domain or not self._becomes_tensor(operator, scopes[-1]):
                operators.append(operator)
        return tuple(operators)

    def _inlined(self, operator: Operator, function: Function, graph: Drafts) -> tuple[Operator, ...]:
        self._enter()
        self._count_operators(len(function.nodes))
        call = Call(graph, function, self._calls[function.name], operator)
        self._calls[function.name] += 1
        made = self._nodes(function.nodes, (call,), operator.position)
        self._depth -= 1
        return made

    def _becomes_tensor(self, operator: Operator, scope: Scope) -> bool:
        constant = values.constant_of(operator.attributes)
        if constant is None or len(operator.outputs) != 1 or operator.outputs[0] == OMITTED:
            return False
        name = scope.graph.tensors[operator.outputs[0]].name
        self._add_constant(scope.graph, replace(constant, name=name))
        return True

    def _node(self, data: memoryview, position: int, scopes: Scopes) -> tuple[Operator, Function | None]:
        """Return an operator, and the function of the model that the operator calls, or None if it calls no function.

        The last of `scopes` is the graph (or call of a function) with the node. The others are the graphs around it,
        the outermost first.
        """
        texts = {3: "", 4: "", 7: "", 8: ""}
        sides: dict[int, list[int]] = {1: [], 2: []}
        attributes: dict[str, Any] = {}
        graphs: list[memoryview] = []
        for number, value in wire.fields(data, self._budget):  # wire.read would take longer, and there are many nodes
            if number in sides:
                self._budget.spend(PART_STEPS)
                name = wire.text(value, self._budget)
                sides[number].append(scopes[-1].place(name) if name else OMITTED)
            elif number in texts:
                texts[number] = wire.text(value, self._budget)
            elif number == 5:
                attribute = values.read_attribute(value, self._budget)
                graphs += attribute.graphs
                if not attribute.reference:
                    attributes[attribute.name] = attribute.value
                elif attribute.reference in scopes[0].arguments:  # else the default (onnx/docs/IR.md)
                    attributes[attribute.name] = scopes[0].arguments[attribute.reference]
        own = []
        for graph in graphs:
            self._subgraphs.append(self._graph(graph, scopes))  # after the graphs that it contains
            own.append(len(self._subgraphs) - 1)
        captures = tuple(sorted({place for number in own for place in self._subgraphs[number].captures.values()}))
        name, op_type, domain = texts[3], texts[4], _domain(texts[7])
        if isinstance(scopes[-1], Call):
            name = f"{scopes[-1].function.prefix}_{name or op_type}"
        read, written = map(tuple, sides.values())
        operator = Operator(position, name, op_type, domain, read, written, attributes, tuple(own), captures)
        return operator, self._functions.get((domain, op_type, texts[8]))


def _same_in_every_call(node: memoryview, budget: Budget) -> list[str]:
    """Return the names of a node's outputs if their values are the same in every call of its function, else [].

    The values are the same only for a `Constant` whose value is no attribute of the call.
    """
    known = wire.read(node, budget, {4: wire.text}, {2: wire.text, 5: values.read_attribute})
    is_same = known.get(4) == "Constant" and not any(attribute.reference for attribute in known[5])
    return known[2] if is_same else []


def _opset(value: wire.Value, budget: Budget) -> tuple[str, int]:
    known = wire.read(value, budget, {1: wire.text, 2: wire.signed})
    return _domain(known.get(1, "")), known.get(2, 0)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name  # two names of the same domain (onnx/docs/IR.md)
