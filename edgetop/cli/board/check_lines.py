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
        yield from textwrap.wrap(clean(check.found), columns, initial_indent=head, subsequent_indent=margin) or [head]
        if check.advice:
            yield from textwrap.wrap(clean(check.advice), columns, initial_indent=margin, subsequent_indent=margin)
        if check.fix:
            yield f"{margin}fix: {clean(check.fix)}"  # never wrapped, so that it can be copied
    yield ""
    counts = Counter(check.status for check in checks)
    yield f"{_count(counts['problem'], 'problem')}, {_count(counts['warning'], 'warning')}, {counts['ok']} ok"


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
