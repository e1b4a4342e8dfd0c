"""The document that `inspect --json` prints for a language model, from which the text output is made too.

The keys stay the same.
"""

from edgetop.models.gguf_file import GgufFile
from edgetop.models.language_model import LanguageModel
from edgetop.session.typed_json import Document


def language_document(file: GgufFile, model: LanguageModel) -> Document:
    """Return the document of `inspect --json` for a language model, with None for unknown values.

    edgetop/docs/inspect.md explains the keys. `model` is what `described(file)` returned.
    """
    return {
        "model": {
            "format": "gguf",
            "version": file.version,
            "architecture": model.architecture,
            "name": model.name,
            "file_type": model.file_type,
            "tokenizer": model.tokenizer,
            "vocabulary": model.vocabulary,
            "layers": model.layers,
            "embedding_length": model.embedding_length,
            "heads": model.heads,
            "kv_heads": model.kv_heads,
            "experts": model.experts,
            "experts_used": model.experts_used,
            "parts": model.parts,
        },
        "context": {
            "length": model.context_length,
            "sliding_window": model.sliding_window,
            "kv_bytes_per_token": model.kv_bytes_per_token,
            "kv_bytes": model.kv_bytes(model.context_length) if model.context_length else None,
        },
        "totals": {
            "tensors": len(file.tensors),
            "parameters": model.parameters,
            "weights_bytes": model.weights_bytes,
            "flops_per_token": model.flops_per_token,
            "flops_per_token_and_position": model.flops_per_token_and_position,
        },
        "precision": {
            "weights": {
                one.type: {"tensors": one.tensors, "parameters": one.parameters, "bytes": one.bytes}
                for one in model.stored
            }
        },
        "hints": [
            {"code": notice.code, "message": notice.message, "advice": notice.advice} for notice in model.notices
        ],
    }
