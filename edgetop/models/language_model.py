"""What a language model needs: the size of its KV cache and the work for each token, from the header of its GGUF file.

A multiply-accumulate is 2 FLOPs. Each token passes every weight matrix once, except for experts that are not used and
the values of other tokens in the embedding. Attention adds work for every earlier token.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from edgetop.formatting import quantity
from edgetop.frozen import frozen
from edgetop.models.gguf_file import GgufFile, GgufTensor
from edgetop.session.events import Notice

F16_BYTES = 2  # llama.cpp's default type of the KV cache (--cache-type-k, --cache-type-v)
MAX_LAYERS = 10_000
# Tables of which a token reads one row (names: gguf-py/gguf/constants.py, TENSOR_NAMES).
_LOOKUPS = ("token_embd.weight", "position_embd.weight", "token_types.weight", "per_layer_token_embd.weight")
_EXPERTS = ("_exps.weight", "_chexps.weight")  # one matrix for each expert

# Values of general.file_type (enum llama_ftype in llama.cpp's include/llama.h).
FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
    20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
    28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
    39: "NVFP4", 40: "Q1_0",
}  # fmt: skip


@frozen
class StoredAs:
    """The tensors that a file stores in one type, such as `Q4_K`: how many they are,
    their parameters and their bytes.
    """

    type: str
    tensors: int
    parameters: int
    bytes: int | None  # None if edgetop does not know the type


@frozen
class LanguageModel:
    architecture: str | None
    name: str | None
    file_type: str | None  # the quantisation that the file declares
    parameters: int
    weights_bytes: int | None
    stored: tuple[StoredAs, ...]  # the type with most bytes first
    layers: int | None
    embedding_length: int | None
    heads: int | None  # None if it differs from layer to layer
    kv_heads: int | None
    vocabulary: int | None
    experts: int | None  # number of experts; None if the model has none
    experts_used: int | None
    tokenizer: str | None
    context_length: int | None  # tokens with which the model was trained
    sliding_window: int | None  # tokens that some layers look back at most
    kv_bytes_per_token: int | None  # with a cache of float16; None if the cache does not grow with each token
    flops_per_token: int | None  # without attention to earlier tokens
    flops_per_token_and_position: int | None  # attention adds this for each earlier token
    parts: int = 1  # number of files over which the model is spread
    notices: tuple[Notice, ...] = field(default_factory=tuple)

    def kv_bytes(self, context: int) -> int | None:
        """Return the size in bytes of a float16 KV cache for `context` tokens, or None if it is unknown."""
        return None if self.kv_bytes_per_token is None else self.kv_bytes_per_token * context


def described(file: GgufFile) -> LanguageModel:
    """Return what a GGUF file says about its language model. Values that the file does not determine are None."""
    keys = _Keys(file)
    experts, used = keys.number("expert_count"), keys.number("expert_used_count")
    layers, heads = keys.number("block_count"), keys.per_layer("attention.head_count")
    kv_heads = keys.per_layer("attention.head_count_kv") or heads
    key_length, value_length = _head_lengths(keys, heads)
    is_cached = bool(kv_heads and key_length and value_length)
    kv_bytes = sum(kv_heads) * ((key_length or 0) + (value_length or 0)) * F16_BYTES if is_cached and kv_heads else None
    attention = sum(heads) * 2 * ((key_length or 0) + (value_length or 0)) if is_cached and heads else None
    file_type = keys.plain("general.file_type")
    return LanguageModel(
        architecture=keys.architecture,
        name=keys.text("general.name"),
        file_type=None if file_type is None else FILE_TYPES.get(file_type),
        parameters=sum(tensor.elements for tensor in file.tensors),
        weights_bytes=_sum_bytes(file.tensors),
        stored=_stored(file.tensors),
        layers=layers,
        embedding_length=keys.number("embedding_length"),
        heads=_same(heads),
        kv_heads=_same(kv_heads),
        vocabulary=file.lengths.get("tokenizer.ggml.tokens") or keys.number("vocab_size"),
        experts=experts or None,
        experts_used=used if experts else None,
        tokenizer=keys.text("tokenizer.ggml.model"),
        context_length=keys.number("context_length"),
        sliding_window=keys.number("attention.sliding_window") or None,
        kv_bytes_per_token=kv_bytes,
        flops_per_token=_flops(file.tensors, experts, used),
        flops_per_token_and_position=attention,
        parts=max(1, keys.plain("split.count") or 1),
        notices=_notices(file, keys),
    )


class _Keys:
    """Reads values of a GGUF file's metadata by type. A value of another type than expected counts as missing."""

    def __init__(self, file: GgufFile) -> None:
        self._metadata = file.metadata
        self.architecture = self.text("general.architecture")

    def text(self, key: str) -> str | None:
        value = self._metadata.get(key)
        return value if isinstance(value, str) and value else None

    def plain(self, key: str) -> int | None:
        value = self._metadata.get(key)
        return value if type(value) is int and 0 <= value < 2**48 else None

    def number(self, key: str) -> int | None:
        """Return an integer of the model's architecture from the metadata, or None if it is missing.

        `key` lacks the architecture's name: `context_length` stands for `llama.context_length`.
        """
        return self.plain(f"{self.architecture}.{key}")

    def per_layer(self, key: str) -> tuple[int, ...] | None:
        """Return one number for each layer, or None if unknown.

        `key` lacks the architecture's name, as for `number`.
        """
        layers = self.number("block_count")
        if layers is None or layers > MAX_LAYERS:
            return None
        value = self._metadata.get(f"{self.architecture}.{key}")
        # Either an array, or one number for all layers.
        if isinstance(value, tuple):
            each = tuple(item for item in value if type(item) is int and 0 <= item < 2**31)
            return each if len(each) == len(value) == layers else None
        one = self.number(key)
        return None if one is None else (one,) * layers


def _head_lengths(keys: _Keys, heads: Sequence[int] | None) -> tuple[int | None, int | None]:
    """Return the lengths of an attention head's key and value, in elements; None if unknown.

    `heads` is the number of heads in each layer.
    """
    key_length, value_length = keys.number("attention.key_length"), keys.number("attention.value_length")
    width, most = keys.number("embedding_length"), max(heads or (0,))
    if keys.number("ssm.state_size") or keys.number("wkv.head_size"):
        return None, None  # recurrent layers keep a state of fixed size, and which layers do is not in the file
    share = width // most if width and most else None
    return key_length or share, value_length or share


def _same(each: Sequence[int] | None) -> int | None:
    return each[0] if each and len(set(each)) == 1 else None


def _sum_bytes(tensors: Sequence[GgufTensor]) -> int | None:
    sizes = [tensor.bytes for tensor in tensors]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _stored(tensors: Sequence[GgufTensor]) -> tuple[StoredAs, ...]:
    number, parameters = Counter(tensor.type for tensor in tensors), Counter[str]()
    for tensor in tensors:
        parameters[tensor.type] += tensor.elements
    each = [
        StoredAs(kind, number[kind], parameters[kind], _sum_bytes([t for t in tensors if t.type == kind]))
        for kind in number
    ]
    return tuple(sorted(each, key=lambda one: one.bytes or 0, reverse=True))


def _flops(tensors: Sequence[GgufTensor], experts: int | None, used: int | None) -> int | None:
    if not tensors or (experts and not used):
        return None
    names, total = {tensor.name for tensor in tensors}, 0
    for tensor in tensors:
        if len(tensor.shape) < 2 or not tensor.name.endswith(".weight"):
            continue  # norms and biases: less than a thousandth of the work
        if tensor.name in _LOOKUPS and not (tensor.name == "token_embd.weight" and "output.weight" not in names):
            continue  # without an output matrix, the embedding is one
        is_expert = bool(experts and used and tensor.name.endswith(_EXPERTS))
        total += 2 * tensor.elements * (used or 1) // (experts or 1) if is_expert else 2 * tensor.elements
    return total


def _notices(file: GgufFile, keys: _Keys) -> tuple[Notice, ...]:
    notices = []
    if keys.architecture is None:
        notices.append(Notice("no-architecture", "the file names no architecture", "no runtime can run it"))
    if keys.text("tokenizer.ggml.model") is None or not file.lengths.get("tokenizer.ggml.tokens"):
        notices.append(
            Notice("no-tokenizer", "the file has no tokenizer", "texts cannot be its prompts; --prompt-tokens can")
        )
    parts = keys.plain("split.count") or 1
    if parts > 1:
        text = f"this is one of {quantity(parts, 'file')}: the figures are those of its own tensors"
        notices.append(Notice("split-model", text, "inspect the other files too"))
    if keys.number("ssm.state_size") or keys.number("wkv.head_size"):
        text = "recurrent layers keep a state of fixed size: the memory of a context is unknown"
        notices.append(Notice("recurrent", text, "see what the runtime reports when it runs"))
    return tuple(notices)
