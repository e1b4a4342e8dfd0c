"""The inspection of a language model as text: its architecture, weights and context, and the work for a token."""

from collections.abc import Iterator

from edgetop import formatting
from edgetop.cli.board.inspection_text import joined
from edgetop.formatting import UNKNOWN, clean, shortened
from edgetop.session.typed_json import Document


def language_summary(document: Document) -> str:
    """Return a text that describes a language model. `document` comes from `language_document`.

    Control characters in names from the model's file are replaced.
    """
    return joined((_head, _shape, _weights, _context, _work), document)


def _head(document: Document) -> Iterator[str]:
    model = document["model"]
    yield f"{clean(model['path'])}  {formatting.size(model['size_bytes'])}"
    yield f"  format        GGUF version {model['version']}"
    if model["name"]:
        yield f"  name          {shortened(model['name'], 100)}"
    yield f"  architecture  {_text(model['architecture'])}"
    yield f"  file type     {_text(model['file_type'])}"
    if model["parts"] > 1:
        yield f"  parts         one of {formatting.quantity(model['parts'], 'file')}"


def _shape(document: Document) -> Iterator[str]:
    model = document["model"]
    heads = f"{_number(model['heads'])} heads, {_number(model['kv_heads'])} of them with keys and values of their own"
    yield f"  layers        {_number(model['layers'])} of width {_number(model['embedding_length'])}, {heads}"
    if model["experts"]:
        yield f"  experts       {model['experts']}, {_number(model['experts_used'])} used for each token"
    yield f"  tokenizer     {_text(model['tokenizer'])}, {_number(model['vocabulary'])} tokens"


def _weights(document: Document) -> Iterator[str]:
    totals = document["totals"]
    yield ""
    size = formatting.or_unknown(totals["weights_bytes"], formatting.size)
    parameters, tensors = (formatting.quantity(totals[f"{noun}s"], noun) for noun in ("parameter", "tensor"))
    yield f"weights  {parameters} in {tensors}, {size}"
    for kind, part in document["precision"]["weights"].items():
        stored = formatting.or_unknown(part["bytes"], formatting.size)
        tensors = formatting.quantity(part["tensors"], "tensor")
        yield f"         {clean(kind):<8} {formatting.quantity(part['parameters'], 'parameter')}, {stored}, {tensors}"


def _context(document: Document) -> Iterator[str]:
    context = document["context"]
    window = context["sliding_window"]
    some = f"; some layers look back {window} tokens at most" if window else ""
    yield f"context  {_number(context['length'])} tokens{some}"
    if context["kv_bytes_per_token"] is None:
        yield f"KV cache {UNKNOWN}"
        return
    most = "at most " if window else ""
    one, whole = (formatting.or_unknown(context[key], formatting.size) for key in ("kv_bytes_per_token", "kv_bytes"))
    yield f"KV cache {one} per token as float16, {most}{whole} when it is full"


def _work(document: Document) -> Iterator[str]:
    totals = document["totals"]
    base, more = (
        formatting.or_unknown(totals[key], formatting.count)
        for key in ("flops_per_token", "flops_per_token_and_position")
    )
    yield f"work     {base} FLOPs per token, and {more} FLOPs for each token before it"


def _text(value: str | None) -> str:
    return shortened(value, 60) if value else UNKNOWN


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)
