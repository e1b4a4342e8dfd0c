"""The outputs of a language model for `--keep-outputs`: how probable it finds each next token of given texts.

The tokens of the prompts are cut into pieces. As in llama.cpp's `llama-perplexity`, each piece is processed from an
empty context, and only the tokens of its second half count. So two models that are compared process the same tokens,
and never tokens that one of them has generated. Each piece has two outputs:

- `next token`: the scores (logits) of all tokens of the vocabulary, for every eighth position.
- `log-likelihood`: the natural logarithm of the probability of the token that follows, for each position. The
  exponential function of its negative mean is the perplexity. It has a second axis of size 1.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

from .prompts import Prompts
from .stored_outputs import store
from .tensor_values import Tensor

PIECE = 256  # most tokens of a piece
LEAST = 16  # fewest tokens of a piece, unless it is the only one
SCORES_EVERY = 8  # positions between two of which the scores of all tokens are stored, which take much memory
SCORES, LIKELIHOOD = "next token", "log-likelihood"


class TokenOutputs:
    """A language model with the interface of an adapter that `stored_outputs` needs."""

    def __init__(self, adapter: Any) -> None:
        """Prepare the evaluation. `adapter` holds the loaded model."""
        self.inputs = [Tensor("tokens", [None], np.int32)]
        self._library, self._adapter = adapter.library, adapter
        self._vocabulary = int(adapter.library.llama_vocab_n_tokens(adapter.vocabulary))
        self._batch, self._columns = adapter.library.wide_batch()

    def bind(self, tokens: Any) -> Callable[[], Any]:
        """Return a function that evaluates `tokens`, an array of integers, from an empty context."""
        return lambda: self._scores(tokens)

    def _scores(self, tokens: Any) -> Tuple[Any, Any]:
        """Return two arrays for the second half of `tokens`: `next token` and `log-likelihood`.

        The module's documentation describes both.
        """
        self._library.llama_memory_clear(self._adapter.memory, False)
        first, scores, likelihoods = max(0, len(tokens) // 2 - 1), [], []
        for begin in range(0, len(tokens), self._library.batch_size):
            piece = tokens[begin : begin + self._library.batch_size]
            self._decode(piece, begin, first)
            for place in range(max(0, first - begin), len(piece)):
                position = begin + place
                if position + 1 >= len(tokens):
                    break
                row = self._row(place)
                peak = float(row.max())
                whole = peak + float(np.log(np.exp(row.astype(np.float64) - peak).sum()))
                likelihoods.append(float(row[tokens[position + 1]]) - whole)
                if not (position - first) % SCORES_EVERY:
                    scores.append(row.copy())
        return np.array(scores, np.float32), np.array(likelihoods, np.float32)[:, None]

    def _decode(self, tokens: Any, begin: int, first: int) -> None:
        """Process `tokens`, which begin at the position `begin`. Positions from `first` on get scores."""
        batch, columns = self._batch, self._columns
        batch.n_tokens = len(tokens)
        for place, token in enumerate(tokens.tolist()):
            columns.token[place], columns.pos[place] = token, begin + place
            columns.n_seq_id[place], columns.seq_id[place][0] = 1, 0
            columns.logits[place] = begin + place >= first
        status = self._library.llama_decode(self._adapter.context, batch)
        if status:
            raise RuntimeError("llama_decode returned %d" % status)
        self._library.llama_synchronize(self._adapter.context)

    def _row(self, place: int) -> Any:
        """Return the scores of all tokens after the token at `place` in the batch, in llama.cpp's memory."""
        address = self._library.llama_get_logits_ith(self._adapter.context, place)
        if not address:
            raise RuntimeError("llama.cpp has no scores for token %d of a batch" % place)
        pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
        return np.ctypeslib.as_array(pointer, (self._vocabulary,))

    def outputs(self, result: Tuple[Any, Any]) -> List[Tuple[str, Any, float, int]]:
        """Return a tuple (name, array, scale, zero point) for each output. Scale and zero point are always 0.

        `result` is what the bound function returned.
        """
        return [(SCORES, result[0], 0.0, 0), (LIKELIHOOD, result[1], 0.0, 0)]


def pieces(prompts: Prompts, count: int, size: int, seed: int) -> Iterator[Tuple[Any, str]]:
    """Yield (tokens, hash of the tokens) for at most `count` pieces of the prompts. The tokens are an array.

    `size` is the largest number of tokens of a piece. `seed` seeds random prompts.
    """
    found = 0
    for tokens in prompts.evaluated(count, seed):
        for begin in range(0, len(tokens), size):
            piece = tokens[begin : begin + size]
            if len(piece) < 2 or (begin and len(piece) < LEAST):
                continue
            if found == count:
                return
            found += 1
            yield piece, hashlib.sha256(piece.astype("<i4").tobytes()).hexdigest()


def keep_outputs(
    spec: Dict[str, Any],
    adapter: Any,
    prompts: Prompts,
    send: Callable[[int, Dict[str, Any]], None],
    is_over: Callable[[], bool],
) -> None:
    """Store the outputs for `spec["keep_outputs"]` pieces of the prompts in the file `spec["outputs_file"]`.

    Nothing is stored if the user did not want it. `adapter` holds the loaded model. `send` sends a message to edgetop's
    main process. `is_over` returns whether the run was stopped. Raises EngineError("input") if the outputs are too
    large.
    """
    if not spec.get("keep_outputs") or not spec.get("outputs_file"):
        return
    size = min(PIECE, int(spec["generation"]["context"]))
    feeds = pieces(prompts, spec["keep_outputs"], size, spec["seed"])
    source = "the prompts" if prompts.are_texts else "random"
    store(dict(spec, inputs={"": source}), TokenOutputs(adapter), feeds, send, is_over)
