"""Send prompts to a server of language models, as a client, and time the answers.

The endpoint is `/v1/chat/completions` of OpenAI's API, which llama-server, Ollama, vLLM and others have. The answer is
a stream of server-sent events. An event with text counts as a token. A server may put several tokens into one event; so
if the server sends its own `usage`, the counts of tokens are taken from there. The times are this client's: they
include the network and the server's queue.
"""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import message_frames
from .engine_error import EngineError
from .generation import GenerationLoop
from .http_client import HttpClient, HttpError, StoppedError
from .ollama import loaded_models
from .pace import SharedPlan, pace_of, sharpen_timers
from .parallel_streams import Lanes, Streams
from .request_steps import CANCELLED, LENGTH, STOP, WARMUP_TOKENS
from .server_watch import ServerWatch
from .token_frames import TokenFrames

CHAT = "/v1/chat/completions"
BYTES_A_TOKEN = 4  # usual length of a token of English text, until the server has counted a prompt
MOST_TOKENS = 2**24  # upper bound of a count that a server may report
MOST_MS = 86_400_000.0


class Shared:
    """What all parallel clients of one server count together: prompts, active requests, tokens. For several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = self._waiting = self._generating = 0
        self.totals = Totals()

    def next_place(self, prompts: int) -> int:
        """Return the number, from 0, of the prompt for the next request. `prompts` is the number of prompts."""
        with self._lock:
            self._count += 1
            return (self._count - 1) % prompts

    def change(self, waiting: int, generating: int) -> None:
        """Add `waiting` to the number of waiting requests, and `generating` to the number of generating requests.

        A waiting request has no token yet. Both parameters may be negative.
        """
        with self._lock:
            self._waiting += waiting
            self._generating += generating

    @property
    def active(self) -> int:
        """The number of requests that generate tokens. It is 0 while a request waits for its first token."""
        return 0 if self._waiting else self._generating

    def add(self, answer: "_Reply") -> None:
        """Add an answer's tokens, and the server's own times for them, to the totals."""
        with self._lock:
            self.totals.add(answer)


class ServerRequests:
    """Sends prompts to a server one after another, with the interface of `generation.Requests`."""

    def __init__(
        self, spec: Dict[str, Any], server: HttpClient, model: str, frames: TokenFrames, control: Any, shared: Shared
    ) -> None:
        """Prepare the requests.

        `spec` has the fields of `EngineSpec` by name. `server` gets the requests. `model` is the name of its model; ""
        if it has none. `frames` sends tokens to edgetop's main process, and `control` says when to stop. `shared` is
        the same object for all parallel requests.
        """
        options = spec["generation"]
        self._server, self._model, self._frames, self._control = server, model, frames, control
        self._prompts: List[str] = options["prompts"]
        self._most_tokens, self._temperature = int(options["max_tokens"]), options["temperature"]
        self._seed = spec["seed"]
        self._lengths: Dict[int, int] = {}  # tokens of a prompt by its number, once the server has counted them
        self._shared = shared

    def run(self, phase: int, due_ns: int, until_ns: int) -> Tuple[int, int, bool]:
        """Send the next prompt and read its answer. Return its start and end in ns, and whether it was cut off.

        It is cut off by a stop or at the time `until_ns`. `phase` is a constant such as PHASE_WARMUP. `due_ns` is when
        the request should have begun. Raises RuntimeError if the request fails, and EngineError if the server is gone.
        """
        place = self._shared.next_place(len(self._prompts))
        most = self._most_tokens if phase == message_frames.PHASE_MEASURE else min(WARMUP_TOKENS, self._most_tokens)
        now = self._frames.clock
        start = now()
        due_ns = min(due_ns, start)
        answer = _Reply(start, due_ns, phase, self._frames, self._prompt_length(place), self._shared)

        def is_over() -> bool:
            return bool(self._control.stop_requested) or now() >= until_ns

        self._shared.change(1, 0)
        try:
            self._exchange(place, most, phase, answer, is_over)
        finally:
            self._shared.change(*((0, -1) if answer.tokens else (-1, 0)))
        if not answer.tokens:
            if answer.finish == CANCELLED:
                return start, now(), True
            raise RuntimeError("%s: the answer has no text" % self._server.url)
        self._lengths[place] = answer.tokens_in
        if phase == message_frames.PHASE_MEASURE and answer.finish != CANCELLED:
            self._shared.add(answer)
        self._frames.put_request(
            start, start - due_ns, answer.last_ns - start, answer.first_ns - due_ns, 0, answer.prefill_ns(),
            answer.last_ns - answer.first_ns, 0, answer.tokens_in, answer.cached, answer.tokens_out,
            answer.tokens_in + answer.tokens_out - 1, place, phase, answer.finish,
        )  # fmt: skip
        return start, answer.last_ns, answer.finish == CANCELLED

    def _exchange(self, place: int, most: int, phase: int, answer: "_Reply", is_over: Callable[[], bool]) -> None:
        """Send prompt number `place` and put the server's reply into `answer`.

        `most` is the largest number of tokens that the server may generate. `phase` is a constant such as PHASE_WARMUP.
        `is_over` returns whether to stop. Raises RuntimeError if the request fails, and EngineError if the server is
        gone.
        """
        try:
            path = "" if self._server.path.endswith("/completions") else CHAT
            with self._server.request(path, self._content(place, most), is_over) as response:
                for t_ns, data in response.events():
                    if data == b"[DONE]":
                        break
                    answer.take(t_ns, data)
                    answer.refuse_more_than(most)
        except StoppedError:
            answer.finish = CANCELLED
        except OSError as error:
            raise self._gone(phase, error) from None
        except HttpError as error:
            if error.status or phase == message_frames.PHASE_FIRST:
                raise RuntimeError("%s: %s" % (self._server.url, error)) from None
            raise self._server.gone(error) from None

    def _gone(self, phase: int, error: OSError) -> EngineError:
        if phase == message_frames.PHASE_FIRST:
            return EngineError("input", "--url %s: %s" % (self._server.url, error.strerror or error), START_IT)
        return self._server.gone(error.strerror or error)

    def _prompt_length(self, place: int) -> int:
        if place in self._lengths:
            return self._lengths[place]
        return max(1, len(self._prompts[place].encode("utf-8", "surrogatepass")) // BYTES_A_TOKEN)

    def _content(self, place: int, most: int) -> Dict[str, Any]:
        text = self._prompts[place]
        content: Dict[str, Any] = {
            "stream": True, "stream_options": {"include_usage": True}, "max_tokens": most,
            "temperature": self._temperature, "seed": self._seed,
        }  # fmt: skip
        if self._server.path.endswith("/completions") and not self._server.path.endswith("/chat/completions"):
            content["prompt"] = text
        else:
            content["messages"] = [{"role": "user", "content": text}]
        return dict(content, model=self._model) if self._model else content


SURPLUS = 4  # most events with text for each token that was asked for
START_IT = "start the server, or correct the URL"


class _Reply:
    """One answer of the server. Its fields are filled in while the answer arrives."""

    def __init__(
        self, start_ns: int, due_ns: int, phase: int, frames: TokenFrames, prompt_tokens: int, shared: Shared
    ) -> None:
        self._shared = shared
        self._start_ns, self._due_ns, self._phase, self._frames = start_ns, due_ns, phase, frames
        self.first_ns = self.last_ns = start_ns
        self.tokens, self.tokens_in, self.cached = 0, prompt_tokens, 0
        self._counted: Optional[int] = None  # generated tokens as the server counts them
        self.finish = STOP
        self.timings: Dict[str, float] = {}  # llama.cpp's own times

    @property
    def tokens_out(self) -> int:
        return self.tokens if self._counted is None else self._counted

    def prefill_ns(self) -> int:
        """Return the server's own time for the prompt in ns. If it reports none, return the time to the first token."""
        own_ms = self.timings.get("prompt_ms")
        return self.first_ns - self._start_ns if own_ms is None else int(own_ms * 1e6)

    def take(self, t_ns: int, data: bytes) -> None:
        """Add one event of the stream to this answer. `t_ns` is when it came, and `data` is its JSON.

        Raises HttpError if the event reports an error or is not JSON.
        """
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise HttpError("an event of the stream is no JSON", 200) from None
        if not isinstance(event, dict):
            return
        if event.get("error"):
            error = event["error"]
            raise HttpError(str(error.get("message", error) if isinstance(error, dict) else error), 200)
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        if _has_text(choice):
            self._token(t_ns)
        if choice.get("finish_reason") == "length":
            self.finish = LENGTH
        usage = event.get("usage")
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            self.tokens_in = _count(usage.get("prompt_tokens"), self.tokens_in)
            self._counted = max(1, _count(usage.get("completion_tokens"), self.tokens))
            self.cached = min(
                self.tokens_in, _count(details.get("cached_tokens"), 0) if isinstance(details, dict) else 0
            )
        timings = event.get("timings")
        if isinstance(timings, dict):
            for key in ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms"):
                value = timings.get(key)
                if isinstance(value, (int, float)) and 0 <= value <= MOST_MS:
                    self.timings[key] = float(value)

    def refuse_more_than(self, most: int) -> None:
        """Raise HttpError if the answer goes on far beyond `most` tokens, the number that was asked for."""
        if self.tokens > SURPLUS * most + 64:
            raise HttpError("it does not end after the %d tokens that were asked for" % most, 200)

    def _token(self, t_ns: int) -> None:
        self.tokens += 1
        position = self.tokens_in + self.tokens - 1
        if self.tokens == 1:
            self.first_ns = self.last_ns = t_ns
            self._shared.change(-1, 1)
            self._frames.put_token(t_ns, t_ns - self._due_ns, position, 0, self._phase)
        else:
            self._frames.put_token(t_ns, t_ns - self.last_ns, position, 1, self._phase, self._shared.active)
            self.last_ns = t_ns


def _has_text(choice: Dict[str, Any]) -> bool:
    """Return True if an event has text of the answer. Text of the model's reasoning counts too.

    `choice` is an item of the event's list `choices`.
    """
    delta = choice.get("delta")
    texts = [choice.get("text")]
    if isinstance(delta, dict):
        texts += [delta.get("content"), delta.get("reasoning_content"), delta.get("reasoning")]
        texts += [delta.get("tool_calls")]
    return any(texts)


def _count(value: Any, default: int) -> int:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else default


class Totals:
    """Sums of the times and tokens that the server itself reports for the measured requests."""

    def __init__(self) -> None:
        self.requests = 0
        self._sums: Dict[str, float] = {}

    def add(self, reply: _Reply) -> None:
        if len(reply.timings) == 4:
            self.requests += 1
            for key, value in reply.timings.items():
                self._sums[key] = self._sums.get(key, 0.0) + value

    def rates(self) -> Tuple[Optional[float], Optional[float]]:
        """Return (prompt tokens per second, generated tokens per second) by the server's own clock.

        Each is None if the server does not report it.
        """
        own = self._sums
        prompt = own["prompt_n"] / own["prompt_ms"] * 1000 if own.get("prompt_ms") else None
        # llama.cpp's time for generated tokens begins with the first one, which it counts too.
        decode = (own["predicted_n"] - self.requests) / own["predicted_ms"] * 1000 if own.get("predicted_ms") else None
        return prompt, decode


def model_name(server: HttpClient, is_over: Callable[[], bool] = lambda: False) -> str:
    """Return the name of the first model that the server lists, or "" if it lists none.

    `is_over` says whether to stop waiting. Raises OSError if there is no connection.
    """
    base = HttpClient(server.url)
    base.path = base.path.partition("/v1")[0]
    try:
        models = base.document("/v1/models", is_over)
    except (HttpError, StoppedError):
        return ""
    listed = models.get("data") if isinstance(models, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    name = first.get("id") if isinstance(first, dict) else None
    return name[:200] if isinstance(name, str) else ""


def context_size(server: HttpClient) -> Optional[int]:
    """Return how many tokens the context of one request may have. Only llama-server reports this; None for others."""
    base = HttpClient(server.url)
    base.path = base.path.partition("/v1")[0]
    try:
        settings = base.document("/props").get("default_generation_settings")
        size = settings.get("n_ctx")
    except (HttpError, OSError, AttributeError):
        return None
    return size if type(size) is int and 0 < size <= MOST_TOKENS else None


def prepared(spec: Dict[str, Any], outlet: Any, control: Any) -> Tuple[Any, Callable[[], None]]:
    """Return a loop that sends prompts to a server, and a function that reports the server's rates after the loop.

    `spec` has the fields of `EngineSpec` by name. Without prompts in `spec`, the loop only watches the server. `outlet`
    sends reports to edgetop's main process. `control` says when the user requests a stop. Raises EngineError if the
    server cannot be used.
    """
    begin = time.monotonic_ns()
    options = spec["generation"]
    server = HttpClient(options["url"])
    try:
        name = model_name(server, lambda: bool(control.stop_requested))
        # Ollama lists all models of its store: one that is loaded already is meant rather than the newest.
        loaded = loaded_models(server, lambda: bool(control.stop_requested)) if options["prompts"] else None
        name = loaded[0] if loaded else name
    except OSError as error:
        raise EngineError("input", "--url %s: %s" % (server.url, error.strerror or error), START_IT) from None
    loop: Any
    if options["prompts"]:
        shared = Shared()
        loop, rates = _clients(spec, name, shared, outlet, control), shared.totals.rates
        why = "edgetop is a client: it sends the prompts, and the times include the network and the server's queue"
        sharpen_timers()
    else:
        loop = ServerWatch(server, TokenFrames(outlet), outlet, control)
        rates = loop.rates
        why = "edgetop reads the server's own figures, and sends it no prompt"
    told = {
        "runtime": "server", "version": "%s at %s" % (name or "a model without a name", server.url), "providers": [],
        "dropped_providers": [], "why": why, "init_ns": time.monotonic_ns() - begin, "assumptions": [],
        "input_steps": 1, "inputs": [], "context": context_size(server),
    }  # fmt: skip
    outlet.send(message_frames.LOADED, told)
    return loop, lambda: _report_rates(outlet, *rates())


def _clients(spec: Dict[str, Any], model: str, shared: Shared, outlet: Any, control: Any) -> Any:
    """Return a loop that sends requests to the server, with as many clients at the same time as the user wants.

    `spec` has the fields of `EngineSpec` by name. `model` is the name of the server's model. `shared` is what the
    clients have in common. `outlet` and `control` are as for `prepared`.
    """
    options = spec["generation"]

    def client(number: int, out: Any, make_pace: Callable[[], Any]) -> GenerationLoop:
        requests = ServerRequests(spec, HttpClient(options["url"]), model, TokenFrames(out), control, shared)
        return GenerationLoop(requests, out, control, make_pace, number)

    if options["parallel"] == 1:
        return client(0, outlet, lambda: pace_of(spec, 0))
    lanes, plan = Lanes(outlet, options["parallel"]), pace_of(spec, 0)
    one_for_all = None if plan is None or not plan.is_open else SharedPlan(plan)

    def make_pace(number: int) -> Any:
        return one_for_all or pace_of(spec, number)

    loops = [client(number, lanes, partial(make_pace, number)) for number in range(options["parallel"])]
    return Streams(loops, lanes, control)


def _report_rates(outlet: Any, prefill: Optional[float], decode: Optional[float]) -> None:
    """Send the server's own rates, in tokens per second, as an event. A rate that is unknown is None."""
    if prefill is None and decode is None:
        return
    words = ["%s %.4g tok/s" % (name, rate) for name, rate in (("prefill", prefill), ("decode", decode)) if rate]
    data = {"prefill_tok_s": prefill, "decode_tok_s": decode}
    text = "the server's own figures: %s" % ", ".join(words)
    outlet.send(message_frames.LOG, {"severity": "info", "kind": "server-figures", "message": text, "data": data})
