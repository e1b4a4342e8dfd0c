"""A board that somebody sent becomes one of tests/boards, with the values that edgetop reads there."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.sensors.capture.collect import CUT, Capture, collect, pack
from edgetop.sensors.capture.unpack import REPORT, Unpacked
from edgetop.sensors.root import Root
from tests.support.board_from_report import BOARDS, lacking, lost_sensors, main, make_board
from tests.support.board_rows import wrong_in_page
from tests.support.trees import plant

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def expected(folder: Path) -> dict:
    document = tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
    for table in document.values():
        if "ids" in table:
            table["ids"] = sorted(table["ids"])
    return document


def ids(document: dict, table: str) -> set[str]:
    return set(document.get(table, {}).get("ids", ()))


@pytest.mark.parametrize(
    "board", ["raspberry-pi-5", "orin-nano-jp6", "rk3588-cm3588", "virtual-machine", "rk3588-mainline-hot"]
)
def test_a_known_board_gets_the_values_that_were_written_by_hand(board, tmp_path):
    (folder,) = make_board(pack(collect(Root(BOARDS / board / "tree"))), "again", tmp_path)
    made, known = expected(folder), expected(BOARDS / board)
    assert made["board"] == {name: value for name, value in known["board"].items() if value}
    assert made["sensors"] == pytest.approx(known["sensors"], rel=1e-9)
    assert made.get("roles", {}) == known.get("roles", {})
    assert made.get("trips", {}) == known.get("trips", {})
    assert made.get("throttled") == known.get("throttled")
    assert made.get("throttling") == known.get("throttling")
    assert ids(made, "gaps") | ids(made, "rates") == ids(known, "gaps") | ids(known, "rates")
    assert ids(known, "missing") <= ids(made, "missing")


def test_a_board_under_load_is_a_board_of_its_own(tmp_path):
    cool, hot = (collect(Root(BOARDS / name / "tree")) for name in ("raspberry-pi-4", "raspberry-pi-4-hot"))
    folders = make_board(pack(cool, hot), "pi", tmp_path)
    assert [folder.name for folder in folders] == ["pi", "pi-loaded"]
    assert expected(folders[1])["sensors"]["throttle/thermal"] == 1
    assert expected(folders[0])["sensors"]["throttle/thermal"] == 0


def test_a_board_that_is_there_is_not_written_over(tmp_path):
    packed = pack(collect(Root(BOARDS / "virtual-machine/tree")))
    make_board(packed, "vm", tmp_path)
    with pytest.raises(FileExistsError):
        make_board(packed, "vm", tmp_path)


@pytest.fixture
def captures():
    """The hot Raspberry Pi 4 at rest, and under load until the time was over."""
    whole = collect(Root(BOARDS / "raspberry-pi-4-hot/tree"))
    return whole, Capture(dict(list(whole.files.items())[:20]), {}, (f"the board took long{CUT}",))


def test_an_incomplete_board_under_load_is_left_out_with_one_line(captures, tmp_path, capsys):
    whole, cut = captures
    (tmp_path / "a.tar.gz").write_bytes(pack(whole, cut))
    assert main([str(tmp_path / "a.tar.gz"), "pi", "--boards", str(tmp_path / "boards")]) == 0
    assert [folder.name for folder in (tmp_path / "boards").iterdir()] == ["pi"]
    assert capsys.readouterr().err == f"pi-loaded: left out, because its capture is incomplete: {cut.notes[0]}\n"


def test_an_old_archive_that_says_nothing_of_a_cut_is_judged_by_its_files(captures):
    whole, cut = captures
    old = Capture(cut.files, {}, ())
    count = len(whole.files)
    assert lacking(Unpacked(whole, old)) == f"{count - 20} of {count} files are missing"
    assert lacking(Unpacked(whole, Capture(whole.files, {}, ()))) == ""


def test_an_incomplete_board_at_rest_is_refused(captures, tmp_path, capsys):
    (tmp_path / "a.tar.gz").write_bytes(pack(captures[1]))
    assert main([str(tmp_path / "a.tar.gz"), "pi", "--boards", str(tmp_path / "boards")]) == 1
    assert not (tmp_path / "boards").exists()
    assert capsys.readouterr().err.count("\n") == 1


def test_a_sensor_that_was_lost_under_load_is_named_too(captures, tmp_path, capsys):
    def read(*ids):
        return {"sensors": [{"id": one, "value": 1.0} for one in ids]}

    report = {"sensors": read("load/cpu"), "sensors_loaded": read("temp/gone")}
    ended = replace(captures[0], notes=(*captures[0].notes, "the run ended"))
    (tmp_path / "a.tar.gz").write_bytes(pack(captures[0], ended, {REPORT: json.dumps(report).encode()}))
    boards = tmp_path / "boards"
    assert main([str(tmp_path / "a.tar.gz"), "pi", "--boards", str(boards)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        str(boards / "pi-loaded"),
        "only under load: the run ended",
        "not in the tree: temp/gone",
    ]


def test_a_sensor_that_the_tree_lost_is_named():
    report = b'{"sensors": {"sensors": [{"id": "temp/gone", "value": 1.0}, {"id": "mem/system-swap", "value": 0.0}]}}'
    assert lost_sensors(report, BOARDS / "virtual-machine/tree") == ["not in the tree: temp/gone"]


def test_a_sensor_whose_value_the_tree_lost_is_named(tmp_path):
    """An old capture: /proc/diskstats is there, and what tells a disk from its partitions is not."""
    plant(
        tmp_path,
        {
            "proc/diskstats": f"179 0 mmcblk0{' 8' * 17}\n",
            "proc/stat": "cpu 1 2 3 4 5 6 7 8 0 0\n",
            "sys/block/mmcblk0/stat": "8 8\n",
            "proc/vmstat": "pswpin 1\npswpout 1\n",
            "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
            "sys/class/thermal/thermal_zone0/temp": "40000\n",
        },
    )
    ids = ("disk/read", "rate/swap-in", "load/cpu", "temp/cpu-thermal")
    report = json.dumps({"sensors": {"sensors": [{"id": one, "value": 1.0} for one in ids]}}).encode()
    assert lost_sensors(report, tmp_path) == [
        "no value in the tree: disk/read (no hardware device among those in the file)"
    ]


@pytest.mark.parametrize("name", ["my/board", "my board", "../board", "", "Board", "-board", "b\x1b[31m"])
def test_a_name_that_is_no_folder_of_boards_is_refused_in_one_line(name, tmp_path, capsys):
    (tmp_path / "a.tar.gz").write_bytes(pack(collect(Root(BOARDS / "virtual-machine/tree"))))
    assert main(["--boards", str(tmp_path / "boards"), "--", str(tmp_path / "a.tar.gz"), name]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"{name!r}: not a name")
    assert told.count("\n") == 1
    assert not (tmp_path / "boards").exists()


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_a_file_that_cannot_be_read_is_told_in_one_line(kind, tmp_path, capsys):
    file = tmp_path if kind == "folder" else tmp_path / "missing.tar.gz"
    assert main([str(file), "pi", "--boards", str(tmp_path / "boards")]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"{file}: ")
    assert told.count("\n") == 1


def test_a_board_without_a_model_is_made(tmp_path):
    tree = plant(tmp_path / "board", {"proc/meminfo": "MemTotal: 1000 kB\n", "proc/stat": "cpu 1 2\n"})
    (folder,) = make_board(pack(collect(tree)), "plain", tmp_path / "boards")
    board = expected(folder)["board"]
    assert "model" not in board
    assert wrong_in_page("plain", board, ["| plain | - | - | `plain` | captured |"]) == ""


def planted_board(folder: Path, temperature: int, **more: str) -> bytes:
    zone = {
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": f"{temperature}\n",
    }
    return pack(collect(plant(folder, {"proc/stat": "cpu 1 2\n", **zone, **more})))


def test_a_newer_capture_replaces_a_board_and_what_changes_is_shown(tmp_path, capsys):
    boards = tmp_path / "boards"
    (folder,) = make_board(planted_board(tmp_path / "old", 40000, **{"proc/uptime-of-old": ""}), "pi", boards)
    toml = folder / "expected.toml"
    by_hand = '[why]\n"CPU clocks" = "not in QEMU"\n'
    toml.write_text(f"# Under QEMU.\n{toml.read_text()}\n{by_hand}", encoding="utf-8")
    (tmp_path / "new.tar.gz").write_bytes(
        planted_board(tmp_path / "new", 50000, **{"proc/meminfo": "MemTotal: 1000 kB\n"})
    )
    assert main([str(tmp_path / "new.tar.gz"), "pi", "--replace", "--boards", str(boards)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == str(folder)
    assert '-"temp/cpu-thermal" = 40.0' in told
    assert '+"temp/cpu-thermal" = 50.0' in told
    assert "pi: file new: proc/meminfo" in told
    assert told[-1] == "pi: 1 of 3 files have other contents"
    assert not [line for line in told if "why" in line or "Under QEMU" in line]
    text = toml.read_text(encoding="utf-8")
    assert text.startswith("# Under QEMU.\n[board]")
    assert text.endswith(f"\n{by_hand}")
    assert expected(folder)["board"]["memory_bytes"] == 1024000
    assert [path.name for path in boards.iterdir()] == ["pi"]
    assert main([str(tmp_path / "new.tar.gz"), "pi", "--replace", "--boards", str(boards)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["pi: the same sensors, values and files"]
    assert toml.read_text(encoding="utf-8") == text


def test_a_capture_that_is_no_good_replaces_nothing(tmp_path, capsys):
    boards = tmp_path / "boards"
    make_board(planted_board(tmp_path / "old", 40000), "pi", boards)
    before = sorted((path, path.read_bytes()) for path in boards.rglob("*") if path.is_file())
    (tmp_path / "cut.tar.gz").write_bytes(pack(Capture({"proc/stat": b""}, {}, (f"too long{CUT}",))))
    for name, words in (("pi", "the capture is incomplete"), ("pi-4", "pi-4 is not there: leave out --replace")):
        assert main([str(tmp_path / "cut.tar.gz"), name, "--replace", "--boards", str(boards)]) == 1
        told = capsys.readouterr().err
        assert words in told
        assert told.count("\n") == 1
    assert sorted((path, path.read_bytes()) for path in boards.rglob("*") if path.is_file()) == before


def test_a_board_under_load_is_replaced_only_by_one_under_load(tmp_path, capsys):
    cool, hot = (collect(Root(BOARDS / name / "tree")) for name in ("raspberry-pi-4", "raspberry-pi-4-hot"))
    make_board(pack(cool, hot), "pi", tmp_path / "boards")
    (tmp_path / "a.tar.gz").write_bytes(pack(cool))
    assert main([str(tmp_path / "a.tar.gz"), "pi", "--replace", "--boards", str(tmp_path / "boards")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("pi-loaded: left as it is: ")
    (tmp_path / "a.tar.gz").write_bytes(pack(cool, cool))
    assert main([str(tmp_path / "a.tar.gz"), "pi", "--replace", "--boards", str(tmp_path / "boards")]) == 0
    assert expected(tmp_path / "boards/pi-loaded")["sensors"]["throttle/thermal"] == 0
