"""A stand-in for llama-server: the same endpoints and shapes, with tokens at times that a test chooses."""

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class LlamaServer:
    """Serves on a free port of the loopback, as a context manager.

    `gap_s`: time between two tokens. `bodies`: answers in place of the usual ones, by path, as raw bytes of HTTP.
    """

    gap_s: float = 0.005
    prefill_s: float = 0.02
    prompt_tokens: int = 33
    cached: int = 24
    has_slots: bool = True
    has_metrics: bool = True
    bodies: dict = field(default_factory=dict)
    totals: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)

    def __post_init__(self):
        names = (
            "prompt_tokens",
            "prompt_seconds",
            "prompt_tokens_cached",
            "tokens_predicted",
            "tokens_predicted_seconds",
        )
        self.totals.update(dict.fromkeys(names, 0))
        self.slots, self._lock, self._tasks = {}, threading.Lock(), 0

    def __enter__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.get(self)

            def do_POST(self):
                content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(content)
                outer.post(self, content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def get(self, handler):
        if handler.path in self.bodies:
            handler.wfile.write(self.bodies[handler.path])
            handler.close_connection = True
            return
        with self._lock:
            if handler.path == "/metrics" and self.has_metrics:
                text = "".join(f"llamacpp:{name}_total {value}\n" for name, value in self.totals.items())
                status, body = 200, f"# HELP llamacpp:x y\n{text}"
            elif handler.path == "/slots" and self.has_slots:
                status, body = 200, json.dumps([self.slots.get(0, {"id": 0, "is_processing": False})])
            elif handler.path == "/v1/models":
                status, body = 200, json.dumps({"data": [{"id": "tiny"}]})
            elif handler.path == "/props":
                status, body = 200, json.dumps({"default_generation_settings": {"n_ctx": 1024}})
            else:
                status, body = 404, json.dumps({"error": {"message": "not \x1b[31mhere"}})
        data = body.encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def post(self, handler, content):
        if handler.path in self.bodies:
            handler.wfile.write(self.bodies[handler.path])
            handler.close_connection = True
            return
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for event in self.generate(content["max_tokens"]):
            data = f"data: {event}\n\n".encode()
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")

    def generate(self, tokens):
        """Generate tokens as the server does, and yield the events of the stream."""
        with self._lock:
            self._tasks += 1
            self.slots[0] = self._slot(0)
        time.sleep(self.prefill_s)
        begun = time.monotonic()
        with self._lock:
            self.totals["prompt_tokens"] += self.prompt_tokens - self.cached
            self.totals["prompt_tokens_cached"] += self.cached
            self.totals["prompt_seconds"] += self.prefill_s
        for number in range(1, tokens + 1):
            if number > 1:
                time.sleep(self.gap_s)
            with self._lock:
                self.slots[0] = self._slot(number)
            yield json.dumps({"choices": [{"delta": {"content": f"w{number}"}, "finish_reason": None}]})
        took_s = time.monotonic() - begun
        with self._lock:
            self.totals["tokens_predicted"] += tokens
            self.totals["tokens_predicted_seconds"] += took_s
            self.slots.pop(0, None)  # the stream of another client may have ended before
        yield json.dumps({"choices": [{"delta": {}, "finish_reason": "length"}]})
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": tokens}
        usage["prompt_tokens_details"] = {"cached_tokens": self.cached}
        own = {"prompt_n": self.prompt_tokens - self.cached, "prompt_ms": self.prefill_s * 1000}
        own |= {"predicted_n": tokens, "predicted_ms": took_s * 1000}
        yield json.dumps({"choices": [], "usage": usage, "timings": own})
        yield "[DONE]"

    def _slot(self, decoded):
        return {
            "id": 0, "id_task": self._tasks, "is_processing": True, "n_prompt_tokens": self.prompt_tokens + decoded,
            "n_prompt_tokens_processed": self.prompt_tokens - self.cached if decoded else 0,
            "n_prompt_tokens_cache": self.cached, "next_token": [{"n_decoded": decoded}],
        }  # fmt: skip
