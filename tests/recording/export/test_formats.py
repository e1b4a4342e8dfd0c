import subprocess
import sys

import pytest

from edgetop.recording.columns import SCHEMAS
from edgetop.recording.export.export_formats import FORMATS, TABLES, load
from tests.support.exports import export


def test_every_format_can_be_loaded():
    assert all(callable(load(name)) for name in FORMATS)


def test_the_tables_are_those_of_the_format():
    assert tuple(SCHEMAS) == TABLES


@pytest.mark.slow
def test_formats_are_listed_without_arrow():
    code = "import sys, edgetop.recording.export.export_formats; print('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_damaged_is_told_and_the_rest_exported(form, recorded, tmp_path):
    (recorded / "readings.parquet").write_bytes(b"PAR1 and nothing else")
    (problem,) = export(recorded, form, tmp_path / "out")
    assert "readings.parquet: is damaged" in problem
    assert (tmp_path / "out").exists()
