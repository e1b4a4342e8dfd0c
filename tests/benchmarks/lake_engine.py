"""Asks one engine every question to a lake, and prints the answers, times and the most memory, as JSON.

python lake_engine.py duckdb|daft|ray|spark TARGET [SINCE]
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import psutil

from edgetop.lake.lake_queries import QUESTIONS, Chosen, sql_of
from edgetop.lake.place import Place
from edgetop.lake.query_engines import ask

VIEW = """CREATE TEMPORARY VIEW {table} AS SELECT *, regexp_extract(_metadata.file_name, '^([^.]+)', 1) AS session
  FROM parquet.`{target}/{table}`"""  # as in edgetop help lake


def spark(target: str):
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    for table in ("sessions", "seconds"):
        session.sql(VIEW.format(table=table, target=target))
    return lambda sql: [row.asDict() for row in session.sql(sql).collect()]


def main() -> None:
    engine, target, since = (*sys.argv[1:], "")[:3]
    began = time.perf_counter()
    if engine == "spark":
        answer, dialect = spark(target), "spark"
    else:
        place, ray, dialect = Place(target), "", "daft" if engine == "ray" else engine
        if engine == "ray":
            import ray as cluster

            ray = cluster.init(num_cpus=2, include_dashboard=False, log_to_driver=False).address_info["address"]
        answer = lambda sql: ask(place, sql, engine=dialect, since=since, ray=ray).records()  # noqa: E731
    found = {"start_s": round(time.perf_counter() - began, 2), "answers": {}, "seconds": {}}
    for number, (name, question) in enumerate(QUESTIONS.items()):
        for turn in ("cold", "warm")[: 2 - bool(number)]:
            began = time.perf_counter()
            found["answers"][name] = answer(sql_of(question, Chosen(since), question.by, question.limit, dialect))
            found["seconds"][f"{name} {turn}" if not number else name] = round(time.perf_counter() - began, 2)
    (own_kib,) = (
        int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    children = sum(child.memory_info().rss for child in psutil.Process().children(recursive=True))
    found["mib"] = round(own_kib / 1024 + children / 2**20)
    print("\nFOUND", json.dumps(found, default=float), flush=True)


if __name__ == "__main__":
    main()
