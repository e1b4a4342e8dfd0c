"""Watch a running llama-server: read its `/metrics` and `/slots` at most twice a second, and change nothing.

A slot of the server processes one request at a time. `/slots` shows how many tokens each slot has generated
(tools/server/server-context.cpp of llama.cpp, `server_slot`), but not when. So of the tokens that were generated
between two reads, only the mean time from one to the next is known. `/metrics` has totals of tokens, and of times by
the server's own clock. A request is added to the totals when it ends (`server_metrics`). Then the counts of tokens are
corrected by the totals.

Each read is a task in the server's queue, and takes time from its threads. So a read asks for as little as possible.
While a request generates, `/slots` alone is read, and `/metrics` only when a request begins to generate or has ended.
While no request is in progress, `/metrics` alone is read, at longer intervals. Each read has a connection of its own:
on an open connection, the HTTP library of llama-server polls every 10 ms (cpp-httplib, `keep_alive`). At two reads a
second, that took 2.9 ms of a CPU's time in each second and woke its threads 104 times; new connections took 0.84 ms and
woke them 14 times.
"""

from __future__ import annotations

import re
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import message_frames
from .engine_error import EngineError
from .http_client import HttpClient, HttpError, StoppedError
from .ollama import refusal
from .request_steps import STOP
from .token_frames import TokenFrames

READ_S = 0.5  # interval between two reads, for each endpoint that is read
IDLE_S, IDLE_GROWTH = 2.0, 1.25  # longest interval while there is no request, and its growth at each read
LOOK_S = 0.25  # interval at which a wait looks whether the run stops
MOST_SLOTS, MOST_TOKENS, MOST_AT_ONCE = 1024, 2**24, 100_000
PATIENCE = 4  # number of reads in a row that may fail before the server counts as gone
METRICS, SLOTS = "/metrics", "/slots"
PROMPTS = ("prompt_tokens_total", "prompt_seconds_total")
TOKENS = ("tokens_predicted_total", "tokens_predicted_seconds_total")
PROCESSING = "requests_processing"
_SAMPLE = re.compile(r"^llamacpp:(\w+)(?:\{[^}]*\})? ([0-9.eE+-]+)\s*$", re.MULTILINE)
NS = 1_000_000_000


def parse_metrics(text: str) -> Dict[str, float]:
    r"""Return llama-server's metrics by name, from the text format of Prometheus. Negative numbers are left out.

    >>> parse_metrics("llamacpp:prompt_tokens_total 12\n")
    {'prompt_tokens_total': 12.0}
    """
    found: Dict[str, float] = {}
    for name, value in _SAMPLE.findall(text):
        try:
            number = float(value)
        except ValueError:
            continue
        if 0 <= number < 1e18:
            found[name] = number
    return found


class Slot:
    """A request that the server processes in one of its slots, with what `/slots` has shown of it so far."""

    def __init__(self, task: int, now_ns: int) -> None:
        self.task = task
        self.start_ns = self.read_ns = now_ns
        self.first_ns: Optional[int] = None  # None before the first token
        self.last_ns = now_ns
        self.prefill_ns = 0
        self.tokens, self.prompt, self.cached = 0, 0, 0
        self.gaps_ns = 0  # sum of the times between its tokens so far
        self.is_whole = True  # whether its beginning was seen


def read_slots(document: Any) -> List[Tuple[int, Dict[str, int]]]:
    """Return (number of the slot, counts) for each slot of the server that processes a request.

    `document` is the JSON of `/slots`. The counts are a dict: "task" is the request's id, "prompt" the tokens of its
    prompt, "cached" those of them found in a cache, and "tokens" the generated tokens. Returns [] if the document is
    not llama-server's.
    """
    found = []
    for place, slot in enumerate(document[:MOST_SLOTS] if isinstance(document, list) else ()):
        if not isinstance(slot, dict) or slot.get("is_processing") is not True:
            continue
        following = slot.get("next_token")
        following = following[0] if isinstance(following, list) and following else following
        following = following if isinstance(following, dict) else {}
        counts = {
            "task": _count(slot.get("id_task")),
            "prompt": _count(slot.get("n_prompt_tokens")),
            "cached": _count(slot.get("n_prompt_tokens_cache")),
            "tokens": _count(following.get("n_decoded")),
        }
        if counts["tokens"]:  # n_prompt_tokens counts the generated tokens too
            own = _count(slot.get("n_prompt_tokens_processed")) + counts["cached"]
            counts["prompt"] = own or max(0, counts["prompt"] - counts["tokens"])
        found.append((place, counts))
    return found


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


class ServerWatch:
    """Reads a server's figures again and again, with the interface of `loop.Loop`."""

    def __init__(
        self,
        server: HttpClient,
        frames: TokenFrames,
        outlet: Any,
        control: Any,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read the server once. Raises EngineError("input") if it cannot be reached, or shows no figures.

        `frames` sends tokens and requests, and `outlet` other messages, to edgetop's main process. `control`
        says when to stop. `wait` sleeps for some seconds.
        """
        self.bursts: Optional[Any] = None
        self.clock = frames.clock
        self._server, self._frames, self._outlet, self._control, self._wait = server, frames, outlet, control, wait
        self._slots: Dict[int, Slot] = {}
        self._failures = 0
        self._reads = 0  # number of endpoints that the last look has read
        self._interval_s = READ_S  # s until the next look
        self._ended: List[Slot] = []  # requests that have ended, but are not yet in the totals
        self._count = 0  # requests that ended
        self._active = 1  # requests that generated tokens between the last two reads; 0 if there were prompts too
        self._looked_ns = frames.clock()  # time of the last read
        self._prefill_ns = 0  # time spent on prompts whose first token has not been seen yet
        self._has_waited = False  # whether slots and totals disagreed at the last read
        self._phase = message_frames.PHASE_MEASURE
        self._open()

    def _open(self) -> None:
        why: Dict[str, str] = {}
        totals: Dict[str, float] = {}
        slots: List[Tuple[int, Dict[str, int]]] = []
        try:
            totals = self._tried(METRICS, self._read_totals, why) or {}
            slots = self._tried(SLOTS, self._read_slots, why) or []
        except OSError as error:
            text = "--url %s: %s" % (self._server.url, error.strerror or error)
            raise EngineError("input", text, "start the server, or correct the URL") from None
        self._has_slots, self._has_metrics = SLOTS not in why, METRICS not in why
        if len(why) == 2 and not self._is_stopped():
            is_ollama = refusal(self._server, self._is_stopped)
            if is_ollama is not None:
                raise is_ollama
            text = "--url %s: it shows neither %s (%s) nor %s (%s)" % (
                self._server.url, METRICS, why[METRICS], SLOTS, why[SLOTS],
            )  # fmt: skip
            advice = "start llama-server with --metrics, or send requests to the server: --prompts FILE"
            raise EngineError("input", text, advice)
        self.begun: Dict[str, float] = totals
        self.totals: Dict[str, float] = totals
        self._settled = self._last = totals
        for place, counts in slots:  # requests that began before the watch
            slot = self._slots[place] = Slot(counts["task"], self.clock())
            slot.tokens, slot.prompt, slot.is_whole = counts["tokens"], counts["prompt"], False
            slot.first_ns = slot.start_ns

    def _tried(self, path: str, read: Callable[[], Any], why: Dict[str, str]) -> Any:
        try:
            return read()
        except (HttpError, StoppedError) as error:
            why[path] = str(error)
            return None

    def _read_totals(self) -> Dict[str, float]:
        self._reads += 1
        with self._server.request(METRICS, None, self._is_stopped) as answer:
            totals = parse_metrics(answer.whole().decode("utf-8", "replace"))
        if "tokens_predicted_total" not in totals:
            raise HttpError("it has no metrics of llama-server")
        return totals

    def _read_slots(self) -> List[Tuple[int, Dict[str, int]]]:
        self._reads += 1
        return read_slots(self._server.document(SLOTS, self._is_stopped))

    def _is_stopped(self) -> bool:
        return bool(self._control.stop_requested)

    def repeat(
        self,
        phase: int,
        *,
        runs: Optional[int] = None,
        until_ns: Optional[int] = None,
        duration_ns: Optional[int] = None,
        announce: Callable[[], None] = lambda: None,
        **_others: Any,
    ) -> str:
        """Watch the server for the measured phase. Return why it ended: "stop", "runs" or "duration".

        The parameters are the same as in `Loop.repeat`. The earlier phases have nothing to do, and end at once.
        """
        announce()
        if phase != message_frames.PHASE_MEASURE:
            return "stop" if self._control.stop_requested else "runs"
        begun, left = self.clock(), -1 if runs is None else runs
        if until_ns is None:
            until_ns = 2**63 - 1 if duration_ns is None else begun + duration_ns
        while left and not self._control.stop_requested and self.clock() < until_ns:
            ended = self._look()
            left = max(0, left - ended) if runs is not None else left
            self._pause(until_ns, has_ended=ended > 0)
        if self._control.stop_requested:
            return "stop"
        return "runs" if left == 0 else "duration"

    def _pause(self, until_ns: int, *, has_ended: bool) -> None:
        """Wait until the next read is due, but not longer than until the stop of the run or the time `until_ns`.

        Reads of N endpoints are followed by an interval of N times READ_S. The longer no request is in progress, the
        longer the interval, up to IDLE_S. `has_ended` says that a request has ended since the read before.
        """
        is_busy = has_ended or self._slots or self._ended or self._failures or not self._has_metrics
        is_idle = not is_busy and not self._is_processing()
        self._interval_s = min(IDLE_S, IDLE_GROWTH * self._interval_s) if is_idle else READ_S
        due_ns = min(until_ns, self.clock() + int(max(self._interval_s, READ_S * self._reads) * NS))
        while not self._control.stop_requested and (left_ns := due_ns - self.clock()) > 0:
            self._wait(min(LOOK_S, left_ns / NS))

    def _is_processing(self) -> bool:
        """Whether the server worked on a request at the last read of its totals. True if the totals do not say it."""
        return self.totals.get(PROCESSING, 1.0) > 0

    def _read(self) -> List[Tuple[int, Dict[str, int]]]:
        """Read what the server has to say, update `totals`, and return the requests that it processes.

        The result is that of `read_slots`. Raises what `HttpClient.request` raises.
        """
        self._reads = 0
        slots: List[Tuple[int, Dict[str, int]]] = []
        was_idle = self._has_metrics and not self._slots and not self._ended
        if was_idle:
            self.totals = self._read_totals()
        if self._has_slots and not (was_idle and not self._is_processing()):
            slots = self._read_slots()
        if self._has_metrics and not was_idle and (not self._has_slots or self._ended or self._has_news(slots)):
            self.totals = self._read_totals()
        return slots

    def _has_news(self, slots: Sequence[Tuple[int, Dict[str, int]]]) -> bool:
        """Whether a request has begun to generate or has ended since the last read, so that the totals have changed.

        `slots` is the result of `read_slots`.
        """
        tasks = {place: counts["task"] for place, counts in slots}
        if any(tasks.get(place) != slot.task for place, slot in self._slots.items()):
            return True
        first = [place for place, counts in slots if counts["tokens"]]
        return any(place not in self._slots or self._slots[place].first_ns is None for place in first)

    def _look(self) -> int:
        """Read the server, and send the new tokens and requests. Return the number of requests that ended.

        Raises EngineError("engine") if the server is gone.
        """
        try:
            slots = self._read()
            self._failures = 0
        except StoppedError:
            return 0
        except (OSError, HttpError) as error:
            self._failures += 1
            if isinstance(error, ConnectionRefusedError) or self._failures >= PATIENCE:
                raise self._server.gone(getattr(error, "strerror", None) or error) from None
            return 0
        now_ns = self.clock()
        self._prefill_ns += int(self._risen(self._last, "prompt_seconds_total") * NS)
        self._last = self.totals
        self._take(slots, now_ns)
        ended = self._settle(now_ns)
        self._frames.flush(now_ns)
        self._looked_ns = now_ns
        return ended

    def _risen(self, before: Dict[str, float], name: str) -> float:
        """Return by how much the total called `name` has risen since `before`, or 0 after a restart of the server.

        `before` has earlier totals by name.
        """
        return max(0.0, self.totals.get(name, 0.0) - before.get(name, 0.0))

    def _take(self, slots: Sequence[Tuple[int, Dict[str, int]]], now_ns: int) -> None:
        """Send the new tokens of each slot. Requests that are not in a slot any more have ended.

        `slots` is the result of `read_slots`. `now_ns` is the present time.
        """
        for place, counts in slots:
            slot = self._slots.get(place)
            if slot is None or slot.task != counts["task"]:
                if slot is not None:
                    self._ended.append(slot)
                slot = self._slots[place] = Slot(counts["task"], now_ns)
                if counts["tokens"]:  # it began between two reads
                    slot.start_ns = slot.read_ns = max(
                        self._looked_ns, now_ns - counts["tokens"] * self._usual_ns(now_ns)
                    )
            slot.prompt, slot.cached = counts["prompt"] or slot.prompt, counts["cached"]
        begun = [place for place, counts in slots if self._slots[place].first_ns is None and counts["tokens"]]
        self._active = len(slots) if all(counts["tokens"] for _, counts in slots) and not begun else 0
        for place, counts in slots:
            slot = self._slots[place]
            if place in begun:
                slot.prefill_ns = self._prefill_ns // len(begun)
            self._send_tokens(slot, counts["tokens"] - slot.tokens, now_ns)
        self._prefill_ns = 0 if begun else self._prefill_ns
        seen = {place for place, _ in slots}
        for place in [place for place in self._slots if place not in seen]:
            self._ended.append(self._slots.pop(place))
        del self._ended[:-MOST_SLOTS]

    def _usual_ns(self, now_ns: int) -> int:
        """Return the server's mean time between two tokens in ns.

        If the server does not report it, return half of the time since the last read. `now_ns` is the present time.
        """
        tokens, took_s = (self._risen(self.begun, name) for name in TOKENS)
        return int(took_s / tokens * NS) if tokens and took_s else (now_ns - self._looked_ns) // 2

    def _send_tokens(self, slot: Slot, count: int, now_ns: int, gap_ns: int = 0) -> None:
        """Send `count` new tokens of `slot`, `gap_ns` ns apart. `now_ns` is the present time.

        If `gap_ns` is 0, the tokens are spread evenly over the time since the slot's last token.
        """
        if count <= 0:
            slot.read_ns = now_ns if slot.first_ns is None else slot.read_ns
            return
        begin_ns = slot.read_ns if slot.first_ns is None else slot.last_ns
        step_ns = gap_ns or max(1, (now_ns - begin_ns) // count)
        for number in range(min(count, MOST_AT_ONCE)):
            t_ns = min(now_ns, begin_ns + (number + 1) * step_ns)
            position = slot.prompt + slot.tokens
            if slot.first_ns is None:
                slot.first_ns = t_ns
                if slot.prefill_ns:  # more exact than the time of the read that saw the request first
                    slot.start_ns = t_ns - slot.prefill_ns
                self._frames.put_token(t_ns, t_ns - slot.start_ns, position, 0, self._phase)
            else:
                self._frames.put_token(t_ns, step_ns, position, 1, self._phase, self._active)
                slot.gaps_ns += step_ns
            slot.tokens += 1
        slot.last_ns = slot.read_ns = now_ns

    def _settle(self, now_ns: int) -> int:
        """Send the requests that have ended, and return their number. `now_ns` is the present time.

        Tokens that the server's totals count, but that no slot showed, are sent first. The totals and the slots are
        read one after the other, so the end of a request may show in only one of them. Then nothing is sent until the
        next read.
        """
        ended, new = self._ended, int(self._risen(self._settled, "tokens_predicted_total"))
        disagree = not new if ended else bool(new and self._slots)
        if self._has_slots and self._has_metrics and disagree and not self._has_waited:
            self._has_waited = True
            return 0
        self._has_waited, self._ended = False, []
        if new:
            took_ns = int(self._risen(self._settled, "tokens_predicted_seconds_total") * NS)
            if not ended:  # a request that began and ended between two reads
                slot = Slot(-1, now_ns - took_ns)
                slot.prefill_ns, self._prefill_ns = self._prefill_ns, 0
                slot.cached = int(self._risen(self._settled, "prompt_tokens_cached_total"))
                slot.prompt = int(self._risen(self._settled, "prompt_tokens_total")) + slot.cached
                slot.start_ns -= slot.prefill_ns
                ended = [slot]
            missing = new - sum(slot.tokens for slot in ended)
            later = max(1, missing - sum(slot.first_ns is None for slot in ended))
            left_ns = took_ns - sum(slot.gaps_ns for slot in ended)
            self._send_tokens(ended[-1], missing, now_ns, max(1, left_ns // later))
        if new or ended:
            self._settled = self.totals
        self._count += len(ended)
        for slot in ended:
            self._send_request(slot)
        return len(ended)

    def _send_request(self, slot: Slot) -> None:
        if slot.first_ns is None or not slot.is_whole:
            return
        latency_ns, ttft_ns = slot.last_ns - slot.start_ns, slot.first_ns - slot.start_ns
        self._frames.put_request(
            slot.start_ns, 0, latency_ns, ttft_ns, 0, slot.prefill_ns or ttft_ns, latency_ns - ttft_ns, 0, slot.prompt,
            min(slot.cached, slot.prompt), slot.tokens, slot.prompt + slot.tokens - 1, 0, self._phase, STOP,
        )  # fmt: skip
        record = message_frames.RECORD.pack(slot.start_ns, latency_ns, 0, 0, self._phase, True)
        self._outlet.put(memoryview(record), 1, 0, slot.last_ns)

    def rates(self) -> Tuple[Optional[float], Optional[float]]:
        """Return (prompt tokens per second, generated tokens per second) by the server's own clock.

        Both are means since the watch began. Each is None if it is unknown. The first token of a request does not
        count, because the server's time begins with it.
        """
        found = []
        for (name, seconds), without in ((PROMPTS, 0), (TOKENS, self._count)):
            took_s = self._risen(self.begun, seconds)
            found.append(max(0.0, self._risen(self.begun, name) - without) / took_s if took_s else None)
        return found[0], found[1]
