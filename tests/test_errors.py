"""Errors are written for people, and end with a code for scripts."""

import pytest

from edgetop import errors
from edgetop.errors import EdgetopError, EngineDiedError, InputError, RecordingError


def test_an_error_says_what_happened_and_what_to_do() -> None:
    assert str(InputError("no such file: x.onnx", "check the path")) == "no such file: x.onnx (check the path)"


def test_without_advice_there_are_no_brackets() -> None:
    assert str(EngineDiedError("killed")) == "killed"


@pytest.mark.parametrize(
    ("kind", "code"), [(EdgetopError, 2), (InputError, 2), (EngineDiedError, 3), (RecordingError, 4)]
)
def test_every_kind_of_end_has_its_exit_code(kind: type[EdgetopError], code: int) -> None:
    assert kind("x").exit_code == code


def test_exit_codes_are_those_of_the_contract() -> None:
    codes = (errors.EXIT_DONE, errors.EXIT_GATE_FAILED, errors.EXIT_USAGE, errors.EXIT_ENGINE_DIED)
    assert (*codes, errors.EXIT_NOT_WRITTEN, errors.EXIT_INTERRUPTED) == (0, 1, 2, 3, 4, 130)


def test_one_handler_can_catch_them_all() -> None:
    assert all(issubclass(kind, EdgetopError) for kind in (InputError, EngineDiedError, RecordingError))
