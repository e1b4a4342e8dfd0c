"""The header of a GGUF file: what it says of a language model, and what damaged and hostile files give."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.cli.board.language_text import language_summary
from edgetop.models.gguf_file import MAX_STEPS, parse_gguf
from edgetop.models.language_document import language_document
from edgetop.models.language_model import described
from edgetop.models.reading_limits import MalformedError
from tests.support.gguf_models import gguf, language_model, text


def model_in(content):
    return described(parse_gguf(memoryview(content)))


def error_of(content):
    with pytest.raises(MalformedError) as raised:
        parse_gguf(memoryview(content))
    return str(raised.value)


@pytest.mark.parametrize(("kind", "bits"), [("F32", 32), ("F16", 16), ("Q8_0", 8.5), ("Q4_0", 4.5)])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_the_figures_follow_from_the_architecture(architecture, kind, bits):
    model = model_in(language_model(architecture, kind))
    matrices = 300 * 64 * 2 + 2 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 256)
    vectors = 5 * 64 + (2 * (64 + 32 + 32) if architecture == "qwen2" else 0)
    assert (model.architecture, model.file_type, model.layers) == (architecture, kind, 2)
    assert model.parameters == matrices + vectors
    assert model.weights_bytes == matrices * bits / 8 + vectors * 4
    assert model.kv_bytes_per_token == 2 * 2 * (16 + 16) * 2  # layers, heads, key and value, bytes
    assert model.kv_bytes(512) == 512 * 256
    assert model.flops_per_token == 2 * (matrices - 300 * 64)  # the embedding is a look-up
    assert model.flops_per_token_and_position == 2 * 4 * 2 * (16 + 16)
    assert (model.context_length, model.vocabulary, model.tokenizer) == (512, 300, "llama")
    assert model.notices == ()
    stored = {one.type: one.parameters for one in model.stored}
    assert sum(stored.values()) == model.parameters
    assert stored[kind] >= matrices


@pytest.mark.parametrize(("declared", "file_type"), [(15, "Q4_K_M"), (9_999, None), ("Q4_K_M", None)])
def test_a_file_type_that_is_not_understood_is_unknown(declared, file_type):
    model = model_in(gguf({"general.architecture": "llama", "general.file_type": declared}, {}))
    assert model.file_type == file_type


def test_an_embedding_that_is_the_output_too_counts_as_work():
    shapes = {"token_embd.weight": ((4, 10), "F32", bytes(160))}
    model = model_in(gguf({"general.architecture": "llama"}, shapes))
    assert model.flops_per_token == 80


def test_only_the_experts_that_are_used_count():
    keys = {"general.architecture": "m", "m.expert_count": 8, "m.expert_used_count": 2}
    tensors = {
        "blk.0.ffn_up_exps.weight": ((4, 4, 8), "F32", bytes(512)),
        "blk.0.ffn_gate_inp.weight": ((4, 8), "F32", bytes(128)),
    }
    model = model_in(gguf(keys, tensors))
    assert model.flops_per_token == 2 * (4 * 4 * 2 + 4 * 8)
    assert (model.experts, model.experts_used) == (8, 2)


def test_layers_may_have_different_numbers_of_heads():
    keys = {
        "general.architecture": "m", "m.block_count": 3, "m.embedding_length": 64, "m.attention.head_count": 4,
        "m.attention.head_count_kv": [4, 2, 0],
    }  # fmt: skip
    model = model_in(gguf(keys, {}))
    assert model.kv_bytes_per_token == (4 + 2 + 0) * 2 * 16 * 2
    assert (model.heads, model.kv_heads) == (4, None)


def test_the_cache_of_recurrent_layers_is_unknown():
    keys = {
        "general.architecture": "mamba", "mamba.block_count": 2, "mamba.embedding_length": 64,
        "mamba.attention.head_count": 4, "mamba.ssm.state_size": 16,
    }  # fmt: skip
    model = model_in(gguf(keys, {}))
    assert model.kv_bytes_per_token is None
    assert "recurrent" in [notice.code for notice in model.notices]


def test_a_type_that_edgetop_does_not_know_has_no_size():
    model = model_in(gguf({"general.architecture": "llama"}, {"output.weight": ((4, 4), 77, b"")}))
    assert (model.parameters, model.weights_bytes) == (16, None)
    assert [one.type for one in model.stored] == ["type 77"]


def test_a_part_of_a_model_and_a_model_without_a_tokenizer_are_told():
    model = model_in(gguf({"general.architecture": "llama", "split.count": 3}, {}))
    assert [notice.code for notice in model.notices] == ["no-tokenizer", "split-model"]
    assert model.parts == 3


TINY = language_model(layers=1, width=32)


def test_a_file_cut_anywhere_is_refused():
    for size in [*range(4, 400), *range(400, len(TINY) - 32, 997)]:
        assert "is cut short" in error_of(TINY[:size])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"GGML", "is no GGUF file"),
        (struct.pack("<4sIQQ", b"GGUF", 1, 0, 0), "is GGUF version 1"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "is big-endian"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 2**60, 0), "more than any model has"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 2**60), "more than any model has"),
        (struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 2**63), "is cut short in its header"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text("k") + struct.pack("<I", 99), "the unknown type 99"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1), "array of the unknown"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 12, 2**61), "is cut short"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 1, 0) + text("t") + struct.pack("<I", 9), "a tensor of 9 dimensions"),
        (gguf({}, {"t": ((2**40, 2**40), "F32", b"")}), "more elements than a file can hold"),
        (gguf({}, {"t": ((33, 2), "Q4_0", b"")}), "cannot be Q4_0"),
        (gguf({"general.alignment": 0}, {}), "invalid general.alignment"),
    ],
)  # fmt: skip
def test_hostile_files_are_refused_with_the_reason(content, words):
    assert words in error_of(content)


def test_endless_lists_of_texts_are_not_read_to_the_end():
    many = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 2**40) + bytes(8 * MAX_STEPS)
    assert "more parts than any model has" in error_of(many)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 3000), st.binary(min_size=1, max_size=12))
def test_any_bytes_give_a_description_or_one_error(at, changed):
    content = TINY[:at] + changed + TINY[at + len(changed) :]
    try:
        file = parse_gguf(memoryview(content))
    except MalformedError:
        return
    document = language_document(file, described(file))
    shown = language_summary({**document, "model": {"path": "x", "size_bytes": 1} | document["model"]})
    assert "\x1b" not in shown
