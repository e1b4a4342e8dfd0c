"""Requests: what a command line asks edgetop to run. Each command makes one `RunRequest`; no other code reads options.

Every value has its final type and unit. Every check that needs no file has been made. This module loads nothing heavy,
because a request is made before the engine starts and before the run leaves the shell's process (terminal.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from edgetop.cli.companions import Given
from edgetop.cli.screen_options import ScreenChoices
from edgetop.engines.spec import DEFAULT_WARMUP_RUNS, SessionChoices
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.runner.engine_limit import Limit, limit_of

if TYPE_CHECKING:
    from edgetop.analysis.alerts.alert_rules import AlertRule
    from edgetop.analysis.session_gates import Gate
    from edgetop.cli.event_hooks import Hook
    from edgetop.comparison.comparison_gates import RelativeGate
    from edgetop.comparison.output_agreement import Judge
    from edgetop.recording.export.export_formats import NamedOutput
    from edgetop.sensors.i2c import I2cSpec
    from edgetop.session.load_settings import ImageInput
    from edgetop.session.manifest import Battery
    from edgetop.simulation.scenarios import Scenario
    from edgetop.taps.watched_container import WatchedContainer
    from edgetop.taps.watched_process import WatchedProcess
    from edgetop.taps.watched_program import WatchedProgram

T = TypeVar("T")
WithOptions = tuple[str, Mapping[str, str]]  # the name of a provider or the path of a delegate, and its options


# What runs.


@frozen
class GenerationRequest:
    """The options for requests to a language model, such as `--prompt`. None means that an option was not given."""

    prompt: str | None = None  # a text, or the path of a file with it
    prompts_file: Path | None = None
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    context: int | str | None = None  # "auto": as large as fits
    temperature: float | None = None
    gpu_layers: int | None = None
    parallel: int | None = None

    @property
    def given(self) -> str | None:
        """The first option for requests that the user gave, such as `--max-tokens`, or None if the user gave none."""
        fields = (
            "prompt", "prompts_file", "prompt_tokens", "max_tokens", "context", "temperature", "gpu_layers", "parallel",
        )  # fmt: skip
        name = next((name for name in fields if getattr(self, name) is not None), None)
        return name and f"--{name.removesuffix('_file').replace('_', '-')}"

    @classmethod
    def of(cls, given: Given) -> "GenerationRequest":
        return cls(
            given.get("prompt"),
            given.get("prompts_file"),
            given.get("prompt_tokens"),
            given.get("max_tokens"),
            given.get("context"),
            given.get("temperature"),
            given.get("gpu_layers"),
            given.get("parallel"),
        )


@frozen
class ModelChoice:
    """Which model to run, and with which runtime and options."""

    path: Path | None = None  # None: the built-in demo model
    engine: str | None = None  # None: chosen by the file's content
    providers: tuple[WithOptions, ...] = ()
    delegates: tuple[WithOptions, ...] = ()
    xnnpack: bool = True
    images: "ImageInput | None" = None  # how pictures become inputs; None: as by default
    signature: str | None = None  # of a TFLite model; None: its first graph
    session: SessionChoices = SessionChoices()  # of ONNX Runtime
    threads: int = 0  # 0: the runtime's default
    batch: int | None = None
    python: Path | None = None  # the engine's interpreter; None: edgetop's own
    inputs: Mapping[str, str] = field(default_factory=dict)  # source by name of the input; "" for all inputs
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seed: int = 0  # seed of random inputs and arrivals
    needs_full_delegation: bool = False
    cpus: tuple[int, ...] = ()  # (): any
    limit: Limit = Limit()
    generation: GenerationRequest = GenerationRequest()
    url: str | None = None  # URL of a server of language models, which takes the place of `path`

    @classmethod
    def of(cls, given: Given) -> "ModelChoice":
        """Return the chosen model, taken from `given`, the parsed options by name.

        Raises InputError if an input is named twice.
        """
        return cls(
            path=given["model"],
            engine=given["engine"],
            providers=given["providers"],
            delegates=given["delegates"],
            xnnpack=not given["no_xnnpack"],
            images=_images(given),
            signature=given.get("signature"),
            session=_session(given),
            threads=given["threads"],
            batch=given["batch"],
            python=given["engine_python"],
            inputs=_once(given["inputs"], "--input"),
            shapes=_once(given["shapes"], "--shape"),
            seed=given["seed"],
            needs_full_delegation=given.get("require_full_delegation", False),
            cpus=given["engine_cpus"] or (),
            limit=limit_of(given.get("limits", ())),
            generation=GenerationRequest.of(given),
        )


@frozen
class ModelSubject:
    """What a session runs: one model, in its own process or in a thread of this process."""

    model: ModelChoice
    isolation: str = "process"  # or "thread"


@frozen
class DemoSubject:
    """What a demo session runs: one model, on a simulated board."""

    model: ModelChoice
    scenario: "Scenario"
    speed: float  # simulated seconds per real second
    board_state: Path | None = None  # file that keeps the heat of the board between sessions


@frozen
class Variant:
    model: ModelChoice
    written: str  # options of this variant, as the user wrote them


@frozen
class VariantsSubject:
    """What an A/B session runs in turns: two variants, A and B, which are two models or one model with two settings."""

    variants: tuple[Variant, Variant]
    until: float  # end when the interval of the ratio of p50 is this narrow, as a share
    turn_ns: int | None  # length of a turn; None: fifty inferences
    order_seed: int


@frozen
class ProgramSubject:
    """What a session watches: a program that runs its own inferences."""

    program: "WatchedProgram | WatchedProcess | WatchedContainer"
    limit: Limit = Limit()  # for a program that edgetop starts


Subject = ModelSubject | DemoSubject | VariantsSubject | ProgramSubject


def model_of(subject: Subject) -> ModelChoice:
    """Return the model that edgetop runs. In an A/B session, return the model of variant A.

    Raises TypeError for a watched program, because edgetop does not run its model.
    """
    match subject:
        case ModelSubject(model) | DemoSubject(model):
            return model
        case VariantsSubject(variants):
            return variants[0].model
        case ProgramSubject():
            raise TypeError("a watched program has no model that edgetop runs")


# How it runs.


@frozen
class Phases:
    """How long each phase of a run takes, and when the run ends. A limit of None does not apply."""

    duration_ns: int | None = None
    runs: int | None = None
    warmup_runs: int | None = DEFAULT_WARMUP_RUNS  # None: until latency is steady; AUTO_WARMUP: the model's default
    warmup_ns: int = 0
    idle_ns: int = 0  # length of the rest after the first inference, in which idle power is measured
    profile_every_ns: int = 0  # interval between two profiles of the operators; 0: never

    @classmethod
    def of(cls, given: Given) -> "Phases":
        return cls(
            duration_ns=given.get("duration"),
            runs=given.get("runs"),
            warmup_runs=given["warmup_runs"],
            warmup_ns=given["warmup_time"],
            idle_ns=given.get("idle_baseline", 0),
            profile_every_ns=given.get("profile_every", 0),
        )


@frozen
class LoadRequest:
    rate_hz: float | None = None  # inferences per second in each stream; None: back to back
    arrivals: str = "fixed"  # or "poisson"
    pace_of: str | None = None  # session whose start times are replayed
    streams: int = 1
    delay_ns: int = 0  # pause after each inference, if there is no rate
    duty_ns: tuple[int, int] | None = None  # lengths of work and rest, which alternate
    deadline_ns: int | None = None

    @classmethod
    def of(cls, given: Given) -> "LoadRequest":
        return cls(
            rate_hz=given["rate"],
            arrivals=given["arrivals"] or "fixed",
            pace_of=given["pace_of"],
            streams=given["streams"],
            delay_ns=given["delay"] or 0,
            duty_ns=given["duty"],
            deadline_ns=given["deadline"],
        )


@frozen
class PowerLogRequest:
    """A power log to read. An instrument writes this log during the run."""

    path: Path
    format: str | None = None  # None: recognised from the file's content
    volts: float | None = None
    offset_s: float = 0.0  # session time at which the time of the log is 0
    interval_ns: int | None = None  # interval of tegrastats, whose lines may have no time


@frozen
class BoardRequest:
    """Options about the board: its sensors, and the temperature to which it must cool before the run."""

    sysroot: Path | None = None  # a captured file tree; None: this board
    i2c: tuple["I2cSpec", ...] = ()
    hz: float | None = None  # average rate at which power is read; None: set by each sensor
    sample_ns: int | None = None  # interval of readings of the engine's or program's use; None: set by each sensor
    power_log: PowerLogRequest | None = None
    monitor_cpus: tuple[int, ...] = ()  # (): any
    cooldown_to_c: float | None = None
    cooldown_max_ns: int = 0
    cooldown_ns: int = 0  # length of a fixed rest

    @property
    def sample_s(self) -> float | None:
        return None if self.sample_ns is None else self.sample_ns / 1e9

    @classmethod
    def of(cls, given: Given) -> "BoardRequest":
        log = given.get("power_log") and PowerLogRequest(
            given["power_log"],
            given["power_log_format"],
            given["power_volts"],
            given["power_log_offset"],
            given["power_log_interval"],
        )
        return cls(
            sysroot=given.get("sysroot"),
            i2c=given.get("i2c", ()),
            hz=given["hz"],
            sample_ns=given.get("sample_time"),
            power_log=log,
            monitor_cpus=given["monitor_cpus"] or (),
            cooldown_to_c=given["cooldown_to"],
            cooldown_max_ns=given["cooldown_max"],
            cooldown_ns=given["cooldown"],
        )


# What is judged, kept and shown.


@frozen
class Judging:
    gates: tuple["Gate", ...] = ()
    ratio_gates: tuple["RelativeGate", ...] = ()  # gates on B divided by A, in an A/B session
    fail_fast: bool = False
    alerts: tuple["AlertRule", ...] = ()
    hooks: tuple["Hook", ...] = ()
    judge: "Judge | None" = None  # judges whether the kept outputs are right

    @classmethod
    def of(cls, given: Given, judge: "Judge | None" = None) -> "Judging":
        return cls(
            gates=given.get("gates", ()),
            ratio_gates=given.get("ratio_gates", ()),
            fail_fast=given.get("fail_fast", False),
            alerts=given["alerts"],
            hooks=given["hooks"],
            judge=judge,
        )


@frozen
class Keeping:
    """Options about the recording: where and how to record the session, and what to note about it."""

    output: Path | None = None  # None: in the recordings folder
    is_recorded: bool = True
    has_raw: bool = True  # whether single inferences are recorded
    max_size_bytes: int | None = None
    fsync_interval_ns: int = 0
    keep_outputs: int = 0  # number of inferences before the warm-up whose outputs are kept
    labels: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    ambient_c: float | None = None
    ambient_sensor: str | None = None  # id of the sensor that measures it
    enclosure: str | None = None
    battery: "Battery | None" = None
    rotate_ns: int | None = None
    quota_bytes: int | None = None  # most space that all sessions of the folder may take

    @classmethod
    def of(cls, given: Given) -> "Keeping":
        return cls(
            output=given["output"],
            is_recorded=not given["no_record"],
            has_raw=not given["no_raw"],
            max_size_bytes=given["max_size"],
            fsync_interval_ns=given["fsync_interval"],
            keep_outputs=given.get("keep_outputs") or 0,
            labels=given["labels"],
            notes=given["notes"],
            ambient_c=None if isinstance(given["ambient"], str) else given["ambient"],
            ambient_sensor=given["ambient"] if isinstance(given["ambient"], str) else None,
            enclosure=given["enclosure"],
            battery=given.get("battery"),
            rotate_ns=given.get("rotate"),
            quota_bytes=given.get("sessions_quota"),
        )


@frozen
class MetricsRequest:
    textfile_folder: Path | None = None
    endpoint: tuple[str, int] | None = None
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    collector: str | None = None  # the URL of an OpenTelemetry collector

    @classmethod
    def of(cls, given: Given) -> "MetricsRequest":
        return cls(
            given["prom_textfile"],
            given["metrics"],
            given["metrics_token_file"],
            given["metrics_cert"],
            given["metrics_key"],
            given["otlp"],
        )


@frozen
class Showing:
    """Options about the display: how to show the session while it runs, and its result at the end."""

    headless: bool = False
    live: bool = False  # whether to print plain sentences in place of a screen
    detach: bool = False
    as_json: bool = False
    screen: ScreenChoices = ScreenChoices()
    junit: Path | None = None
    page: "NamedOutput | None" = None

    @classmethod
    def of(cls, given: Given, page: "NamedOutput | None" = None) -> "Showing":
        return cls(
            headless=given["headless"],
            live=given["live"],
            detach=given["detach"],
            as_json=given["as_json"],
            screen=ScreenChoices.of(given),
            junit=given.get("junit"),
            page=page,
        )


@frozen
class RunRequest:
    """All that a command line asks for in one session."""

    subject: Subject
    phases: Phases
    load: LoadRequest
    board: BoardRequest
    judging: Judging
    keeping: Keeping
    metrics: MetricsRequest
    showing: Showing

    def __post_init__(self) -> None:
        """Raise InputError if a gate (`--fail-if`) or an alert on missed deadlines comes without `--deadline`."""
        if self.load.deadline_ns is None:
            for option, asked in (("--fail-if", self.judging.gates), ("--alert", self.judging.alerts)):
                if any(one.name == "misses" for one in asked):
                    raise InputError(f"{option} misses needs --deadline", "say what is missed: --deadline 33ms")


def _images(given: Given) -> "ImageInput | None":
    names = ("size", "layout", "mean", "scale")
    fields = {name: given.get(f"image_{name}") for name in names}
    if all(value is None for value in fields.values()):
        return None
    from edgetop.session.load_settings import ImageInput  # noqa: PLC0415  loads NumPy

    return ImageInput(**fields)


def _session(given: Given) -> SessionChoices:
    return SessionChoices(
        optimize=given.get("optimize"),
        inter_threads=given.get("inter_op_threads"),
        execution=given.get("execution_mode") or "",
        arena=not given.get("no_arena"),
        config=_once(given.get("session_options", ()), "--session-option"),
        custom_ops=tuple(str(path.absolute()) for path in given.get("custom_ops", ())),
    )


def _once(pairs: Sequence[tuple[str, T]], option: str) -> dict[str, T]:
    named = dict(pairs)
    if len(named) < len(pairs):
        same = "key" if option == "--session-option" else "input"
        raise InputError(f"{option} is given twice for the same {same}")
    return named
