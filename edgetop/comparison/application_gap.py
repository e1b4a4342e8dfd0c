"""Explain why an application is slower than a loop that only runs its model: causes with their shares, and the rest.

All times are means per inference (or per frame) in ms, because only means add up. Counted causes come first, such as
calls of a new shape. Then come causes measured as waits of calls, and last causes estimated from clocks and inputs.
"""

import math
import re
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from edgetop.analysis.program_frames import BETWEEN, QUEUE, FramesView
from edgetop.comparison.gap_evidence import Cause, Evidence, Floats, Gap
from edgetop.comparison.input_sizes import LEAST_CALLS, Sized, beyond_equal_size, fit_sizes
from edgetop.formatting import percent, quantity
from edgetop.session.manifest import Manifest, WatchedStream
from edgetop.session.records import MEASURE

# Share of the application's time below which a cause is not listed. Choice. Larger: small causes are missing;
# smaller: noise is listed.
LEAST_SHARE = 0.02
# Number of concurrent calls above which other threads are inferences. Choice. Larger: a second inference is called
# Python's GIL; smaller: the GIL is missed in a program that overlaps at times.
ALONE = 1.3
# Share of its time for which the loop waited for a CPU, from which it was no fair loop. Choice. Larger: a disturbed
# loop hides causes; smaller: usual waits are a warning.
BUSY_LOOP = 0.1
# Standard errors by which calls after long pauses must be slower. Statistics: chance exceeds four once in 16,000.
# Larger: idle clocks are missed; smaller: chance is a cause.
SURE = 4.0
# Least CPU use of other threads, of one core, for one of them to hold the GIL often. Choice. Larger: the GIL is
# missed; smaller: a thread that hardly runs holds it.
OTHER_THREAD_PCT = 20.0
# Time off the CPU, as a share of a call's CPU time, from which the call waited for something else. Choice. Larger:
# the GIL is missed; smaller: page faults are the GIL.
BLOCKED = 0.1
# Major page faults of each call from which memory explains its time off the CPU. Choice. Larger: memory pressure is
# missed; smaller: the first load of a page is memory pressure.
FAULTS_PER_CALL = 0.1
# Ratio of the upper to the lower quarter of pauses from which pauses differ. Choice. Larger: idle clocks are missed;
# smaller: equal pauses are compared.
SPREAD = 2.0
# Least pause that may lower a clock. Choice: governors look every few milliseconds. Larger: idle clocks are missed;
# smaller: the time between two calls is a pause.
LONG_PAUSE_MS = 1.0


ADVICE = {
    "first calls": "run each session a few times before it is needed",
    "changing shapes": "pad inputs to a few shapes, or keep a session for each shape",
    "own threads": "make fewer calls at once, or keep other threads on other CPUs",
    "other processes": "stop them, or keep them on other CPUs (taskset, systemd's AllowedCPUs)",
    "memory pressure": "raise its memory limit, or load less beside the model (edgetop fit-memory MODEL)",
    "Python's GIL": "move the busy Python thread into a process; sys.setswitchinterval(0.0005) shortens each wait",
    "heat": "cool the board, or give it less to do (edgetop help slowdowns)",
    "pacing and idle clocks": "set the governor `performance` (see edgetop doctor), or keep the clocks up",
    "larger inputs": "compare with the same shapes: edgetop run MODEL --shape",
    "copies and conversions": "put probe.stage() around it to see which",
    "queueing": "drop frames that are late",
    "other inferences": "see the streams: edgetop report",
}
STAGE_ADVICE = "the loop has no such stage: make it shorter"


class _Search:
    """Searches for the causes of the gap (application minus loop), one kind after another.

    `left_ms` is the time that no cause explains so far. No cause gets more than this time.
    """

    def __init__(self, app: Evidence, loop: Evidence, paced: Evidence | None, number: int | None) -> None:
        """Begin without causes.

        `app` and `loop` are the sessions of the application and of the loop over its model. `paced` is a session of the
        model alone with the start times of the application, or None. `number` is the index of the application's model
        to look at, or None for all.
        """
        self.app, self.loop, self.paced, self.number = app, loop, paced, number
        watched, everything = app.manifest.watched, app.inferences
        self.stream: WatchedStream | None = watched.streams[number] if watched and number is not None else None
        self.is_own = np.ones(len(everything), np.bool_) if number is None else everything["stream"] == number
        self.calls = everything[self.is_own]
        if not len(self.calls):
            raise ValueError(f"{app.manifest.name} has no inferences of that model to look at (--no-raw?)")
        self.threads = self.stream.threads if self.stream else app.manifest.engine.threads
        self.cores = app.manifest.board.cores or 1
        self.at_once = (watched.at_once_mean if watched else None) or 1.0
        self.per_s = len(self.calls) / max(float(self.calls["t_ns"][-1] - self.calls["t_ns"][0]) / 1e9, 1e-9)
        self.app_ms, self.loop_ms = float(self.calls["latency_ns"].mean()) / 1e6, _mean_ms(loop)
        counted = self.calls["phase"] == MEASURE
        self.mean_ms = float(self.calls["latency_ns"][counted if counted.any() else ~counted].mean()) / 1e6
        self.off_cpu_ms, self.queued_ms = self._off_cpu(f"call/{number or 0}-")
        self.left_ms = self.app_ms - self.loop_ms
        self.has_sizes = False  # whether the size of the inputs of each call is known
        self.found: list[Cause] = []

    def _off_cpu(self, of: str) -> tuple[float | None, float | None]:
        """Return `(off_ms, queued_ms)`: the mean time per call off the CPU, and the part of it spent waiting for a CPU.

        A time is None if unknown. `of` is the prefix of the sensors' names, such as `call/0-`.
        """
        cpu_ms, off_ms, queued_ms = (self.app.mean(of + name) for name in ("cpu", "off-cpu", "run-queue-wait"))
        # The latency is known of all calls, the CPU time of a sample.
        all_ms = off_ms if cpu_ms is None else max(0.0, self.mean_ms - cpu_ms)
        if not (off_ms and all_ms) or queued_ms is None:
            return all_ms, queued_ms
        return all_ms, all_ms * min(1.0, queued_ms / off_ms)

    def note(self, name: str, ms: float, evidence: str, advice: str = "", *, estimated: bool = False) -> float:
        """Add the cause `name`, such as "first calls", with its time in ms. Return the time that was added.

        The time is limited to `left_ms`. If it is too short to matter, nothing is added. `evidence` is a text with the
        observations behind the cause. `advice` replaces the usual advice. `estimated` says that the time is an
        estimate.
        """
        ms = min(ms, self.left_ms)
        if ms < LEAST_SHARE * self.app_ms:
            return 0.0
        self.left_ms -= ms
        self.found.append(Cause(name, ms, evidence, advice or ADVICE[name], estimated))
        return ms

    def search(self) -> None:
        early = self.calls[self.calls["phase"] != MEASURE]
        text = f"{len(early)} first and warm-up calls took {early['latency_ns'].sum() / 1e6:.1f} ms in all"
        self.note("first calls", self.app_ms - self.mean_ms, text)
        self._shapes()
        waited_ms = self._contention()
        self._memory(waited_ms)
        self._clocks(waited_ms)
        self._input_size()

    def _shapes(self) -> None:
        """Add the causes "changing shapes" (from call to call) and "larger inputs" (than in the loop).

        Larger inputs are only looked for if the input sizes of enough calls are known.
        """
        reshaped = self.app.readings.get(f"call/{self.number or 0}-reshaped", np.empty(0))
        if self._sizes(len(reshaped)) or not len(reshaped):
            return
        others = len(self.calls) - len(reshaped)
        if others < LEAST_CALLS:  # Calls without a change of shape would tell what the shape itself takes.
            return
        usual_ms = max((self.app_ms * len(self.calls) - float(reshaped.sum())) / others, self.loop_ms)
        text = f"{len(reshaped)} of {quantity(len(self.calls), 'call')} had another input shape than the last, and took"
        text = f"{text} {reshaped.mean():.2f} ms on average, the others {usual_ms:.2f} ms"
        self.note("changing shapes", (float(reshaped.sum()) - usual_ms * len(reshaped)) / len(self.calls), text)

    def _sizes(self, changes: int) -> bool:
        """Add the causes that follow from the input sizes of calls. Return False if too few of these sizes are known.

        `changes` is the number of calls whose input shape differs from the previous call's.
        """
        took_ms, elements, is_changed = self._sized_calls()
        sized = fit_sizes(took_ms, elements, is_changed)
        if sized is None:
            return False
        self.has_sizes = True
        if sized.change_ms is not None and sized.change_ms > sized.change_error_ms:
            text = f"{changes} of {quantity(len(self.calls), 'call')} had another input shape than the last, and took"
            text = f"{text} {sized.change_ms:.2f} ± {sized.change_error_ms:.2f} ms longer than calls of their size"
            self.note("changing shapes", sized.change_ms * changes / len(self.calls), text)
        looped = sum(math.prod(one.shape) for one in self.loop.manifest.model.inputs)
        if looped:
            self._larger(sized, beyond_equal_size(took_ms, elements, looped), looped)
        return True

    def _larger(self, sized: Sized, equal: tuple[float, float, int] | None, looped: int) -> None:
        """Add the cause that the application's inputs are larger than the loop's, if the extra time is certain.

        `equal` has the extra time and its error in ms, compared with the calls of the loop's input size, and the number
        of these calls. If `equal` is None, `sized` gives the extra time. `looped` is the number of input elements in
        the loop.
        """
        text = f"inputs have {sized.mean:,.0f} elements on average, {looped:,} in the loop"
        if equal is not None:
            more_ms, error_ms, count = equal
            equals = f"{quantity(count, 'call')} of the loop's size"
            text = f"{text}; all calls are slower by {more_ms:.2f} ± {error_ms:.2f} ms than {equals}"
        else:
            more_ms, error_ms = (of * (sized.mean - looped) for of in (sized.each_ms, sized.each_error_ms))
            text = f"{text}; {sized.sizes} sizes: {1e3 * sized.each_ms:.3g} ms for each 1,000 elements, which explains"
            text = f"{text} {percent(sized.explained)} of the variance of calls, and {more_ms:.2f}"
            text = f"{text} ± {abs(error_ms):.2f} ms"
        if more_ms > abs(error_ms):
            self.note("larger inputs", more_ms, text)

    def _sized_calls(self) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Return three arrays about the calls of known input size, with an item for each call.

        They are the latency in ms, the number of input elements, and whether the shape differs from the previous
        call's.
        """
        number = self.number or 0
        sensor, changed = f"input/{number}-elements", f"call/{number}-reshaped"
        times = self.app.times.get(sensor, np.empty(0, np.int64))
        order = np.argsort(times, kind="stable")
        place = np.searchsorted(times[order], self.calls["t_ns"], side="right") - 1
        counts = (place >= 0) & (self.calls["phase"] == MEASURE)
        calls = self.calls[counts]
        elements = self.app.readings.get(sensor, np.empty(0))[order][place[counts]]
        is_changed = np.isin(calls["t_ns"], self.app.times.get(changed, np.empty(0, np.int64)))
        return calls["latency_ns"] / 1e6, elements, is_changed

    def _contention(self) -> float:
        """Add the time by which calls waited longer for a CPU than in the loop. Return the whole wait per call in ms.

        The time is divided into two causes: the program's own threads, and other processes.
        """
        waited_ms = self.mean_ms * self.app.wait_share
        if self.threads == 1 and self.off_cpu_ms is not None:
            waited_ms = min(waited_ms, self.off_cpu_ms) if self.queued_ms is None else self.queued_ms
        looped_share = self.loop.wait_share
        running_ms = self.mean_ms - max(waited_ms, self.off_cpu_ms or 0.0)
        more_ms = max(0.0, waited_ms - running_ms * looped_share / (1 - looped_share))
        others_pct, looped_pct = (of.mean("load/others") or 0.0 for of in (self.app, self.loop))
        others_more = max(0.0, others_pct - looped_pct)
        own_more = max(0.0, self.app.wanted_pct - max(100.0, self.loop.wanted_pct))  # beyond one call at a time
        total = others_more + own_more
        rivals_ms = more_ms * others_more / total if total else more_ms * (others_pct > 0)
        at_once = self.at_once
        text = f"its threads waited for a CPU in {percent(self.app.wait_share)} of the time in which they could run"
        threads = self.threads or "the default number of"
        own = f"{text}: {at_once:.1f} inferences at once, on {threads} threads each, on {self.cores} cores"
        fewer = max(1, int((self.cores - 1) // math.ceil(at_once)))
        advice = "" if self.threads == fewer else f"intra_op_num_threads={fewer} would leave a core to the rest"
        own_ms = max(more_ms, self._overlap_ms()) - rivals_ms
        if not self._gil(waited_ms, own_ms):
            self.note("own threads", own_ms, own, advice)
        who = ", ".join(f"{each.name} {each.cpu_pct:.0f} %" for each in self.app.manifest.methodology.background)
        text = f"{text}; other processes took {others_pct:.0f} % of a core{f' ({who})' if who else ''}"
        text = f"{text}, {looped_pct:.0f} % beside the loop" if looped_pct >= OTHER_THREAD_PCT else text
        self.note("other processes", rivals_ms, text)
        return waited_ms

    def _overlap_ms(self) -> float:
        """Return by how many ms the mean call is slower than a call that ran alone; 0 if too few calls ran alone."""
        everything = self.app.inferences
        begin_ns, end_ns = everything["t_ns"], everything["t_ns"] + everything["latency_ns"]
        before_ns = np.append(0, np.maximum.accumulate(end_ns)[:-1])
        after_ns = np.append(begin_ns[1:], np.iinfo(np.int64).max)
        alone = (before_ns <= begin_ns) & (after_ns >= end_ns) & (everything["phase"] == MEASURE) & self.is_own
        took_ms = everything["latency_ns"][alone] / 1e6
        return max(0.0, self.mean_ms - float(took_ms.mean())) if len(took_ms) >= LEAST_CALLS else 0.0

    @property
    def _major_faults(self) -> float:
        """Major page faults per call."""
        return (self.app.mean("rate/major-faults") or 0.0) / self.per_s

    def _memory(self, waited_ms: float) -> float:
        app_pct, loop_pct = (of.mean("pressure/memory-some") or 0.0 for of in (self.app, self.loop))
        stalled, faults = max(0.0, app_pct - loop_pct) / 100, self._major_faults
        ms = stalled * self.mean_ms
        if faults >= FAULTS_PER_CALL and self.off_cpu_ms is not None:
            ms = max(ms, self.off_cpu_ms - waited_ms)
        left = self.app.mean("mem/cgroup-left")
        room = "" if left is None else f", {left:.0f} MiB left to the limit of its cgroup"
        text = f"{percent(stalled)} of the time stalled for memory, {faults:.2g} major faults a call{room}"
        return self.note("memory pressure", ms, text)

    def _gil(self, waited_ms: float, own_ms: float) -> float:
        """Add the time in which a call could not run because another Python thread held the interpreter lock (GIL).

        Return this time in ms, or 0 without evidence. `waited_ms` is the time per call spent waiting for a CPU, and
        `own_ms` the part of that time in which other threads of the program had the CPU.
        """
        off_ms, watched = self.off_cpu_ms, self.app.manifest.watched
        if off_ms is None or not watched or "hook" not in watched.sources or self._major_faults >= FAULTS_PER_CALL:
            return 0.0
        busy_pct = self.app.wanted_pct - max(100.0, self.loop.wanted_pct) * self.mean_ms / 1e3 * self.per_s
        # A call that is off the CPU and does not wait for a CPU waits for the lock.
        blocked_ms = off_ms - waited_ms
        if busy_pct < OTHER_THREAD_PCT or blocked_ms < BLOCKED * (self.mean_ms - off_ms) or self.at_once > ALONE:
            return 0.0
        text = f"calls were on no CPU for {off_ms:.2f} ms, and waited for one in {waited_ms:.2f} ms of it"
        text = f"{text}; other threads of the program wanted {busy_pct:.0f} % of a core"
        return self.note("Python's GIL", blocked_ms + own_ms, text)

    def _clocks(self, waited_ms: float) -> None:
        """Add two causes for lower CPU clocks than in the loop: heat, and pauses between calls that let clocks fall.

        `waited_ms` is the time per call spent waiting for a CPU.
        """
        app_mhz, loop_mhz, throttled = self.app.clock_mhz("freq"), self.loop.clock_mhz("freq"), self.app.throttled_share
        running_ms, idle_ms, text = max(0.0, self.mean_ms - waited_ms), 0.0, ""
        if app_mhz and loop_mhz and app_mhz < loop_mhz:
            text = f"CPU clocks were at {app_mhz:.0f} MHz on average, {loop_mhz:.0f} MHz in the loop"
            capped = loop_mhz
            if throttled:  # without a known cap, all of it counts as heat
                cap_mhz = self.app.clock_mhz("freqcap") or loop_mhz
                capped = max(app_mhz, cap_mhz) if cap_mhz < loop_mhz else app_mhz
            heat = f"{text}; throttled in {percent(throttled)} of the time"
            self.note("heat", running_ms * (1 - capped / loop_mhz), heat)
            idle_ms = running_ms * (capped - app_mhz) / loop_mhz
        if self.paced:
            idle_ms, text = _mean_ms(self.paced) - self.loop_ms, "the model alone is as slow at the same start times"
        elif (after_ms := self._after_pauses_ms()) > idle_ms:
            idle_ms, text = after_ms, "calls are slower after longer pauses"
        self.note("pacing and idle clocks", idle_ms, text)

    def _after_pauses_ms(self) -> float:
        """Return by how many ms the mean call is slower than a call after a short pause.

        Return 0 if the pauses are too similar or too short, or if they make no clear difference.
        """
        everything = self.app.inferences
        ended_ns = np.maximum.accumulate(everything["t_ns"] + everything["latency_ns"])
        pause_ms = np.append(0.0, np.maximum(0, everything["t_ns"][1:] - ended_ns[:-1]) / 1e6)
        counts = (everything["phase"] == MEASURE) & self.is_own
        pause_ms, took_ms = pause_ms[counts], everything["latency_ns"][counts] / 1e6
        if len(took_ms) < 4 * LEAST_CALLS:
            return 0.0
        low, high = np.quantile(pause_ms, [0.25, 0.75])
        short, long = took_ms[pause_ms <= low], took_ms[pause_ms >= high]
        error = math.hypot(*(each.std() / math.sqrt(len(each)) for each in (short, long)))
        more_ms = float(np.median(long) - np.median(short))
        is_clear = high > SPREAD * low and high > LONG_PAUSE_MS and more_ms > SURE * error
        return max(0.0, float(took_ms.mean() - short.mean())) if is_clear else 0.0

    def _input_size(self) -> None:
        """Add larger inputs as a cause, if the sizes of most inputs are unknown: its time is estimated from the first
        call.
        """
        if self.has_sizes:
            return
        inputs, theirs = (self.stream.inputs if self.stream else None) or "", self.loop.manifest.model.inputs
        # The shapes in the hook's description of inputs: "image 1x3x224x224, mask 1x1".
        shapes_of_own = re.findall(r" (\d+(?:x\d+)*)(?:,|$)", inputs)
        own = sum(math.prod(map(int, shape.split("x"))) for shape in shapes_of_own)
        looped = sum(math.prod(one.shape) for one in theirs)
        if looped and own > looped:
            shapes = ", ".join(f"{one.name} {'x'.join(map(str, one.shape))}" for one in theirs)
            text = f"{inputs} in the application, {shapes} in the loop"
            self.note("larger inputs", self.loop_ms * (own / looped - 1), text, estimated=True)


def _mean_ms(of: Evidence) -> float:
    measured = of.inferences[of.inferences["phase"] == MEASURE]
    if not len(measured):
        raise ValueError(f"{of.manifest.name} has no measured inferences to look at (--no-raw?)")
    return float(measured["latency_ns"].mean()) / 1e6


def stream_of(app: Manifest, loop: Manifest, asked: int | None) -> int | None:
    """Return the index of the application's model that is the same as the loop's model.

    Return None if the application does not tell its models apart. If several models match, the one with most calls is
    taken. `asked` is the index that the user chose, or None. Raises ValueError if `asked` does not exist, or if no
    model matches.
    """
    streams = app.watched.streams if app.watched else ()
    if not streams:
        return None
    if asked is not None:
        if asked >= len(streams):
            raise ValueError(f"there is no stream {asked}: {app.name} has {len(streams)}")
        return asked
    name = loop.model.path.rpartition("/")[2]
    fits = [
        i for i, one in enumerate(streams) if one.runs and re.sub(r"#\d+$", "", one.name).rpartition("/")[2] == name
    ]
    if fits or len(streams) == 1:
        return max(fits or [0], key=lambda i: streams[i].runs)
    known = ", ".join(f"{i}: {one.name or 'no name'}" for i, one in enumerate(streams))
    raise ValueError(f"no stream of {app.name} runs {name} ({known})")


def _differences(app: Evidence, loop: Evidence, stream: WatchedStream | None) -> Iterator[str]:
    ours, theirs = app.manifest, loop.manifest
    threads = stream.threads if stream else ours.engine.threads
    pairs: Mapping[str, tuple[object, object]] = {
        "model file": (
            ours.model.sha256 if not stream or stream.name == ours.model.path else None,
            theirs.model.sha256,
        ),
        "runtime version": (ours.engine.version, theirs.engine.version),
        "provider": (", ".join(ours.engine.providers), ", ".join(theirs.engine.providers)),
        "governor": (ours.board.governor, theirs.board.governor),
        "power mode": (ours.board.power_mode, theirs.board.power_mode),
        "limit": (ours.constraints.words, theirs.constraints.words),
        "board": (ours.board.model, theirs.board.model),
    }
    if loop.wait_share >= BUSY_LOOP:
        yield f"load: the loop waited for a CPU in {percent(loop.wait_share)} of its time: run it on a quiet board"
    if threads is not None and threads != theirs.engine.threads:
        words = [str(number) if number else "the runtime's default" for number in (threads, theirs.engine.threads)]
        yield f"threads: {words[0]} in the application, {words[1]} in the loop"
    for name, (one, other) in pairs.items():
        if one and other and one != other:
            yield f"{name}: {str(one)[:24]} in the application, {str(other)[:24]} in the loop"


def gap(app: Evidence, loop: Evidence, paced: Evidence | None = None, stream: int | None = None) -> Gap:
    """Return the difference in time between an application and a loop over its model, with its causes.

    `paced` is a session of the model alone with the start times of the application, or None. `stream` is the index of
    the application's model to look at, or None to find it by name. Raises ValueError if the sessions cannot be
    compared.
    """
    for each in (app, loop, paced):
        if each and each.manifest.ab:
            raise ValueError(f"{each.manifest.name} is an A/B session, which has inferences of two variants")
    search = _Search(app, loop, paced, stream_of(app.manifest, loop.manifest, stream))
    search.search()
    causes, rest_ms, whole_ms, of = search.found, search.left_ms, search.app_ms, "inference"
    if app.frames:
        whole_ms, of = app.frames.total.mean_ms, "frame"
        causes += _around(app.frames, search.app_ms)
        rest_ms = whole_ms - search.loop_ms - sum(cause.ms for cause in causes)
    return Gap(
        of=of,
        model=loop.manifest.model.path,
        app_ms=whole_ms,
        loop_ms=search.loop_ms,
        causes=tuple(sorted(causes, key=lambda cause: -cause.ms)),
        not_explained_ms=rest_ms,
        differences=tuple(_differences(app, loop, search.stream)),
        counts=(len(search.calls), int(np.count_nonzero(loop.inferences["phase"] == MEASURE))),
    )


_AROUND = {
    BETWEEN: ("copies and conversions", "code outside of all stages"),
    QUEUE: ("queueing", "a stage was done, but the thread of the next stage was busy"),
}


def _around(frames: FramesView, call_ms: float) -> Iterator[Cause]:
    """Yield as causes the parts of a frame outside the model call, such as preprocessing.

    `call_ms` is the mean time of a model call.
    """
    for stage in frames.stages:
        ms = stage.share * frames.total.mean_ms
        name, evidence = _AROUND.get(stage.id, (f"stage {stage.name}", f"{stage.mean_ms:.2f} ms on average"))
        if stage.id == "stage/inference":
            name, evidence = "other inferences", "inferences of other models, or several of this model per frame"
            ms -= call_ms
        if ms >= LEAST_SHARE * frames.total.mean_ms:
            yield Cause(name, ms, evidence, ADVICE.get(name, STAGE_ADVICE))
