"""Read OpenVINO's intermediate representation (IR): an XML file that describes layers, beside a .bin file of weights.

Every output port of a layer has its precision and its sizes, with -1 for a size that the model leaves open. Format:
openvino/docs/articles_en/documentation/openvino-ir-format/intermediate-representation-int8-inference.rst and
src/core/xml_util/src/xml_deserialize_util.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgetop.models.graph import External, Graph, Model, Operator, Tensor
from edgetop.models.reading_limits import MAX_OPERATORS, MAX_RANK, MAX_TENSORS, MalformedError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_BYTES = 256 * 2**20

DTYPES = {
    "FP64": "float64", "FP32": "float32", "FP16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "I4": "int4",
    "U4": "uint4", "BOOL": "bool", "STRING": "string",
}  # fmt: skip

_Port = tuple[str, str]  # ids of a layer and of one of its output ports


def read_openvino(data: memoryview) -> Model:
    """Return the model in the bytes of the .xml file of OpenVINO's IR. Raises MalformedError if the file is invalid."""
    if len(data) > MAX_BYTES:
        raise MalformedError(f"more than {MAX_BYTES // 2**20} MiB of XML")
    from xml.etree import ElementTree as ET  # noqa: PLC0415  takes 2 MiB, also if no such model is read

    text = bytes(data)
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:  # entities can make a small file large in memory
        raise MalformedError("a document type, which no IR has")
    try:
        net = ET.fromstring(text)  # noqa: S314  without entities, as was checked
    except ET.ParseError as error:
        raise MalformedError(f"XML that ends or breaks in line {error.position[0]}") from None
    try:
        return _Reader(net).model()
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise MalformedError(f"a layer without what every layer has: {error}") from None


class _Reader:
    def __init__(self, net: Element) -> None:
        self._net = net
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._place: dict[_Port, int] = {}
        self._sources: dict[_Port, _Port] = {}  # of each input port: the output port that feeds it
        # Whether an input leaves its rank open. A tensor without sizes then has an unknown rank: it is no scalar.
        self._has_open_rank = False
        self._weights = [0, 0]  # constants, and the size that the .bin file must have

    def model(self) -> Model:
        for edge in self._net.iterfind("edges/edge"):
            source = edge.attrib["from-layer"], edge.attrib["from-port"]
            self._sources[edge.attrib["to-layer"], edge.attrib["to-port"]] = source
        layers = list(self._net.iterfind("layers/layer"))
        if len(layers) > MAX_OPERATORS:
            raise MalformedError("more layers than any model has")
        inputs: list[int] = []
        outputs: list[int] = []
        self._has_open_rank = any(
            "..." in data.get("shape", "")
            for layer in layers
            if layer.attrib["type"] == "Parameter" and (data := layer.find("data")) is not None
        )
        for layer in _in_order(layers, self._sources):
            kind = layer.attrib["type"]
            if kind == "Result":
                outputs += self._read_by(layer)
            elif kind in ("Parameter", "Const"):
                made = self._written_by(layer, is_constant=kind == "Const")
                inputs += made if kind == "Parameter" else []
            elif kind == "Convert" and self._is_decompression(layer):
                source = self._sources[layer.attrib["id"], _ports(layer, "input")[0].attrib["id"]]
                self._place[layer.attrib["id"], _ports(layer, "output")[0].attrib["id"]] = self._place[source]
            else:
                self._add(layer)
        external = External(*self._weights) if self._weights[0] else None
        graph = Graph(self._net.get("name", ""), tuple(self._tensors), tuple(self._operators), (*inputs,), (*outputs,))
        return Model(
            "openvino", graph, version=int(self._net.get("version", "0")), external={"": external} if external else {}
        )

    def _is_decompression(self, layer: Element) -> bool:
        """Whether a layer only converts stored weights, which OpenVINO does once, when it loads the model."""
        places = self._read_by(layer)
        return bool(places) and self._tensors[places[0]].is_constant

    def _add(self, layer: Element) -> None:
        data = layer.find("data")
        attributes = dict(data.attrib) if data is not None else {}
        read, written = self._read_by(layer), self._written_by(layer)
        name, kind = layer.get("name", ""), layer.attrib["type"]
        position = len(self._operators)
        self._operators.append(Operator(position, name, kind, "openvino", (*read,), (*written,), attributes))

    def _read_by(self, layer: Element) -> list[int]:
        number = layer.attrib["id"]
        return [self._place[self._sources[number, port.attrib["id"]]] for port in _ports(layer, "input")]

    def _written_by(self, layer: Element, *, is_constant: bool = False) -> list[int]:
        made, data = [], layer.find("data")
        stored = int(data.attrib.get("size", "0")) if is_constant and data is not None else None
        if stored is not None and data is not None:
            end = int(data.attrib.get("offset", "0")) + stored
            self._weights = [self._weights[0] + 1, max(self._weights[1], end)]
        for port in _ports(layer, "output"):
            sizes = [int(dim.text or "") for dim in port.iterfind("dim")]
            if len(sizes) > MAX_RANK or len(self._tensors) >= MAX_TENSORS:
                raise MalformedError("more tensors or dimensions than any model has")
            name = (port.get("names") or layer.get("name") or "").split(",")[0]
            is_open = self._has_open_rank and not sizes and not is_constant
            shape = None if is_open else tuple(size if size >= 0 else None for size in sizes)
            self._place[layer.attrib["id"], port.attrib["id"]] = len(self._tensors)
            made.append(len(self._tensors))
            self._tensors.append(
                Tensor(name, DTYPES.get(port.get("precision", "")), shape, is_constant, stored_bytes=stored)
            )
        return made


def _ports(layer: Element, side: str) -> list[Element]:
    return list(layer.iterfind(f"{side}/port"))


def _in_order(layers: list[Element], sources: dict[_Port, _Port]) -> Iterator[Element]:
    """Yield the layers so that each comes after the layers whose outputs it reads.

    `sources` has the output port that feeds each input port, both as `(id of the layer, id of the port)`. Raises
    MalformedError if layers wait for each other.
    """
    by_id = {layer.attrib["id"]: layer for layer in layers}
    needs: dict[str, set[str]] = {number: set() for number in by_id}
    for (reader, _), (writer, _) in sources.items():
        needs[reader].add(writer)
    done: set[str] = set()
    waiting = list(by_id)
    while waiting:
        ready = [number for number in waiting if needs[number] <= done]
        if not ready:
            raise MalformedError("layers that wait for each other")
        for number in ready:
            yield by_id[number]
        done.update(ready)
        waiting = [number for number in waiting if number not in done]
