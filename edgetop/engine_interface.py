"""The public interface of engines, version 1. A package that contains an engine adds a runtime to edgetop.

An engine is a class. A package registers it as an entry point of the group `edgetop.engines`. It may register the
suffixes of its models in the group `edgetop.model_suffixes`. `edgetop help plugins` has a complete example. edgetop
makes one object of the class, in the process that runs the model, and calls its methods in the order in which they
stand here. The class need not inherit from `Engine`. Its package need not depend on edgetop: with `--engine-python`, it
runs in an interpreter that has no edgetop.

An exception of any type ends the engine. The session keeps what was measured, with the exception's message as its
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
    # Providers that count as requested, if the engine reads a request in its own way: [] for a name such as AUTO, which
    # may choose any device. If it is left out, they are the names in `options["providers"]`.
    asked: Sequence[str]
    compile_ns: int  # time to compile the model, if that is a step of its own
    settings: Mapping[str, object]  # what else changes speed or results, such as {"precision": "bf16"}


class Engine(Protocol):
    """The methods that every engine must have."""

    interface: ClassVar[int]  # VERSION

    def open(self, model: str, options: Options) -> None:
        """Load the model at the path `model`."""

    def inputs(self) -> Sequence[Input]:
        """Return the inputs of the model. Their names must differ."""

    def bind(self, feeds: Mapping[str, NDArray[Any]]) -> Callable[[], object]:
        """Return a function that runs the model once with the arrays in `feeds`, by input name.

        The latency is the time that a call of this function takes, so the function must return only when the result is
        complete. edgetop calls `bind` again for each further set of arrays, and then only calls the newest function.
        """


class CompleteEngine(Engine, Protocol):
    """The methods and attributes that an engine can have in addition. All are optional."""

    # How `profile` times operators, in words. They begin with "estimate (HOW): " if the times are estimates.
    profiled_by: ClassVar[str]
    # Whether the runtime has no batch dimension. Outputs are then compared as those of a batch of one.
    lacks_batch: ClassVar[bool]

    def unusable(self) -> str:
        """Return why the runtime cannot work on this machine, or "" if it can.

        The method is static, because no model has been opened yet.
        """

    def reshape(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Give each input its shape. Called once, before `bind`.

        `shapes` has the shape of each input by name. Every dimension is a number, even if the model leaves it open.
        """

    def describe(self) -> Description:
        """Return a description of the runtime. Called after `reshape`."""

    def outputs(self, result: object) -> Sequence[tuple[str, NDArray[Any]]]:
        """Return `(name, array)` of each output, for `--keep-outputs`. `result` is what the bound function returned."""

    def profile(self) -> tuple[int, Sequence[TimedOperator]]:
        """Run the model once and time its operators. Return `(time of the whole run in ns, operators)`.

        edgetop shows the rest of the run's time, in which no operator ran, as a last operator named `outside
        operators`.
        """

    def another(self) -> "Engine":
        """Return a second engine that runs the same opened model in another thread, for `--streams`."""
