"""`--sessions-quota`: what goes, in which order, and what never does."""

import fcntl
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.recording.quota import Now, Quota, removal_order
from edgetop.recording.recorder import Recorder
from edgetop.recording.removal import ASIDE, PUSHED, remove_session
from edgetop.recording.session_folder import read_manifest, write_manifest
from edgetop.session.clock import Anchor
from tests.support.killing import killed_at
from tests.support.recordings import content, first_manifest
from tests.support.sessions import session_id

MIB = 2**20
DAY_US = 86_400_000_000
NOW = Now("this-boot", 5 * 10**9, 1_795_000_000_000_000)  # in 2026, five seconds after this boot


def keep(
    home: Path, name: str, created: str, *, boot: str | None = None, origin_s: float = 0, anchor: str = "", **more
):
    """A session of a MiB. `anchor`: a later time of the wall clock, 2 s after the session began."""
    folder = home / f"{name}.edgetop"
    folder.mkdir()
    first = first_manifest(name)
    anchors = (Anchor(0, created), *([Anchor(2 * 10**9, anchor)] if anchor else []))
    clock = replace(first.clock, boot_id=boot or name, origin_monotonic_ns=int(origin_s * 1e9), anchors=anchors)
    write_manifest(folder, replace(first, id=session_id(name), created_utc=created, clock=clock, **more))
    (folder / "inferences.parquet").write_bytes(bytes(MIB))
    return folder


def push(folder: Path) -> None:
    (folder / PUSHED).write_text(json.dumps({"session": session_id(folder.stem)}))


@pytest.fixture
def home(tmp_path):
    """Sessions of a MiB, one a day: `c` and `e` are pushed, `f` runs; and what is none."""
    for day, name in enumerate("abcde", 1):
        folder = keep(tmp_path, name, f"2026-11-0{day}T00:00:00.0Z")
        if name in "ce":
            push(folder)
    running = Recorder(tmp_path / "f.edgetop", first_manifest("f"))
    (tmp_path / "f.edgetop" / "inferences.parquet").write_bytes(bytes(MIB))
    for name in ("notes", "broken.edgetop"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inferences.parquet").write_bytes(bytes(MIB))
    (tmp_path / "link.edgetop").symlink_to(tmp_path / "a.edgetop")
    yield tmp_path
    running.discard()


def enforce(home: Path, most: float, spared=(), now: Now = NOW) -> list[tuple[str, str]]:
    """The events."""
    told: list[tuple[str, str]] = []
    Quota(int(most * MIB), lambda kind, text: told.append((kind, text)), lambda: now).enforce(home, spared)
    return told


def left(home):
    return "".join(sorted(path.name[0] for path in home.glob("?.edgetop")))


@pytest.mark.parametrize(
    ("most", "stay"),
    [(9, "abcdef"), (6.5, "abcdef"), (5.5, "abdef"), (4.5, "abdf"), (3.5, "bdf"), (2.5, "df"), (0, "f")],
)
def test_pushed_sessions_go_first_then_old_ones_never_live_ones(home, most, stay) -> None:
    told = [text for kind, text in enforce(home, most) if kind == "session-removed"]
    assert left(home) == stay
    assert len(told) == 6 - len(stay)
    assert (home / "notes").exists()
    assert (home / "broken.edgetop").exists()
    if told:
        assert told[0].startswith("removed c.edgetop, the pushed one, 1.0 MiB")


def test_what_is_spared_stays_and_what_it_continues(home) -> None:
    enforce(home, 0, spared=(home / "link.edgetop", home / "e.edgetop"))
    assert left(home) == "aef", "a link names what it leads to"


def test_the_session_before_the_one_that_runs_stays(tmp_path) -> None:
    keep(tmp_path, "x", "2026-11-01T00:00:00Z", followed_by=session_id("y"))
    enforce(tmp_path, 0, spared=(keep(tmp_path, "y", "2026-11-02T00:00:00Z"),))
    assert left(tmp_path) == "xy"


def test_a_damaged_session_costs_no_other(tmp_path) -> None:
    for day, name in enumerate("abc", 1):
        keep(tmp_path, name, f"2026-11-0{day}T00:00:00Z")
    broken = keep(tmp_path, "z", "2026-11-09T00:00:00Z")
    (broken / "session.json").write_text('{"format_version": 1, "id')
    (broken / "inferences.parquet").write_bytes(bytes(20 * MIB))
    ((kind, text),) = enforce(tmp_path, 4)
    assert left(tmp_path) == "abcz"
    assert kind == "session-not-counted"
    assert text.startswith("--sessions-quota: z.edgetop: 20.0 MiB do not count, because it cannot be read: ")


FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IMMUTABLE_FL = 0x80086601, 0x40086602, 0x10  # include/uapi/linux/fs.h, as chattr


def set_immutable(path: Path, *, on: bool) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        flags = int.from_bytes(fcntl.ioctl(fd, FS_IOC_GETFLAGS, bytes(8)), "little")
        flags = flags | FS_IMMUTABLE_FL if on else flags & ~FS_IMMUTABLE_FL
        fcntl.ioctl(fd, FS_IOC_SETFLAGS, flags.to_bytes(8, "little"))
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", ["inferences.parquet", "session.json", ""])
def test_what_cannot_be_removed_stays_whole_and_costs_no_other(tmp_path, name) -> None:
    """A file, or the folder itself, is immutable (chattr +i)."""
    old, new = keep(tmp_path, "a", "2026-11-01T00:00:00Z"), keep(tmp_path, "b", "2026-11-02T00:00:00Z")
    was = {path.name for path in old.iterdir()}
    try:
        set_immutable(old / name, on=True)
    except OSError:
        pytest.skip("no file can be made immutable here")
    try:
        told = enforce(tmp_path, 1.5)
    finally:
        set_immutable(old / name, on=False)
    assert left(tmp_path) == "ab"
    assert {path.name for path in old.iterdir()} - {"session.json.lock"} == was
    assert new.exists()
    ((kind, text),) = told
    assert kind == "session-not-counted"
    assert "a.edgetop: 1.0 MiB do not count, because it cannot be removed: Operation not permitted" in text


def test_it_is_told_once(tmp_path) -> None:
    (keep(tmp_path, "z", "2026-11-09T00:00:00Z") / "session.json").write_text("{")
    told = []
    quota = Quota(0, lambda *event: told.append(event), lambda: NOW)
    quota.enforce(tmp_path)
    quota.enforce(tmp_path)
    assert len(told) == 1


def test_files_of_the_user_stay_and_do_not_count(tmp_path) -> None:
    old = keep(tmp_path, "a", "2026-11-01T00:00:00Z")
    keep(tmp_path, "b", "2026-11-02T00:00:00Z")
    (old / "video.mp4").write_bytes(bytes(9 * MIB))
    (old / "pictures").mkdir()
    (old / "pictures/1.jpg").touch()
    ((_, text),) = enforce(tmp_path, 3)
    assert left(tmp_path) == "ab"
    assert "a.edgetop: 9.0 MiB of other files in it do not count" in text
    ((kind, text), *_) = enforce(tmp_path, 1.5)
    assert (kind, sorted(path.name for path in old.iterdir())) == ("session-removed", ["pictures", "video.mp4"])
    assert text.endswith("; left in it, as edgetop did not write it: pictures/, video.mp4")
    assert text.startswith("removed a.edgetop, the oldest one, 1.0 MiB")


def test_only_freed_space_is_told(tmp_path) -> None:
    """A file with another name elsewhere, or with holes, takes less than it seems."""
    linked = keep(tmp_path, "a", "2026-11-01T00:00:00Z")
    (tmp_path / "kept.parquet").hardlink_to(linked / "inferences.parquet")
    sparse = keep(tmp_path, "b", "2026-11-02T00:00:00Z")
    os.truncate(sparse / "inferences.parquet", 0)
    os.truncate(sparse / "inferences.parquet", 900 * MIB)
    keep(tmp_path, "c", "2026-11-03T00:00:00Z")
    assert enforce(tmp_path, 1.5) == [], "neither takes a MiB"
    told = enforce(tmp_path, 0)
    assert ["1.0 MiB" in text for _, text in told] == [False, False, True]
    assert (tmp_path / "kept.parquet").stat().st_size == MIB


def test_a_removal_that_was_killed_goes_on(tmp_path) -> None:
    folder = keep(tmp_path, "a", "2026-11-01T00:00:00Z")
    (folder / ASIDE).mkdir()
    (folder / "session.json").rename(folder / ASIDE / "session.json")
    (folder / "notes.txt").touch()
    enforce(tmp_path, 9)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_removal_killed_at_any_call_is_completed_and_costs_no_other(tmp_path) -> None:
    step = 1
    while True:
        home = tmp_path / f"home-{step}"
        home.mkdir()
        old, new = keep(home, "a", "2026-11-01T00:00:00Z"), keep(home, "b", "2026-11-02T00:00:00Z")
        (old / "notes.txt").write_text("of the user")
        was = content(new)
        if not killed_at(step, lambda home=home: enforce(home, 1.5)):
            break
        is_whole = (old / "session.json").exists()
        assert not is_whole or (old / "inferences.parquet").exists()
        enforce(home, 1.5)
        assert (content(old), content(new)) == ({"notes.txt": b"of the user"}, was), step
        shutil.rmtree(home)
        step += 1
    assert step > 10


def test_a_link_in_the_place_of_a_session_is_not_followed(tmp_path) -> None:
    """It may have been put there after the folder was listed."""
    (tmp_path / "elsewhere").mkdir()
    other = keep(tmp_path / "elsewhere", "a", "2026-11-01T00:00:00Z")
    was = content(other)
    (tmp_path / "b.edgetop").symlink_to(other)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        remove_session(tmp_path / "b.edgetop")
    assert content(other) == was


def test_a_marker_counts_for_its_own_session(tmp_path) -> None:
    """A copied session brings the marker of another."""
    keep(tmp_path, "a", "2026-11-01T00:00:00Z")
    other = keep(tmp_path, "b", "2026-11-02T00:00:00Z")
    for text in (json.dumps({"session": session_id("c")}), "{}", "[", "[" * 99_999):
        (other / PUSHED).write_text(text)
        enforce(tmp_path, 2.5)
    enforce(tmp_path, 1.5)
    assert left(tmp_path) == "b"


# Clocks: the order in which sessions ran, whatever the wall clock said.

Y1970, OLD, NEW = "1970-01-01T00:00:42.000000Z", "2026-11-01T00:00:00.000000Z", "2026-11-09T00:00:00.000000Z"


def order(home: Path, now: Now = NOW) -> str:
    """The order in which sessions go."""
    folders = home.glob("*.edgetop")
    return "".join(folder.stem for folder in removal_order({one: read_manifest(one) for one in folders}, now))


def made_at(folder: Path, us: int) -> Path:
    os.utime(folder / "session.json", (us / 1e6, us / 1e6))
    return folder


def test_a_clock_that_was_set_later_gives_the_time(tmp_path) -> None:
    keep(tmp_path, "a", OLD)
    keep(tmp_path, "b", Y1970, anchor=NEW)
    assert order(tmp_path) == "ab"


def test_one_session_tells_the_time_of_all_of_its_boot(tmp_path) -> None:
    for folder in (
        keep(tmp_path, "b", Y1970, boot="x", origin_s=10),
        keep(tmp_path, "a", Y1970, boot="x", origin_s=5),
        keep(tmp_path, "c", "1970-01-01T00:00:20Z", boot="x", origin_s=20, anchor=NEW),
    ):
        made_at(folder, 42_000_000)
    keep(tmp_path, "d", OLD)
    keep(tmp_path, "e", "2026-11-10T00:00:00Z")
    assert order(tmp_path) == "dabce"


def test_sessions_of_this_boot_are_the_newest_by_the_monotonic_clock(tmp_path) -> None:
    made_at(keep(tmp_path, "a", Y1970, boot="this-boot", origin_s=4), 42_000_000)
    made_at(keep(tmp_path, "b", Y1970, boot="this-boot", origin_s=3), 42_000_000)
    keep(tmp_path, "c", NEW)
    assert order(tmp_path) == order(tmp_path, replace(NOW, utc_us=50_000_000)) == "cba", (
        "whether the clock is set or not"
    )
    enforce(tmp_path, 1.5)
    assert left(tmp_path) == "a"


def test_the_file_tells_when_the_manifest_cannot(tmp_path) -> None:
    made_at(keep(tmp_path, "b", Y1970), NOW.utc_us - DAY_US)
    made_at(keep(tmp_path, "a", Y1970), NOW.utc_us - 2 * DAY_US)
    keep(tmp_path, "c", OLD)
    assert order(tmp_path) == "cab"


def test_of_what_nothing_tells_the_time_it_ran_before_this_boot(tmp_path) -> None:
    made_at(keep(tmp_path, "b", Y1970), 42_000_000)
    keep(tmp_path, "a", OLD)
    made_at(keep(tmp_path, "c", Y1970, boot="this-boot", origin_s=1), 42_000_000)
    assert order(tmp_path) == "abc"


def test_a_clock_of_the_future_is_not_believed(tmp_path) -> None:
    made_at(keep(tmp_path, "a", "2099-01-01T00:00:00Z"), NOW.utc_us - 12 * DAY_US)
    made_at(keep(tmp_path, "b", NEW), NOW.utc_us)
    enforce(tmp_path, 1.5)
    assert left(tmp_path) == "b"
