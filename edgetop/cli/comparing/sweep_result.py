"""The result of a sweep: its table, the comparison of its combinations of settings, and the recommended combination."""

import shlex
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

from edgetop.cli import options as text
from edgetop.cli.comparing.bench_table import bench_cells, bench_lines, bench_rows
from edgetop.cli.comparing.comparison import read_samples
from edgetop.cli.output import notice_lines, print_json, print_text, raise_problems, table, text_columns, write_csv
from edgetop.cli.printing.comparison_markdown import comparison_markdown
from edgetop.cli.printing.comparison_words import ranking_lines, table_columns, value_text
from edgetop.cli.printing.markdown import block, bullets, code, escaped, markdown_table, write_markdown
from edgetop.cli.printing.output_agreement_words import judge_of, worst
from edgetop.cli.printing.report_text import wrapped
from edgetop.cli.printing.usage_text import usage_lines
from edgetop.cli.shell_words import path_word
from edgetop.comparison.model_table import KEYS as MODELS
from edgetop.comparison.model_table import model_rows
from edgetop.comparison.ratios import Comparison, compare, comparison_document
from edgetop.comparison.sample import Group, Sample, p99_spread
from edgetop.comparison.usage_table import KEYS as USAGE
from edgetop.comparison.usage_table import usage_rows
from edgetop.errors import EXIT_DONE, EXIT_ENGINE_DIED, InputError
from edgetop.formatting import UNKNOWN, clean, doubted, milliseconds, or_unknown, plain
from edgetop.frozen import frozen
from edgetop.recording.export.export_formats import NamedOutput, StreamOutput
from edgetop.session.typed_json import Document
from edgetop.sweep_plan import FIELDS, GOALS, KEYS, PROGRAM_KEYS, Candidate, Choice, Plan, Wanted, choose, same_runs

_HEADS = ("p50 ms", "p99 ms", "items/s", "mJ/item", "MiB", "max °C", "time ms", "J")  # headers for PROGRAM_KEYS
_WORDS = dict.fromkeys(
    ("p50_ms", "p99_ms"), lambda ms: milliseconds(ms * 1e6)
)  # how figures other than numbers are shown
# Headers for kept outputs: agreement with the first combination, and accuracy by --labels and --metric.
_AGREEING = {"same_top": ("same class", "share"), "snr_db": ("SNR dB", "dB"), "top-1": ("top-1", "share"),
             "top-5": ("top-5", "share"), "metric": ("metric", "")}  # fmt: skip
_AXES = {"p50_ms": "p50", "p99_ms": "p99", "energy_mj": "energy", "rss_peak_mib": "memory",
         "total_time_ms": "time", "run_j": "energy of the run"}  # fmt: skip


@frozen
class Outputs:
    """The forms in which to write the result of a sweep, beside or instead of text on stdout. None means not wanted."""

    as_json: bool
    csv_file: NamedOutput | None
    page: NamedOutput | None
    markdown: NamedOutput | StreamOutput | None


def print_result(folder: Path, plan: Plan, outputs: Outputs) -> int:
    """Print the result of the sweep in `folder`, and write the requested files. Return the exit code."""
    groups, candidates, problems = _read(folder, plan)
    deadline, most_rss = plan.wanted.get("deadline"), plan.wanted.get("max_rss")
    wanted = Wanted(
        goal=_goal(plan, candidates),
        deadline_ms=text.duration(deadline) / 1e6 if deadline else None,
        max_c=plan.wanted.get("max_temp"),
        max_rss_mib=most_rss / 2**20 if most_rss else None,
    )
    choice = choose(candidates, wanted)
    comparison = _comparison(plan, groups, GOALS[wanted.goal][3], problems) if len(groups) > 1 else None
    as_good = _as_good(plan, comparison, choice)
    csv_file, page = outputs.csv_file, outputs.page
    if csv_file:
        write_csv(csv_file, _csv_rows(candidates, groups, comparison))
    if page and comparison:
        from edgetop.cli.printing.comparison_page import write_comparison  # noqa: PLC0415  it loads Bokeh

        write_comparison(page, comparison, ())
    elif page:
        print_text("edgetop: --html: no page, because fewer than two combinations have results to compare", err=True)
    if outputs.markdown:
        write_markdown(outputs.markdown, _markdown(plan, candidates, choice, wanted, comparison, as_good, groups))
    if outputs.as_json:
        print_json(_document(folder, plan, candidates, choice, comparison, as_good, groups))
    elif not isinstance(outputs.markdown, StreamOutput):
        bench = bench_lines(bench_rows(candidates, groups, comparison), table_columns())
        usages = (*bench, *usage_lines(usage_rows(groups), table_columns()))
        lines = (*_compared(folder, comparison), *_recommended(plan, candidates, choice, wanted, as_good))
        whole = ("all rows", "           edgetop ")  # a command to copy must be on one line
        shown = (
            one for line in lines for one in ((line,) if line.startswith(whole) else wrapped((line,), text_columns()))
        )
        print_text(
            "\n".join([*_table(candidates, choice, comparison, is_of_models=plan.program is None), *usages, *shown])
        )
    raise_problems(problems, "the rest is compared")
    return EXIT_DONE if groups else EXIT_ENGINE_DIED


def _goal(plan: Plan, candidates: Sequence[Candidate]) -> str:
    """Return the goal by which a combination is recommended, such as `p99`.

    The goal `energy` becomes `run-energy` if no inferences were seen, but the energy of whole runs is known.
    """
    goal = plan.wanted.get("goal") or ("p99" if plan.program is None else "time")
    is_known = {key: any(one.figures.get(key) is not None for one in candidates) for key in ("energy_mj", "run_j")}
    return "run-energy" if goal == "energy" and is_known["run_j"] and not is_known["energy_mj"] else goal


def _comparison(plan: Plan, groups: Sequence[Group], ranked_by: str, problems: list[str]) -> Comparison:
    """Return how each combination of settings differs from the first combination.

    `ranked_by` is the key of the figure to rank by. If the files of `--labels` or `--metric` do not fit, accuracy is
    left out and `problems` gets a line that says so: a long sweep must still end with a table.
    """
    try:
        judge = judge_of(plan.wanted.get("classes"), plan.wanted.get("metric"))
        return compare(groups, ranked_by, judge)
    except InputError as error:
        problems.append(str(error))
        return compare(groups, ranked_by)


def _read(folder: Path, plan: Plan) -> tuple[list[Group], list[Candidate], list[str]]:
    candidates, problems = [], []
    found: dict[str, list[Sample]] = {}
    for settings in plan.combinations:
        name = plan.name_of(settings)
        runs = [run for run in plan.runs if run.settings == settings]
        done = sorted(run.session for run in runs if run.state == "done")
        samples, unreadable = read_samples([str(folder / session) for session in done])
        problems += unreadable
        failed = next((run.reason for run in runs if run.state == "failed"), None)
        ran_on = samples[0].session.engine.providers if samples and plan.program is None else ()
        one = Candidate(settings, name, tuple(done), _figures(samples), failed, ran_on, command=_watched(samples))
        candidates.append(one)
        found[name] = samples
    merged = []
    for one, *others in same_runs(candidates):
        samples = [sample for each in (one, *others) for sample in found[each.name]]
        if others:
            sessions = tuple(session for each in (one, *others) for session in each.sessions)
            names = tuple(other.name for other in others)
            merged.append(replace(one, sessions=sessions, figures=_figures(samples), merged=names))
        else:
            merged.append(one)
        found[one.name] = samples
    groups = [Group(one.name, tuple(found[one.name])) for one in merged if found[one.name]]
    return groups, merged, problems


def _watched(samples: Sequence[Sample]) -> tuple[str, ...]:
    """Return the command of the watched program, or () if edgetop ran a model."""
    return next((one.session.watched.command for one in samples if one.session.watched), ())


def _figures(samples: Sequence[Sample]) -> dict[str, float | None]:
    """Return the figures of the sessions by key, such as `p50_ms`. An unknown figure is None.

    `max_c` is the highest temperature of all sessions. `p99_spread` is how much p99 varies between sessions. All other
    figures are medians over the sessions.
    """
    values: dict[str, list[float]] = {key: [] for key in PROGRAM_KEYS}
    for one in samples:
        latency, energy, batch = one.report.latency, one.report.energy.gross_mj, one.session.load.batch or 1
        hottest = max((zone.max for zone in one.report.temperature.values() if zone.max is not None), default=None)
        each = (
            latency.p50_ms, latency.p99_ms, latency.items_per_s, None if energy is None else energy / batch,
            one.report.memory.rss_peak_mib, hottest,
            one.report.usage.total_time_ms if one.report.usage else None, one.report.energy.run_j,
        )  # fmt: skip
        for key, value in zip(PROGRAM_KEYS, each, strict=True):
            values[key] += [] if value is None else [value]
    medians = {key: round(statistics.median(of), 6) if of else None for key, of in values.items()}
    return {**medians, "max_c": max(values["max_c"], default=None), "p99_spread": p99_spread(samples)}


def _as_good(plan: Plan, comparison: Comparison | None, choice: Choice) -> list[str]:
    """Return the names of combinations that meet the user's limits and are not measurably worse than the chosen one.

    `choice` has the chosen (recommended) combination.
    """
    if comparison is None or choice.recommended is None or "batch" in plan.varied:
        return []
    name = choice.recommended.name
    tied = next((rank.sessions for rank in comparison.ranking if name in rank.sessions), ())
    return [other for other in tied if other != name and other not in choice.excluded]


def _compared(folder: Path, comparison: Comparison | None) -> Iterator[str]:
    """Yield lines about how each combination differs from the first one, the ranking, and what makes this unfair.

    `folder` is the sweep's folder, for the advice at the end. Without a comparison, yield nothing.
    """
    if comparison is None:
        return
    yield ""
    row = comparison.row(comparison.ranked_by)
    for name, one in zip(comparison.names, row.ratios if row else (), strict=False):
        if one is None:
            yield f"{row.label if row else '':<10} against {clean(name)}, 95 %:"
        else:
            interval = f" ({one.ci95[0]:.3f} to {one.ci95[1]:.3f})" if one.ci95 else ""
            ratio = f"x {one.value:.3f}{interval}  " if one.value is not None else ""
            yield f"           {clean(name)}  {ratio}{one.words}"
    yield from ranking_lines(comparison)
    yield from islice(notice_lines("unfair", comparison.fair), 1, None)
    yield f"all rows   edgetop compare {path_word(folder)}/*.edgetop --group-by combination"


def _table(
    candidates: Sequence[Candidate], choice: Choice, comparison: Comparison | None, *, is_of_models: bool
) -> Iterator[str]:
    """Yield the lines of a table with the medians of each combination, then a line for each combination that failed.

    `is_of_models` is false for a sweep over a program; columns that its runs cannot fill are then left out.
    """
    front = {one.name for one in choice.pareto}
    agree = {one.name: verdict for one in candidates if (verdict := worst(comparison, one.name))}
    keys = (
        KEYS
        if is_of_models
        else [key for key in (*PROGRAM_KEYS[-2:], *KEYS) if any(one.figures[key] is not None for one in candidates)]
    )
    has_asked = is_of_models and any(one.settings.provider for one in candidates)
    ran_on = ["ran on"] if has_asked else []
    agreeing = {end: head for end, head in _AGREEING.items() if any(end in verdict for verdict in agree.values())}
    rows = [
        [
            "*" if one.name in front else "",
            clean(one.name),
            *([clean(", ".join(one.ran_on)) or UNKNOWN] if has_asked else []),
            f"{len(one.sessions)}",
            *(_figure_text(one, key, comparison) for key in keys),
            *(value_text(agree.get(one.name, {}).get(end), unit) for end, (_, unit) in agreeing.items()),
        ]
        for one in candidates
        if one.sessions
    ]
    if rows:
        heads = (_HEADS[PROGRAM_KEYS.index(key)] for key in keys)
        yield from table(
            ["", "settings", *ran_on, "n", *heads, *(head for head, _ in agreeing.values())],
            rows,
            {"", "settings", *ran_on},
        )
    if len(front) < len(rows) and choice.axes:
        axes = ", ".join(_AXES[axis] for axis in choice.axes)
        yield f"* no other combination is better in one of {axes} without being worse in another (Pareto front)"
    for one in candidates:
        if one.merged:
            same = clean(", ".join(one.merged))
            yield f"merged     {same} ran on {clean(', '.join(one.ran_on))} too: in the row of {clean(one.name)}"
        if one.reason:
            yield f"failed     {clean(one.name)}: {clean(one.reason)}"


def _figure_text(one: Candidate, key: str, comparison: Comparison | None) -> str:
    """Return a figure of a combination of settings as text. A `?` marks a percentile of too few inferences.

    `key` names the figure, such as `p99_ms`. `comparison` is that of all combinations, or None if there is only one.
    """
    text = or_unknown(one.figures[key], _WORDS.get(key, plain))
    row = comparison.row(key) if comparison and one.name in comparison.names else None
    return doubted(text, settled=row.is_settled(comparison.names.index(one.name)) if comparison and row else None)


def _recommended(
    plan: Plan, candidates: Sequence[Candidate], choice: Choice, wanted: Wanted, as_good: Sequence[str]
) -> Iterator[str]:
    yield ""
    for name, why in choice.excluded.items():
        yield f"left out   {clean(name)}: {why}"
    one = choice.recommended
    if one is None:
        yield f"recommended for {GOALS[wanted.goal][2]}: none" + (" keeps within the limits" if choice.excluded else "")
        return
    yield f"recommended for {GOALS[wanted.goal][2]}: {clean(one.name)}"
    if as_good:
        yield f"           not significantly different: {clean(', '.join(as_good))}"
    elif max(len(each.sessions) for each in candidates) < 3:
        yield "           fewer than three sessions each: the order may be chance (--repeat 5)"
    yield f"           {clean(_command(plan, one))}"


def _command(plan: Plan, one: Candidate) -> str:
    left_out = ("--duration", "--cooldown", "--scenario", "--speed")
    options = [word for word in plan.options if not word.startswith(left_out)]
    if plan.program is not None:
        return shlex.join(["edgetop", "watch", *options, "--", *one.command])
    return shlex.join(["edgetop", "run", *one.settings.arguments, *options])


def _document(
    folder: Path,
    plan: Plan,
    candidates: Sequence[Candidate],
    choice: Choice,
    comparison: Comparison | None,
    as_good: Sequence[str],
    groups: Sequence[Group],
) -> Document:
    front = {one.name for one in choice.pareto}
    rows = usage_rows(groups)
    used = {row.name: {key: value for key, value in row.to_json().items() if key != "name"} for row in rows}
    built = {row.name: row.to_json() for row in model_rows(groups)}
    best = choice.recommended
    return {
        "sweep": str(folder),
        "seed": plan.seed,
        "start_c": plan.start_c,
        "cooldown_to_c": plan.cooldown_to_c,
        "runs": [
            {"number": number, "repetition": run.repetition, "combination": plan.name_of(run.settings),
             "session": run.session, "state": run.state, "reason": run.reason, **run.figures}
            for number, run in enumerate(plan.runs, 1)
        ],
        "combinations": [
            {"name": one.name, **asdict(one.settings), "values": one.settings.texts,
             "sessions": list(one.sessions), **one.figures,
             "ran_on": list(one.ran_on), "merged": list(one.merged),
             "model_figures": built.get(one.name), "usage": used.get(one.name),
             "outputs": worst(comparison, one.name) or None, "reason": one.reason,
             "excluded": choice.excluded.get(one.name), "pareto": one.name in front}
            for one in candidates
        ],
        "program": plan.program,
        "goal": plan.wanted.get("goal"),
        "recommended": best and {"name": best.name, "command": _command(plan, best), "not_told_apart": list(as_good)},
        "compare": comparison and comparison_document(comparison),
    }  # fmt: skip


def _markdown(
    plan: Plan,
    candidates: Sequence[Candidate],
    choice: Choice,
    wanted: Wanted,
    comparison: Comparison | None,
    as_good: Sequence[str],
    groups: Sequence[Group],
) -> Iterator[str]:
    """Yield Markdown lines: the recommended combination, the table of medians, and the comparison with the first one.

    `choice` holds the recommended combination. `wanted` holds the goal of the recommendation. `comparison` is None if
    there is nothing to compare. `as_good` are the names of combinations that are as good as the recommended one.
    `groups` holds the sessions of each combination.
    """
    one = choice.recommended
    yield f"### edgetop sweep: recommended for {GOALS[wanted.goal][2]}: {code(one.name) if one else 'none'}"
    if as_good:
        yield from ("", f"Not significantly different: {', '.join(map(code, as_good))}")
    if one:
        yield from block(clean(_command(plan, one)), "sh")
    possible = KEYS if plan.program is None else PROGRAM_KEYS
    keys = [key for key in possible if any(each.figures[key] is not None for each in candidates)]
    heads = ("sessions", *(_HEADS[PROGRAM_KEYS.index(key)] for key in keys))
    front = {each.name for each in choice.pareto}
    rows = (
        [
            code(each.name), "yes" if each.name in front else "", str(len(each.sessions)),
            *(_figure_text(each, key, comparison) for key in keys),
        ]
        for each in candidates
    )  # fmt: skip
    yield from markdown_table(("settings", "Pareto front", *heads), rows, heads)
    yield from bullets("Left out", (f"{code(name)}: {escaped(why)}" for name, why in choice.excluded.items()))
    failed = (f"{code(each.name)}: {escaped(each.reason)}" for each in candidates if each.reason)
    yield from bullets("Failed", failed)
    if (bench := bench_cells(bench_rows(candidates, groups, comparison)))[1:]:
        columns = bench[0][1:]
        yield from markdown_table(("settings", *columns), ([code(name), *rest] for name, *rest in bench[1:]), columns)
    if comparison:
        yield ""
        yield from comparison_markdown(comparison)


def _csv_rows(
    candidates: Sequence[Candidate], groups: Sequence[Group], comparison: Comparison | None
) -> Iterator[list[object]]:
    used = {row.name: row.values for row in usage_rows(groups)}
    built = {row.name: row.values for row in model_rows(groups)}
    named = dict.fromkeys(pair[0] for one in candidates for pair in one.settings.values)
    yield [*FIELDS, *named, "ran_on", "merged", "sessions", *KEYS, "p99_spread", "failed", *USAGE, *MODELS, *_AGREEING]
    for one in candidates:
        figures, texts = (one.figures[key] for key in KEYS), one.settings.texts
        own = (getattr(one.settings, name) for name in FIELDS)
        yield [*own, *(clean(texts.get(name, "")) for name in named), clean(",".join(one.ran_on)),
               clean(", ".join(one.merged)), len(one.sessions), *figures, one.figures["p99_spread"],
               clean(one.reason or ""),
               *used.get(one.name, [None] * len(USAGE)), *built.get(one.name, [None] * len(MODELS)),
               *map(worst(comparison, one.name).get, _AGREEING)]  # fmt: skip
