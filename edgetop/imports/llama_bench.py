"""Parse the output of llama.cpp's `llama-bench -o json` and `-o jsonl`.

Source: ggml-org/llama.cpp, tools/llama-bench/llama-bench.cpp, `json_printer` and `test::get_fields`. Each test is an
object: `n_prompt` tokens are processed (`pp512`), or `n_gen` tokens generated (`tg128`), with `n_depth` tokens before
them in the context. `samples_ns` has the time of each repetition:

    {"build_commit": "8cf427ff", "build_number": 5163, "model_filename": "a.gguf", "n_threads": 8, "n_prompt": 512,
     "n_gen": 0, "n_depth": 0, "avg_ns": 72135640, "samples_ns": [74601900, 71632900], "samples_ts": [6863.1, 7147.55]}
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgetop.formatting import quantity
from edgetop.imports.measured import MAX_NS, Generated, Origin
from edgetop.session.records import FINISH_REASONS, MEASURE, REQUEST

ORIGIN = Origin("llama-bench", "llama.cpp (imported from llama-bench)")
KEYS = {"n_prompt", "n_gen", "samples_ns"}
MOST_TOKENS, MOST_REPETITIONS = 2**24, 1_000_000
# Settings that may differ between the tests of one session, and results. All other keys must be equal.
_OF_A_TEST = ("n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns",
              "samples_ts")  # fmt: skip
NOTE = "a time between tokens is the mean of a repetition"


def read_tests(tests: Sequence[Any]) -> Generated:
    """Return the repetitions of the tests as requests to a language model.

    `tests` are the parsed JSON objects of the tests, as in `{"n_prompt": 512, "n_gen": 0, "samples_ns": [74601900]}`.

    If there is one prompt test and one generation test with equal numbers of repetitions, each request is a repetition
    of the prompt test followed by one of the generation test. Otherwise each repetition is a request. A test that
    processes a prompt and also generates is left out, with a note. Raises ValueError if the tests differ in their
    settings, or if no test can be used.
    """
    rows = [_checked(test) for test in tests]
    first = rows[0]
    for row in rows[1:]:
        for key in first:
            if key not in _OF_A_TEST and row.get(key, first[key]) != first[key]:
                text = f"it holds tests of several settings ({key} {str(first[key])[:60]} and {str(row.get(key))[:60]})"
                raise ValueError(f"{text}: keep those of one in a file")
    both = [row for row in rows if row["n_prompt"] and row["n_gen"]]
    prompts = [row for row in rows if row["n_prompt"] and not row["n_gen"]]
    generations = [row for row in rows if row["n_gen"] and not row["n_prompt"]]
    notes = [NOTE]
    if both:
        notes.append(
            f"left out: {quantity(len(both), 'test')} of prompt and generation together, whose times cannot be divided"
        )
    if len(prompts) == len(generations) == 1 and len(prompts[0]["samples_ns"]) == len(generations[0]["samples_ns"]):
        pairs: list[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]] = [(prompts[0], generations[0])]
        notes.append("a request is a repetition of the prompt and one of the generation, which llama-bench ran apart")
    else:
        pairs = [*((row, None) for row in prompts), *((None, row) for row in generations)]
    if not pairs:
        raise ValueError("llama-bench's output has no test of a prompt alone or of a generation alone")
    requests, gaps_ns, now_ns = [], [], 0
    for prompt, generation in pairs:
        for number in range(len((prompt or generation or {})["samples_ns"])):
            request = np.zeros(1, REQUEST)
            took_ns = [row["samples_ns"][number] if row else 0 for row in (prompt, generation)]
            tokens_in, tokens_out = prompt["n_prompt"] if prompt else 0, generation["n_gen"] if generation else 0
            request["t_ns"], request["latency_ns"] = now_ns, sum(took_ns)
            request["prefill_ns"], request["decode_ns"] = took_ns
            request["tokens_in"], request["tokens_out"] = tokens_in, tokens_out
            request["position"] = (generation or prompt or {}).get("n_depth", 0) + tokens_in + tokens_out
            request["phase"], request["finish"] = MEASURE, FINISH_REASONS.index("length")
            requests.append(request)
            gaps_ns.append(took_ns[1] // tokens_out if tokens_out else 0)
            now_ns += sum(took_ns)
            if now_ns > MAX_NS:
                raise ValueError("its tests take longer than a run can")
    build = " ".join(str(first[key])[:40] for key in ("build_commit", "build_number") if key in first)
    return Generated(
        np.concatenate(requests),
        np.array(gaps_ns, np.int64),
        model=str(first["model_filename"])[:4000] if "model_filename" in first else None,
        version=build or None,
        threads=first["n_threads"] if type(first.get("n_threads")) is int else None,
        notes=tuple(notes),
    )


def _checked(test: Any) -> Mapping[str, Any]:
    """Return a test with its times rounded to whole ns.

    `test` is the parsed JSON object, as in `{"n_prompt": 512, "n_gen": 0, "samples_ns": [74601900]}`. Raises ValueError
    if a figure is missing or cannot be right.
    """
    if not isinstance(test, dict) or not test.keys() >= KEYS:
        raise ValueError("llama-bench's output has a test without n_prompt, n_gen or samples_ns")
    samples = test["samples_ns"]
    if not isinstance(samples, list) or not 0 < len(samples) <= MOST_REPETITIONS:
        raise ValueError("llama-bench's output has a test without repetitions")
    rounded = [round(each) if type(each) in (int, float) and 0 < each <= MAX_NS else 0 for each in samples]
    if not all(rounded):
        raise ValueError("llama-bench's output has a repetition whose time cannot be right")
    for key in ("n_prompt", "n_gen", "n_depth"):
        value = test.get(key, 0)
        if type(value) is not int or not 0 <= value <= MOST_TOKENS:
            raise ValueError(f"llama-bench's output has a test with {key} {str(value)[:40]}")
    return {**test, "samples_ns": rounded}
