"""What the commands, the runs and the analysis hand to one another has types."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "edgetop"
TYPED = ("cli", "runner", "analysis")


def unexplained(folder: Path) -> Iterator[str]:
    """Yield the lines with an `Any` that neither they nor the line above explain in a comment."""
    for path in sorted(folder.rglob("*.py")):
        lines = path.read_text().splitlines()
        for above, line in zip(["", *lines], lines, strict=False):
            is_code = re.search(r"\bAny\b", re.sub(r'"""[^"]*|#.*', "", line)) and "import" not in line
            if is_code and "# " not in line and not above.lstrip().startswith("#"):
                yield f"{path.relative_to(ROOT)}: {line.strip()}"


def test_each_any_is_explained() -> None:
    assert [line for name in TYPED for line in unexplained(ROOT / name)] == []


def test_mappings_of_anything_cross_no_border() -> None:
    """Documents in JSON (`Document`) and what Click parsed (`Given`) are named, and described where they are."""
    named = re.compile(r"(dict|Mapping)\[str, Any\]")
    found = [str(path.relative_to(ROOT)) for name in TYPED for path in (ROOT / name).rglob("*.py")
             if any(named.search(line.partition("#")[0]) for line in path.read_text().splitlines())]  # fmt: skip
    assert found == []
