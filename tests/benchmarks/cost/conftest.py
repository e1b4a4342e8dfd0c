"""The table of what edgetop costs, printed when the benchmarks are over: README.md has it from here."""

import pytest

Row = tuple[str, str, str, bool]
_ROWS = pytest.StashKey[list[Row]]()


class Table:
    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def row(self, what: str, measured: str, budget: str = "", *, is_met: bool = True) -> None:
        """`budget`: none where something is only told."""
        self._rows.append((what, measured, budget, is_met))


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Table:
    return Table(request.config.stash.setdefault(_ROWS, []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if rows := config.stash.get(_ROWS, []):
        terminalreporter.write_line("\n| what | measured | budget |\n| --- | --- | --- |")
    for what, measured, budget, is_met in rows:
        terminalreporter.write_line(f"| {what} | {measured} | {budget}{'' if is_met else ' (missed)'} |")
