"""Labels: none alike, whatever the names."""

from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors.sensor_protocol import distinct


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["x", "x-2", "x-2-2", "a/b", "a-b"]), max_size=8))
def test_every_name_has_a_label_of_its_own_without_a_slash(names: list[str]) -> None:
    labels = distinct(names)
    assert len(labels) == len(names) == len(set(labels))
    assert not any("/" in label for label in labels)


def test_a_name_that_stands_alone_is_its_label() -> None:
    assert distinct(["cpu-thermal", "gpu-thermal"]) == ["cpu-thermal", "gpu-thermal"]
