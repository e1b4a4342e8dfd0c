"""As text: how well the figures of one side predict those of the other side."""

from collections.abc import Iterator, Sequence

from edgetop.cli.output import table
from edgetop.cli.printing.report_text import wrapped
from edgetop.comparison.agreement import Agreement, Agreements
from edgetop.comparison.device_fit import FIGURES
from edgetop.formatting import UNKNOWN, clean, fine_percent, plain, shortened

NAME_CELLS = 32


def agreement_lines(found: Agreements, names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a part for each figure. `names`: those of the two sides. Foreign text is made safe."""
    here, there = (shortened(clean(name), NAME_CELLS // 2) for name in names)
    for one in found.agreements:
        yield ""
        yield from _of_figure(one, here, there)
    if found.left_out:
        yield ""
        yield from wrapped((f"left out   {clean(', '.join(found.left_out))}: on one side only",))


def _of_figure(one: Agreement, here: str, there: str) -> Iterator[str]:
    figure, line = FIGURES[one.key], one.line
    if line is None:
        yield from wrapped((f"{figure.label}: refused: {one.refused}",))
        return
    by_chance = "" if one.chance is None else f" (by chance as high in {fine_percent(one.chance)})"
    yield f"{figure.label}: Kendall's tau of the order {line.tau:.2f}{by_chance}"
    r2 = UNKNOWN if line.r2 is None else f"{line.r2:.3f}"
    yield f"  line: {there} = {line.factor:.4g} {figure.unit} x ({figure.unit} on {here})^{line.slope:.3f}, R2 {r2}"
    rows = [
        [
            shortened(clean(pair.name), NAME_CELLS),
            *(plain(value) for value in (pair.here, pair.there, line.at(pair.here))),
            f"{off * 100:+.1f} %", fine_percent(out),
        ]
        for pair, off, out in zip(line.pairs, one.residuals, line.left_out, strict=True)
    ]  # fmt: skip
    yield from table([figure.unit, here, there, "line", "residual", "off if left out"], rows, {figure.unit})
