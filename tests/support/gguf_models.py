"""Language models with random weights, written as GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).

They generate nonsense, but a runtime loads and runs them like any other model.
"""

import struct

import numpy as np

ALIGNMENT = 32
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8}
# For each architecture: whether queries, keys and values have a bias.
ARCHITECTURES = {"llama": False, "qwen2": True}


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value(given):
    """A metadata value with its type in front."""
    if isinstance(given, bool):
        return struct.pack("<I?", 7, given)
    if isinstance(given, int):
        return struct.pack("<II", 4, given)
    if isinstance(given, float):
        return struct.pack("<If", 6, given)
    if isinstance(given, str):
        return struct.pack("<I", 8) + text(given)
    head = struct.pack("<IIQ", 9, {str: 8, bytes: 8, int: 5, float: 6}[type(given[0])], len(given))
    if isinstance(given[0], str | bytes):
        return head + b"".join(map(text, given))
    return head + np.asarray(given, "<i4" if isinstance(given[0], int) else "<f4").tobytes()


def gguf(metadata, tensors, version=3):
    """The bytes of a file. `tensors`: name to (shape with the fastest dimension first, name of the type, data)."""
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(metadata))
    head += b"".join(text(key) + value(given) for key, given in metadata.items())
    body = b""
    for name, (shape, kind, data) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", TYPES.get(kind, kind), len(body))
        body += data + bytes(-len(data) % ALIGNMENT)
    return head + bytes(-len(head) % ALIGNMENT) + body


def quantised(weights, kind):
    """The bytes of weights as `kind` (ggml/src/ggml-quants.c: quantize_row_q8_0_ref, quantize_row_q4_0_ref)."""
    if kind in ("F32", "F16"):
        return weights.astype("<f4" if kind == "F32" else "<f2").tobytes()
    blocks = weights.reshape(-1, 32).astype(np.float32)
    if kind == "Q8_0":
        scale = np.abs(blocks).max(1, keepdims=True) / 127
        codes = np.rint(blocks / np.where(scale, scale, 1)).astype(np.int8).view(np.uint8)
    else:
        peak = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
        scale = peak / -8
        whole = np.clip(blocks / np.where(scale, scale, 1) + 8.5, 0, 15).astype(np.uint8)
        codes = whole[:, :16] | whole[:, 16:] << 4
    return np.concatenate([scale.astype("<f2").view(np.uint8), codes], 1).tobytes()


def vocabulary(size):
    """The tokens, types and scores of a SentencePiece vocabulary with all bytes."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words = [*special, *(f"\u2581w{number}" for number in range(size - len(special)))]
    types = [2, 3, 3, *[6] * 256, *[1] * (size - len(special))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.scores": [0.0] * size,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def language_model(
    architecture="llama", kind="F32", *, layers=2, width=64, heads=4, kv_heads=2, words=300, context=512, **metadata
):
    """The bytes of a model whose matrices are of type `kind`. `metadata` is added, with `__` for a dot."""
    random, inner, kv_width = np.random.default_rng(0), width * 4, width // heads * kv_heads
    keys = {
        "general.architecture": architecture,
        "general.name": f"tiny {architecture}",
        "general.file_type": {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7}[kind],
        f"{architecture}.context_length": context,
        f"{architecture}.embedding_length": width,
        f"{architecture}.block_count": layers,
        f"{architecture}.feed_forward_length": inner,
        f"{architecture}.attention.head_count": heads,
        f"{architecture}.attention.head_count_kv": kv_heads,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{architecture}.rope.dimension_count": width // heads,
        **vocabulary(words),
        **{key.replace("__", "."): given for key, given in metadata.items()},
    }
    tensors = {}

    def matrix(name, columns, rows):
        weights = random.standard_normal((rows, columns)) / np.sqrt(columns)
        tensors[name] = ((columns, rows), kind, quantised(weights, kind))

    def vector(name, size, filled):
        tensors[name] = ((size,), "F32", np.full(size, filled, "<f4").tobytes())

    matrix("token_embd.weight", width, words)
    for layer in range(layers):
        of = f"blk.{layer}."
        vector(f"{of}attn_norm.weight", width, 1)
        vector(f"{of}ffn_norm.weight", width, 1)
        for name, size in (("q", width), ("k", kv_width), ("v", kv_width)):
            matrix(f"{of}attn_{name}.weight", width, size)
            if ARCHITECTURES[architecture]:
                vector(f"{of}attn_{name}.bias", size, 0)
        matrix(f"{of}attn_output.weight", width, width)
        matrix(f"{of}ffn_gate.weight", width, inner)
        matrix(f"{of}ffn_up.weight", width, inner)
        matrix(f"{of}ffn_down.weight", inner, width)
    vector("output_norm.weight", width, 1)
    matrix("output.weight", width, words)
    return gguf(keys, tensors)
