"""The tokens and requests of a language model follow from the batches that a program computes."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.probe import edgetop_probe as layout
from edgetop.taps.ring import NO_CALLS
from edgetop.taps.token_batches import TokenBatches

MS = 1_000_000
LATER_MS = 10_000_000


@dataclass
class Program:
    """Computes batches that take 10 ms and begin each 15 ms. `runs` are (sequence, position, tokens, scores)."""

    now_ms: int = 1_000
    rows: list = field(default_factory=list)

    def batch(self, *runs, name=0):
        for sequence, position, tokens, scores in runs:
            self.rows.append((self.now_ms * MS, (self.now_ms + 10) * MS, name, sequence, position + 1, tokens, scores))
        self.now_ms += 15

    def calls(self):
        made = np.zeros(len(self.rows), NO_CALLS.dtype)
        made["kind"] = layout.TOKENS
        for place, name in enumerate(("start_ns", "end_ns", "name", "flags", "cpu_us", "number", "ok")):
            made[name] = [row[place] for row in self.rows]
        return made

    def seen(self, split=None):
        batches, calls = TokenBatches(), self.calls()
        for part in np.split(calls, split or []):
            batches.add(1, part)
        return batches.release(LATER_MS * MS, LATER_MS * MS, is_over=True)


def gaps(tokens):
    return [(bool(one["is_later"]), int(one["gap_ns"]) // MS, int(one["position"])) for one in tokens]


def test_a_prompt_and_the_tokens_after_it_are_a_request():
    program = Program()
    program.batch((0, 0, 8, 0))  # a prompt in two batches
    program.batch((0, 8, 4, 1))
    for position in (12, 13, 14):
        program.batch((0, position, 1, 1))
    tokens, (request,) = program.seen()
    assert gaps(tokens) == [(False, 25, 12), (True, 15, 13), (True, 15, 14), (True, 15, 15)]
    assert [int(request[name]) for name in ("tokens_in", "tokens_cached", "tokens_out", "position")] == [12, 0, 4, 15]
    times = [int(request[name]) // MS for name in ("t_ns", "latency_ns", "ttft_ns", "prefill_ns", "decode_ns")]
    assert times == [1_000, 70, 25, 20, 45]


def test_a_batch_of_several_sequences_has_a_token_of_each():
    program = Program()
    program.batch((0, 0, 5, 1), (1, 0, 7, 1))
    for step in range(4):
        program.batch((0, 5 + step, 1, 1), (1, 7 + step, 1, 1))
    tokens, requests = program.seen()
    assert sorted(requests["tokens_in"].tolist()) == [5, 7]
    assert requests["tokens_out"].tolist() == [5, 5]
    assert set(tokens["active"][tokens["is_later"]].tolist()) == {2}


def test_tokens_beside_a_prompt_have_no_known_number_of_requests():
    program = Program()
    program.batch((0, 0, 5, 1))
    program.batch((0, 5, 1, 1), (1, 0, 7, 1))
    tokens, _ = program.seen()
    assert tokens["active"].tolist() == [0, 0]


def test_the_last_token_of_a_prompt_that_was_in_the_cache_is_no_generated_token():
    """llama-server processes at least one token of a prompt that it knows."""
    program = Program()
    for _ in range(2):
        program.batch((0, 0, 6, 1)) if not program.rows else program.batch((0, 5, 1, 1))
        for position in (6, 7):
            program.batch((0, position, 1, 1))
    tokens, requests = program.seen()
    assert len(tokens) == 6
    assert requests["tokens_in"].tolist() == [6, 6]
    assert requests["tokens_cached"].tolist() == [0, 5]
    assert requests["tokens_out"].tolist() == [3, 3]


def test_one_token_that_completes_a_prompt_is_a_part_of_it():
    program = Program()
    program.batch((0, 0, 512, 0))
    program.batch((0, 512, 1, 1))
    program.batch((0, 513, 1, 1))
    tokens, (request,) = program.seen()
    assert (len(tokens), int(request["tokens_in"])) == (2, 513)


def test_a_dialogue_goes_on_in_the_same_context():
    program = Program()
    program.batch((0, 0, 6, 1))
    program.batch((0, 6, 1, 1))
    program.batch((0, 7, 4, 1))
    program.batch((0, 11, 1, 1))
    _, requests = program.seen()
    assert list(zip(requests["tokens_in"].tolist(), requests["tokens_cached"].tolist(), strict=True)) == [
        (6, 0),
        (11, 7),
    ]


def test_without_positions_a_single_token_goes_on():
    """`llama_batch_get_one` leaves the positions to the cache."""
    program = Program()
    for _ in range(2):
        program.batch((0, -1, 6, 1))
        program.batch((0, -1, 1, 1))
        program.batch((0, -1, 1, 1))
    tokens, requests = program.seen()
    assert (len(tokens), requests["tokens_in"].tolist(), requests["tokens_out"].tolist()) == (6, [6, 6], [3, 3])


def test_prompts_without_a_token_are_no_requests():
    """Embeddings, and a perplexity over a text."""
    program = Program()
    for size in (6, 9, 4):
        program.batch((0, 0, size, 2))
    tokens, requests = program.seen()
    assert (len(tokens), len(requests)) == (0, 0)


def test_drafts_are_noticed_and_not_counted():
    batches, program = TokenBatches(), Program()
    program.batch((0, 0, 6, 1))
    program.batch((0, 6, 5, 2))
    program.batch((0, 9, 5, 2))
    batches.add(1, program.calls())
    assert batches.drafts
    tokens, requests = batches.release(LATER_MS * MS, LATER_MS * MS, is_over=True)
    assert (len(tokens), len(requests)) == (0, 0)


def test_a_request_ends_when_its_sequence_is_quiet_and_tokens_wait_for_their_batch():
    batches, program = TokenBatches(), Program()
    program.batch((0, 0, 6, 1))
    program.batch((0, 6, 1, 1))
    program.batch((0, 7, 1, 1))
    batches.add(1, program.calls())
    tokens, requests = batches.release(1_030 * MS, 1_050 * MS, is_over=False)
    assert (len(tokens), len(requests)) == (2, 0)
    tokens, requests = batches.release(1_100 * MS, 1_100 * MS, is_over=False)
    assert (len(tokens), len(requests)) == (1, 0)
    tokens, requests = batches.release(1_100 * MS, 4_000 * MS, is_over=False)
    assert (len(tokens), len(requests)) == (0, 1)
    assert not len(batches.release(1_100 * MS, 9_000 * MS, is_over=True)[1])


def test_the_end_of_a_process_ends_its_requests():
    batches, program = TokenBatches(), Program()
    program.batch((0, 0, 6, 1))
    program.batch((0, 6, 1, 1))
    batches.add(1, program.calls())
    batches.add(2, program.calls())
    batches.end(1)
    assert len(batches.release(LATER_MS * MS, 1_100 * MS, is_over=False)[1]) == 1


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize("parallel", [1, 3])
def test_any_load_is_counted_as_it_was_and_however_it_is_read(parallel, data):
    """Requests of any lengths in any sequences, with prompts in pieces of up to four tokens."""
    draw, program, served, running = data.draw, Program(), [], {}
    for _ in range(draw(st.integers(1, 40))):
        runs = []
        for sequence in range(parallel):
            if sequence not in running and draw(st.booleans()):
                running[sequence] = [draw(st.integers(1, 9)), 0, draw(st.integers(2, 5)), 0]
                served.append((running[sequence][0], running[sequence]))
            if (one := running.get(sequence)) is None:
                continue
            length, done, wanted, made = one
            if done < length:
                size = min(4, length - done)
                runs.append((sequence, done, size, int(done + size == length)))
                one[1] += size
                one[3] = int(one[1] == length)
            else:
                runs.append((sequence, length + made - 1, 1, 1))
                one[3] += 1
            if one[3] >= wanted:
                del running[sequence]
        if runs:
            program.batch(*runs)
    wanted = sorted((length, one[3]) for length, one in served if one[3] > 1)
    cuts = sorted(draw(st.sets(st.sampled_from(range(len(program.rows) + 1)), max_size=3)))
    starts = [row[0] for row in program.rows]
    cuts = [cut for cut in cuts if 0 < cut < len(starts) and starts[cut] != starts[cut - 1]]
    tokens, requests = program.seen(cuts)
    assert sorted(zip(requests["tokens_in"].tolist(), requests["tokens_out"].tolist(), strict=True)) == wanted
    assert len(tokens) == sum(made for _, made in wanted)
