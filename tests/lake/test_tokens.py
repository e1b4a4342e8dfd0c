"""Language models in a lake: rates and times between tokens over several sessions."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.lake.lake_queries import QUESTIONS, Chosen, sql_of
from edgetop.lake.place import Place
from edgetop.lake.query_engines import ask
from edgetop.lake.transfer import push
from tests.analysis.test_equal_position import Model, session
from tests.support.recordings import record

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "recordings/v1/finished.edgetop"


def test_tokens_of_several_boards_are_added_up(tmp_path):
    gaps_ms, tokens, decoded_s = [], 0, 0.0
    place = Place(str(tmp_path / "lake"))
    for board, (base, seconds) in {"pi-1": (20.0, 30), "pi-2": (40.0, 60)}.items():
        batch = session(Model(base=base, growth=0.0, most=200), seconds)
        manifest = replace(batch.manifest, id=f"{seconds:08x}-0000-4000-8000-000000000000", state="finished",
                           end_reason="user", duration_ns=seconds * 10**9)  # fmt: skip
        folder = record(tmp_path / f"{board}.edgetop", [replace(batch, manifest=manifest)])
        push(folder, place, board)
        itl = batch.seconds.tokens.itl
        gaps_ms.append((itl.rows["count"].sum(), base))
        tokens += int(batch.seconds.tokens.rows["tokens_out"].sum())
        decoded_s += itl.rows["sum_ns"].sum() / 1e9
    push(Path(shutil.copytree(GOLDEN, tmp_path / "other.edgetop")), place, "pi-3")  # no language model
    question = QUESTIONS["tokens"]
    (row,) = ask(place, sql_of(question, Chosen(), ("load",), None)).records()
    assert (row["boards"], row["sessions"], row["tokens"]) == (2, 2, tokens)
    fast, slow = (count for count, _ in gaps_ms)
    assert row["decode_tok_s"] == pytest.approx((fast + slow) / decoded_s, rel=0.02)
    assert row["itl_p50_ms"] == pytest.approx(20.0 if fast > slow else 40.0, rel=0.06)
    assert row["itl_p99_ms"] == pytest.approx(40.0, rel=0.08)
    assert row["ttft_p99_ms"] == pytest.approx(5.0, rel=0.01)
    assert row["j_per_token"] is None
    sql = "SELECT session, count(*) AS n FROM seconds WHERE itl_p50_ns > 0 GROUP BY session"
    assert max(one["n"] for one in ask(place, sql).records()) >= 59
