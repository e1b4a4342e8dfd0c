"""The tokens and requests of a language model in a recording: in the journal, in the tables, after a crash."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from edgetop.recording import packing
from edgetop.recording.columns import SCHEMAS, as_described, to_arrow
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.rows import sound
from edgetop.recording.token_columns import SECONDS_OF_ALL, with_token_columns, with_tokens_of
from edgetop.session.batch import Batch, merge
from edgetop.session.generation_settings import Generation
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, OF_ACTIVE, Seconds, concatenate
from edgetop.session.token_aggregator import TokenAggregator
from tests.session.test_token_aggregator import aggregated, generated, same
from tests.support.sessions import make_manifest

ASKED = Generation(context=512, max_tokens=30, prompt_tokens=40)


def batches(pieces=8):
    runs, tokens, requests = generated()
    aggregator, ends = TokenAggregator(SecondAggregator()), runs["t_ns"] + runs["latency_ns"]
    made, before = [], 0
    for cut in np.linspace(0, int(ends[-1]) + 1, pieces)[1:]:
        own = (tokens["t_ns"] >= before) & (tokens["t_ns"] < cut)
        over = (ends >= before) & (ends < cut)
        seconds = aggregator.add(runs[over], tokens[own], requests[over])
        made.append(Batch(int(cut), inferences=runs[over], requests=requests[over], seconds=seconds))
        before = cut
    made[0] = replace(made[0], manifest=make_manifest(generation=ASKED))
    return [*made, Batch(int(ends[-1]) + NS, seconds=aggregator.close())]


def recorded(folder: Path, given, *, ends=True) -> Recording:
    recorder = Recorder(folder, given[0].manifest)
    for batch in given:
        recorder.write(batch)
    if ends:
        recorder.finish(replace(given[0].manifest, state="finished", duration_ns=given[-1].until_ns))
    else:
        recorder._journal()
        recorder._close()
    return Recording(folder)


def without_padding(requests):
    names = [name for name in requests.dtype.names if name != "_"]
    return [tuple(row[name] for name in names) for row in requests]


def test_the_journal_keeps_every_token_and_request():
    whole = merge(batches())
    again = packing.unpack(packing.split(packing.pack(whole)), whole.until_ns)
    same(again.seconds, whole.seconds)
    assert without_padding(again.requests) == without_padding(whole.requests)


def test_a_journal_of_an_older_version_lacks_the_number_of_requests():
    whole = merge(batches())
    parts = {kind: data for kind, data in packing.split(packing.pack(whole)).items() if kind != packing.ACTIVE}
    again = packing.unpack(parts, whole.until_ns).seconds.tokens.rows
    for name in again.dtype.names:
        expected = 0 if name in OF_ACTIVE else whole.seconds.tokens.rows[name]
        assert (again[name] == expected).all()


def test_tables_of_an_older_version_lack_the_number_of_requests():
    seconds = aggregated(*generated())
    table = with_token_columns(to_arrow("seconds", seconds), seconds).drop_columns(list(OF_ACTIVE))
    read = with_tokens_of(table, replace(seconds, tokens=None)).tokens
    assert read.rows["tokens_out"].sum() == 12 * 30
    assert not read.rows["active"].any()


def test_tokens_of_other_seconds_are_invalid():
    whole = merge(batches())
    parts = dict(packing.split(packing.pack(whole)))
    other = packing.split(packing.pack(replace(whole, seconds=whole.seconds.between(0, 3))))
    parts[packing.TOKENS] = other[packing.TOKENS]
    with pytest.raises(ValueError, match="tokens of other seconds"):
        packing.unpack(parts, 0)


@pytest.mark.parametrize("ends", [True, False], ids=["finished", "killed"])
def test_the_tables_keep_every_token_and_request(tmp_path, ends):
    given = batches()
    recording = recorded(tmp_path / "one.edgetop", given, ends=ends)
    played = merge(list(recording.play(inferences=True)))
    assert recording.problems == []
    assert recording.manifest.generation == ASKED
    whole = merge(given)
    same(concatenate([played.seconds]), whole.seconds)
    table = pq.read_table(tmp_path / "one.edgetop" / "requests.parquet")
    assert table["tokens_out"].to_pylist() == [30] * 12
    assert set(table["finish"].to_pylist()) == {"length"}
    (requests,) = recording.rows("requests")
    assert without_padding(requests) == without_padding(whole.requests)


def test_a_reader_of_version_1_reads_the_rest(tmp_path):
    recorded(tmp_path / "one.edgetop", batches())
    table = pq.read_table(tmp_path / "one.edgetop" / "seconds.parquet")
    known = as_described(table, SCHEMAS["seconds"])
    assert known["count"].to_pylist() == merge(batches()).seconds.rows["count"].tolist()


def test_a_session_of_another_model_has_no_file_of_requests(tmp_path):
    given = [
        replace(batch, seconds=replace(batch.seconds, tokens=None), requests=batch.requests[:0]) for batch in batches()
    ]
    given[0] = replace(given[0], manifest=make_manifest())
    recording = recorded(tmp_path / "one.edgetop", given)
    list(recording.play())
    assert not (tmp_path / "one.edgetop" / "requests.parquet").exists()
    assert recording.problems == []
    assert list(recording.rows("requests")) == []
    assert "itl_count" not in pq.read_schema(tmp_path / "one.edgetop" / "seconds.parquet").names


def test_seconds_without_tokens_among_others_count_none():
    seconds = aggregated(*generated())
    bare = Seconds(seconds.rows, seconds.offsets, seconds.bucket, seconds.bucket_count)
    tables = [with_token_columns(to_arrow("seconds", part), part) for part in (seconds, bare)]
    from pyarrow import concat_tables

    table = as_described(concat_tables(tables), SECONDS_OF_ALL)
    read = with_tokens_of(table, concatenate([bare, bare]))
    assert read.tokens is not None
    assert read.tokens.rows["tokens_out"].sum() == 12 * 30
    assert len(sound("seconds", read)) == len(read)


def test_impossible_rows_are_left_out():
    whole = merge(batches())
    broken = whole.requests.copy()
    broken["tokens_out"][0], broken["finish"][1], broken["ttft_ns"][2] = -1, 99, 2**62
    assert len(sound("requests", broken)) == len(broken) - 3
    tokens = whole.seconds.tokens
    rows = tokens.rows.copy()
    rows["position_mean"][0], rows["tokens_out"][1] = np.nan, -5
    spoilt = replace(whole.seconds, tokens=replace(tokens, rows=rows))
    assert len(sound("seconds", spoilt)) == len(spoilt) - 2
