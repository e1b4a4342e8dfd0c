"""`edgetop export`, as it is typed."""

import json
import resource
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.session.seconds import NS
from tests.support.commands import edgetop, environment
from tests.support.recordings import back_to_back, left_by_a_dead_writer, record, session, with_phases
from tests.support.thorough import mostly_thorough
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

FORMS = {"csv": "s-csv", "json": "s.jsonl", "parquet": "s.parquet", "perfetto": "s.pftrace", "session": "s-cut.edgetop"}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original") / "s.edgetop"
    return record(folder, list(session(with_phases(back_to_back(400, 20e6)), seed=5)))


@pytest.fixture
def home(tmp_path, original):
    shutil.copytree(original, tmp_path / "s.edgetop")
    return tmp_path


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("form", FORMS)
def test_without_a_place_it_is_written_here_by_its_name(form, home):
    done = edgetop("export", "s", "--to", form, home=home)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.startswith(f"wrote {FORMS[form]} (")
    assert names(home) == {"s.edgetop", FORMS[form]}


def test_one_table_goes_to_the_standard_output(home):
    done = edgetop(
        "export", "s", "--to", "csv", "--table", "inferences", "--begin", "2s", "--end", "3s", "-o", "-", home=home
    )
    head, *rows = done.stdout.splitlines()
    assert head.startswith('"t_ns","latency_ns"')
    assert {int(row.split(",")[0]) // NS for row in rows} == {2}
    assert done.stderr == ""


def test_the_last_part_is_counted_from_the_end(home):
    edgetop("export", "s", "--to", "json", "--table", "seconds", "--last", "2500ms", "-o", "out", home=home)
    rows = [json.loads(line) for line in (home / "out").read_text().splitlines()]
    end_ns = Recording(home / "s.edgetop").end_ns
    assert [row["t_ns"] for row in rows[1:]] == [t for t in range(0, end_ns, NS) if t >= end_ns - 2_500_000_000]


def test_a_smaller_session_is_reported_like_any_other(home):
    done = edgetop("export", "s", "--to", "session", "--begin", "2s", "-o", "small", "--no-raw", home=home)
    assert done.stderr.startswith("wrote small.edgetop (")
    report = json.loads(edgetop("report", "small", "--json", home=home).stdout)
    assert report["latency"]["count"] == report["session"]["methodology"]["measure_runs"] > 200


BAD = {
    "a time": (["--to", "json", "--begin", "soon"], "write 500ms, 10s"),
    "an end before the begin": (["--to", "json", "--begin", "5s", "--end", "5s"], "--end is not after --begin"),
    "a begin after the end": (["--to", "json", "--begin", "1h"], "--begin 01:00:00: the session lasts 00:00:0"),
    "last and begin": (["--to", "json", "--begin", "1s", "--last", "1s"], "--last cannot be combined"),
    "a table of a trace": (["--to", "perfetto", "--table", "events"], "--table is for csv and json"),
    "nothing": (
        ["--to", "csv", "--table", "inferences", "--no-raw"],
        "--no-raw and --table inferences exclude each other",
    ),
    "a rate": (["--to", "parquet", "--hz", "0.3"], "--hz 0.3: does not fit into seconds"),
    "several files to stdout": (["--to", "csv", "-o", "-"], "one --table"),
    "a session to stdout": (["--to", "session", "-o", "-"], "several files"),
    "a format": (["--to", "xml"], "'xml' is not one of"),
    "no format": ([], "missing option '--to'"),
    "a place in no folder": (["--to", "json", "-o", "nowhere/out"], "nowhere/out: cannot be written: No such file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_usage_is_one_line_and_writes_nothing(case, home):
    arguments, line = BAD[case]
    done = edgetop("export", "s", *arguments, home=home)
    assert done.returncode == (4 if "nowhere/out" in line else 2)
    assert done.stdout == ""
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert names(home) == {"s.edgetop"}


def test_a_file_that_exists_is_kept_without_force(home):
    (home / "s.jsonl").write_text("mine")
    done = edgetop("export", "s", "--to", "json", home=home)
    assert (done.returncode, (home / "s.jsonl").read_text()) == (2, "mine")
    assert "s.jsonl: exists already (--force" in done.stderr
    assert edgetop("export", "s", "--to", "json", "--force", home=home).returncode == 0
    assert (home / "s.jsonl").read_text().startswith('{"table":"session"')


def test_a_session_is_not_exported_onto_itself(home):
    before = (home / "s.edgetop/session.json").read_bytes()
    done = edgetop("export", "s", "--to", "session", "-o", "s", "--force", home=home)
    assert done.returncode == 2
    assert "s.edgetop: exists already" in done.stderr
    assert (home / "s.edgetop/session.json").read_bytes() == before


@pytest.mark.parametrize("form", mostly_thorough(FORMS, "csv", "session"))
def test_a_full_disk_is_one_line_and_leaves_nothing(form, home):
    done = subprocess.run(
        [sys.executable, "-m", "edgetop", "export", "s", "--to", form],
        cwd=home, env=environment(home), capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000)),
    )  # fmt: skip
    assert done.returncode == 4
    assert done.stderr.splitlines() == [done.stderr.rstrip("\n")]
    assert f"{FORMS[form]}: cannot be written: File too large; nothing of it is left" in done.stderr
    assert names(home) == {"s.edgetop"}


def test_a_reader_who_leaves_ends_it_quietly(home):
    process = subprocess.Popen(
        [sys.executable, "-m", "edgetop", "export", "s", "--to", "json", "-o", "-"],
        cwd=home, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.close()
    assert (process.wait(PATIENCE_S), process.stderr.read()) == (0, b"")
    process.stderr.close()


def test_a_live_session_is_exported_as_far_as_it_has_come(tmp_path):
    first, *rest, _ = session(back_to_back(300, 20e6))
    recorder = Recorder(tmp_path / "s.edgetop", first.manifest)
    for batch in [first, *rest]:
        recorder.write(batch)
    so_far_ns = Recording(recorder.folder).end_ns
    for form, written in FORMS.items():
        done = edgetop("export", "s", "--to", form, home=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / written).exists()
    cut = Recording(tmp_path / "s-cut.edgetop")
    assert (cut.manifest.state, cut.manifest.end_reason, cut.end_ns) == ("finished", "user", so_far_ns)
    assert (tmp_path / "s.jsonl").read_text().count('"table":"inferences"') > 250
    recorder.discard()


def test_a_killed_session_is_exported_as_far_as_it_was_recorded(tmp_path):
    left_by_a_dead_writer(tmp_path / "s.edgetop", list(session(back_to_back(300, 20e6)))[:-1])
    assert edgetop("export", "s", "--to", "json", home=tmp_path).returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert lines[0]["state"] == "recovered"
    assert sum(line["table"] == "inferences" for line in lines) == len(
        pq.read_table(tmp_path / "s.edgetop/inferences.parquet")
    )


def test_what_is_damaged_is_told_when_the_rest_is_written(home):
    (home / "s.edgetop/events.parquet").write_bytes(b"PAR1")
    done = edgetop("export", "s", "--to", "json", home=home)
    assert done.returncode == 2
    assert "events.parquet: is damaged" in done.stderr
    assert "the rest is exported" in done.stderr
    assert '"table":"seconds"' in (home / "s.jsonl").read_text()
