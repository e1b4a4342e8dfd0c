"""Run language models in llama.cpp. The timed calls are `llama_decode` and the sampler (see generation.py)."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterator

from ..engine_error import EngineError
from ..llama_library import BATCH, PACKAGE, Llama
from . import package_version


class LlamaCpp:
    """A language model in llama.cpp, with its context. `generation.Requests` runs the requests.

    Unlike other adapters, it has no `inputs` and no `bind`.
    """

    name = "llama.cpp"
    serves_all_streams = False

    def unusable(self) -> str:
        return ""

    def open(self, spec: Dict[str, Any], imported: Callable[[], None] = lambda: None) -> None:
        """Load the library and the model at the path `spec["model"]`, and make a context.

        Raises EngineError if that fails.

        Calls `imported` as soon as the library is loaded.
        """
        refuse_options(spec)
        self._spec = spec
        self.library = Llama()
        imported()
        options = spec["generation"]
        self.model = self.library.load(spec["model"], options["gpu_layers"])
        self.context = self.library.context(
            self.model, options["context"], spec["threads"], spec["batch"] or BATCH, options["parallel"]
        )
        self.vocabulary = self.library.llama_model_get_vocab(self.model)
        self.memory = self.library.llama_get_memory(self.context)
        self.sampler = self.library.sampler(options["temperature"], spec["seed"])

    def profilers(self) -> Iterator[Callable[[], Any]]:
        """Yield one function that makes and returns a profiler of operators.

        The function raises ProfilingError if operators cannot be timed.
        """
        from ..profilers.llama_operators import LlamaOperators  # noqa: PLC0415  only if operators are profiled

        yield functools.partial(LlamaOperators, self, self._spec)

    def describe(self) -> Dict[str, Any]:
        providers = ["GPU", "CPU"] if self.library.llama_supports_gpu_offload() else ["CPU"]
        return {
            "runtime": self.name,
            "version": "%s (%s %s)" % (self.library.llama_version().decode(), PACKAGE, package_version(PACKAGE)),
            "providers": providers,
            "dropped_providers": [],
        }


def refuse_options(spec: Dict[str, Any]) -> None:
    """Raise EngineError("input") if `spec` has an option that language models do not have, such as `--provider`."""
    for key, option in (("providers", "--provider"), ("delegates", "--delegate"), ("inputs", "--input"),
                        ("shapes", "--shape")):  # fmt: skip
        if spec.get(key):
            raise EngineError("input", "%s is not for language models" % option, "see edgetop help llm")
    if not spec.get("xnnpack", True):
        raise EngineError("input", "--no-xnnpack is for TFLite models")
    if spec.get("streams", 1) > 1:
        raise EngineError("input", "--streams is not for language models", "write --parallel N")
