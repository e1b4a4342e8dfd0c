"""Events of TFLite's profilers: what is in a delegate, what fell back to the CPU, and nothing twice."""

from typing import Any

from edgetop.engines.child.profilers import Profile
from edgetop.engines.child.profilers.tflite_events import DELEGATE, INSIDE_DELEGATE, OPERATOR, Event, add_events

INVOKE = (1, "Invoke", 0, 0, 99_000)


def operators(*events: tuple[Any, ...]) -> list[list[object]]:
    profile = Profile()
    profile.begin_run(1_000)
    add_events(profile, [Event(*event) for event in events], lambda index, tag: f"{tag.lower()}{index}")
    found: list[list[object]] = profile.describe()["operators"]
    return found


def test_delegated_and_fallen_back_operators_are_told_apart() -> None:
    inside = (INSIDE_DELEGATE, "Convolution (NHWC, F32) GEMM", 0, 0, 5_000)
    assert operators(INVOKE, (OPERATOR, "SPLIT_V", 3, 0, 700), inside) == [
        ["split_v3", "SPLIT_V", "CPU", 1, 700],
        ["Convolution (NHWC, F32) GEMM:0", "Convolution (NHWC, F32) GEMM", "XNNPACK", 1, 5_000],
    ]


def test_a_delegate_that_tells_of_nothing_inside_is_one_operator() -> None:
    assert operators(INVOKE, (OPERATOR, "EdgeTpuDelegate", 9, 0, 4_000)) == [
        ["edgetpudelegate9", "DELEGATE", "EdgeTpu", 1, 4_000]
    ]
    assert operators((DELEGATE, "TfLiteXNNPackDelegate", 9, 0, 4_000))[0][2] == "XNNPACK"


def test_a_delegate_that_reports_its_inside_counts_once() -> None:
    found = operators((DELEGATE, "TfLiteXNNPackDelegate", 9, 0, 4_000), (INSIDE_DELEGATE, "Add", 0, 0, 3_000))
    assert [row[4] for row in found] == [3_000]


def test_the_body_of_a_loop_does_not_count_beside_the_loop() -> None:
    assert operators((OPERATOR, "WHILE", 1, 0, 900), (OPERATOR, "ADD", 0, 2, 300)) == [
        ["while1", "WHILE", "CPU", 1, 900]
    ]


def test_two_partitions_with_the_same_numbers_stay_apart() -> None:
    add = (INSIDE_DELEGATE, "Add", 0, 0, 10)
    assert [row[0] for row in operators(add, (OPERATOR, "X", 1, 0, 5), add)] == ["Add:0", "x1", "Add:0/2"]


def test_other_events_are_none_of_operators() -> None:
    assert operators(INVOKE, (32, "Invoke", -1, 0, 4_294_967_296)) == []


def test_a_second_delegate_without_inside_events_counts_too() -> None:
    found = operators((OPERATOR, "EdgeTpuDelegate", 9, 0, 4_000), (INSIDE_DELEGATE, "Add", 0, 0, 300))
    assert [(row[2], row[4]) for row in found] == [("EdgeTpu", 4_000), ("XNNPACK", 300)]


def test_what_was_told_while_a_delegate_ran_is_inside_that_one() -> None:
    found = operators(
        INVOKE,
        (OPERATOR, "TfLiteGpuDelegate", 8, 0, 4_000),
        (INSIDE_DELEGATE, "conv", 0, 0, 3_000, 1),
        (OPERATOR, "EdgeTpuDelegate", 9, 0, 500),
    )
    assert [(row[1], row[2], row[4]) for row in found] == [("conv", "Gpu", 3_000), ("DELEGATE", "EdgeTpu", 500)]
