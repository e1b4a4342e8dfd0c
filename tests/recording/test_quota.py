import pytest

from edgetop.recording.files import write_manifest
from edgetop.recording.recorder import Recorder
from edgetop.recording.registry import PUSHED, enforce_quota
from tests.support.recordings import first_manifest

MIB = 2**20


@pytest.fixture
def home(tmp_path):
    """Sessions of a MiB, one a day: `c` and `e` are pushed, `f` runs; and what is none."""
    for day, name in enumerate("abcde", 1):
        folder = tmp_path / f"{name}.edgetop"
        folder.mkdir()
        manifest = first_manifest(name)
        write_manifest(folder, manifest.__class__(**{**fields(manifest), "created_utc": f"2026-11-0{day}T00:00:00.0Z"}))
        (folder / "inferences.parquet").write_bytes(bytes(MIB))
        if name in "ce":
            (folder / PUSHED).write_text("{}")
    running = Recorder(tmp_path / "f.edgetop", first_manifest("f"))
    (tmp_path / "f.edgetop" / "x").write_bytes(bytes(MIB))
    for name in ("notes", "broken.edgetop"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(bytes(MIB))
    (tmp_path / "link.edgetop").symlink_to(tmp_path / "a.edgetop")
    yield tmp_path
    running.discard()


def fields(manifest):
    return {name: getattr(manifest, name) for name in manifest.__dataclass_fields__}


def left(home):
    return "".join(sorted(path.name[0] for path in home.glob("?.edgetop")))


@pytest.mark.parametrize(
    ("most", "stay"), [(9, "abcdef"), (6.5, "abdef"), (5.5, "abdf"), (4.5, "bdf"), (3.5, "df"), (0, "f")]
)
def test_pushed_sessions_go_first_then_old_ones_never_live_ones(home, most, stay) -> None:
    told = []
    enforce_quota(home, int(most * MIB), told.append)
    assert left(home) == stay
    assert len(told) == 6 - len(stay)
    assert (home / "notes").exists()
    assert (home / "broken.edgetop").exists()
    if told:
        assert told[0].startswith("removed c.edgetop, the pushed one, 1.0 MiB")


def test_what_is_spared_stays(home) -> None:
    enforce_quota(home, 0, lambda _: None, spared=(home / "link.edgetop", home / "e.edgetop"))
    assert left(home) == "aef", "a link names what it leads to"
