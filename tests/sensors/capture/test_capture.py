"""A captured board replays as it was, tells nobody whose it was, and cannot hurt who opens it."""

import os
import stat
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from edgetop.sensors.capture.collect import Capture, collect, pack, write_archive
from edgetop.sensors.capture.own_words import own_words
from edgetop.sensors.capture.private import Private
from edgetop.sensors.core_pmus import core_pmus, line_bytes
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap
from edgetop.sensors.survey import survey_board
from edgetop.sensors.traffic import hardware_interfaces, parse_diskstats, parse_net_dev, whole_disks
from tests.sensors.test_core_pmus import arm, cache
from tests.support.thorough import mostly_thorough
from tests.support.trees import link, plant

BOARDS = Path(__file__).parents[2] / "boards"
NAMES = sorted(folder.parent.name for folder in BOARDS.glob("*/tree"))

ZONE = {"sys/class/thermal/thermal_zone0/type": "cpu-thermal\n", "sys/class/thermal/thermal_zone0/temp": "50000\n"}


def unpacked(capture: Capture, folder: Path) -> Root:
    path = folder / "board.tar.gz"
    write_archive(pack(capture), path, force=True)
    with tarfile.open(path) as archive:
        archive.extractall(folder / "out", filter="data")
    return Root(folder / "out/tree")


def told(root: Root) -> list[object]:
    survey = survey_board(root)
    survey.read_due()
    return [survey.board, survey.missing, *((row.info, row.value) for row in survey.rows)]


@pytest.mark.slow
@pytest.mark.parametrize("board", mostly_thorough(NAMES, "raspberry-pi-5", "orin-nano-jp6", "x86-nuc11"))
def test_every_known_board_replays_as_it_was(board: str, tmp_path: Path) -> None:
    root = Root(BOARDS / board / "tree")
    assert told(unpacked(collect(root), tmp_path)) == told(root)


def test_the_events_that_the_cpus_count_are_taken(tmp_path: Path) -> None:
    files = arm("armv8_cortex_a55", 8) | arm("armv8_cortex_a76", 9) | cache(2, 64, 2)
    root = plant(tmp_path / "board", files)
    (tmp_path / "copy").mkdir()
    copy = unpacked(collect(root), tmp_path / "copy")
    assert [pmu.name for pmu in core_pmus(copy)] == ["armv8_cortex_a55", "armv8_cortex_a76"]
    assert core_pmus(copy) == core_pmus(root)
    assert line_bytes(copy, core_pmus(copy)) == 64


def planted_hardware(tree: Path) -> Root:
    """A board with two disks, two interfaces, and devices that are not hardware, each where Linux has it."""
    soc, pci = "sys/devices/platform/soc", "sys/devices/pci0000:00/0000:00:02.0"
    devices = {
        "block/mmcblk0": f"{soc}/fe340000.mmc/mmc0/mmc0:aaaa",
        "block/xvda": "sys/devices/vbd-51712",
        "class/net/eth0": f"{soc}/fd580000.ethernet",
        "class/net/wlp2s0": pci,
    }
    files = {
        "proc/net/dev": "".join(
            f"{name}: {'1000 ' * 16}\n" for name in ("lo", "eth0", "wlp2s0", "docker0", "enxd83add010203")
        ),
        "proc/diskstats": "".join(f"179 0 {name}{' 8' * 17}\n" for name in ("mmcblk0", "mmcblk0p1", "xvda", "zram0")),
        "sys/devices/virtual/block/zram0/stat": "1 1\n",
        "sys/devices/virtual/net/docker0/speed": "10000\n",
    }
    root = plant(tree, ZONE | files)
    for name, device in devices.items():
        folder, _, last = name.rpartition("/")
        place = f"{device}/{folder.rpartition('/')[2]}/{last}"
        plant(tree, {f"{device}/uevent": "DRIVER=some\nNVME_TRADDR=10.0.0.7\n", f"{place}/stat": "1 1\n"})
        link(tree, f"sys/{name}", os.path.relpath(tree / place, tree / f"sys/{folder}"))
        link(tree, f"{place}/device", os.path.relpath(tree / device, tree / place))
    link(tree, "sys/block/zram0", "../devices/virtual/block/zram0")
    link(tree, "sys/class/net/docker0", "../../devices/virtual/net/docker0")
    return root


def with_values(root: Root) -> set[str]:
    """The sensors that have a value when they are read a second time."""
    ids = set()
    for source in discover_board(root).sources:
        read_source(source)
        values = read_source(source)
        ids |= {
            info.id
            for info, value in zip(source.sensors, () if isinstance(values, Gap) else values, strict=False)
            if not isinstance(value, Gap)
        }
    return ids


def test_the_captured_tree_has_a_value_of_each_sensor_that_the_board_has_one_of(tmp_path: Path) -> None:
    root = planted_hardware(tmp_path / "board")
    (tmp_path / "copy").mkdir()
    copy = unpacked(collect(root), tmp_path / "copy")
    assert with_values(root) >= {"disk/read", "disk/write", "net/rx", "net/tx"}
    assert with_values(copy) == with_values(root)


def test_the_captured_tree_tells_hardware_as_the_board_does(tmp_path: Path) -> None:
    root = planted_hardware(tmp_path / "board")
    capture = collect(root)
    (tmp_path / "copy").mkdir()
    copy = unpacked(capture, tmp_path / "copy")
    for choose, file, parse in (
        (whole_disks, "proc/diskstats", parse_diskstats),
        (hardware_interfaces, "proc/net/dev", parse_net_dev),
    ):
        chosen = choose(root, list(parse(root.text(file))))
        assert len(chosen) == 2
        assert choose(copy, list(parse(copy.text(file)))) == chosen
    events = {content for path, content in capture.files.items() if path.endswith("/uevent")}
    assert events == {b"DRIVER=some\n"}  # an event may also have the address of a disk on the network
    assert capture.notes == ()


def test_links_are_kept_and_files_lie_where_the_kernel_has_them(tmp_path: Path) -> None:
    device = "sys/devices/virtual/thermal"
    files = {
        f"{device}/thermal_zone0/type": "cpu-thermal\n",
        f"{device}/thermal_zone0/temp": "50000\n",
        f"{device}/cooling_device0/type": "cpufreq-cpu0\n",
        "sys/firmware/devicetree/base/model": "Board\0",
    }
    root = plant(tmp_path / "board", files)
    link(tmp_path / "board", "sys/class/thermal/thermal_zone0", "../../devices/virtual/thermal/thermal_zone0")
    link(tmp_path / "board", f"{device}/thermal_zone0/cdev0", "../cooling_device0")
    link(tmp_path / "board", "proc/device-tree", "../sys/firmware/devicetree/base")
    link(tmp_path / "board", "sys/class/thermal/thermal_zone1", "../../devices/virtual/thermal/gone")
    plant(tmp_path / "board", {"sys/devices/platform/fan/serial": "not wanted"})
    link(tmp_path / "board", "sys/class/hwmon/hwmon0", "../../devices/platform/fan")
    capture = collect(root)
    assert capture.links == {
        "proc/device-tree": "../sys/firmware/devicetree/base",
        "sys/class/thermal/thermal_zone0": "../../devices/virtual/thermal/thermal_zone0",
        f"{device}/thermal_zone0/cdev0": "../cooling_device0",
    }
    assert set(capture.files) == set(files)
    replayed = unpacked(capture, tmp_path)
    assert replayed.read_text("sys/class/thermal/thermal_zone0/cdev0/type") == "cpufreq-cpu0"


def test_an_unreadable_file_fails_alike_when_replayed(tmp_path: Path) -> None:
    root = plant(tmp_path / "board", {**ZONE, "unreadable.txt": "EAGAIN sys/class/thermal/thermal_zone0/temp\n"})
    capture = collect(root)
    assert [note for note in capture.notes if "thermal_zone0/temp: EAGAIN" in note]
    replayed = unpacked(capture, tmp_path)
    with pytest.raises(BlockingIOError):
        replayed.read_text("sys/class/thermal/thermal_zone0/temp")
    assert replayed.exists("sys/class/thermal/thermal_zone0/temp")


def test_a_pipe_is_left_out_and_noted(tmp_path: Path) -> None:
    root = plant(tmp_path / "board", ZONE)
    (tmp_path / "board/sys/class/thermal/thermal_zone0/temp").unlink()
    os.mkfifo(tmp_path / "board/sys/class/thermal/thermal_zone0/temp")
    capture = collect(root)
    assert "sys/class/thermal/thermal_zone0/temp" not in capture.files
    assert "sys/class/thermal/thermal_zone0/temp: not a regular file" in capture.notes


class Blocking(Root):
    """A board of which one file never answers."""

    def read_bytes(self, relative: str, at_most: int | None = None) -> bytes:
        if relative.endswith("/temp"):
            read_end, _ = os.pipe()
            os.read(read_end, 1)
        return super().read_bytes(relative, at_most)


def test_a_file_that_blocks_is_given_up_and_the_rest_is_taken(tmp_path: Path) -> None:
    plant(tmp_path / "board", {**ZONE, "proc/meminfo": "MemTotal: 1 kB\n"})
    capture = collect(Blocking(tmp_path / "board"), file_deadline_s=0.05)
    assert capture.files["proc/meminfo"] == b"MemTotal: 1 kB\n"
    assert capture.files["unreadable.txt"] == b"ETIMEDOUT sys/class/thermal/thermal_zone0/temp\n"


def test_a_board_that_takes_too_long_is_cut_short(tmp_path: Path) -> None:
    capture = collect(plant(tmp_path / "board", ZONE), deadline_s=-1.0)
    assert capture.files == {}
    assert "what would have come after is missing" in capture.notes[0]


def test_a_file_that_is_too_large_is_left_out(tmp_path: Path) -> None:
    root = plant(tmp_path / "board", {"proc/meminfo": "x" * (1 << 20) + "y"})
    capture = collect(root)
    assert capture.files["proc/meminfo"] == b""
    assert capture.files["unreadable.txt"] == b"EFBIG proc/meminfo\n"


PRIVATE = {
    "etc/hostname": "gate-camera-7\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nmarta:x:1000:1000:Marta Beispiel,,,:/home/marta:/bin/sh\n",
    "proc/device-tree/serial-number": "10000000abcdef01\0",
    "sys/class/dmi/id/product_serial": "5CG1234XYZ\n",
    "sys/class/dmi/id/product_uuid": "4c4c4544-0035-3010-8051-b9c04f4d3232\n",
    "sys/class/net/eth0/address": "d8:3a:dd:01:02:03\n",
    "proc/cpuinfo": "processor\t: 0\nSerial\t\t: 10000000abcdef01\nModel\t\t: Raspberry Pi 5\n",
    "proc/cmdline": "console=tty1 root=PARTUUID=4e639091-02 ip=10.0.0.7 psi=1 cgroup_enable=memory\n",
    "proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/home/marta/swap file\tfile\t100\t0\t-2\n",
    "proc/net/dev": " face |bytes\n  eth0: 1 2\nenxd83add010203: 3 4\n",
}
SECRETS = (
    "gate-camera-7", "0123456789abcdef", "marta", "beispiel", "10000000abcdef01", "5cg1234xyz", "4c4c4544",
    "d8:3a:dd", "d83add", "10.0.0.7", "4e639091",
)  # fmt: skip


def test_nothing_private_is_in_the_archive(tmp_path: Path) -> None:
    loose = {
        "sys/class/hwmon/hwmon0/name": "gate-camera-7 10000000abcdef01\n",
        "sys/class/hwmon/hwmon0/temp1_label": "Marta Beispiel's, marta\n",
        "sys/class/hwmon/hwmon0/in1_label": "D8-3A-DD-01-02-03 4C4C4544-0035-3010-8051-B9C04F4D3232\n",
        "sys/class/power_supply/hid-d8:3a:dd:01:02:03-battery/capacity": "80\n",
        "commands/vcgencmd_get_throttled": "throttled=0x0 on gate-camera-7, 5CG1234XYZ\n",
    }
    root = plant(tmp_path / "board", {**ZONE, **PRIVATE, **loose})
    capture = collect(root)
    everything = str(capture).lower() + "".join(content.decode().lower() for content in capture.files.values())
    assert [secret for secret in SECRETS if secret in everything] == []
    assert capture.files["proc/cpuinfo"] == b"processor\t: 0\nModel\t\t: Raspberry Pi 5\n"
    assert capture.files["proc/cmdline"] == b"psi=1 cgroup_enable=memory\n"
    assert capture.files["proc/net/dev"] == b" face |bytes\n  eth0: 1 2\nnet2: 3 4\n"
    assert capture.files["proc/swaps"].splitlines()[1] == b"/swapfile\tfile\t100\t0\t-2"
    assert [note for note in capture.notes if note.startswith("1 path left out")]


def test_what_has_the_form_of_an_address_is_removed(tmp_path: Path) -> None:
    private = Private(plant(tmp_path, {}))
    for text in ("02:00:5e:10:00:ff", "C0-FF-EE-00-11-22", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "0f" * 16):
        assert set(private.scrub(f"at {text}, ".encode()).decode()) <= set("at x:-,")


def test_a_host_called_after_its_board_does_not_blank_the_board(tmp_path: Path) -> None:
    files = {
        "etc/hostname": "raspberrypi\n",
        "etc/passwd": "cpu:x:1000:1000::/:/bin/sh\n",
        "proc/device-tree/compatible": "raspberrypi,5-model-b\0brcm,bcm2712\0",
        "proc/stat": "cpu 1 2\n",
        **ZONE,
    }
    root = plant(tmp_path, files)
    capture = collect(root)
    assert capture.files["proc/device-tree/compatible"] == b"raspberrypi,5-model-b\0brcm,bcm2712\0"
    assert capture.files["proc/stat"] == b"cpu 1 2\n"
    assert Private(root).scrub(b"cpu-thermal") == b"cpu-thermal"


def test_a_name_that_is_a_word_of_edgetop_does_not_blank_its_sentences(tmp_path: Path) -> None:
    users = "".join(f"{name}:x:1000:1000::/:/bin/sh\n" for name in ("sensors", "Temp", "memory", "observer", "berta"))
    root = plant(tmp_path, {"etc/hostname": "board\n", "etc/passwd": users})
    sentence = "the board took as long to read as it may: temp, memory, sensors, observer, Temp"
    assert Private(root).scrub(f"{sentence} of berta".encode()).decode() == f"{sentence} of xxxxx"


def test_a_common_word_of_a_domain_does_not_blank_the_kernel(tmp_path: Path) -> None:
    private = Private(plant(tmp_path, {"etc/hostname": "vm7.cloud.acme.internal\n"}))
    assert private.text("6.1.0-38-cloud-amd64 of acme") == "6.1.0-38-cloud-amd64 of xxxx"
    assert private.text("nas.cloud.acme.internal") == "xxx.xxxxx.xxxx.xxxxxxxx"


def test_comments_and_docstrings_are_no_texts_of_edgetop(tmp_path: Path) -> None:
    assert own_words(frozenset({"annas-board", "riddles", "board"})) == {"board"}  # the first is in a docstring


def test_the_second_of_the_boot_is_removed(tmp_path: Path) -> None:
    capture = collect(plant(tmp_path, {"proc/stat": "cpu 1 2\nctxt 5\nbtime 1764300000\nprocesses 9\n"}))
    assert capture.files["proc/stat"] == b"cpu 1 2\nctxt 5\nbtime 0\nprocesses 9\n"


def test_a_capture_that_was_ended_by_its_limit_says_so(tmp_path: Path) -> None:
    root = plant(tmp_path, ZONE)
    assert not collect(root).is_cut
    cut = collect(root, deadline_s=-1.0)
    assert (cut.is_cut, dict(cut.files)) == (True, {})


def test_numbers_stay_as_they_are(tmp_path: Path) -> None:
    private = Private(plant(tmp_path, PRIVATE))
    for content in (b"65997277274\n", b"50000\n", b"0000:00:1d.0", b"fb000000.gpu 0@300000000Hz", b"0x50005"):
        assert private.scrub(content) == content


@pytest.mark.parametrize("name", ["thermal_zone\x1b[31m", "thermal_zone\n0", "thermal_zone \udcff", "thermal_zoneé"])
def test_a_name_the_kernel_would_not_give_is_left_out(tmp_path: Path, name: str) -> None:
    root = plant(tmp_path, {f"sys/class/thermal/{name}/type": "x\n", **ZONE})
    capture = collect(root)
    assert set(capture.files) == set(ZONE)
    assert [note for note in capture.notes if "not one the kernel gives" in note]


def test_links_out_or_in_a_circle_are_not_followed(tmp_path: Path) -> None:
    plant(tmp_path / "outside", {"temp": "secret\n", "type": "secret\n"})
    root = plant(tmp_path / "board", ZONE)
    link(tmp_path / "board", "sys/class/thermal/thermal_zone1", tmp_path / "outside")
    link(tmp_path / "board", "sys/class/thermal/thermal_zone2", "thermal_zone2")
    capture = collect(root)
    assert (set(capture.files), capture.links) == (set(ZONE), {})


def test_the_archive_has_no_owner_no_time_and_no_way_out(tmp_path: Path) -> None:
    root = plant(tmp_path / "board", ZONE)
    link(tmp_path / "board", "sys/class/thermal/thermal_zone0/cdev0", "../thermal_zone0")
    path = tmp_path / "board.tar.gz"
    write_archive(pack(collect(root)), path, force=False)
    assert path.read_bytes()[4:8] == b"\0\0\0\0"  # gzip's own time (RFC 1952)
    with tarfile.open(path) as archive:
        for member in archive:
            assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)
            assert member.isfile() or member.isdir() or member.issym()
            assert member.name == "notes.txt" or PurePosixPath(member.name).parts[0] == "tree"
            assert ".." not in PurePosixPath(member.name).parts


def test_the_same_board_gives_the_same_archive(tmp_path: Path) -> None:
    root = plant(tmp_path, ZONE)
    assert pack(collect(root)) == pack(collect(root))


def test_the_file_is_private_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    capture, path = collect(plant(tmp_path / "board", ZONE)), tmp_path / "board.tar.gz"
    before = os.umask(0)
    try:
        write_archive(pack(capture), path, force=False)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        write_archive(pack(capture), path, force=False)
    assert path.read_text() == "precious"
    write_archive(pack(capture), path, force=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == pack(capture)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "board", path]


def test_a_link_in_the_way_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    link(tmp_path, "board.tar.gz", "precious")
    capture = collect(plant(tmp_path / "board", ZONE))
    with pytest.raises(FileExistsError):
        write_archive(pack(capture), tmp_path / "board.tar.gz", force=False)
    write_archive(pack(capture), tmp_path / "board.tar.gz", force=True)
    assert (tmp_path / "precious").read_text() == "precious"
