"""300 board-hours in a lake, asked by DuckDB, Daft (native and on Ray) and Spark, and behind S3. Run with -s.

The engines live in an environment of their own, made on first use (1 GB). Spark needs Java.
"""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyarrow import fs

from edgetop.lake.lake_queries import QUESTIONS, Chosen, sql_of
from tests.support.commands import edgetop
from tests.support.environments import environment
from tests.support.lakes import FIRST_DAY, make_lake

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

PROGRAM = Path(__file__).with_name("lake_engine.py")
ENGINES = ("daft[ray]>=0.7", "pyspark>=4,<5", "duckdb", "moto[server,s3]", "numpy", "pyarrow", "click", "psutil",
           "sqlglot")  # fmt: skip
BOARDS, SECONDS = 150, 3_600  # each two sessions


@pytest.fixture(scope="module")
def python() -> Path:
    return environment(Path(sys.executable), *ENGINES)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    make_lake(root, BOARDS, SECONDS)
    size = sum(path.stat().st_size for path in root.rglob("*.parquet"))
    print(f"\n{2 * BOARDS} board-hours: {size / 1e6:.1f} MB, {size / 2 / BOARDS / 1e3:.0f} KB each")
    return root


def asked(python: Path, engine: str, target: object, since: str = "", **more: str) -> dict:
    done = subprocess.run(
        [python, PROGRAM, engine, str(target), since], capture_output=True, text=True, timeout=1800, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", "PYSPARK_PYTHON": str(python), **more},
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stderr[-2000:]
    found = json.loads(lines[0].removeprefix("FOUND "))
    print(f"{engine:<7} start {found['start_s']} s, {found['mib']} MiB, seconds {found['seconds']}")
    return found["answers"]


def assert_same(first: dict, other: dict) -> None:
    assert first.keys() == other.keys()
    for name, rows in first.items():
        assert len(rows) == len(other[name]) > 0
        for one, two in zip(rows, other[name], strict=True):
            assert one.keys() == two.keys()
            for key, value in one.items():
                is_number = isinstance(value, int | float) and two[key] is not None
                assert value == two[key] or (is_number and math.isclose(value, two[key], rel_tol=1e-9)), (name, key)


@pytest.mark.parametrize("engine", ["daft", "ray", "spark"])
def test_each_engine_gives_the_answers_of_duckdb(python: Path, lake: Path, engine: str) -> None:
    assert_same(asked(python, "duckdb", lake), asked(python, engine, lake))


def test_the_text_for_trino_is_its_dialect(python: Path) -> None:
    """Whatever stands in it: no Trino runs here."""
    chosen = Chosen("2026-11-22", "m'x\\.onnx", (("site", "ro'of"),))
    texts = [sql_of(question, chosen, question.by, question.limit, "trino") for question in QUESTIONS.values()]
    program = "import json, sys, sqlglot\nfor text in json.load(sys.stdin): sqlglot.parse_one(text, dialect='trino')"
    done = subprocess.run([python, "-c", program], input=json.dumps(texts), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_question_of_a_day_requests_that_day_alone(python: Path, lake: Path, tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true"}
    with s3_server(python, tmp_path / "log") as (port, log):
        target = f"s3://lake?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        store, _ = fs.FileSystem.from_uri(target.replace("s3://", "s3://a:b@") + "&allow_bucket_creation=true")
        store.create_dir("lake")
        fs.copy_files(str(lake), "lake", destination_filesystem=store)
        day = str(FIRST_DAY.replace(day=22))
        for engine in ("duckdb", "daft"):
            log.truncate(0)
            of_day = asked(python, engine, target, day, **keys)
            gets = re.findall(r"GET /lake/(\w+)/(date=[\d-]+)/", unquote((tmp_path / "log").read_text()))
            print(f"{engine}: {len(gets)} requests for files")
            assert {date for _, date in gets} == {f"date={day}"}
            assert_same(of_day, asked(python, "duckdb", lake, day))


def test_a_page_has_no_script_but_its_own(lake: Path, tmp_path: Path) -> None:
    done = edgetop("lake", lake, "--html", "fleet.html", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "fleet.html").read_text()
    for text in (
        "regressions",
        "boards by p99, ms",
        "hottest zone by enclosure",
        "slow inferences by cause",
        "SIMULATED",
    ):
        assert text in page
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page)


@contextmanager
def s3_server(python: Path, path: Path) -> Iterator[tuple[int, object]]:
    with path.open("a") as log:
        process = subprocess.Popen([python.with_name("moto_server"), "-p", "0"], stdout=log, stderr=log)
        try:
            while not (found := re.search(r"Running on http://127.0.0.1:(\d+)", path.read_text())):
                assert process.poll() is None
            yield int(found[1]), log
        finally:
            process.terminate()
            process.wait()
