"""Network and disk traffic: each byte once, as rates."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import traffic
from edgetop.sensors.plausible import most_of_link
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap, Source
from edgetop.sensors.traffic import engine_disk
from tests.support.trees import plant

NET_HEAD = (
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier\n"
)
SECTOR = 512

network, disks = partial(traffic.traffic_reader, "net"), partial(traffic.traffic_reader, "disk")


def seconds(*times: float) -> Callable[[], float]:
    iterator: Iterator[float] = iter(times)
    return lambda: next(iterator)


def net_dev(**bytes_of: tuple[int, int]) -> dict[str, str]:
    lines = [
        f"{name.replace('_', '-'):>6}: {rx} 9 0 0 0 0 0 0 {tx} 9 0 0 0 0 0 0" for name, (rx, tx) in bytes_of.items()
    ]
    return {"proc/net/dev": NET_HEAD + "\n".join(lines) + "\n"}


def diskstats(**sectors_of: tuple[int, int]) -> dict[str, str]:
    lines = [
        f" 179       0 {name.replace('_', '-')} 11 2 {read} 4 5 6 {write} 8 0 9 10"
        for name, (read, write) in sectors_of.items()
    ]
    return {"proc/diskstats": "\n".join(lines) + "\n"}


def hardware(folder: str, *names: str) -> dict[str, str]:
    return {f"sys/{folder}/{name}/device/vendor": "0x1\n" for name in names}


def rates(
    tmp_path: Path, make: Callable[..., Source], before: dict[str, str], after: dict[str, str]
) -> list[float | Gap]:
    """Of four seconds between the two."""
    source = make(plant(tmp_path, before), seconds(100.0, 104.0))
    first = source.read()
    assert {type(value) for value in first} == {Gap}
    plant(tmp_path, after)
    return list(source.read())


def test_network_traffic_is_that_of_the_hardware(tmp_path: Path) -> None:
    before = net_dev(lo=(5, 5), eth0=(1000, 500), wlan0=(10, 10), docker0=(7, 7), bond0=(1010, 510))
    after = net_dev(lo=(9005, 9005), eth0=(5000, 900), wlan0=(410, 10), docker0=(8007, 8007), bond0=(5410, 910))
    named = hardware("class/net", "eth0", "wlan0")
    assert rates(tmp_path, network, before | named, after) == [1100.0, 100.0]


LEAP = 5 * 10**9  # bytes in four seconds
LINKS: dict[str, tuple[dict[str, str], bool]] = {  # files of the interface, and whether its counter may grow by LEAP
    "100 Mbit/s": ({"device/vendor": "0x1\n", "speed": "100\n"}, False),
    "10 Gbit/s": ({"device/vendor": "0x1\n", "speed": "10000\n"}, True),
    "unknown": ({"device/vendor": "0x1\n", "speed": "-1\n"}, True),
    "unknown, of 32 bits": ({"device/vendor": "0x1\n", "speed": "4294967295\n"}, True),
    "Wi-Fi": ({"device/vendor": "0x1\n", "wireless/x": "", "speed": "100\n"}, True),
    "of a container": ({"speed": "10\n"}, True),
}


@pytest.mark.parametrize("case", LINKS)
def test_no_link_is_faster_than_its_speed(tmp_path: Path, case: str) -> None:
    files, is_possible = LINKS[case]
    before = net_dev(lan0=(0, 0)) | {f"sys/class/net/lan0/{name}": text for name, text in files.items()}
    received, sent = rates(tmp_path, network, before, net_dev(lan0=(LEAP, 4000)))
    if is_possible:
        assert (received, sent) == (LEAP / 4, 1000.0)
    else:
        assert isinstance(received, Gap)
        assert "lan0 leapt" in received.reason
        assert sent == 1000.0  # the other direction is not affected


def test_nothing_is_faster_than_any_link(tmp_path: Path) -> None:
    before, after = net_dev(wan0=(0, 0)), net_dev(wan0=(10**15, 0))
    received, _ = rates(tmp_path, network, before, after)
    assert isinstance(received, Gap)


def test_a_link_that_became_faster_is_read_again(tmp_path: Path) -> None:
    speed = "sys/class/net/lan0/speed"
    root = plant(tmp_path, net_dev(lan0=(0, 0)) | hardware("class/net", "lan0") | {speed: "100\n"})
    source = network(root, seconds(0.0, 1.0, 2.0))
    source.read()
    plant(tmp_path, net_dev(lan0=(12 * 10**6, 0)))
    assert source.read() == [12e6, 0.0]
    plant(tmp_path, net_dev(lan0=(112 * 10**6, 0)) | {speed: "1000\n"})
    assert source.read() == [100e6, 0.0]


def test_the_nominal_speed_of_a_virtual_interface_is_no_bound(tmp_path: Path) -> None:
    root = plant(tmp_path, {"sys/class/net/ens3/device/vendor": "1\n", "sys/class/net/ens3/speed": "100\n"})
    assert most_of_link(root, "ens3") == 12.5e6
    plant(tmp_path, {"sys/bus/virtio/drivers/virtio_net/uevent": ""})
    (tmp_path / "sys/class/net/ens3/device/driver").symlink_to(tmp_path / "sys/bus/virtio/drivers/virtio_net")
    assert most_of_link(root, "ens3") > 1e9


@pytest.mark.parametrize(("disk", "is_possible"), [("mmcblk0", False), ("nvme0n1", True)])
def test_no_card_is_faster_than_its_bus(tmp_path: Path, disk: str, is_possible: bool) -> None:
    named = {f"sys/block/{disk}/device/vendor": "1\n"}
    grown = 12 * 10**9 // SECTOR
    read, _ = rates(tmp_path, disks, diskstats(**{disk: (0, 0)}) | named, diskstats(**{disk: (grown, 0)}))
    assert isinstance(read, Gap) is not is_possible


def test_in_a_container_its_own_end_of_the_pair_counts(tmp_path: Path) -> None:
    before = net_dev(lo=(5, 5), eth0=(1000, 500), docker0=(0, 0), veth12ab=(0, 0), br_1f=(0, 0), wg0=(0, 0))
    after = net_dev(lo=(9, 9), eth0=(1400, 500), docker0=(99, 9), veth12ab=(99, 9), br_1f=(99, 9), wg0=(99, 9))
    assert rates(tmp_path, network, before, after) == [100.0, 0.0]


def test_disk_traffic_is_that_of_whole_disks(tmp_path: Path) -> None:
    names = {
        "mmcblk0": (100, 10),
        "mmcblk0p1": (50, 5),
        "nvme0n1": (0, 0),
        "dm_0": (40, 5),
        "loop0": (5, 5),
        "zram0": (1, 1),
    }
    grown = {name: (read + 400, write + 800) for name, (read, write) in names.items()}
    named = hardware("block", "mmcblk0", "nvme0n1") | {
        f"sys/block/{name}/size": "1\n" for name in ("dm-0", "loop0", "zram0")
    }
    assert rates(tmp_path, disks, diskstats(**names) | named, diskstats(**grown)) == [200 * SECTOR, 400 * SECTOR]


def test_disks_of_a_board_without_sysfs_are_told_by_their_names(tmp_path: Path) -> None:
    names = (
        "sda",
        "sda1",
        "vda",
        "vda15",
        "mmcblk0",
        "mmcblk0p2",
        "nvme0n1",
        "nvme0n1p1",
        "dm_0",
        "md127",
        "loop3",
        "zram0",
    )
    before, after = (dict.fromkeys(names, (grown, 0)) for grown in (0, 8))
    assert rates(tmp_path, disks, diskstats(**before), diskstats(**after)) == [4 * 2 * SECTOR, 0.0]


def test_an_interface_that_is_plugged_in_counts_from_then_on(tmp_path: Path) -> None:
    source = network(plant(tmp_path, net_dev(eth0=(0, 0)) | hardware("class/net", "eth0")), seconds(0.0, 1.0, 2.0))
    source.read()
    plant(tmp_path, net_dev(eth0=(5, 0), usb0=(10**6, 0)) | hardware("class/net", "usb0"))
    assert source.read() == [5.0, 0.0]
    plant(tmp_path, net_dev(eth0=(10, 0), usb0=(10**6 + 2, 0)))
    assert source.read() == [7.0, 0.0]


def test_without_any_hardware_there_is_nothing_to_tell(tmp_path: Path) -> None:
    source = network(plant(tmp_path, net_dev(lo=(5, 5))))
    assert source.read() == [Gap("no hardware device among those in the file")] * 2


@pytest.mark.parametrize(
    ("make", "file", "content"),
    [
        (network, "proc/net/dev", NET_HEAD + "  eth0: 1 2 3\n"),
        (network, "proc/net/dev", NET_HEAD + "  eth0: -1 2 3 4 5 6 7 8 9\n"),
        (network, "proc/net/dev", NET_HEAD + "  eth0: 1_0 2 3 4 5 6 7 8 9\n"),
        (disks, "proc/diskstats", "179 0 mmcblk0 1 2 3\n"),
        (disks, "proc/diskstats", "179 0 mmcblk0 1 2 x 4 5 6 7 8\n"),
    ],
)
def test_a_line_that_is_cut_short_is_an_error_and_not_a_zero(
    tmp_path: Path, make: Callable[[Root], Source], file: str, content: str
) -> None:
    with pytest.raises(ValueError):
        make(plant(tmp_path, {file: content})).read()


def test_what_is_not_there_is_told_as_missing(tmp_path: Path) -> None:
    assert [missing.what for missing in traffic.discover(Root(tmp_path)).missing] == ["network traffic", "disk traffic"]


def engine_io(read: object, write: object) -> dict[str, str]:
    return {"proc/7/io": f"rchar: 1\nwchar: 2\nsyscr: 3\nread_bytes: {read}\nwrite_bytes: {write}\n"}


def test_the_engines_disk_traffic_is_a_rate(tmp_path: Path) -> None:
    plant(tmp_path, engine_io(1000, 4096))
    source = engine_disk(7, root=Root(tmp_path), now=seconds(10.0, 12.0))
    source.read()
    plant(tmp_path, engine_io(5000, 4096))
    assert source.read() == [2000.0, 0.0]


def test_a_count_of_the_engine_that_leaps_is_a_gap(tmp_path: Path) -> None:
    plant(tmp_path, engine_io(0, 0) | {"proc/stat": "cpu0 0 0\n"})
    source = engine_disk(7, root=Root(tmp_path), now=seconds(10.0, 11.0))
    source.read()
    plant(tmp_path, engine_io(10**15, 4096))
    read, written = source.read()
    assert isinstance(read, Gap)
    assert "leapt" in read.reason
    assert written == 4096.0


def test_a_count_that_is_not_there_is_a_gap(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/7/io": "rchar: 1\nread_bytes: x\n"})
    assert {type(value) for value in engine_disk(7, root=Root(tmp_path)).read()} == {Gap}


def test_the_disk_traffic_of_a_real_process_is_read(tmp_path: Path) -> None:
    (source,) = traffic.discover_engine(os.getpid(), shares_process=True).sources
    with (tmp_path / "written").open("wb") as file:
        file.write(bytes(1 << 20))
        os.fsync(file.fileno())
    _, written = source.read()
    assert isinstance(written, float)
    assert written >= 0


def test_a_process_that_is_gone_is_told_as_missing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    (missing,) = traffic.discover_engine(process.pid, shares_process=False).missing
    assert "No such file" in missing.why


ODD = st.sampled_from(("", "x", "-1", "9" * 400, "²", "1_0", "\0", "12", "5"))


@settings(deadline=None, max_examples=60)
@given(
    odd=st.lists(ODD, min_size=2, max_size=12),
    whole=st.binary(max_size=60),
    name=st.sampled_from(("a", "..", "/", "a\0")),
)
def test_no_content_makes_up_a_value(
    tmp_path_factory: pytest.TempPathFactory, odd: list[str], whole: bytes, name: str
) -> None:
    tree = tmp_path_factory.getbasetemp() / "traffic"
    sources = network(Root(tree)), disks(Root(tree)), engine_disk(1, root=Root(tree))
    fields = " ".join(odd)
    for files in (
        {
            "proc/net/dev": f"{name}: {fields}\n",
            "proc/diskstats": f"8 0 {name} {fields}\n",
            "proc/1/io": f"read_bytes: {odd[0]}",
        },
        dict.fromkeys(("proc/net/dev", "proc/diskstats", "proc/1/io"), whole),
    ):
        plant(tree, files)
        for source in sources:
            values = read_source(source)
            assert not (isinstance(values, Gap) and "internal error" in values.reason)
            if not isinstance(values, Gap):
                assert all(isinstance(value, Gap) or value >= 0 for value in values)
