"""Limits for reading a model file, so that a hostile file cannot hang edgetop or fill its memory."""

MAX_STEPS = 6_000_000  # fields, elements and offsets that are read; DenseNet-121's 1,746 operators take 98,000
PART_STEPS = 8  # steps that an operator, a tensor or a use of a tensor takes in addition to its fields
MAX_OPERATORS = 100_000
MAX_TENSORS = 250_000
MAX_RANK = 32  # of a tensor; runtimes allow 8 or fewer
MAX_DEPTH = 16  # nesting depth of graphs in operators
MAX_VALUE_ELEMENTS = 4096  # longer constants are not read; those from which shapes follow are shorter


# Errors that a rule for an operator may raise on a node that violates the operator's definition: attributes may be of
# any type, inputs of any number and shape. The results of such a node are unknown.
BROKEN_NODE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class MalformedError(Exception):
    """Raised if a file violates its format. The message says what is wrong."""


class Budget:
    """Limits the work of reading one file, counted in steps. A step is a field, an element or an offset that is read.

    Raises MalformedError when all steps are spent.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise MalformedError("more parts than any model has")
