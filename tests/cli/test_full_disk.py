"""A disk that fills up under a real run, and is freed again."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.support import onnx_models
from tests.support.commands import environment, start_edgetop
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

LIGHT = ("--headless", "--threads", "1", "--rate", "200", "--profile-every", "0")


def kinds(folder: Path) -> list[str]:
    return [kind for (kind,) in duckdb.sql(f"SELECT kind FROM '{folder}/events.parquet' ORDER BY t_ns").fetchall()]


def test_a_run_goes_on_over_a_full_disk_and_tells_the_gap(tmp_path: Path) -> None:
    process = start_edgetop("run", *LIGHT, "--duration", "8s", "--json", "-o", "one", home=tmp_path)
    journal = tmp_path / "one.edgetop/journal/00000001.journal"
    wait_until(lambda: journal.exists() and journal.stat().st_size > 2_000)
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, hard))  # each write fails with EFBIG
    said = next(line for line in process.stderr if "NOT RECORDING" in line)
    assert "File too large" in said
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4, err
    document = json.loads(out)
    folder = tmp_path / "one.edgetop"
    assert kinds(folder).count("recording-failed") == kinds(folder).count("recording-restored") == 1
    assert document["session"]["end_reason"] == "duration"
    counted = duckdb.sql(f"SELECT sum(count) FROM '{folder}/seconds.parquet'").fetchall()
    assert counted == [(document["latency"]["count"],)]


FILL = """
set -e
mount -t tmpfs -o size=20m tmpfs "$1"
shift
"$@" &
pid=$!
cd "$FULL"
until [ -s one.edgetop/journal/00000001.journal ]; do sleep 0.1; done
sleep 2
cat /dev/zero > fill 2>/dev/null || true
sleep 3
rm fill
wait $pid || echo "exit $?"
cp -r one.edgetop "$KEPT"
"""


@pytest.mark.benchmark
@pytest.mark.timeout(120)
def test_a_small_file_system_fills_up_in_mid_run_and_is_freed(tmp_path: Path) -> None:
    """In a mount namespace of its own, for which the kernel must allow user namespaces."""
    full, kept = tmp_path / "full", tmp_path / "kept"
    full.mkdir()
    kept.mkdir()
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_models.onnx_tiny())
    command = [sys.executable, "-m", "edgetop", "run", str(model), "--threads", "1", "--headless", "--duration", "10s"]
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", FILL, "sh", str(full), *command, "-o", str(full / "one")],
        capture_output=True, text=True, env=environment(tmp_path, FULL=str(full), KEPT=str(kept)), check=True,
    )  # fmt: skip
    assert "exit 4" in done.stdout, done.stderr
    assert "NOT RECORDING" in done.stderr
    assert "No space left on device" in done.stderr
    found = kinds(kept / "one.edgetop")
    assert found.count("recording-failed") == found.count("recording-restored") == 1
    seconds = duckdb.sql(f"SELECT min(count), count(*) FROM '{kept}/one.edgetop/seconds.parquet' WHERE count > 0")
    assert seconds.fetchall()[0][1] >= 10
