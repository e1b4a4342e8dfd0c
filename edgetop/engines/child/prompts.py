"""The prompts of the requests to a language model: texts of the user, or random tokens."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterator, List, Optional

import numpy as np

from .engine_error import EngineError
from .llama_library import NO_VOCABULARY


class Prompts:
    """Gives the prompts for the requests to one language model, one after another."""

    def __init__(self, adapter: Any, spec: Dict[str, Any]) -> None:
        """Prepare the prompts. Raises EngineError("input") if a prompt is empty or longer than the model's context.

        `adapter` holds the loaded model. `spec` has the fields of `EngineSpec` by name.
        """
        self._library, self._adapter = adapter.library, adapter
        options = spec["generation"]
        self._plain_texts = [text.encode("utf-8", "surrogatepass") for text in options["prompts"]]
        self._texts: List[bytes] = [self._library.as_chat(adapter.model, text) for text in self._plain_texts]
        self._random = np.random.RandomState(spec["seed"])
        self._length = int(options["prompt_tokens"])  # of a random prompt
        self._count = 0  # requests so far
        if self._texts and self._library.llama_vocab_type(adapter.vocabulary) == NO_VOCABULARY:
            raise EngineError(
                "input", "%s has no tokenizer, so a text cannot be its prompt" % spec["model"], "use --prompt-tokens N"
            )
        longest, size = max(map(self._length_of, range(max(1, len(self._texts))))), int(options["context"])
        if longest >= size:
            raise EngineError(
                "input", "a prompt of %d tokens does not fit into a context of %d" % (longest, size),
                "enlarge it: --context %d" % (longest + int(options["max_tokens"])),
            )  # fmt: skip

    @property
    def are_texts(self) -> bool:
        """Whether the prompts are texts. Otherwise they are random tokens."""
        return bool(self._texts)

    def _length_of(self, place: int) -> int:
        if not self._texts:
            return self._length
        count = len(self.tokens_at(place))
        if not count:
            raise EngineError("input", "prompt %d is empty" % (place + 1))
        return count

    def next_place(self) -> int:
        """Return the number, from 0, of the text for the next request. It is 0 for random tokens."""
        place = self._count % max(1, len(self._texts))
        self._count += 1
        return place

    def tokens_at(self, place: int) -> Any:
        """Return the tokens of text number `place` as a ctypes array. Raises EngineError if llama.cpp rejects it."""
        return self._library.tokens_of(self._adapter.vocabulary, self._texts[place])

    def evaluated(self, most: int, seed: int) -> Iterator[Any]:
        """Yield the tokens of each text of the user, without a chat template, as an array.

        If there are no texts, yield `most` arrays of random tokens. `seed` seeds them.
        """
        for text in self._plain_texts:
            yield np.array(self._library.tokens_of(self._adapter.vocabulary, text), np.int32)
        if not self._texts:
            words = self._library.llama_vocab_n_tokens(self._adapter.vocabulary)
            random = np.random.RandomState(seed)
            for _ in range(most):
                yield random.randint(0, max(1, words), self._length).astype(np.int32)

    def drawn(self) -> Optional[Any]:
        """Return random tokens as a ctypes array, or None if the prompts are texts."""
        if self._texts:
            return None
        words = self._library.llama_vocab_n_tokens(self._adapter.vocabulary)
        drawn = self._random.randint(0, max(1, words), self._length).astype(np.int32)
        return (ctypes.c_int32 * self._length).from_buffer_copy(drawn.tobytes())
