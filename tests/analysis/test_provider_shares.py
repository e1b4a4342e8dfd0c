"""What each provider was asked for and did, and how much fell back."""

from typing import Any

import pytest

from edgetop.analysis.operator_shares import OperatorView
from edgetop.analysis.provider_shares import fallback_share, provider_shares
from edgetop.session.engine_events import FallbackReasons
from edgetop.session.manifest import EngineInfo
from edgetop.wording.operator_words import provider_words, reason_words


def views(*operators: tuple[str, str, float]) -> list[OperatorView]:
    """Operators as (type, provider, share)."""
    return [OperatorView(n, f"op{n}", kind, name, 1.0, share, None) for n, (kind, name, share) in enumerate(operators)]


def told(asked: tuple[str, ...], have: tuple[str, ...], *operators: tuple[str, str, float]) -> tuple[list[Any], Any]:
    shares = provider_shares(EngineInfo(providers=have, asked=asked), views(*operators))
    assert shares
    each = [(one.name, one.asked, one.operators, one.share, one.fell_back, one.why) for one in shares]
    return each, fallback_share(shares)


CONV, SHAPE = ("Conv", "CUDA", 0.75), ("Shape", "CPU", 0.25)


def test_operators_that_the_provider_lacks_fall_back() -> None:
    each, share = told(("cuda",), ("CUDA", "CPU"), CONV, SHAPE)
    assert each == [("CUDA", True, 1, 0.75, False, None), ("CPU", False, 1, 0.25, True, "others-lacked")]
    assert share == 0.25


@pytest.mark.parametrize(
    ("asked", "have", "operators", "shares"),
    [
        (("CUDA",), ("CPU",), [("Conv", "CPU", 1.0)], 1.0),  # left out
        (("CUDA",), ("CPU",), [], 1.0),  # also without profiling
        (("CUDA",), ("CUDA", "CPU"), [], None),
        (("CUDA",), ("CUDA", "CPU"), [("Conv", "CUDA", 1.0)], 0.0),
        (("CUDA", "CPU"), ("CUDA", "CPU"), [CONV, SHAPE], 0.0),  # the CPU was requested too
        (("CPU",), ("CPU",), [("Conv", "CPU", 1.0)], 0.0),
        ((), ("CPU",), [("Conv", "CPU", 1.0)], None),
        (("XNNPACK",), ("XNNPACK",), [("Conv", "XNNPACK", 0.9), ("CALL_ONCE", "CPU", 0.1)], 0.1),
        (("/x/libnpu.so",), ("/x/libnpu.so",), [("DELEGATE", "libnpu", 0.9), ("Add", "XNNPACK", 0.1)], 0.1),
    ],
)
def test_the_share_that_fell_back(asked: Any, have: Any, operators: Any, shares: float | None) -> None:
    assert told(asked, have, *operators)[1] == shares


def test_all_that_did_not_fall_back_ran_on_the_only_delegate() -> None:
    each, _ = told(("/x/libnpu.so",), ("/x/libnpu.so",), ("DELEGATE", "npu core", 0.75), ("Add", "XNNPACK", 0.25))
    assert each == [("/x/libnpu.so", True, 1, 0.75, False, None), ("XNNPACK", False, 1, 0.25, True, "others-lacked")]


def test_words_say_why() -> None:
    def words(asked: tuple[str, ...], have: tuple[str, ...], *operators: tuple[str, str, float]) -> list[str]:
        return [
            provider_words(one)
            for one in provider_shares(EngineInfo(providers=have, asked=asked), views(*operators)) or ()
        ]

    assert words(("CUDA",), ("CUDA", "CPU"), CONV, SHAPE, SHAPE) == [
        "CUDA: 1 operator, 75.0 % of the time",
        "CPU: 2 operators, 50.0 % of the time, which the requested provider lacks: Shape 2",
    ]
    assert "left out by the runtime" in words(("CUDA",), ("CPU",), SHAPE)[0]
    assert "it has none of these operators" in words(("CUDA",), ("CUDA", "CPU"), SHAPE)[0]
    assert "not profiled" in words(("CUDA",), ("CUDA", "CPU"))[1]
    assert not provider_shares(EngineInfo(), ())


def test_the_runtimes_reasons_stand_where_something_fell_back() -> None:
    why = FallbackReasons("no libcuda.so", {"not found: Shape": 2, "whole": 0})
    engine = EngineInfo(providers=("CUDA", "CPU"), asked=("CUDA",))
    cuda, cpu = provider_shares(engine, views(CONV, SHAPE), why) or ()
    assert (cuda.reasons, reason_words(cpu.reasons)) == (None, ["not found: Shape (2 operators)", "whole"])
    assert provider_words(cpu) == "CPU: 1 operator, 25.0 % of the time, which fell back: Shape 1"
    left_out = EngineInfo(providers=("CPU",), asked=("CUDA",))
    assert reason_words((provider_shares(left_out, views(SHAPE), why) or ())[0].reasons) == ["no libcuda.so"]
    assert (provider_shares(left_out, views(SHAPE), FallbackReasons()) or ())[0].reasons == ()
    assert (provider_shares(left_out, views(SHAPE)) or ())[0].reasons is None
