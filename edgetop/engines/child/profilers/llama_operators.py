"""Profile the operators of a language model with ggml's callback, token by token.

llama.cpp passes `llama_context_params.cb_eval` to ggml's scheduler (process_ubatch in src/llama-context.cpp). The
scheduler asks the callback before each operator whether its result is wanted. If so, the scheduler computes the
operator alone, waits for the device, and calls the callback again (ggml_backend_sched_compute_splits in
ggml/src/ggml-backend.cpp). The time between the two calls is the time of the operator.

The callback of a context cannot be removed, and the scheduler asks it in every computation. So the profiled tokens are
computed in a second, small context. It shares the weights with the first one, in which the measured requests run.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any, Dict, List, Tuple

from ..engine_error import EngineError
from ..llama_library import EvalCallback
from . import MAX_RUNS, Allowance, Profile, ProfilingError

SIZE = 512  # most tokens of the second context, so that its cache takes little memory
# Operators that compute nothing, so that their time is that of the calls alone (ggml_compute_forward in
# ggml/src/ggml-cpu/ggml-cpu.c).
NOTHING = frozenset(("NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"))
# A token that takes this long, and this many times as long as a plain one, is given up: threads that share a CPU with
# other programs wait for each other at each operator.
MOST_NS, MOST_RATIO = 1_000_000_000, 20


class LlamaOperators:
    """Times the operators of a few tokens, one token at a time.

    The tokens continue the last request, at positions below SIZE.
    """

    way = "ggml's callback, in a second context"

    def __init__(self, adapter: Any, spec: Dict[str, Any]) -> None:
        """Make the second context. Raises ProfilingError if this build of llama.cpp is unknown.

        `adapter` holds the loaded model. `spec` has the fields of `EngineSpec` by name.
        """
        self._library, self._adapter = adapter.library, adapter
        library = adapter.library
        self._callback = EvalCallback(self._called)  # kept, since llama.cpp only has its address
        self._calls: List[Tuple[int, int, int]] = []  # of a token: tensor, and begin and end of its computation in ns
        self._begin_ns = self._until_ns = 0
        self._size = min(SIZE, int(spec["generation"]["context"]))
        self._left = 0  # tokens for which the second context has room
        self._provider = "GPU" if spec["generation"]["gpu_layers"] and library.llama_supports_gpu_offload() else "CPU"
        if spec["generation"]["parallel"] > 1:
            raise ProfilingError("with --parallel, there is no time between two requests in which operators are timed")
        try:
            self._context = library.context(adapter.model, self._size, spec["threads"], 1, callback=self._callback)
        except EngineError as error:
            raise ProfilingError(error.message) from None
        self._memory = library.llama_get_memory(self._context)
        self._token = (ctypes.c_int32 * 1)()
        self._batch = library.batch(ctypes.addressof(self._token), 1)
        self._words = max(1, library.llama_vocab_n_tokens(adapter.vocabulary))
        self._plain_ns: List[int] = []

    def _called(self, tensor: int, is_question: bool, _argument: Any) -> bool:
        """Note when an operator begins or has ended. Return True if the scheduler is to go on.

        The scheduler calls this before each operator, with `is_question` True, and after it, with `is_question` False.
        `tensor` is the address of the operator's result.
        """
        now = time.monotonic_ns()
        if not is_question:
            self._calls.append((tensor, self._begin_ns, now))
        self._begin_ns = time.monotonic_ns()
        return is_question or now < self._until_ns

    def burst(self, allowance: Allowance) -> Dict[str, Any]:
        """Compute some tokens, each once without and once with the callback. Return the result of `Profile.describe`.

        The result has one more key: `plain_ns` is the median time of a token without the callback, in ns.
        """
        profile = Profile()
        self._plain_ns = []
        self._continue_request()
        while allowance.takes_another():
            if not self._left:
                self._continue_request()
            self._left -= 1
            self._token[0] = (self._token[0] * 31 + 7) % self._words
            begin = time.monotonic_ns()
            self.plain()
            plain_ns = time.monotonic_ns() - begin
            self._plain_ns.append(plain_ns)
            self._until_ns = time.monotonic_ns() + max(MOST_NS, MOST_RATIO * plain_ns)
            self._calls = []
            profile.timed(lambda: self._decode(self._context))
            if time.monotonic_ns() > self._until_ns:
                raise ProfilingError(
                    "a token takes %d times as long if operators are timed: more threads than free CPUs"
                    % (profile.run.ns // max(1, plain_ns))
                )
            self._add(profile)
        # A request differs from a token, so the reader must not compare the two.
        return dict(profile.describe(), plain_ns=sorted(self._plain_ns)[len(self._plain_ns) // 2], runs=[])

    def _continue_request(self) -> None:
        """Copy the cache of the last request into the second context: the profiled tokens continue that request.

        If the request is too long, its end is cut off in both contexts.
        """
        library, context, most = self._library, self._adapter.context, max(1, self._size - MAX_RUNS)
        library.llama_memory_clear(self._memory, False)
        used = library.llama_memory_seq_pos_max(self._adapter.memory, 0) + 1
        if used > most:
            if not library.llama_memory_seq_rm(self._adapter.memory, 0, most, -1):  # a recurrent model
                library.llama_memory_clear(self._adapter.memory, False)
            used = library.llama_memory_seq_pos_max(self._adapter.memory, 0) + 1
        if used:
            size = library.llama_state_seq_get_size(context, 0)
            state = ctypes.create_string_buffer(size)
            written = library.llama_state_seq_get_data(context, state, size, 0)
            if not library.llama_state_seq_set_data(self._context, state, written, 0):
                library.llama_memory_clear(self._memory, False)
                library.llama_memory_clear(self._adapter.memory, False)
                used = 0
        self._left = self._size - used

    def plain(self) -> None:
        """Compute the token that is being profiled, in the context of the requests and thus without the callback."""
        self._decode(self._adapter.context)

    def _decode(self, context: int) -> None:
        status = self._library.llama_decode(context, self._batch)
        self._library.llama_synchronize(context)
        if status:
            raise RuntimeError("llama_decode returned %d" % status)

    def _add(self, profile: Profile) -> None:
        """Add the operators of the last token to `profile`. The time that the callback itself takes is subtracted."""
        library = self._library
        seen: Dict[Tuple[str, str], int] = {}
        named = []
        for tensor, begin, end in self._calls:
            kind = _text(library.ggml_op_desc(tensor))
            named.append((_text(library.ggml_get_name(tensor)) or kind, kind, end - begin))
        idle = sorted(ns for _, kind, ns in named if kind in NOTHING)
        call_ns = idle[len(idle) // 2] if idle else 0
        for name, kind, ns in named:
            if kind in NOTHING:
                continue
            count = seen[name, kind] = seen.get((name, kind), 0) + 1
            profile.add(name if count == 1 else "%s:%d" % (name, count), kind, self._provider, max(0, ns - call_ns))

    def close(self) -> None:
        context, self._context = self._context, 0
        if context:
            self._library.llama_free(context)


def _text(name: Any) -> str:
    return (name or b"").decode("utf-8", "replace").strip()
