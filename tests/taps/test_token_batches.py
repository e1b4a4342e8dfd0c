"""The tokens and requests of a language model follow from the batches that a program computes."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.probe import edgetop_probe as layout
from edgetop.probe import llama_calls
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


def test_without_positions_a_single_token_goes_on_and_a_prompt_begins_a_context():
    """A program that clears its context between requests does not tell so, and its context must not grow for ever."""
    program = Program()
    for _ in range(3):
        program.batch((0, -1, 6, 0))
        program.batch((0, -1, 2, 1))  # another piece of the same prompt
        program.batch((0, -1, 1, 1))
        program.batch((0, -1, 1, 1))
    tokens, requests = program.seen()
    assert (len(tokens), requests["tokens_in"].tolist(), requests["tokens_out"].tolist()) == (9, [8] * 3, [3] * 3)
    assert requests["tokens_cached"].tolist() == [0] * 3
    assert tokens["position"].tolist() == [8, 9, 10] * 3


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


def test_a_draft_is_noticed_when_the_program_goes_back_into_it():
    """A draft that is accepted whole may also be a prompt."""
    batches, noticed = TokenBatches(), []
    for runs in [((0, 0, 6, 1),), ((0, 6, 5, 2),), ((0, 11, 5, 2), (1, 0, 9, 1)), ((0, 13, 1, 1),)]:
        program = Program()
        program.batch(*runs)
        batches.add(1, program.calls())
        noticed.append(batches.drafts)
    assert noticed == [False, False, False, True]


@pytest.mark.parametrize("after", [((0, 11, 1, 1),), ((0, 10, 5, 2),)], ids=["one token", "another draft"])
@pytest.mark.parametrize("splits", [None, [1, 2, 3, 4, 5, 6]], ids=["at once", "one by one"])
def test_the_request_of_the_first_rejected_draft_does_not_count_and_its_single_tokens_do(after, splits):
    """The draft has 5 tokens from position 9 on, of which the program accepts the first or the first two."""
    program = Program()
    program.batch((0, 0, 4, 1))
    program.batch((0, 4, 1, 1))
    program.batch((0, 0, 6, 1))  # a request after a whole one
    for position in (6, 7, 8):
        program.batch((0, position, 1, 1))
    program.batch((0, 9, 5, 2))
    program.batch(*after)
    batches, tokens, requests = TokenBatches(), 0, []
    for part in np.split(program.calls(), splits or []):
        batches.add(1, part)
        until_ns = int(part["end_ns"][-1])
        more, ended = batches.release(until_ns, until_ns, is_over=False)
        tokens, requests = tokens + len(more), requests + ended["tokens_in"].tolist()
    more, ended = batches.release(LATER_MS * MS, LATER_MS * MS, is_over=True)
    assert batches.drafts
    assert (tokens + len(more), requests + ended["tokens_in"].tolist()) == (2 + 4, [4])


def test_the_request_before_a_short_prompt_counts_when_that_is_no_draft():
    """The second turn of a dialogue with `logits_all` looks as a draft, until a token follows or nothing does."""
    for more in ([(0, 12, 1, 1)], []):
        program = Program()
        program.batch((0, 0, 6, 1))
        program.batch((0, 6, 1, 1))
        program.batch((0, 7, 5, 2))
        batches = TokenBatches()
        batches.add(1, program.calls())
        now_ns = program.now_ms * MS
        assert len(batches.release(now_ns, now_ns, is_over=False)[1]) == 0
        program.rows.clear()
        for run in more:
            program.batch(run)
        batches.add(1, program.calls())
        later_ns = now_ns + (20 if more else 9_000) * MS
        assert batches.release(later_ns, later_ns, is_over=False)[1]["tokens_in"].tolist() == [6]


def test_a_prompt_of_which_all_tokens_get_scores_is_no_draft():
    """So are all prompts of llama-cpp-python with `logits_all`: in batches of 512, and a short second turn."""
    batches, program = TokenBatches(), Program()
    program.batch((0, 0, 512, 2))
    program.batch((0, 512, 40, 2))
    program.batch((0, 552, 1, 1))
    program.batch((0, 553, 7, 2))
    program.batch((0, 560, 1, 1))
    program.batch((0, 300, 9, 2))  # another prompt that begins as the first one
    program.batch((0, 309, 1, 1))
    batches.add(1, program.calls())
    tokens, requests = batches.release(LATER_MS * MS, LATER_MS * MS, is_over=True)
    assert not batches.drafts
    assert requests["tokens_in"].tolist() == [552, 560, 309]
    assert len(tokens) == 6


@pytest.mark.parametrize("field", ["cpu_us", "number"])
def test_numbers_that_no_context_has_are_left_out(field):
    """They come from another process."""
    program = Program()
    program.batch((0, 0, 6, 1))
    program.batch((0, 6, 1, 1))
    program.batch((0, 7, 1, 1), (1, 0, 5, 1))
    program.batch((1, -1, 1, 1))
    batches, calls = TokenBatches(), program.calls()
    calls[field][-2] = 2**32 - 1
    batches.add(1, calls)
    tokens, requests = batches.release(LATER_MS * MS, LATER_MS * MS, is_over=True)
    assert (tokens["position"].tolist(), requests["tokens_out"].tolist()) == ([6, 7, 8], [3])


def test_positions_and_numbers_of_tokens_end_at_the_largest_one():
    most, program = 2**31 - 1, Program()
    program.batch((0, most - 9, most, 1))
    program.batch((0, -1, most, 1))
    for _ in range(3):
        program.batch((0, -1, 1, 1))
    tokens, (request,) = program.seen()
    assert set(tokens["position"].tolist()) == {most}
    assert [int(request[name]) for name in ("tokens_in", "tokens_out", "position")] == [most, 4, most]


def test_a_batch_of_unknown_tokens_ends_what_is_known_of_its_context():
    program = Program()
    program.batch((0, 0, 6, 1), (1, 0, 4, 1))
    program.batch((0, 6, 1, 1), (1, 4, 1, 1))
    program.batch((0, -1, 0, 0))
    program.batch((1, 5, 1, 1))
    tokens, requests = program.seen()
    assert (len(tokens), sorted(requests["tokens_in"].tolist())) == (4, [4, 6])


@pytest.mark.parametrize("sequence", [-1, 2**40])
def test_the_hook_says_of_a_batch_with_invalid_numbers_that_its_tokens_are_unknown(sequence):
    batch = SimpleNamespace(seq_id=[[0], [sequence]], pos=[3, 4], logits=[0, 1])
    assert llama_calls._runs(batch, 1) == [(0, 3, 1, 0)]
    assert llama_calls._runs(batch, 2) == []
    batch = SimpleNamespace(seq_id=None, pos=[-5], logits=None)
    assert llama_calls._runs(batch, 1) == []


def test_a_slow_program_has_longer_to_make_a_token():
    """A request of which each token takes 10 s, read whenever a token is there."""
    batches, program, told = TokenBatches(), Program(), []
    for position, count in [(0, 6), *((6 + step, 1) for step in range(5))]:
        program.rows.clear()
        start = program.now_ms
        program.batch((0, position, count, 1))
        program.rows[:] = [(row[0], (start + 10_000) * MS, *row[2:]) for row in program.rows]
        program.now_ms = start + 10_050
        batches.add(1, program.calls())
        told.append(len(batches.release(start * MS, (start + 19_000) * MS, is_over=False)[1]))
    _, requests = batches.release(10**15, (start + 60_000) * MS, is_over=False)
    assert (told, requests["tokens_out"].tolist()) == ([0] * 6, [6])


def test_a_token_after_the_end_of_a_request_belongs_to_a_request():
    batches, program, out, seen = TokenBatches(), Program(), [], 0
    times, firsts = [], 0
    for pause_ms in (5_000, 0):
        program.rows.clear()
        if pause_ms:
            program.batch((0, 0, 6, 1))
        for _ in range(3):
            program.batch((0, 6 + seen, 1, 1))
            seen += 1
        batches.add(1, program.calls())
        program.now_ms += pause_ms
        tokens, requests = batches.release(program.now_ms * MS, program.now_ms * MS, is_over=not pause_ms)
        out += zip(requests["tokens_in"].tolist(), requests["tokens_out"].tolist(), strict=True)
        times += requests[["ttft_ns", "prefill_ns", "tokens_cached"]].tolist()
        firsts += int((~tokens["is_later"]).sum())
    assert out == [(6, 4), (10, 3)]
    # The rest of a request has no prompt, so it has no time to a first token.
    assert (times, firsts) == ([(10 * MS, 10 * MS, 0), (0, 0, 10)], 1)
    assert len(batches.take_prompts()) == 1


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


def test_prompts_whose_times_can_be_compared_are_given_once():
    program = Program()
    program.batch((0, 0, 512, 0))  # in two batches
    program.batch((0, 512, 40, 1))
    program.batch((0, 552, 1, 1))
    program.batch((0, 553, 9, 1))  # a second turn, in a context that is full of the first
    program.batch((0, 562, 1, 1))
    program.batch((0, 0, 6, 1), (1, 0, 7, 1))  # beside another prompt
    program.batch((0, 6, 1, 1), (1, 7, 1, 1))
    program.batch((0, 0, 11, 1))  # without a token
    program.batch((0, 3, 8, 1))
    program.batch((0, 11, 1, 1))
    batches = TokenBatches()
    batches.add(1, program.calls())
    prompts = batches.take_prompts()
    assert (prompts["tokens"].tolist(), (prompts["latency_ns"] // MS).tolist()) == ([552, 8], [20, 10])
    assert (prompts["t_ns"] // MS).tolist() == [1_025, 1_130]
    assert not len(batches.take_prompts())
