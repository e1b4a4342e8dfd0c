"""`edgetop ab --soak`: compare two variants when the board is hot. Each variant runs alone, in sessions of its own.

Short turns would give both variants the same heat. That would hide which variant heats the board more.
"""

import random
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from edgetop import formatting
from edgetop.cli.comparing.comparison import comparison_json, exit_code, read_samples
from edgetop.cli.comparing.sweep_folder import new_folder
from edgetop.cli.comparing.sweep_run import heat_now
from edgetop.cli.output import print_text
from edgetop.cli.printing.comparison_words import comparison_text
from edgetop.cli.running import session_parts, trial_run
from edgetop.cli.running.child_run import ChildRun, run_to_end
from edgetop.cli.running.run_request import RunRequest, VariantsSubject
from edgetop.cli.running.session_board import log_spec
from edgetop.comparison.comparison_gates import judge_gates
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import grouped
from edgetop.errors import EXIT_INTERRUPTED
from edgetop.session.turns import SIDES

ABOVE_START_C = 1.0  # each session starts at most this much warmer than the first one
VARIANT = "variant"  # label of a session: its value is A or B


def soak(request: RunRequest, written: Sequence[str], soak_ns: int, repeat: int) -> int:
    """Run the sessions of the variants A and B one after another, and compare them. Return the exit code.

    `written` holds the common options as words of a command line. `soak_ns` is the time in ns that each session
    measures. `repeat` is the number of sessions of each variant.
    """
    subject = request.subject
    assert isinstance(subject, VariantsSubject)
    session_parts.refuse_absent(request, None)
    log_spec(request.board.power_log)
    if error := trial_run.why_unrunnable(request):
        raise error
    folder = new_folder(request.keeping.output, "soak", advice="choose another folder with -o")
    heat = heat_now(request)
    cool = [] if heat is None else [f"--cooldown-to={heat[1] + ABOVE_START_C:.2f}C"]
    order = counterbalanced(repeat, subject.order_seed)
    least, most = (formatting.stopwatch(len(order) * (soak_ns + more)) for more in (0, request.board.cooldown_max_ns))
    plan = f"no cool-down, because no temperature can be read; {least} in all"
    if heat:
        plan = f"a cool-down before each to {heat[1] + ABOVE_START_C:.1f} C ({formatting.clean(heat[0])}); "
        plan = f"{plan}{least} without them, {most} at most"
    print_text(
        f"{formatting.quantity(len(order), 'session')} of {formatting.stopwatch(soak_ns)} in {folder}\n  {plan}",
        err=True,
    )
    done: list[Path] = []
    try:
        for number, side in enumerate(order, 1):
            variant = subject.variants[SIDES.index(side)]
            session = folder / f"{number:02}-{side}.edgetop"
            print_text(f"  {number} of {len(order)}: {side}", err=True)
            arguments = [
                "run", str(variant.model.path), *written, *shlex.split(variant.written), *cool,
                f"--duration={soak_ns / 1e9:g}s", f"--label={VARIANT}={side}", "-o", str(session),
            ]  # fmt: skip
            run_to_end(ChildRun(arguments, folder), session)
            done.append(session)
    except KeyboardInterrupt:
        print_text(
            f"edgetop: stopped after {len(done)} of {formatting.quantity(len(order), 'session')}, in {folder}", err=True
        )
        if {path.stem[-1] for path in done} == set(SIDES):
            _compare(done, request)
        return EXIT_INTERRUPTED
    return _compare(done, request)


def counterbalanced(repeat: int, seed: int) -> str:
    """Return the order of the sessions, such as "ABBAABBA" or "BAABBAAB": `repeat` sessions of each variant.

    A slow drift then affects A and B alike. `seed` decides which variant is first.
    """
    first = random.Random(seed).choice(("ABBA", "BAAB"))  # noqa: S311  the same for a seed
    return (first * repeat)[: 2 * repeat]


def _compare(sessions: Sequence[Path], request: RunRequest) -> int:
    samples, _ = read_samples([str(path) for path in sorted(sessions, key=lambda path: path.stem[-1])])
    comparison = compare(grouped(samples, VARIANT), judge=request.judging.judge)
    results = judge_gates(request.judging.ratio_gates, comparison, strict=False)
    if page := request.showing.page:
        from edgetop.cli.printing.comparison_page import write_comparison  # noqa: PLC0415  loads Bokeh

        write_comparison(page, comparison, results)
    if request.showing.as_json:
        click.echo(comparison_json(comparison, results))
    else:
        print_text(comparison_text(comparison, results))
    return exit_code(results)
