"""llama.cpp through ctypes: the functions of the library in the package `xllamacpp`, without its server.

That package's own classes open an HTTP port. The functions that its library exports (include/llama.h) open none.

Two structures of parameters are passed by value, and their layout changes between versions. So this module does not
declare their fields. The library fills in its defaults. Only fields at the beginning are changed, and only if their
defaults are the expected ones, which proves the layout. A buffer larger than the structure is allowed in both calling
conventions (x86-64, AArch64), because the structure is the last argument of its functions. The getters of the context
then check what was set.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import struct
import sys
from typing import Any, Callable, List, Optional, Tuple

from .engine_error import EngineError

PACKAGE = "xllamacpp"
PARAMETER_BYTES = 1024  # more than any version's structure has; those of 2026 have less than 200
# Defaults of the first fields of `llama_context_params` (llama_context_default_params in src/llama-context.cpp):
# n_ctx, n_batch, n_ubatch, n_seq_max.
CONTEXT_DEFAULTS = (512, 2048, 512, 1)
# `llama_model_params` begins with two pointers, `n_gpu_layers` and `split_mode`; its defaults are -1 or 999, and 1.
GPU_LAYERS_OFFSET, GPU_LAYERS_DEFAULTS, SPLIT_MODE_DEFAULT = 16, (-1, 999, 0), 1
# `llama_context_params.cb_eval` and its argument, both null, stand between `defrag_thold` (-1) and the types of the
# cache (F16, F16), to which another pair of null pointers and `false` follow. Between the first two may be padding.
EVAL_CALLBACK = struct.Struct("<QQ2iQQ")
EVAL_CALLBACK_DEFAULTS = (0, 0, 1, 1, 0, 0)
BATCH = 512  # tokens of a prompt that are processed at once: llama.cpp's default size of a physical batch
ERROR_LEVEL, WARNING_LEVEL, CONTINUED_LEVEL = 4, 3, 5  # enum ggml_log_level
NO_VOCABULARY = 0  # enum llama_vocab_type

_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
# ggml_backend_sched_eval_callback in ggml/include/ggml-backend.h: a tensor, whether the scheduler asks if the tensor is
# of interest, and an argument of the caller. Without the question, the tensor has been computed.
EvalCallback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)


class _Parameters(ctypes.Structure):
    _fields_ = [("content", ctypes.c_ubyte * PARAMETER_BYTES)]


class _Batch(ctypes.Structure):
    """llama.cpp's `struct llama_batch`: tokens to process at once."""

    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("token", "embd", "pos", "n_seq_id", "seq_id", "logits")),
    ]


class _Message(ctypes.Structure):
    """llama.cpp's `struct llama_chat_message`: a role such as "user", and a text."""

    _fields_ = [("role", ctypes.c_char_p), ("content", ctypes.c_char_p)]


class _ChainParameters(ctypes.Structure):
    """llama.cpp's `struct llama_sampler_chain_params`: the options of a sampler."""

    _fields_ = [("no_perf", ctypes.c_bool)]


_POINTER, _INT, _UINT, _TEXT = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_char_p
# name -> (type of the result, types of the arguments)
_FUNCTIONS = {
    "llama_backend_init": (None, []),
    "llama_version": (_TEXT, []),
    "llama_supports_gpu_offload": (ctypes.c_bool, []),
    "llama_model_default_params": (_Parameters, []),
    "llama_context_default_params": (_Parameters, []),
    "llama_model_load_from_file": (_POINTER, [_TEXT, _Parameters]),
    "llama_init_from_model": (_POINTER, [_POINTER, _Parameters]),
    "llama_model_get_vocab": (_POINTER, [_POINTER]),
    "llama_model_has_decoder": (ctypes.c_bool, [_POINTER]),
    "llama_model_has_encoder": (ctypes.c_bool, [_POINTER]),
    "llama_model_size": (ctypes.c_uint64, [_POINTER]),
    "llama_model_n_params": (ctypes.c_uint64, [_POINTER]),
    "llama_model_n_ctx_train": (_INT, [_POINTER]),
    "llama_n_ctx": (_UINT, [_POINTER]),
    "llama_n_batch": (_UINT, [_POINTER]),
    "llama_n_threads": (_INT, [_POINTER]),
    "llama_set_n_threads": (None, [_POINTER, _INT, _INT]),
    "llama_get_memory": (_POINTER, [_POINTER]),
    "llama_memory_clear": (None, [_POINTER, ctypes.c_bool]),
    "llama_vocab_type": (_INT, [_POINTER]),
    "llama_vocab_n_tokens": (_INT, [_POINTER]),
    "llama_vocab_is_eog": (ctypes.c_bool, [_POINTER, _INT]),
    "llama_tokenize": (_INT, [_POINTER, _TEXT, _INT, _POINTER, _INT, ctypes.c_bool, ctypes.c_bool]),
    "llama_batch_get_one": (_Batch, [_POINTER, _INT]),
    "llama_batch_init": (_Batch, [_INT, _INT, _INT]),
    "llama_n_ctx_seq": (_UINT, [_POINTER]),
    "llama_free": (None, [_POINTER]),
    "llama_memory_seq_pos_max": (_INT, [_POINTER, _INT]),
    "llama_state_seq_get_size": (ctypes.c_size_t, [_POINTER, _INT]),
    "llama_state_seq_get_data": (ctypes.c_size_t, [_POINTER, _POINTER, ctypes.c_size_t, _INT]),
    "llama_state_seq_set_data": (ctypes.c_size_t, [_POINTER, _POINTER, ctypes.c_size_t, _INT]),
    "ggml_get_name": (_TEXT, [_POINTER]),
    "ggml_op_desc": (_TEXT, [_POINTER]),
    "llama_memory_seq_rm": (ctypes.c_bool, [_POINTER, _INT, _INT, _INT]),
    "llama_decode": (_INT, [_POINTER, _Batch]),
    "llama_get_logits_ith": (_POINTER, [_POINTER, _INT]),
    "llama_synchronize": (None, [_POINTER]),
    "llama_sampler_chain_init": (_POINTER, [_ChainParameters]),
    "llama_sampler_chain_add": (None, [_POINTER, _POINTER]),
    "llama_sampler_init_greedy": (_POINTER, []),
    "llama_sampler_init_temp": (_POINTER, [ctypes.c_float]),
    "llama_sampler_init_dist": (_POINTER, [_UINT]),
    "llama_sampler_reset": (None, [_POINTER]),
    "llama_sampler_sample": (_INT, [_POINTER, _POINTER, _INT]),
    "llama_model_chat_template": (_TEXT, [_POINTER, _TEXT]),
    "llama_chat_apply_template": (
        _INT,
        [_TEXT, ctypes.POINTER(_Message), ctypes.c_size_t, ctypes.c_bool, ctypes.c_char_p, _INT],
    ),
    "llama_log_set": (None, [_LOG, _POINTER]),
}


def library_path() -> str:
    """Return the path of the library in the installed package. Raises EngineError("runtime") if there is none."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "xllamacpp*.so"))):
            return path
    raise EngineError("runtime", "%s of %s has no library that edgetop knows" % (PACKAGE, sys.executable))


class Llama:
    """llama.cpp's library, loaded. Its attributes are the library's functions, by their names in C."""

    def __init__(self) -> None:
        """Load the library. Raises EngineError("runtime") if it cannot be loaded or lacks a function."""
        path = library_path()
        # If a check of ggml fails, it starts a debugger to print its stack, which takes 10 s (ggml_print_backtrace in
        # ggml/src/ggml.c).
        os.environ.setdefault("GGML_NO_BACKTRACE", "1")
        try:
            self._library = ctypes.CDLL(path)
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(self._library, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise EngineError("runtime", "%s cannot be used: %s" % (path, error)) from None
        self.lines: List[str] = []  # what llama.cpp has printed while it loaded a model
        self.batch_size = BATCH  # most tokens of a prompt that are processed at once, once there is a context
        self._on_line: Optional[Callable[[int, str], None]] = None
        self._log = _LOG(self._take_line)  # kept, since llama.cpp only has its address
        self._level, self._text = 0, ""
        self._library.llama_log_set(self._log, None)
        self._library.llama_backend_init()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def _take_line(self, level: int, text: Optional[bytes], _data: Any) -> None:
        """Keep a line that llama.cpp logs, and print the line if it is a warning or an error.

        `level` is llama.cpp's level of the log. `text` may be only the beginning of a line; the rest follows in further
        calls.
        """
        if level != CONTINUED_LEVEL:
            self._level, self._text = level, ""
        self._text += (text or b"").decode(errors="replace")
        if not self._text.endswith("\n"):
            return
        line, self._text = self._text.strip(), ""
        if line and len(self.lines) < MOST_LINES:
            self.lines.append(line)
        if self._level >= WARNING_LEVEL and line:
            os.write(2, (line + "\n").encode(errors="replace"))  # the log of the session

    def load(self, path: str, gpu_layers: Optional[int]) -> int:
        """Load the model at `path`, and return its address in memory. Raises EngineError if that fails.

        `gpu_layers` is how many of the model's layers run on the GPU; None for llama.cpp's default.
        """
        parameters = self.llama_model_default_params()
        if gpu_layers is not None:
            content = bytes(parameters.content)
            before, split_mode = struct.unpack_from("<ii", content, GPU_LAYERS_OFFSET)
            if before not in GPU_LAYERS_DEFAULTS or split_mode != SPLIT_MODE_DEFAULT:
                raise EngineError("runtime", "--gpu-layers: edgetop does not know this version of llama.cpp")
            if gpu_layers > 0 and not self.llama_supports_gpu_offload():
                raise EngineError(
                    "input", "--gpu-layers %d: this build of llama.cpp runs on the CPU only" % gpu_layers,
                    "install a build of xllamacpp for the GPU (https://github.com/xorbitsai/xllamacpp)",
                )  # fmt: skip
            struct.pack_into("<i", parameters.content, GPU_LAYERS_OFFSET, gpu_layers)
        model = self.llama_model_load_from_file(os.fsencode(path), parameters)
        if not model:
            raise EngineError("model", "%s: llama.cpp cannot load it: %s" % (path, self._why()))
        if self.llama_model_has_encoder(model) or not self.llama_model_has_decoder(model):
            raise EngineError("model", "%s: its architecture does not generate text token after token" % path)
        return int(model)

    def context(
        self, model: int, size: int, threads: int, batch: int = BATCH, sequences: int = 1, callback: Any = None
    ) -> int:
        """Make a context with room for `size` tokens in each sequence, and return its address in memory.

        Raises EngineError if that fails. `model` is the model's address. `threads` is the number of threads; 0 for
        llama.cpp's default. `batch` is how many tokens of prompts are processed at once, at most. `sequences` is the
        number of requests that can run at the same time. `callback` is an `EvalCallback`, which is called for each
        operator; None for none. The caller must keep it as long as the context.
        """
        parameters = self.llama_context_default_params()
        if struct.unpack_from("<4I", bytes(parameters.content)) != CONTEXT_DEFAULTS:
            raise EngineError("runtime", "edgetop does not know this version of llama.cpp", "install a later edgetop")
        batch = max(min(batch, size), sequences)
        struct.pack_into("<4I", parameters.content, 0, size * sequences, batch, batch, sequences)
        if callback is None:
            self.batch_size = batch
        else:
            place = _callback_place(bytes(parameters.content))
            struct.pack_into("<Q", parameters.content, place, ctypes.cast(callback, ctypes.c_void_p).value or 0)
        context = self.llama_init_from_model(model, parameters)
        if not context:
            text = "a context of %d tokens cannot be made: %s" % (size, self._why())
            raise EngineError("model", text, "choose a smaller one: --context N")
        if self.llama_n_ctx_seq(context) < size or self.llama_n_batch(context) < batch:
            raise EngineError("runtime", "edgetop does not know this version of llama.cpp", "install a later edgetop")
        if threads:
            self.llama_set_n_threads(context, threads, threads)
        return int(context)

    def _why(self) -> str:
        """Return the line of llama.cpp's log that explains a failure, or "no reason given" if the log is empty."""
        errors = [line for line in self.lines if "error" in line.lower() or "failed" in line.lower()]
        return (errors or self.lines or ["no reason given"])[-1 if len(errors) < 2 else 0]

    def sampler(self, temperature: float, seed: int) -> int:
        """Make a sampler, which chooses each next token, and return its address in memory.

        At `temperature` 0 it takes the most probable token, else a random one. `seed` seeds the random choice.
        """
        chain = self.llama_sampler_chain_init(_ChainParameters(True))
        if temperature > 0:
            self.llama_sampler_chain_add(chain, self.llama_sampler_init_temp(temperature))
            self.llama_sampler_chain_add(chain, self.llama_sampler_init_dist(seed))
        else:
            self.llama_sampler_chain_add(chain, self.llama_sampler_init_greedy())
        return int(chain)

    def as_chat(self, model: int, text: bytes) -> bytes:
        """Return a text as a user's message in the model's chat template.

        If that is not possible, return the text itself.

        `model` is the model's address. Without the template, many models end at their first token. llama.cpp knows only
        the usual templates.
        """
        template = self.llama_model_chat_template(model, None)
        if not template or b"\0" in text:
            return text
        message, room = _Message(b"user", text), 2 * len(text) + 4096
        buffer = ctypes.create_string_buffer(room)
        length = self.llama_chat_apply_template(template, ctypes.byref(message), 1, True, buffer, room)
        return bytes(buffer.raw[:length]) if 0 < length <= room else text

    def tokens_of(self, vocabulary: int, text: bytes) -> Any:
        """Return the tokens of `text` as a ctypes array. Raises EngineError if the text cannot be divided into tokens.

        `vocabulary` is the vocabulary's address. If the model has a token for the beginning of a text, this token comes
        first.
        """
        room = len(text) + 8
        tokens = (ctypes.c_int32 * room)()
        count = self.llama_tokenize(vocabulary, text, len(text), tokens, room, True, True)
        if -MOST_TOKENS < count < 0:  # a byte may become several tokens: the number that is needed, negative
            room = -count
            tokens = (ctypes.c_int32 * room)()
            count = self.llama_tokenize(vocabulary, text, len(text), tokens, room, True, True)
        if count < 0:
            raise EngineError("input", "the prompt cannot be divided into tokens")
        return (ctypes.c_int32 * count).from_buffer(tokens)

    def batches(self, tokens: Any) -> Tuple[Any, ...]:
        """Return a prompt's tokens as llama.cpp's batches.

        `tokens` is a ctypes array from `tokens_of`. The batches refer to this array, so the caller must keep
        it.
        """
        base, size, most = ctypes.addressof(tokens), ctypes.sizeof(ctypes.c_int32), self.batch_size
        return tuple(
            self.batch(base + begin * size, min(most, len(tokens) - begin)) for begin in range(0, len(tokens), most)
        )

    def batch(self, address: int, count: int) -> Any:
        """Return llama.cpp's batch of the `count` tokens at an address.

        Raises EngineError for an unknown version of llama.cpp.
        """
        batch = self.llama_batch_get_one(address, count)
        if batch.n_tokens != count or batch.token != address:
            raise EngineError("runtime", "edgetop does not know this version of llama.cpp", "install a later edgetop")
        return batch

    def wide_batch(self) -> Tuple[Any, "BatchTokens"]:
        """Return a batch for tokens of several requests, and its columns, which the caller fills in.

        Raises EngineError for an unknown version of llama.cpp.
        """
        batch = self.llama_batch_init(self.batch_size, 0, 1)
        if (
            batch.n_tokens
            or batch.embd
            or not all((batch.token, batch.pos, batch.n_seq_id, batch.seq_id, batch.logits))
        ):
            raise EngineError("runtime", "edgetop does not know this version of llama.cpp", "install a later edgetop")
        return batch, BatchTokens(batch)


def _callback_place(content: bytes) -> int:
    """Return the byte offset of the pointer `cb_eval` in `content`, the default `llama_context_params`.

    Raises EngineError("runtime") if no offset fits, or more than one.
    """
    places = [
        place
        for place in range(16, len(content) - EVAL_CALLBACK.size, 8)
        if EVAL_CALLBACK.unpack_from(content, place) == EVAL_CALLBACK_DEFAULTS
        and -1.0 in struct.unpack_from("<2f", content, place - 8)
    ]
    if len(places) != 1:
        raise EngineError("runtime", "edgetop does not know where this version of llama.cpp has its callback")
    return places[0]


class BatchTokens:
    """The columns of a `struct llama_batch` as ctypes pointers, with a row for each token."""

    def __init__(self, batch: Any) -> None:
        integers = ctypes.POINTER(ctypes.c_int32)
        self.token, self.pos, self.n_seq_id = (
            ctypes.cast(column, integers) for column in (batch.token, batch.pos, batch.n_seq_id)
        )
        self.seq_id = ctypes.cast(batch.seq_id, ctypes.POINTER(integers))
        self.logits = ctypes.cast(batch.logits, ctypes.POINTER(ctypes.c_int8))


MOST_LINES = 2000
MOST_TOKENS = 2**28  # of a prompt
