"""What loading the tables' columns does to a process, whatever else is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ASK = """
import sys
import pyarrow as pa
from edgetop.recording import schema
pa.array([1.5])
print("pandas" in sys.modules, importlib.util.find_spec("pandas") is not None)
"""


def test_a_pandas_that_is_broken_or_large_is_never_imported(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise RuntimeError('broken')\n")
    program = f"import importlib.util, sys\nsys.path.insert(0, {str(tmp_path)!r})\n{ASK}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["False", "True"], "")


WRITE = """
import sys
from pathlib import Path
from tests.support.recordings import back_to_back, left_by_a_dead_writer, session
left_by_a_dead_writer(Path(sys.argv[1]) / "s.edgetop", list(session(back_to_back(8_000, 5e6))), 10_000)
print(*sorted(name for name in sys.modules if name.startswith(("pyarrow.", "pandas"))))
"""


def test_a_writer_loads_of_arrow_what_it_needs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITE, tmp_path],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pyarrow.parquet" in done.stdout
    assert {"pyarrow.compute", "pyarrow.dataset", "pandas"}.isdisjoint(done.stdout.split())
    assert len(list((tmp_path / "s.edgetop/journal").glob("*.partial"))) == 5  # tables were begun


def test_the_file_systems_of_the_cloud_are_never_loaded() -> None:
    show = "import sys, edgetop.recording.tables; print(sys.modules['pyarrow._s3fs'], 'pyarrow.fs' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "True"]
