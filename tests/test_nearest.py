"""What a message about an unknown name suggests."""

from edgetop.nearest import nearest_hint

NAMES = ["onnxruntime", "litert", "tflite-runtime"]


def test_the_nearest_name_is_suggested() -> None:
    assert nearest_hint("liteert", NAMES) == "did you mean litert?"


def test_where_none_is_near_all_are_told() -> None:
    assert nearest_hint("zzz", NAMES) == "known: onnxruntime, litert, tflite-runtime"


def test_names_can_come_from_anything_that_lists_them() -> None:
    assert nearest_hint("litrt", iter(NAMES)) == "did you mean litert?"
    assert nearest_hint("zzz", iter(NAMES)) == nearest_hint("zzz", NAMES)
    assert nearest_hint("zzz", {"a": 1, "b": 2}) == "known: a, b"
