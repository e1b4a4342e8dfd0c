"""Questions to a lake of known latencies."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click import BadParameter

from edgetop.cli.boards.lake import since
from edgetop.errors import InputError
from edgetop.lake import query_engines
from edgetop.lake.fared import fared
from edgetop.lake.lake_queries import DIALECTS, QUESTIONS, Chosen, keys, sql_of
from edgetop.lake.place import Place
from edgetop.lake.query_engines import ask
from edgetop.lake.regressions import regressions
from edgetop.lake.transfer import pull
from tests.support.lakes import SLOWER, Made, make_lake

pytestmark = pytest.mark.slow

BOARDS, SECONDS = 12, 40


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_lake(tmp_path_factory.mktemp("lake"), BOARDS, SECONDS)


@pytest.fixture(scope="module")
def place(made: Made) -> Iterator[Place]:
    return Place(str(made.root))


def answered(place: Place, name: str, by: str = "", limit: int | None = None, **chosen: object) -> list[dict]:
    question = QUESTIONS[name]
    sql = sql_of(question, Chosen(**chosen), keys(by) if by else question.by, limit)
    return ask(place, sql, since=str(chosen.get("since", ""))).records()


def test_fleet_percentiles_are_those_of_all_its_inferences(made: Made, place: Place) -> None:
    rows = {row["version"]: row for row in answered(place, "fleet", "version")}
    assert rows.keys() == {"v1", "v2"}
    for version, row in rows.items():
        every = np.sort(np.concatenate([each for (_, of), each in made.latency_ns.items() if of == version])) / 1e6
        assert (row["boards"], row["sessions"], row["inferences"]) == (BOARDS, BOARDS, len(every))
        for name, share in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("p999_ms", 0.999)):
            assert row[name] == pytest.approx(every[int(np.ceil(share * len(every))) - 1], rel=0.01)
        assert row["max_ms"] == pytest.approx(every[-1])
        assert row["missed_share"] == pytest.approx(np.mean(every > 20))
        assert row["throttled_share"] == pytest.approx(0.25 * 2 / BOARDS)


def test_the_worst_boards_come_first(made: Made, place: Place) -> None:
    p99 = {board: np.percentile(made.latency_ns[board, "v1"], 99) for board, _ in made.latency_ns}
    rows = answered(place, "worst", "board", limit=5, model="net.onnx")
    assert len(rows) == 5
    assert rows[0]["board"] == max((b for b in p99 if int(b[-4:]) % 5 != 4), key=lambda board: p99[board])
    assert [row["p99_ms"] for row in rows] == sorted((row["p99_ms"] for row in rows), reverse=True)


def test_only_what_is_asked_for_counts(place: Place) -> None:
    assert answered(place, "fleet", model="a'b\\c.onnx")[0]["boards"] == 2
    assert answered(place, "fleet", model="' OR '1'='1") == []
    assert answered(place, "fleet", "load", labels=[("fleet", "red")])[0]["boards"] == BOARDS / 2
    assert answered(place, "fleet", "load", labels=[("fleet", "red"), ("q", "it's")])[0]["boards"] == BOARDS / 2
    assert answered(place, "fleet", labels=[("fleet", "re")]) == []
    assert {row["enclosure"] for row in answered(place, "throttling")} == {"open", "box", 'it\'s a "box"'}


def test_throttling_and_energy(place: Place) -> None:
    hot, *cold = answered(place, "throttling", "throttle-cause")
    assert (hot["throttle_cause"], hot["throttles"], hot["throttled_share"]) == ("thermal", 4, 0.25)
    assert [one["throttled_share"] for one in cold] == [0.0]
    (energy,) = answered(place, "energy", "board_model")
    assert energy["gross_mj"] == pytest.approx(5e3 / 30)
    assert energy["mean_w"] == pytest.approx(5.0)


def test_a_question_of_a_day_opens_the_files_of_that_day(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    last = max(made.sessions.values())
    place, opened = Place(str(made.root)), []
    known = query_engines.dataset
    monkeypatch.setattr(query_engines, "dataset", lambda *given: opened.extend(given[2]) or known(*given))
    found = answered(place, "fleet", "date", since=last)
    assert [row["date"] for row in found] == [last]
    of_day = sum(day == last for day in made.sessions.values())
    assert len(opened) == 2 * of_day < 2 * len(made.sessions)
    assert all(f"date={last}" in path for path in opened)


def test_a_version_slower_everywhere_is_found_with_its_ratio(place: Place) -> None:
    found = regressions(answered(place, "regressions", "model,board,version"))
    assert {(one.model, one.before, one.after, one.boards) for one in found} == {
        ("net.onnx", "v1", "v2", 10),
        ("a'b\\c.onnx", "v1", "v2", 2),
    }
    (most,) = [one for one in found if one.boards == 10]
    slower = {row.key: row.ratios[1] for row in most.rows}
    for key in ("p50_ms", "p99_ms"):
        assert slower[key].verdict == "slower"
        assert slower[key].ci95[0] < SLOWER < slower[key].ci95[1]
        assert slower[key].ci95[1] - slower[key].ci95[0] < 0.02  # though boards differ by a factor of two
    assert slower["throughput_hz"].verdict == "slower"
    assert slower["throttled_share"].verdict == "same"
    assert most.to_json()["figures"]["p50_ms"]["verdict"] == "slower"


def test_one_board_alone_tells_nothing(place: Place) -> None:
    rows = [row for row in answered(place, "regressions", "model,board,version") if row["board"] == "pi-0000"]
    (found,) = regressions(rows)
    assert {row.ratios[1].verdict for row in found.rows} == {"unknown"}


def test_a_statement_of_ones_own_sees_the_lake_alone(place: Place, tmp_path: Path) -> None:
    sql = "SELECT board, count(DISTINCT session) AS n FROM seconds WHERE date > '2026' GROUP BY board ORDER BY board"
    assert ask(place, sql).rows[0] == ("pi-0000", 2)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for statement in (
        f"SELECT * FROM '{tmp_path}/secret.csv'",
        f"COPY (SELECT 1) TO '{tmp_path}/x'",
        "SELEC",
        "FROM place",
    ):
        with pytest.raises(InputError, match="DuckDB: "):
            ask(place, statement)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("statement", ["", "-- all"])
def test_a_statement_that_asks_nothing_is_refused(place: Place, statement: str) -> None:
    with pytest.raises(InputError, match="asks nothing"):
        ask(place, statement)


def test_a_zoned_time_is_refused_where_duckdb_cannot_give_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytz", None)  # not installed: needed up to DuckDB 2.0.0
    sql = "SELECT now() AS t"
    if tuple(map(int, duckdb.__version__.split(".")[:3])) > (2, 0, 0):
        assert ask(place, sql).rows[0][0].tzinfo is not None
    else:
        with pytest.raises(InputError, match="time with a zone"):
            ask(place, sql)


def test_a_folder_that_is_no_lake(tmp_path: Path) -> None:
    none = Place(str(tmp_path))
    for question in (lambda: ask(none, "FROM sessions"), lambda: fared(none), lambda: pull(none, "a", None, tmp_path)):
        with pytest.raises(InputError, match="no lake"):
            question()


def test_a_bucket_has_a_name() -> None:
    with pytest.raises(InputError, match="names no bucket"):
        Place("s3://")


@pytest.mark.parametrize("text", ["2026-02-30", "nan", "99999999999d"])
def test_a_day_that_is_none(text: str) -> None:
    with pytest.raises(BadParameter, match="is not a day"):
        since(text)


def test_a_text_ends_where_it_ends_in_each_dialect() -> None:
    tricky = "a\\' OR 1=1 --"
    assert DIALECTS["duckdb"].text(tricky) == "'a\\'' OR 1=1 --'"
    assert DIALECTS["spark"].text(tricky) == "'a\\\\\\' OR 1=1 --'"
    with pytest.raises(InputError):
        DIALECTS["duckdb"].text("a\x00b")


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="enclosure"):
        keys("board,enclosur")


@pytest.mark.parametrize("name", QUESTIONS)
def test_dialects_differ_only_in_unnesting_lists_and_text_search(name: str) -> None:
    chosen = Chosen("2026-11-20", "net.onnx", [("k", "v")])
    texts = {one: sql_of(QUESTIONS[name], chosen, QUESTIONS[name].by, None, one) for one in DIALECTS}
    buckets = {one: dialect.buckets.format(QUESTIONS[name].of) for one, dialect in DIALECTS.items()}
    plain = {
        text.replace(buckets[one], "").replace("strpos(labels, '\"k=v\"') > 0", "contains(labels, '\"k=v\"')")
        for one, text in texts.items()
    }
    assert len(plain) == 1


def test_a_lake_has_file_systems_that_recordings_do_without() -> None:
    code = (
        "import edgetop.recording.parquet_tables\nfrom edgetop.lake.place import Place\n"
        "targets = 's3://a:b@lake/x?region=eu-west-1', 'gs://anonymous@lake/x', '/x'\n"
        "print(*(Place(one).fs.type_name for one in targets))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["s3", "gcs", "local"]
