"""What edgetop reads from a llama-server that others use, how often, and what it makes of it. Time is simulated."""

from types import SimpleNamespace

import pytest

from edgetop.engines.child import message_frames
from edgetop.engines.child.server_watch import METRICS, SLOTS, ServerWatch
from edgetop.engines.child.token_frames import TokenFrames

NS = 1_000_000_000


class Simulated:
    """A llama-server in simulated time, as `http_client.HttpClient` shows it, with the frames that edgetop sends.

    `requests` is a list of (slot, start in s, prefill in s, tokens of the prompt, generated tokens, s between tokens).
    """

    url = "http://simulated"

    def __init__(self, requests, *, shows_processing=True):
        self.requests, self.shows_processing = requests, shows_processing
        self.now_s, self.reads, self.tokens, self.ended = 100.0, [], [], []
        self.control = SimpleNamespace(stop_requested=False)
        self.watch = ServerWatch(self, TokenFrames(self, self.clock), self, self.control, self.wait)
        self.reads.clear()

    def clock(self):
        return int(self.now_s * NS)

    def wait(self, seconds):
        self.now_s += seconds

    def run(self, seconds):
        self.watch.repeat(message_frames.PHASE_MEASURE, duration_ns=int(seconds * NS))
        return self

    def per_second(self, path, begin_s, end_s):
        times = [t_s for read, t_s in self.reads if read == path and begin_s <= t_s - 100 < end_s]
        return len(times) / (end_s - begin_s)

    # what the server shows

    def _each(self):
        for task, (slot, start_s, prefill_s, prompt, tokens, gap_s) in enumerate(self.requests):
            since_s = self.now_s - 100 - start_s - prefill_s
            decoded = 0 if since_s < 0 else min(tokens, 1 + int(since_s / gap_s))
            is_over = since_s >= gap_s * (tokens - 1)
            if since_s >= -prefill_s:
                yield slot, task, prefill_s, prompt, tokens, decoded, gap_s, is_over

    def document(self, path, _is_over):
        self.reads.append((path, self.now_s))
        slots = [{"is_processing": False} for _ in range(4)]
        for slot, task, _, prompt, _, decoded, _, is_over in self._each():
            if not is_over:
                slots[slot] = {
                    "is_processing": True, "id_task": task, "n_prompt_tokens": prompt + decoded,
                    "n_prompt_tokens_processed": prompt, "n_prompt_tokens_cache": 0,
                    "next_token": [{"n_decoded": decoded}],
                }  # fmt: skip
        return slots

    def request(self, path, _content, _is_over):
        self.reads.append((path, self.now_s))
        each = list(self._each())
        begun, over = [one for one in each if one[5]], [one for one in each if one[7]]
        totals = {
            "prompt_tokens_total": sum(one[3] for one in begun),
            "prompt_seconds_total": sum(one[2] for one in begun),
            "tokens_predicted_total": sum(one[4] for one in over),
            "tokens_predicted_seconds_total": sum(one[6] * (one[4] - 1) for one in over),
        }
        if self.shows_processing:
            totals["requests_processing"] = len(each) - len(over)
        text = "".join(f"llamacpp:{name} {value}\n" for name, value in totals.items())
        answer = SimpleNamespace(whole=text.encode)
        return type("Opened", (), {"__enter__": lambda _: answer, "__exit__": lambda *_: None})()

    # what edgetop sends

    def send_packed(self, kind, data):
        form, into = {
            message_frames.TOKENS: (message_frames.TOKEN, self.tokens),
            message_frames.REQUESTS: (message_frames.REQUEST, self.ended),
        }[kind]
        into += [form.unpack_from(data, at) for at in range(0, len(data), form.size)]

    def put(self, *_):
        pass

    def decode_per_s(self):
        gaps = [gap_ns for _, gap_ns, _, is_later, *_ in self.tokens if is_later]
        return NS * len(gaps) / sum(gaps)


def test_a_long_request_is_read_twice_a_second_from_one_endpoint():
    server = Simulated([(0, 1.0, 0.4, 50, 1000, 0.02)]).run(30)
    assert server.per_second(SLOTS, 4, 20) == pytest.approx(2, abs=0.07)
    assert server.per_second(METRICS, 4, 20) == 0
    assert len(server.tokens) == 1000
    assert server.decode_per_s() == pytest.approx(50, rel=0.005)
    ((_, _, latency_ns, ttft_ns, *_),) = server.ended
    assert (latency_ns / NS, ttft_ns / NS) == (pytest.approx(20.38, abs=0.6), pytest.approx(0.4, abs=0.01))


def test_a_server_without_requests_is_read_from_one_endpoint_ever_more_seldom():
    server = Simulated([]).run(60)
    assert server.per_second(SLOTS, 0, 60) == 0
    assert server.per_second(METRICS, 10, 60) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("gap_s", [0.005, 0.03, 0.3])
@pytest.mark.parametrize("pause_s", [0.0, 0.2, 5.0])
@pytest.mark.parametrize("shows_processing", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_rates_of_a_minute_are_those_of_the_server(gap_s, pause_s, shows_processing):
    """Also of short requests, of which several lie between two reads."""
    tokens, prefill_s = 40, 0.1
    took_s = prefill_s + gap_s * (tokens - 1) + pause_s
    count = int(58 / took_s)
    requests = [(0, 1.003 + number * took_s, prefill_s, 20, tokens, gap_s) for number in range(count)]
    server = Simulated(requests, shows_processing=shows_processing).run(75)
    assert len(server.tokens) == count * tokens
    assert server.decode_per_s() == pytest.approx(1 / gap_s, rel=0.02)
    busiest = max(len([None for _, t_s in server.reads if begin <= t_s < begin + 10]) for begin in range(100, 160))
    assert busiest <= 21


def test_requests_at_the_same_time_are_told_apart():
    requests = [(slot, 1.0 + 0.7 * slot, 0.2, 10, 200, 0.05) for slot in range(3)]
    server = Simulated(requests).run(20)
    assert len(server.tokens) == 600
    assert [request[10] for request in server.ended] == [200, 200, 200]


def test_a_stop_is_not_kept_waiting_by_a_long_interval():
    server = Simulated([])
    server.run(30)
    asked_s = server.now_s + 0.3

    def wait(seconds):
        server.now_s += seconds
        server.control.stop_requested = server.now_s >= asked_s

    server.watch._wait = wait
    assert server.watch.repeat(message_frames.PHASE_MEASURE, duration_ns=10 * NS) == "stop"
    assert server.now_s - asked_s < 0.5
