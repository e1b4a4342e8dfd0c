"""The parsed options of a sweep, without the options for its runs."""

from pathlib import Path

from edgetop.frozen import frozen


@frozen
class SweepOptions:
    """The options of `edgetop sweep` that are not passed on to its runs."""

    models: tuple[Path, ...]
    more_models: tuple[Path, ...]  # of --models; a list with commas is one path
    models_file: Path | None
    values: tuple[tuple[str, tuple[str, ...]], ...]  # texts by placeholder of a program's command
    threads: tuple[int, ...] | None
    providers: tuple[tuple[str, ...], ...]  # one list for each time that the option was given
    batch: tuple[int, ...] | None
    rate: tuple[float, ...] | None  # Hz
    optimize: tuple[int, ...] | None
    execution_mode: tuple[str, ...] | None
    inter_op_threads: tuple[int, ...] | None
    repeat: int
    cooldown_to: float | None  # C
    goal: str | None  # None: the default
    deadline: str | None  # as it was written
    max_temp: float | None  # C
    max_rss: int | None  # bytes
    classes: Path | None
    metric: str | None
    output: Path | None
    resume: Path | None
    dry_run: bool
    detach: bool
    as_json: bool
    csv_file: Path | None
    html: Path | None
    md_file: str | None  # "-": standard output
    force: bool
