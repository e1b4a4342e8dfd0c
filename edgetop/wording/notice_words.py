"""The findings of the analysis as notices: a message, what the user can do, and figures for JSON.

The screen, the report, its JSON document and comparisons show the same notice.
"""

from collections.abc import Iterable, Mapping, Sequence

from edgetop.analysis import findings as of
from edgetop.analysis.findings import Finding, Hint
from edgetop.analysis.hotspots import short_name
from edgetop.analysis.memory_use import HOUR_S, Slope
from edgetop.analysis.operator_shares import OperatorView
from edgetop.analysis.precision import least_independent
from edgetop.analysis.recent_events import Lasting
from edgetop.analysis.statistics import SETTLED_COUNTS
from edgetop.formatting import clean, clock_time, duration, milliseconds, percent, quantity, rounded
from edgetop.session.engine_events import RecordsLost
from edgetop.session.event_codec import data_of
from edgetop.session.events import Notice
from edgetop.session.manifest import SessionKind
from edgetop.session.operators import CPU
from edgetop.session.seconds import NS
from edgetop.session.typed_json import JsonValue
from edgetop.wording.fault_words import fault_words
from edgetop.wording.load_words import overload_words
from edgetop.wording.memory_words import leak_rate
from edgetop.wording.sensor_words import sensor_name
from edgetop.wording.slowdown_words import streams_words

# What to do about each code whose advice is always the same.
ADVICE: Mapping[str, str] = {
    "assumed-shape": "give the shape that deployment uses with --shape NAME:1,3,224,224",
    "assumed-signature": "choose the one that deployment calls with --signature NAME",
    "provider-dropped": "install the build of the runtime that has it, or run with --provider CPU",
    "partly-accelerated": "each change of place waits and may copy: run all of it on the CPU as well and compare",
    "records-lost": "the session is incomplete there; give edgetop a core of its own, or a slower --refresh",
    "inference-failed": "look at the event log; the inputs may not suit the model",
    "no-sensors": "edgetop sensors says what is missing, why, and what would bring it",
    "model-misnamed": "rename the file, so that other tools know it too",
    "recording-failed": "free space or record elsewhere with -o; the run itself went on",
    "recording-behind": "record on a faster disk, or without single inferences: --no-raw",
    "data-dependent": "measure with real samples: --input NAME=FILE.npy",
    "non-finite-outputs": "its results are of no use: see where it overflows (float16), or what the inputs should hold",
    "governor-changed": "set it before the run, and see what else sets it: tuned, power-profiles-daemon, a script",
    "power-mode-changed": "figures of two modes are mixed here: set the mode before the run and measure anew",
    "cpus-changed": "measure anew with all CPUs online: threads pinned to a CPU that goes offline move to other CPUs",
    "cpu-quota": "a quota is not a slower CPU: it raises p99 more than p50; for fewer CPUs give --limit cpus=N",
    "memory-limit": "edgetop fit-memory finds the least memory with which it runs well",
    "oom-kill": "give it more memory with --limit memory=SIZE, or let it load less at once",
    "clock-source": "boot with the fast clock of this board (x86: clocksource=tsc), or trust only long inferences",
    "coarse-times": "import a shorter run: trtexec keeps times as 32-bit floats of milliseconds since its start",
    "tool-summary": "for each inference import what trtexec --exportTimes or onnxruntime_perf_test's result file has",
    "no-starts": "import its printed output too, for the throughput; trends show the order of inferences, not times",
    "no-inference": "edgetop help watch says what is seen; its own two lines report anything else (edgetop help probe)",
    "calls-unseen": "edgetop help watch tells how processes report their calls, and where",
    "foreign-times": "in Python time.monotonic_ns(), in C clock_gettime(CLOCK_MONOTONIC): edgetop help tap",
    "streams-full": "figures of all calls together are complete; edgetop watch each program alone for the rest",
    "left-behind": "start it so that it stays in the foreground, or watch it as it runs: edgetop watch --pid N",
    "recovered": "the report says under lost what is missing; edgetop help recording tells what survives what",
    # Doubts that follow from figures.
    "one-input": "measure with several: --input random:16, or a folder of real samples",
    "internal-error": "the recording and the other figures stand; edgetop report says what to send",
    "overloaded": "response times depend on the length of the run; ask for a --rate that the engine can keep",
    "background-load": "what shares the board with the model belongs in the measurement only if production has it too",
    "still-warming": "run until it no longer does: what is sustained is not known before",
    "p99-differs": "no single p99 describes this run: slowdowns and events tell what changed; or measure longer",
    "clock-limit-changed": (
        "heat, a power mode or a program lowered it: slowdowns and events tell when; fix the clocks before a run"
    ),
    "unsustainable-mode": "measure in the mode in watts that deployment can hold",
    "not-sustained": "deployment sees the sustained figures; slowdowns tell why",
    "steal": "the host is shared: the tail is not the board's own",
    "monitor-cost": "a slower --refresh, --headless, or watching from elsewhere (edgetop help remote) costs less",
    "short-sustained": "measure for five minutes or more: --duration 5m",
    "short-power": "measure for five minutes or more: --duration 5m",
    "leak": "look for what is kept from inference to inference: in the runtime, a delegate, the outputs",
    # Hints that follow from the times of the operators.
    "fell-back": (
        "each crossing waits and may copy: run all of it on the CPU as well and compare; "
        "edgetop run --require-full-delegation refuses such a model"
    ),
    "crossings": "each crossing waits and may copy: run all of it on one of them and compare",
    "dominant-operator": (
        "nothing else is worth tuning before it: its shape, its dtype, or another operator in its place"
    ),
    "slow-kernel": (
        "its shape, stride or dilation may have no optimised kernel: edgetop ops shows these; "
        "channels in multiples of 8 or 16 and no dilation are what kernels are written for"
    ),
    "conversions-time": "keep one dtype through the model, and operators together that work on the same layout",
    "dynamic-quantisation": "quantise activations as well, with a set of representative inputs",
    "not-fused": "nothing else may read the convolution's output; edgetop inspect names such places",
    "small-for-delegate": "run it on the CPU alone and compare",
    "thread-imbalance": (
        "one of them has a slower CPU, or shares it: --engine-cpus with CPUs of one kind, as many as --threads, "
        "or fewer --threads"
    ),
    "threads-moved": (
        "caches are cold after each move, and the CPU may be a slower one: --engine-cpus with as many CPUs as --threads"
    ),
}
_NAMED = 3  # operators in a hint
# The same in a kind of session that has no such option, or another one.
ADVICE_IN: Mapping[tuple[SessionKind, str], str] = {
    ("watch", "provider-dropped"): "install the build of the runtime that has it, or let the program ask for the CPU",
    ("watch", "cpu-quota"): (
        "a quota is not a slower CPU: it raises p99 more than p50; for fewer CPUs give --limit cpus=N, or use taskset"
    ),
    ("watch", "memory-limit"): "give the program's cgroup or container more memory, or load less in it",
    ("ab", "short-power"): "measure each model for five minutes or more by itself: edgetop run --duration 5m",
    ("ab", "short-sustained"): "measure each model for five minutes or more by itself: edgetop run --duration 5m",
    ("import", "short-power"): "measure for five minutes or more",
    ("import", "short-sustained"): "measure for five minutes or more",
}
_WARM_UP = "leave --warmup-runs at its default of 50"
_WARM_UP_THERE = "give trtexec a longer --warmUp, and import with that as --warmup-time"

_Figures = dict[str, JsonValue]


def notice(finding: Finding) -> Notice:
    """Return a finding of the analysis as a notice: with its message, its advice and its figures."""
    message, figures = _told(finding)
    return Notice(finding.code, message, _advice(finding), figures)


def notice_words(finding: Finding) -> str:
    """Return only the message of a finding."""
    return _told(finding)[0]


def _advice(finding: Finding) -> str:
    match finding:
        case of.WarmupShort(was_imported=was_imported):
            return _WARM_UP_THERE if was_imported else _WARM_UP
        case of.NotSettled(independent=None):
            return f"run longer: p99 needs {SETTLED_COUNTS[0.99]} inferences"
        case of.NotSettled():
            return f"run longer: p99 needs {least_independent(0.99):.0f} independent inferences"
        case of.SettingDiffers(setting):
            name = setting.replace("-", " ")
            return f"set the {name} that deployment has, or mend the label; edgetop doctor tells how"
        case of.EventTold(session=kind) | of.SustainedShort(session=kind) | of.PowerShort(session=kind):
            return ADVICE_IN.get((kind, finding.code), ADVICE[finding.code])
    return ADVICE[finding.code]


def _told(finding: Finding) -> tuple[str, _Figures]:  # noqa: C901, PLR0911, PLR0912  a sentence for each finding
    """Return `(message, figures)` of a finding. The figures are a dict by JSON key."""
    match finding:
        case of.PartsFailed(parts, fault):
            names = ", ".join(parts)
            return f"{names}: {fault_words(fault)}", {"parts": names, "error": fault.error}
        case of.EventTold(lasting):
            return _event(lasting)
        case of.QueueGrew(asked_hz, done_hz, is_over):
            return f"overloaded{' for a time' if is_over else ''}: {overload_words(asked_hz, done_hz)}", {}
        case of.WarmupShort(runs):
            text = f"only {runs} warm-up runs: the first measured ones may be slower than the rest"
            return text, {"warmup_runs": runs}
        case of.NotSettled():
            return _not_settled(finding)
        case of.Leak(growth):
            assert growth.mib_per_h
            left = growth.hours_left
            lasts = "" if left is None else f"; what is left lasts {duration(left * HOUR_S * NS)}"
            rate = leak_rate(growth)
            between = _between(growth.mib_per_h, rate)
            return f"the engine's memory grows by {rate} (95 %: {between}) and does not level off{lasts}", {}
        case of.BackgroundLoad(mean_pct, names):
            named = f": {', '.join(map(clean, names))}" if names else ""
            text = f"other processes took {mean_pct:.0f} % of a core on average{named}"
            return text, {"mean_pct": round(mean_pct, 2), "names": ", ".join(names)}
        case of.StillWarming(sensor, rose_c):
            text = (
                f"{clean(sensor_name(sensor))} was still rising at the end: by {rose_c:.1f} °C in the last two minutes"
            )
            return text, {"sensor": sensor, "rose_c": round(rose_c, 2)}
        case of.SettingDiffers(setting, declared, was):
            text = f"the {setting.replace('-', ' ')} was {clean(was)}, and {clean(declared)} is declared"
            return text, {"declared": declared, "was": was}
        case of.HalvesDiffer(first, second):
            text = f"p99 was {milliseconds(first)} ms in the first half and {milliseconds(second)} ms in the second"
            return text, {"first_ms": round(first / 1e6, 6), "second_ms": round(second / 1e6, 6)}
        case of.ClockLimitMoved(sensor, low, high, clocks):
            more = f" (and {clocks - 1} more)" if clocks > 1 else ""
            between = f"between {low:.0f} and {high:.0f} MHz"
            text = f"{clean(sensor_name(sensor))}{more} changed during the run: it was {between}"
            return text, {"sensor": sensor, "low_mhz": low, "high_mhz": high, "clocks": clocks}
        case of.ModeUnsustainable(mode):
            text = f"the power mode {clean(mode)} sets no limit: over-current and heat throttle it"
            return text, {"power_mode": mode}
        case of.NotSustained(drift):
            above = f"sustained p50 is {(drift - 1) * 100:.0f} % above that of the burst"
            return f"the speed of the start was not held: {above}", {"drift_ratio": round(drift, 4)}
        case of.Stolen(mean_pct):
            return f"a hypervisor took {mean_pct:.1f} % of a core on average", {"mean_pct": round(mean_pct, 2)}
        case of.MonitorCost(mean_pct):
            return f"edgetop itself took {mean_pct:.1f} % of a core", {"mean_pct": round(mean_pct, 2)}
        case of.SustainedShort(measured_ns):
            text = f"the sustained figures are from {duration(measured_ns)} of measuring: heat takes minutes"
            return text, {"measured_s": round(measured_ns / NS, 3)}
        case of.PowerShort(measured_ns):
            lasted = duration(measured_ns)
            text = f"power was measured for {lasted}: too short for what the board draws when it is warm"
            return text, {"measured_s": round(measured_ns / NS, 3)}
        case of.OneInput(source):
            hidden = (
                "what depends on the values (time, memory, power) does not show, nor do caches that new data would fill"
            )
            return f"every inference got the same input ({clean(source)}): {hidden}", {"input": source}
        case _:
            return _hint(finding), {}


def _hint(hint: Hint) -> str:  # noqa: C901, PLR0911  a sentence for each hint
    match hint:
        case of.FellBack(operators, preferred, parts):
            crossings = f", with {_crossings(parts)}" if parts > 1 else ""
            share = f", {_share(operators)} of the time" if all(operator.settled for operator in operators) else ""
            ran = f"{_many(operators)} ran on {providers_words(one.provider for one in operators)}"
            return f"{ran} and not on {preferred}{share}{crossings}: {_names(operators)}"
        case of.Crossings(providers, parts):
            return f"{_crossings(parts)} of {providers_words(providers)}"
        case of.DominantOperator(operator):
            return f"{short_name(operator)} ({operator.op_type}) takes {percent(operator.share)} of the time"
        case of.SlowKernels(operators):
            below = "with less than a quarter of the FLOP/s of similar operators"
            return f"{_many(operators)} of {_share(operators)} of the time, {below}: {_names(operators)}"
        case of.Conversions(operators):
            only = f"for nothing but conversions of dtypes or layouts {_take(operators)}"
            return f"{_many(operators)} {only}: {_names(operators)}"
        case of.DynamicQuantisation(operators):
            anew = f"which are quantised anew in every inference, {_take(operators)}"
            return f"{_many(operators)} with integer weights and float activations, {anew}"
        case of.NotFused(operators):
            apart = f"not merged into it, {_take(operators)}"
            return f"{_many(operators)} behind a convolution, {apart}: {_names(operators)}"
        case of.SmallForDelegate(inference_ns, providers):
            takes = f"an inference takes {milliseconds(inference_ns)} ms on {', '.join(providers)}"
            return f"{takes}: handing it over may be most of it"
        case of.ThreadImbalance(threads, most):
            waited = f"the thread that runs the model waited {percent(threads.wait_share)} of the time"
            return f"{waited} for the slowest of {threads.count} threads, most in {most}"
        case of.ThreadsMoved(moves_per_s):
            return f"threads moved to another CPU {moves_per_s:.0f} times in a second of inference, or more often"


def providers_words(providers: Iterable[str]) -> str:
    """Return the names of providers (what runs operators, such as an accelerator) as a phrase without repetitions.

    >>> providers_words(("XNNPACK", "CPU", "CPU"))
    'the CPU and XNNPACK'
    """
    return " and ".join("the CPU" if name == CPU else name for name in sorted(set(providers)))


def _crossings(parts: int) -> str:
    return f"{quantity(parts - 1, 'crossing')} between {parts} partitions"


def _many(operators: Sequence[OperatorView]) -> str:
    return quantity(len(operators), "operator")


def _take(operators: Sequence[OperatorView]) -> str:
    return f"take{'s' if len(operators) == 1 else ''} {_share(operators)} of the time"


def _share(operators: Iterable[OperatorView]) -> str:
    return percent(sum(operator.share for operator in operators))


def _names(operators: Sequence[OperatorView]) -> str:
    """Return the operators with most time and their shares, such as `conv1 (Conv, 31.0 %), fc (Gemm, 12.0 %)`."""
    largest = sorted(operators, key=lambda operator: -operator.share)
    named = ", ".join(
        f"{short_name(o)} ({o.op_type}{f', {percent(o.share)}' if o.settled else ''})" for o in largest[:_NAMED]
    )
    return named + (", ..." if len(operators) > _NAMED else "")


def _event(lasting: Lasting) -> tuple[str, _Figures]:
    """Return `(message, figures)` of a recorded warning or error.

    If it occurred several times, the message says how often and when. If inferences were lost, the message has their
    total number.
    """
    event, times = lasting.first, lasting.times
    if times == 1:
        return event.message, data_of(event.body)
    when = f"{times} times from {clock_time(event.t_ns)} to {clock_time(lasting.last_ns)}"
    span = {"first_s": rounded(event.t_ns / NS), "last_s": rounded(lasting.last_ns / NS)}
    figures: _Figures = {**data_of(event.body), "times": times, **span}
    if isinstance(event.body, RecordsLost):
        figures["count"] = lasting.inferences
        return f"{quantity(lasting.inferences, 'inference', str)} not reported: lost {when}", figures
    return f"{event.message} (the first of {when})", figures


def _not_settled(finding: of.NotSettled) -> tuple[str, _Figures]:
    percentiles = " and ".join(f"p{quantile * 100:g}" for quantile in finding.quantiles)
    count, independent = finding.count, finding.independent
    percentiles = f"{streams_words(finding.streams)}: {percentiles}" if finding.streams else percentiles
    if independent is None:
        return f"{percentiles} not settled: only {quantity(count, 'inference')}", {"count": count}
    alike = "inferences that follow each other take about as long"
    text = f"{percentiles} not settled: {alike}, so {count} count as {independent} independent ones"
    return text, {"count": count, "independent": independent}


def _between(slope: Slope, rate: str) -> str:
    """Return the 95 % interval of a memory leak as two numbers without a unit, such as `10.0 to 14.0`.

    `rate` is the leak as text, such as `12 MiB/h`. Its unit is that of the two numbers.
    """
    scale = 1024 if rate.endswith("GiB/h") else 1
    return f"{slope.low / scale:.1f} to {slope.high / scale:.1f}"
