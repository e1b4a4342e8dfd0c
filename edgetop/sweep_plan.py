"""Sweeps: every combination of models and settings, each run in its own sessions, and which combination to recommend.

The plan has the runs in their order, with their results so far. It is stored in a file, so that a sweep can be
continued. This module starts no run and prints nothing.
"""

import fcntl
import itertools
import json
import math
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, Literal

from edgetop.errors import InputError
from edgetop.files import open_regular, read_json, remove_partials, why, write_file
from edgetop.frozen import frozen
from edgetop.paths import as_component

SUFFIX, FILE, LOCK, FORMAT_VERSION = ".sweep", "sweep.json", "lock", 1
# Options that run a program, load a library, or write to hardware or to a file, and one that imports a module.
ORDERS = (
    "--delegate", "--engine-python", "--i2c", "--container", "--dockerfile", "--setup", "--container-args",
    "--custom-ops", "--session-option",
)  # fmt: skip
METRIC = "--metric"
MAX_PLAN_BYTES = 16 * 1024 * 1024
State = Literal["planned", "done", "failed"]
Figures = Mapping[str, float | None]  # by KEYS

# What a goal is about, whether more of it is better, how it is called, and the row by which a comparison ranks.
GOALS: Mapping[str, tuple[str, bool, str, str]] = {
    "p50": ("p50_ms", False, "p50", "p50_ms"),
    "p99": ("p99_ms", False, "p99", "p99_ms"),
    "throughput": ("items_per_s", True, "throughput", "throughput_hz"),
    "energy": ("energy_mj", False, "energy of an item", "gross_mj"),
    "memory": ("rss_peak_mib", False, "peak memory", "rss_peak_mib"),
    "time": ("total_time_ms", False, "total time", "total_time_ms"),
    "run-energy": ("run_j", False, "energy of the run", "run_j"),
}
OF_PROGRAMS = ("time", "run-energy")  # goals that only a program's runs can have
KEYS = ("p50_ms", "p99_ms", "items_per_s", "energy_mj", "rss_peak_mib", "max_c")  # of a combination's figures
PROGRAM_KEYS = (*KEYS, "total_time_ms", "run_j")  # the same for a program
# Fields of settings, without the values. The last three are session options of ONNX Runtime.
FIELDS = ("model", "threads", "provider", "batch", "rate_hz", "optimize", "execution_mode", "inter_op_threads")
PLACEHOLDER = r"[A-Za-z_][A-Za-z0-9_-]*"  # name of a placeholder in a command, which is written in braces


@frozen
class Settings:
    """One combination of a model (or program) and settings that a sweep tries.

    None means the default of `edgetop run`, or a setting that the program does not use.
    """

    model: str  # path; "" for a program without a model
    threads: int | None = None
    provider: str | None = None
    batch: int | None = None
    rate_hz: float | None = None
    values: tuple[tuple[str, ...], ...] = ()  # of a program: pairs of the name of a placeholder and the text for it
    optimize: int | None = None
    execution_mode: str | None = None
    inter_op_threads: int | None = None

    @property
    def texts(self) -> dict[str, str]:
        """Return the texts of the user's own placeholders in a program's command, such as `{"lr": "0.1"}`."""
        return {name: text for name, text in self.values}  # noqa: C416  dict() wants pairs by their type

    @property
    def placeholders(self) -> dict[str, str]:
        """Return the texts of all placeholders in a program's command, such as `{"threads": "2", "lr": "0.1"}`.

        Included are settings that are not None, such as `threads`, and the user's own placeholders.
        """
        rate = None if self.rate_hz is None else f"{self.rate_hz:.12g}"
        known = {
            "model": self.model or None, "threads": self.threads, "provider": self.provider, "batch": self.batch,
            "rate": rate,
        }  # fmt: skip
        return {name: f"{value}" for name, value in known.items() if value is not None} | self.texts

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of `edgetop run` for these settings, such as `["resnet.onnx", "--threads", "2"]`."""
        pairs = (
            ("threads", self.threads), ("provider", self.provider), ("batch", self.batch), ("rate", self.rate_hz),
            ("optimize", self.optimize), ("execution-mode", self.execution_mode),
            ("inter-op-threads", self.inter_op_threads),
        )  # fmt: skip
        return [self.model, *(word for name, value in pairs if value is not None for word in (f"--{name}", f"{value}"))]

    def words(self, named: Sequence[str]) -> str:
        """Return the settings in `named` as one text, such as `resnet.onnx 2 threads CPU batch 4 30 Hz lr=0.1`.

        A setting that is None is left out.
        """
        texts = {
            "model": Path(self.model).name,
            "threads": f"{self.threads} thread{'' if self.threads == 1 else 's'}",
            "provider": f"{self.provider}",
            "batch": f"batch {self.batch}",
            "rate_hz": f"{self.rate_hz:g} Hz" if self.rate_hz else "",
            "optimize": f"optimize {self.optimize}",
            "execution_mode": f"{self.execution_mode}",
            "inter_op_threads": f"{self.inter_op_threads} inter-op",
        }
        texts = {name: text for name, text in texts.items() if getattr(self, name) is not None}
        texts |= {pair[0]: "=".join(pair) for pair in self.values}
        return " ".join(texts[name] for name in named if texts.get(name))


@frozen
class Run:
    """One run of a sweep: the settings to try, and the figures of its session once it has ended."""

    repetition: int  # from 1
    settings: Settings
    session: str  # name of the session's folder, within the folder of the sweep
    state: State = "planned"
    reason: str | None = None  # why the run failed; None if it did not fail
    figures: Mapping[str, float | None] = field(default_factory=dict)  # those of `figures_of`


@frozen
class Plan:
    """The plan of a sweep: its runs in order, with their results. Its file is written again after each run."""

    runs: tuple[Run, ...]
    options: tuple[str, ...]  # options of every run, as the user wrote them
    folder: str  # the working directory in which the user wrote them
    seed: int
    duration_s: float | None  # of each run; None if a run ends after a number of inferences
    cooldown_max_s: float
    cooldown_to_c: float | None = None  # target of the cooldown; None if no temperature can be read
    rest_s: float = 0.0  # fixed rest before each run (--cooldown)
    start_c: float | None = None  # the hottest zone before the first run
    asked: tuple[str, ...] = ()  # given options of ORDERS and METRIC: their names, without values
    wanted: Mapping[str, Any] = field(default_factory=dict)  # what is recommended: goal, deadline, max_temp, max_rss
    program: str | None = None  # name of the program that the sweep runs; None if edgetop runs models
    command_sha256: str | None = None  # of the program's command, which is not stored

    @property
    def varied(self) -> tuple[str, ...]:
        """Return the names of the settings that are not the same in all runs, or ("model",) if all are the same."""
        several = [name for name in FIELDS if len({getattr(run.settings, name) for run in self.runs}) > 1]
        texts: dict[str, set[str]] = {}
        for run in self.runs:
            for name, text in run.settings.values:
                texts.setdefault(name, set()).add(text)
        return (*several, *(name for name, each in texts.items() if len(each) > 1)) or ("model",)

    def name_of(self, settings: Settings) -> str:
        """Return a name for a combination: the values of the settings that vary in this sweep, such as `2 threads CPU`.

        If none of these settings has a value, the result is the name of the program that the sweep runs.
        """
        return settings.words(self.varied) or self.program or ""

    @property
    def combinations(self) -> tuple[Settings, ...]:
        """Return the combinations in the order in which the user gave them."""
        numbered = sorted(self.runs, key=lambda run: run.session)
        return tuple(dict.fromkeys(run.settings for run in numbered))

    @property
    def next_run(self) -> Run | None:
        """Return the next planned run, or None if none is left. A combination that has failed before is skipped."""
        failed = {run.settings for run in self.runs if run.state == "failed"}
        return next((run for run in self.runs if run.state == "planned" and run.settings not in failed), None)

    def amended(self, run: Run, **changes: object) -> "Plan":
        """Return the plan with some fields of `run` changed. `changes` are the new values by field."""
        changed = replace(run, **changes)  # type: ignore[arg-type]
        return replace(self, runs=tuple(changed if one is run else one for one in self.runs))


def combined(
    models: Sequence[str],
    threads: Sequence[int | None],
    providers: Sequence[str | None],
    batches: Sequence[int | None],
    rates: Sequence[float | None],
    values: Mapping[str, Sequence[str]] | None = None,
    session: Mapping[str, Sequence[int | str | None]] | None = None,
) -> tuple[Settings, ...]:
    """Return every combination of the given settings, ordered so that the model changes least often.

    Each parameter lists the values to try. None in a list leaves the setting out. `values` has the texts to try for
    each placeholder that the user defined, by its name. `session` has the values to try for each session option of ONNX
    Runtime, by its field.
    """
    texts = [[(name, text) for text in each] for name, each in (values or {}).items()]
    fields = itertools.product(models, threads, providers, batches, rates)
    options = [[(name, value) for value in each] for name, each in (session or {}).items()]
    return tuple(
        Settings(*each, pairs, **dict(chosen))  # type: ignore[arg-type]
        for each in fields
        for chosen in itertools.product(*options)
        for pairs in itertools.product(*texts)
    )


def ordered(combinations: Sequence[Settings], repeat: int, seed: int, program: str = "") -> Iterator[Run]:
    """Yield one run of each combination for each repetition. The order within a repetition is random.

    A slow change of the board, such as heat, then affects all combinations alike. `repeat` is the number of
    repetitions. `seed` seeds the random order. `program` is the name of the program, for sessions without a model.
    """
    chance = random.Random(seed)  # noqa: S311  an order, no secret
    numbered = list(enumerate(combinations, 1))
    for repetition in range(1, repeat + 1):
        for number, settings in chance.sample(numbered, len(numbered)):
            stem = re.sub(r"[^\w.-]+", "-", Path(settings.model or program).stem)[:60]
            yield Run(repetition, settings, f"{number:03d}-{stem}-{repetition}.edgetop")


def write_plan(folder: Path, plan: Plan) -> None:
    """Write the plan to its file in `folder`. Raises OSError.

    The values of options that run commands or load files are left out, so that a plan from somebody else cannot run
    commands.
    """
    document = {"format_version": FORMAT_VERSION, **asdict(without_orders(plan))}
    write_file(folder / FILE, json.dumps(document, indent=1))


def without_orders(plan: Plan) -> Plan:
    """Return the plan without the values of options that run commands or load files.

    The options are those in ORDERS, and `--metric`. Their names are kept.
    """
    names = [name for name in ORDERS if any(word.startswith(f"{name}=") for word in plan.options)]
    wanted = {name: value for name, value in plan.wanted.items() if name != "metric"}
    if plan.wanted.get("metric"):
        names.append(METRIC)
    kept = tuple(word for word in plan.options if not word.startswith(tuple(f"{name}=" for name in ORDERS)))
    return replace(plan, options=kept, wanted=wanted, asked=tuple(dict.fromkeys((*plan.asked, *names))))


def hold(folder: Path) -> int | None:
    """Lock the folder of a sweep for this process.

    Return the lock's file descriptor, or None if another process holds the lock.
    """
    fd = open_regular(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    remove_partials(folder / FILE)
    return fd


def is_running(folder: Path) -> bool:
    """Whether a process of this user is running the sweep in this folder. This check writes no file."""
    try:
        fd = open_regular(folder / LOCK)
    except OSError:  # none, another user's, or no file
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.fstat(fd).st_uid == os.geteuid()
    finally:
        os.close(fd)
    return False


def refuse_others(folder: Path) -> None:
    """Raise InputError if the sweep belongs to another user, because its commands would run as this user."""
    for path in (folder, folder / FILE):
        try:
            owner = path.stat().st_uid
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        if owner != os.geteuid():
            raise InputError(f"{folder}: belongs to another user", "copy it, and go on with the copy")


def read_plan(folder: Path) -> Plan:
    """Return the plan that is stored in a sweep's folder.

    The folder may come from anybody, so the plan is checked. Raises InputError if there is no plan, or if it is not
    valid.
    """
    from edgetop.session.manifest import built  # noqa: PLC0415  loads NumPy, which --help does without

    path = folder / FILE
    try:
        document = read_json(path, MAX_PLAN_BYTES)
        if not isinstance(document, dict):
            raise InputError(f"{path}: is not the plan of a sweep")
        if (version := document.get("format_version")) != FORMAT_VERSION:
            raise InputError(f"{path}: a sweep of format {version!r}", "it was written by a later edgetop")
        plan = replace(built(Plan, {**document, "wanted": {}}, FILE), wanted=document.get("wanted", {}))
    except FileNotFoundError:
        raise InputError(f"{folder}: no sweep is there (no {FILE})", "give the folder that the sweep printed") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {why(error)}") from None
    if not plan.runs or not _is_sound(plan):
        raise InputError(f"{path}: is not the plan of a sweep")
    return plan


_WANTED: Mapping[str, tuple[type, ...]] = {
    "goal": (str,), "deadline": (str,), "max_temp": (int, float), "max_rss": (int, float), "classes": (str,),
    "metric": (str,),
}  # fmt: skip


def _is_sound(plan: Plan) -> bool:
    """Whether a plan from a file is safe to run.

    Session names must be distinct and must be safe file names. Paths must be absolute, so that none can be taken for an
    option of a command line. Other values must have their expected types.
    """
    names = [run.session for run in plan.runs]
    wanted = plan.wanted
    return (
        all(re.fullmatch(r"[\w.-]+\.edgetop", name) and as_component(name) == name for name in names)
        and len(set(names)) == len(names)
        and all(path.startswith("/") and "\0" not in path for path in (plan.folder, *_models(plan)))
        and all(
            len(pair) == 2 and re.fullmatch(PLACEHOLDER, pair[0]) for run in plan.runs for pair in run.settings.values
        )
        and (plan.program is None) == (plan.command_sha256 is None)
        and not any((run.settings.provider or "").startswith("-") for run in plan.runs)
        and plan.cooldown_max_s >= 0
        and plan.rest_s >= 0
        and isinstance(wanted, dict)
        and wanted.get("goal") in (None, *GOALS)
        and all(type(value) in _WANTED.get(name, ()) for name, value in wanted.items() if value is not None)
    )


def _models(plan: Plan) -> list[str]:
    models = [run.settings.model for run in plan.runs]
    return models if plan.program is None else [model for model in models if model]


def figures_of(report: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the figures that the live table of a sweep shows, by name, such as `p50_ms`. An unknown figure is None.

    `report` is the document of `report --json`.
    """
    latency, method = report["latency"], report["session"]["methodology"]
    zones = [zone["max"] for zone in report["temperature"].values() if zone["max"] is not None]
    return {
        "p50_ms": latency["p50_ms"],
        "p99_ms": latency["p99_ms"],
        "throughput_hz": latency["throughput_hz"],
        "gross_mj": report["energy"]["gross_mj"],
        "rss_peak_mib": report["memory"]["rss_peak_mib"],
        "max_c": max(zones, default=None),
        "start_c": max(method["start_temperatures"].values(), default=None),
        "cooldown_s": method["cooldown_s"],
        "cooldown_c": method["cooldown_c"],
        **(_figures_of_program(report) if report["session"].get("watched") else {}),
    }


def _figures_of_program(report: Mapping[str, Any]) -> dict[str, float | None]:
    usage = report["usage"] or {}
    return {
        "total_time_ms": usage.get("total_time_ms"),
        "cpu_mean_pct": usage.get("cpu_mean_pct"),
        "run_j": report["energy"].get("run_j"),
    }


@frozen
class Wanted:
    """What the user wants from a sweep: what to optimise, and limits. None means no limit."""

    goal: str = "p99"
    deadline_ms: float | None = None  # p99 is not above it
    max_c: float | None = None
    max_rss_mib: float | None = None


@frozen
class Candidate:
    """One combination of settings that a sweep tried, with the medians of its sessions' figures."""

    settings: Settings
    name: str
    sessions: tuple[str, ...]
    figures: Figures
    reason: str | None = None  # why it failed
    ran_on: tuple[str, ...] = ()  # providers that the runtime used, first choice first; () if it did not run
    merged: tuple[str, ...] = ()  # names of other combinations that ran on the same
    command: tuple[str, ...] = ()  # of a watched program

    @property
    def what_ran(self) -> tuple[object, ...]:
        """Return a tuple that is equal for two combinations of settings if both really ran the same.

        The tuple has the settings and the providers (what ran the operators) that were used, not the requested
        provider.
        """
        name, _, options = (self.settings.provider or "").partition(":")
        is_used = name.lower() in (one.lower() for one in self.ran_on)
        return replace(self.settings, provider=None), self.ran_on, options if is_used else ""

    @property
    def runs_as_asked(self) -> bool:
        """Whether the runtime's first choice was the provider (such as an accelerator) that the user requested."""
        name = (self.settings.provider or "").partition(":")[0]
        return self.ran_on[:1] != () and self.ran_on[0].lower() == name.lower()


def same_runs(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return the candidates in groups. In a group, the same settings ran with the same providers (what runs operators).

    Candidates with different requests can run the same way, because a runtime uses the CPU if it lacks a provider. The
    candidate that ran as requested comes first in its group. A candidate that has not run is grouped by its name.
    """
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for one in candidates:
        groups.setdefault(one.what_ran if one.ran_on else (one.name,), []).append(one)
    return [sorted(group, key=lambda one: not one.runs_as_asked) for group in groups.values()]


@frozen
class Choice:
    recommended: Candidate | None  # None: none keeps within the limits
    pareto: tuple[Candidate, ...]  # no other is better in one of latency, energy and memory, and worse in none
    axes: tuple[str, ...]  # of that front: what is known of all of them
    excluded: Mapping[str, str]  # by name, why


def choose(candidates: Sequence[Candidate], wanted: Wanted) -> Choice:
    """Return the best candidate, the candidates on the Pareto front, and why some are excluded.

    A candidate is on the front unless another one is better in latency, energy or memory and worse in none of these.
    Candidates that failed do not count. `wanted` says what to optimise, and the limits.
    """
    worked = [one for one in candidates if one.reason is None]
    excluded = {one.name: why for one in worked if (why := _beyond(one, wanted))}
    key, more_is_better, *_ = GOALS[wanted.goal]
    fit = [one for one in worked if one.name not in excluded]
    sign = -1 if more_is_better else 1
    best = min(fit, key=lambda one: sign * (one.figures[key] or 0.0), default=None)
    latency = "p50_ms" if wanted.goal == "p50" else "p99_ms"
    axes = tuple(
        axis for axis in (latency, "total_time_ms", "energy_mj", "run_j", "rss_peak_mib")
        if worked and all(one.figures.get(axis) is not None for one in worked)
    )  # fmt: skip
    pareto = tuple(one for one in worked if axes and not any(_beats(other, one, axes) for other in worked))
    return Choice(best, pareto, axes, excluded)


def _beyond(one: Candidate, wanted: Wanted) -> str:
    """Return which limit the candidate exceeds, or which figure is unknown; "" if the candidate can be recommended."""
    limits = (
        ("p99_ms", wanted.deadline_ms, "p99", "ms"),
        ("max_c", wanted.max_c, "the hottest zone", "°C"),
        ("rss_peak_mib", wanted.max_rss_mib, "peak RSS", "MiB"),
    )
    for key, limit, what, unit in limits:
        value = one.figures[key]
        if limit is not None and value is None:
            return f"{what} is not known"
        if limit is not None and value is not None and value > limit:
            return f"{what} {value:.4g} {unit} is above {limit:.4g}"
    return f"{GOALS[wanted.goal][2]} is not known" if one.figures.get(GOALS[wanted.goal][0]) is None else ""


def _beats(other: Candidate, one: Candidate, axes: Sequence[str]) -> bool:
    pairs = [(other.figures[axis] or math.inf, one.figures[axis] or math.inf) for axis in axes]
    return all(theirs <= mine for theirs, mine in pairs) and any(theirs < mine for theirs, mine in pairs)
