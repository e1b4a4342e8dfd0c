"""The public interface of engines, version 1. A package that has such an engine adds a runtime to edgetop.

An engine is a class. A package registers it as an entry point of the group `edgetop.engines`, and may register the
suffixes of its models in the group `edgetop.model_suffixes`; `edgetop help plugins` has a complete example. edgetop
makes one object of the class, in the process that runs the model, and calls its methods in the order in which they
stand here. The class need not inherit from `Engine`, and its package need not depend on edgetop: with
`--engine-python`, it runs in an interpreter that has no edgetop.

An exception of any type ends the engine: the session keeps what was measured, with the exception's message as its
reason. What the engine prints becomes lines of the session's log.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypedDict

from numpy.typing import NDArray

VERSION = 1

# (name, shape, dtype): a dimension is a size, or a name or None if the model leaves it open; the dtype is numpy's name,
# or "string".
Input = tuple[str, Sequence[int | str | None], str]
# (name, type, provider, own time in ns): the provider is what has run it, such as "CPU". The own time leaves out that
# of other operators which run inside.
TimedOperator = tuple[str, str, str, int]


class Options(TypedDict):
    threads: int  # --threads; 0 means the runtime's default
    streams: int  # --streams: how many threads will run the model at the same time
    providers: Sequence[tuple[str, Mapping[str, str]]]  # --provider NAME:KEY=VALUE, first choice first


class Description(TypedDict, total=False):
    version: str  # of the runtime
    providers: Sequence[str]  # what really runs the model; ["CPU"] if it is left out
    settings: Mapping[str, object]  # what else changes speed or results, such as {"precision": "bf16"}


class Engine(Protocol):
    """What an engine must have."""

    interface: ClassVar[int]  # VERSION

    def open(self, model: str, options: Options) -> None:
        """Load the model at the path `model`."""

    def inputs(self) -> Sequence[Input]:
        """Return the inputs of the model. Two may not have the same name."""

    def bind(self, feeds: Mapping[str, NDArray[Any]]) -> Callable[[], object]:
        """Return a function that runs the model once with these arrays, by name of the input.

        The time of the call is the latency. It must return only when the result is complete. edgetop calls `bind` again
        for each further input, and runs only the function that it returned last.
        """


class CompleteEngine(Engine, Protocol):
    """What an engine may have besides. edgetop does without what is missing."""

    def unusable(self) -> str:
        """Return why the runtime cannot work on this machine, or "". A static method: no model has been opened."""

    def reshape(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Give each input its size. Called once, before `bind`; `shapes` has no open dimension."""

    def describe(self) -> Description:
        """Describe the runtime. Called after `reshape`."""

    def outputs(self, result: object) -> Sequence[tuple[str, NDArray[Any]]]:
        """Return the outputs by name, for `--keep-outputs`. `result` is what the function of `bind` returned."""

    def profile(self) -> tuple[int, Sequence[TimedOperator]]:
        """Run the model once with its operators timed. Return the time of the whole run in ns, and the operators."""

    def another(self) -> "Engine":
        """Return an engine that runs the same opened model in one more thread, for `--streams`."""
