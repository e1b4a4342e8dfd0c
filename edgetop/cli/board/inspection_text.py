"""The inspection of a model as text: its inputs, outputs and weights, and the operators with the most work."""

from collections.abc import Callable, Iterator, Sequence

from edgetop import formatting
from edgetop.cli.output import notice_lines, table
from edgetop.formatting import UNKNOWN, clean, shortened
from edgetop.session.caches import Cache
from edgetop.session.events import Notice
from edgetop.session.typed_json import Document
from edgetop.wording.cache_words import cache_sizes, fit_words

LARGEST = 10  # number of operators listed one by one
TYPES = 16  # number of operator types listed

_NAME_CELLS = 40
_WORDS = ("type", "largest", "output")  # columns of text, aligned left
_WITHIN = "their weights are counted below, but not their work"


def inspect_summary(document: Document) -> str:
    """Return a text that describes a model. `document` comes from `inspection_document`.

    Control characters in names from the model's file are replaced.
    """
    return joined((_head, _ends, _weights, _work, _caches, _providers, _types, _largest), document)


FORMATS = {"openvino": "OpenVINO IR", "ncnn": "ncnn param"}  # formats without a version of their own


def joined(parts: Sequence[Callable[[Document], Iterator[str]]], document: Document) -> str:
    """Return one text: the lines that each function in `parts` yields for `document`, then the document's hints."""
    lines = [line for part in parts for line in part(document)]
    hints = (Notice(hint["code"], hint["message"], hint["advice"]) for hint in document["hints"])
    return "\n".join([*lines, *notice_lines("hint", hints)])


def _head(document: Document) -> Iterator[str]:
    model = document["model"]
    yield f"{clean(model['path'])}  {formatting.size(model['size_bytes'])}"
    if model["format"] == "onnx":
        opsets = ", ".join(f"{clean(domain)} {version}" for domain, version in model["opsets"].items())
        yield f"  format     ONNX, IR version {_text(model['ir_version'])}, opset {opsets}"
    elif model["format"] == "tflite":
        yield f"  format     TFLite, schema version {_text(model['schema_version'])}"
    else:
        yield f"  format     {FORMATS[model['format']]}"
    for key, label in (("producer", "producer"), ("description", "about"), ("graph", "graph")):
        if model[key]:
            yield f"  {label:<10} {shortened(model[key], 100)}"
    for name, value in model["metadata"].items():
        yield f"  metadata   {shortened(name)}: {shortened(value, 80)}"
    if model["signatures"]:
        yield f"  signatures {', '.join(shortened(name) for name in model['signatures'])}"
    if model["subgraphs"]:
        inside = sum(graph["operators"] for graph in model["subgraphs"])
        yield f"  subgraphs  {len(model['subgraphs'])} with {formatting.quantity(inside, 'operator')}: {_WITHIN}"
    if model["functions"]:
        yield f"  functions  {formatting.quantity(model['functions'], 'operator')} of its own, counted by content"
    for one in model["external"]:
        yield f"  weights in {shortened(one['name'], 100)}, {_external(one)}"


def _external(one: Document) -> str:
    """Return a text about a file of weights beside the model, such as "16 MiB: 4 tensors" or "MISSING: 4 tensors ...".

    `one` is the entry of that file in the inspection document of its model.
    """
    tensors = formatting.quantity(one["tensors"], "tensor")
    needs = f"{tensors} need{'s' if one['tensors'] == 1 else ''} {formatting.size(one['needed_bytes'])}"
    match one["problem"]:
        case "missing":
            return f"MISSING: {needs}"
        case "short":
            return f"TOO SHORT: {formatting.size(one['size_bytes'])}, but {needs}"
        case "outside":
            return f"REFUSED: {tensors} outside the folder of the model"
        case "no-file":
            return f"NO FILE: {needs}"
    return f"{formatting.size(one['size_bytes'])}: {tensors}"


def _ends(document: Document) -> Iterator[str]:
    for side in ("inputs", "outputs"):
        for tensor in document[side]:
            shape, runs_as = _shape(tensor["shape"]), _shape(tensor["runs_as"])
            ran = "" if shape == runs_as else f", runs as {runs_as}"
            yield f"  {side[:-1]:<10} {shortened(tensor['name'])} {tensor['dtype'] or UNKNOWN}{shape}{ran}"
    if document["shapes_from"]:
        yield f"  shapes     some from {clean(document['shapes_from'])}, in one inference, because the file lacks them"
    for assumption in document["assumptions"]:
        yield f"  assumed    {clean(assumption)}"


def _weights(document: Document) -> Iterator[str]:
    totals, precision = document["totals"], document["precision"]
    yield ""
    stored = ", ".join(f"{dtype} {formatting.size(part['bytes'])}" for dtype, part in precision["weights"].items())
    parameters = formatting.quantity(totals["parameters"], "parameter")
    yield f"weights    {parameters}{f': {stored} in the file' if stored else ''}"
    if totals["weights_bytes"] != totals["weights_stored_bytes"]:
        yield f"           {formatting.size(totals['weights_bytes'])} as operators read them, after conversion at load"
    if totals["unread_parameters"]:
        yield f"           {formatting.count(totals['unread_parameters'])} more in the file, read by no operator"
    ran = ", ".join(f"{dtype} {number}" for dtype, number in precision["operators"].items())
    folded = f"; {totals['folded']} more are computed once at load" if totals["folded"] else ""
    yield f"operators  {totals['operators'] - totals['folded']}{f': {ran}' if ran else ''}{folded}"


def _work(document: Document) -> Iterator[str]:
    totals = document["totals"]
    macs, flops, moved = (_total(totals, key) for key in ("macs", "flops", "bytes"))
    intensity = "" if totals["intensity"] is None else f", {totals['intensity']:.1f} FLOPs/byte"
    yield f"work       {flops}FLOPs ({macs}MACs), {moved} moved{intensity}"
    least = "at least " if totals["activations_unknown"] else ""
    peak, largest = (formatting.size(totals[key]) for key in ("peak_activation_bytes", "working_set_bytes"))
    yield f"memory     {least}{peak} of activations at the peak{_at(document, 'peak_position')};"
    yield f"           {least}{largest} in one operator{_at(document, 'working_set_position')}"


def _caches(document: Document) -> Iterator[str]:
    caches = [Cache(**one) for one in document["caches"]]
    if caches:
        yield f"caches     {cache_sizes(caches)} of this machine;"
        sets = [(_name(one), one["bytes"]) for one in document["operators"] if not one["folded"]]
        yield from (f"           {line}" for line in fit_words(sets, caches))


def _providers(document: Document) -> Iterator[str]:
    placed = document.get("placement")
    if placed is None:
        return
    from edgetop.wording.operator_words import fallback_text  # noqa: PLC0415  it loads Arrow

    yield f"providers  as {clean(placed['runtime'])} would divide the model, after its basic optimisations:"
    for one in placed["providers"]:
        kinds = [f"{shortened(kind, _NAME_CELLS)} {count}" for kind, count in (one["op_types"] or {}).items() if kind]
        rest = [f"and {len(kinds) - TYPES} more types"] if len(kinds) > TYPES else []
        shown = f": {', '.join([*kinds[:TYPES], *rest])}" if kinds else ""
        number = UNKNOWN if one["operators"] is None else formatting.quantity(one["operators"], "operator")
        yield f"  {shortened(one['name']):<10} {number}{shown}"
    asked = [one for one in placed["providers"] if one["asked"]]
    fell_back = any(one["operators"] and not one["asked"] for one in placed["providers"])
    if any(one["operators"] is None for one in placed["providers"]):
        yield "  unknown    this version of ONNX Runtime does not say which operators a provider takes"
    if placed["left_out"]:
        yield f"  left out   {clean(placed['left_out'])}"
    elif not placed["reasons"]:
        for one in asked:
            if one["operators"] == 0:
                yield f"  why        {shortened(one['name'])} takes no operator, and the runtime gives no reason"
        if fell_back and any(one["operators"] for one in asked):
            yield "  why        the runtime gives no reason why operators fell back"
    for reason in placed["reasons"]:
        yield f"  why        {clean(fallback_text(reason['text'], reason['operators']))}"


def _at(document: Document, key: str) -> str:
    position = document["totals"][key]
    found = next((operator for operator in document["operators"] if operator["position"] == position), None)
    return f", in {_name(found)}" if found else ""


def _total(totals: Document, key: str) -> str:
    value = totals[key]
    if value is None:
        return f"{UNKNOWN} "
    shown = formatting.size(value) if key == "bytes" else _amount(value)
    return f"at least {shown}" if totals[f"{key}_unknown"] else shown


def _amount(number: float | None) -> str:
    """Return a number with an SI prefix, such as "1.14 G", to which a unit can be appended."""
    if number is None:
        return UNKNOWN
    shown = formatting.count(number)
    return shown if shown[-1].isalpha() else f"{shown} "


def _types(document: Document) -> Iterator[str]:
    groups = document["by_type"]
    rows = [
        (shortened(group["op_type"], _NAME_CELLS), str(group["operators"]), *_cells(group)) for group in groups[:TYPES]
    ]
    if rows:
        yield from ("", *table(("type", "operators", "FLOPs", "share", "bytes", "share"), rows, _WORDS))
    if rest := len(groups) - len(rows):
        yield f"and {rest} more types: --json lists all"


def _largest(document: Document) -> Iterator[str]:
    counted = [operator for operator in document["operators"] if not operator["folded"]]
    counted.sort(key=lambda operator: (operator["flops"] or 0, operator["bytes"] or 0), reverse=True)
    rows = [
        (
            _name(operator),
            shortened(operator["op_type"], _NAME_CELLS),
            *_cells(operator),
            " ".join(_shape(tensor["shape"]) for tensor in operator["outputs"][:1]),
        )
        for operator in counted[:LARGEST]
    ]
    if rows:
        yield from ("", *table(("largest", "type", "FLOPs", "share", "bytes", "share", "output"), rows, _WORDS))


def _cells(counted: Document) -> tuple[str, str, str, str]:
    return (
        _amount(counted["flops"]).rstrip(),
        _percent(counted["flops_share"]),
        UNKNOWN if counted["bytes"] is None else formatting.size(counted["bytes"]),
        _percent(counted["bytes_share"]),
    )


def _name(operator: Document) -> str:
    return shortened(operator["name"] or f"#{operator['position']}", _NAME_CELLS)


def _shape(shape: Sequence[int | str | None] | None) -> str:
    if shape is None:
        return "[...]"
    return "[" + ",".join("?" if dim is None else clean(str(dim)) for dim in shape) + "]"


def _text(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else formatting.percent(share)
