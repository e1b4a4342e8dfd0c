"""A latency has the same digits everywhere: `edgetop.formatting` rounds it, and no other module does."""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "edgetop"
BY_HAND = re.compile(r"\{[^{}\"]*(?:latency|inference|percentile|p50|p9\d)\w*(?:\(\w*\))?_?n?s? / 1e6:\.\df\}")


def test_no_module_rounds_a_latency_by_itself() -> None:
    assert BY_HAND.search('f"{message.latency_ns / 1e6:.3f} ms"')
    paths = (path for path in PACKAGE.rglob("*.py") if path.name != "formatting.py")
    assert [str(path) for path in paths if BY_HAND.search(path.read_text())] == []
