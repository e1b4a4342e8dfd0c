"""The results of checks as lines of text, for `edgetop doctor` and `edgetop self-test`."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from edgetop.cli.output import prose_columns
from edgetop.doctor.check import Check
from edgetop.formatting import clean


def check_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield lines for each check: status, name, what was found, advice and fix.

    An empty line and a line such as "no problems, 1 warning, 8 ok" follow.
    """
    columns = prose_columns()
    width = max(len(check.name) for check in checks)
    for check in checks:
        head = f"{check.status:<8} {check.name:<{width}}  "
        margin = " " * len(head)
        yield from _wrapped(clean(check.found), columns, head) or [head]
        if check.advice:
            yield from _wrapped(clean(check.advice), columns, margin)
        if check.fix:
            yield f"{margin}fix: {clean(check.fix)}"  # never wrapped, so that it can be copied
    yield ""
    counts = Counter(check.status for check in checks)
    yield f"{_count(counts['problem'], 'problem')}, {_count(counts['warning'], 'warning')}, {counts['ok']} ok"


def _wrapped(text: str, columns: int, head: str) -> list[str]:
    """Return a text as lines below each other, the first one after `head`. Paths and names are not broken."""
    return textwrap.wrap(
        text,
        columns,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
