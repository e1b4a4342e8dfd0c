"""Limits for reading a model file: a hostile one must not hang edgetop or fill its memory."""

MAX_STEPS = 6_000_000  # fields, elements and offsets that are read; DenseNet-121's 1,746 operators take 98,000
PART_STEPS = 8  # what an operator, a tensor or a use of one counts for, beside its fields
MAX_OPERATORS = 100_000
MAX_TENSORS = 250_000
MAX_RANK = 32  # of a tensor; runtimes stop at 8 or earlier
MAX_DEPTH = 16  # of graphs within operators
MAX_VALUE_ELEMENTS = 4096  # of constants whose values are read: those which shapes follow from are shorter


# What a rule for an operator may raise on a node that breaks the operator's own definition: its
# attributes may be of any type, its inputs of any number and shape. Such a node's results are unknown.
BROKEN_NODE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class MalformedError(Exception):
    """The file is not what its format demands; the message says where."""


class Budget:
    """Limits how much of a file may be read."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise MalformedError("more parts than any model has")
