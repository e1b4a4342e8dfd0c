"""An archive of a board may come from anybody: it is read back as it was written, or refused."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from edgetop.sensors.capture import unpack as module
from edgetop.sensors.capture.collect import CUT, Capture, collect, pack
from edgetop.sensors.capture.unpack import REPORT, unpack
from edgetop.sensors.root import Root

BOARD = Path(__file__).parents[2] / "boards/raspberry-pi-4/tree"


def test_what_was_packed_comes_back() -> None:
    capture = collect(Root(BOARD))
    loaded = Capture({"proc/stat": b"cpu 1\n"}, {"proc/other": "stat"}, (f"it took too long{CUT}",))
    found = unpack(pack(capture, loaded, {REPORT: b"{}"}))
    assert (dict(found.capture.files), dict(found.capture.links)) == (dict(capture.files), dict(capture.links))
    assert found.capture.notes == (capture.notes or ("nothing: every file found could be read",))
    assert (found.loaded, found.report) == (loaded, b"{}")
    assert (found.loaded.is_cut, found.capture.is_cut) == (True, False)


def test_a_plain_capture_has_neither_load_nor_report() -> None:
    found = unpack(pack(collect(Root(BOARD))))
    assert (found.loaded, found.report) == (None, None)


def archive(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as file:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        file.addfile(member, io.BytesIO(b""))
    return packed.getvalue()


@pytest.mark.parametrize(
    "packed",
    [
        archive("/etc/passwd"),
        archive("../passwd"),
        archive("tree/../../passwd"),
        archive("other/file"),
        archive("tree/a b"),
        archive("tree/device", tarfile.CHRTYPE),
        archive("tree/pipe", tarfile.FIFOTYPE),
        archive("tree/hard", tarfile.LNKTYPE, "tree/x"),
        archive("tree/sys/link", tarfile.SYMTYPE, "/etc/passwd"),
        archive("tree/sys/link", tarfile.SYMTYPE, "../../../etc/passwd"),
        archive("tree/sys/link", tarfile.SYMTYPE, "x/../../../etc"),
        b"",
        b"no archive",
        gzip.compress(b"no tar file" * 100),
        pack(Capture({"proc/stat": b"1" * 5000}, {}, ()))[:-40],
    ],
    ids=map(str, range(15)),  # the bytes differ by the time of day
)
def test_what_a_capture_never_has_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack(packed)


def test_an_archive_that_swells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNPACKED_BYTES", 10_000)
    with pytest.raises(ValueError, match="larger than"):
        unpack(gzip.compress(bytes(20_000)))


def test_a_link_within_the_tree_is_kept() -> None:
    found = unpack(archive("tree/sys/class/link", tarfile.SYMTYPE, "../../proc"))
    assert dict(found.capture.links) == {"sys/class/link": "../../proc"}
