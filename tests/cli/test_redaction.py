"""What a document of this machine may not have, and what it must keep."""

import os
import socket
from pathlib import Path

import pytest

from edgetop.cli.board.redaction import Redaction
from edgetop.sensors.capture.own_words import own_words
from edgetop.sensors.capture.private import Private, users_of_this_machine
from edgetop.sensors.root import Root
from tests.support.trees import plant

DOCKER = "4f1e" * 16  # the id of a container


@pytest.fixture
def redaction(tmp_path, monkeypatch):
    """Of anna, on annas-board, with a passwd and a serial number."""
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "SUDO_USER", "LOGNAME", "HOSTNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/home/anna")
    monkeypatch.setenv("USER", "anna")
    monkeypatch.setattr(socket, "gethostname", lambda: "annas-board.example.org")
    (tmp_path / "etc").mkdir()
    users = "berta:x:1001:1001:Berta Beispiel,,,:/home/berta:/bin/sh\njo:x:1002:1002:Zoë J.:/home/jo:/bin/sh\n"
    (tmp_path / "etc/passwd").write_text(users, encoding="utf-8")
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/serial-number").write_bytes(b"10000000deadbeef\0")
    return Redaction(Root(tmp_path))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("anna measured", "xxxx measured"),
        ("on annas-board.example.org", "on xxxxx-xxxxx.xxxxxxx.xxx"),
        ("on annas-board now", "on xxxxx-xxxxx now"),
        ("berta, Berta Beispiel", "xxxxx, xxxxx xxxxxxxx"),
        ("serial 10000000deadbeef", "serial xxxxxxxxxxxxxxxx"),
        ("link dc:a6:32:01:02:03", "link xx:xx:xx:xx:xx:xx"),
        ("at 192.168.178.21:9464", "at xxx.xxx.xxx.xx:9464"),
        ("at fe80::dea6:32ff:fe01:203", "at xxxx::xxxx:xxxx:xxxx:xxx"),
        ("/home/anna/.local/state/edgetop (ext4)", "RECORDINGS (ext4)"),
        ("/home/anna/.config/edgetop", "CONFIG"),
        ("/home/anna/acme/secret.onnx: unreadable", "~/PATH: unreadable"),
        ("/srv/acme/venv/bin/python failed", "PATH failed"),
        ("/run/user/1000/acme (tmpfs), 1 GiB free", "PATH (tmpfs), 1 GiB free"),
        ("/usr/local/acme/model.onnx: unreadable", "PATH: unreadable"),
        ("/var/lib/acme/a.db", "PATH"),
        *((f"{place}/acme/x", "PATH") for place in ("/opt", "/srv", "/home", "/root", "/mnt", "/media", "/data")),
        (f"/sys/fs/cgroup/memory/docker/{DOCKER}/memory.stat", "/sys/fs/cgroup/memory/docker/GROUP/memory.stat"),
        (f"sys/fs/cgroup/memory/process_api/{DOCKER[:32]}", "sys/fs/cgroup/memory/GROUP/GROUP"),
        ("/proc/15606/task/15607/stat, /proc/15606", "/proc/PID/task/PID/stat, /proc/PID"),
        (f"/sys/fs/cgroup/system.slice/docker-{DOCKER}.scope", "/sys/fs/cgroup/system.slice/GROUP"),
        ("/sys/fs/cgroup/cpu,cpuacct/acme, cut", "/sys/fs/cgroup/cpu,cpuacct/GROUP, cut"),
        ("/sys/fs/cgroup/user.slice/user-1000.slice/a/cpu.stat", "/sys/fs/cgroup/user.slice/GROUP/GROUP/cpu.stat"),
        ("/sys/fs/cgroup/memory.annas/memory.max", "/sys/fs/cgroup/GROUP/memory.max"),
        (
            "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod3f2c1b0a_1111_2222.slice",
            "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/GROUP",
        ),
        ("kubepods/burstable/pod3f2c1b0a_1111_2222_3333_444455556666/acme", "kubepods/burstable/GROUP/GROUP"),
        ("of pod3f2c1b0a_1111_2222", "of GROUP"),
        ("system.slice/acme-bottling-line3.service", "system.slice/GROUP"),
        ("kubepods-besteffort-pod3f2c1b0a_1111.slice/acme", "GROUP/GROUP"),
        ("/etc/systemd/system/acme-bottling-line3.service", "/etc/systemd/system/GROUP"),
        ("user-1000.slice", "GROUP"),
        ("lxc.payload.annas-laptop", "GROUP"),
        (f"0::/docker/{DOCKER}", "0::PATH"),
        (f"docker-{DOCKER}", "GROUP"),
        ("/sys/bus/usb/devices/a1b2c3d4e5f60718/power", "/sys/bus/usb/devices/ID/power"),
        ("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4, 1 GiB", "/dev/disk/by-id/ID, 1 GiB"),
        ("/dev/serial/by-id/usb-PPK2_C8D5A1B2C3D4-if00: gone", "/dev/serial/by-id/ID: gone"),
        ("/dev/mapper/annas--vg-root", "/dev/mapper/ID"),
        ("to 192.168.178.21.", "to xxx.xxx.xxx.xx."),
        ("to 127.0.0.12, 10.0.0.0 and ::12", "to xxx.x.x.xx, xx.x.x.x and ::xx"),
        ("fe80::1%eth0", "xxxx::x%xxxx"),
        ("dca632010203 and dca6.3201.0203", "xxxxxxxxxxxx and xxxx.xxxx.xxxx"),
        ("dev_DC_A6_32_01_02_03", "dev_xx_xx_xx_xx_xx_xx"),
        ("wlx00c0caabcdef", "xxxxxxxxxxxxxxx"),
        ("annas-board.tail1234.ts.net", "xxxxx-xxxxx.xxxxxxxx.xx.xxx"),
        ("nas.example.org", "nas.xxxxxxx.xxx"),
        ("printer.local", "xxxxxxx.xxxxx"),
        ("anna_model.onnx", "xxxx_model.onnx"),
        ("Frau Beispiel", "Frau xxxxxxxx"),
        ("Zoë, ZOË", "xxx, xxx"),
        ("jo measured", "xx measured"),
        ("carla@acme.com", "xxxxx@xxxx.xxx"),
        ("http://bob:pw@nas.acme.com:80/x?t=1 failed", "http://xxx:xx@xxx.xxxx.xxx:xx/x?x=x failed"),
        ("file:///srv/acme/x", "file://xxxx"),
        ("/srv/My Project/secret.onnx: unreadable", "PATH: unreadable"),
        ("/srv/a,b/secret and /srv/My model.onnx", "PATH and PATH"),
        ("/my~dir/secret", "PATH"),
        ("/run/acme/secret", "PATH"),
        ("/proc/self/root/home/carla/x", "PATH"),
        ("/sys/class/net:/srv/acme:/usr/lib", "/sys/class/net:PATH:/usr/lib"),
        ("root=PARTUUID=4e639091-02 LABEL=CARLA", "root=PARTUUID=xxxxxxxx-xx LABEL=xxxxx"),
        ("serial no: XK4711, ssid=Acme", "serial no: xxxxxx, ssid=xxxx"),
        ("/dev/ttyUSB0 (serial A50285BI), S/N: ABC123XYZ", "/dev/ttyUSB0 (serial xxxxxxxx), S/N: xxxxxxxxx"),
        ("'/srv/My Docs/x y.onnx' and '/usr/lib/x y'", "'PATH' and '/usr/lib/x y'"),
        ("/etc/NetworkManager/system-connections/Acme.nmconnection", "PATH"),
        ("token=s3cr3t password: hunter2", "token=xxxxxx password: xxxxxxx"),
        # Addresses, even if a version is near.
        ("host 10.0.0.4:80", "host xx.x.x.x:80"),
        ("inet 192.168.1.5/24", "inet xxx.xxx.x.x/24"),
        ("driver of 84.5.6.7", "driver of xx.x.x.x"),
        ("driver 10.0.0.4, release=100.64.1.2", "driver xx.x.x.x, release=xxx.xx.x.x"),
        ("version 192.168.1.5 and 172.20.0.1", "version xxx.xxx.x.x and xxx.xx.x.x"),
        ("version 84.5.6.7:80, version 84.5.6.7/24", "version xx.x.x.x:80, version xx.x.x.x/24"),
        ("version: at 84.5.6.7", "version: at xx.x.x.x"),
        ("conversion 84.5.6.7, drivers 84.5.6.7", "conversion xx.x.x.x, drivers xx.x.x.x"),
        ("server=84.5.6.7, host==84.5.6.7, a == 84.5.6.7", "server=xx.x.x.x, host==xx.x.x.x, a == xx.x.x.x"),
        ("version ip-84-5-6-7, driver ip-84-5-6-7", "version xx-xx-x-x-x, driver xx-xx-x-x-x"),
        ("eth0v84.5.6.7", "eth0vxx.x.x.x"),
        ("cam kernel: 84.5.6.7 is martian", "cam kernel: xx.x.x.x is martian"),
    ],
)
def test_what_identifies_is_removed(redaction, text, left):
    assert redaction.text(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "/sys/class/thermal/thermal_zone0/temp",
        "/proc/meminfo MemAvailable",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/system.slice/memory.max",
        "/sys/devices/platform/soc/fe804000.i2c/i2c-1/1-0040/hwmon/hwmon3",
        "/sys/devices/pci0000:00/0000:00:1f.3",
        "/proc/device-tree/memory@100000000000/reg",
        "sha256 " + "4f1e" * 16,
        "123456789012/123456789012 bytes",
        "systemctl restart edgetop.service",
        "docker/podman",
        "onnxruntime 1.32.0 on CPU",
        "6.1.0-rpi7-rpi-v8",
        "L4T 36.4.7",
        "25/50 MB/s",
        "NVIDIA driver 535.183.1.2, 36.400.3.1",
        "driver version 36.4.3.1, Version: 36.4.3.1, VERSION=36.4.3.1",
        'version = "36.4.3.1", {"driver_version": "36.4.3.1"}, driverVersion=36.4.3.1',
        "L4T 36.4.3.1, L4T R36.4.3.1, JetPack 6.2.1.1, driver: 36.4.3.1, release 36.4.3.1",
        "tensorrt==10.0.1.6, opencv-python>=4.10.0.84, opencv-python-headless     4.10.0.84",
        "v36.4.3.1 of version v36.4.3.1",
        'Linux 5.10.16.3, kernel 5.10.16.3, {"kernel": "5.10.16.3"}',
        "12:30:45",
        "5.15.153.1-microsoft-standard-WSL2",
        "12 ms per token: 5, rate/token=3 at 00:10:02",
        "/dev/vda writes 25.0 MB/s, 3/4 done",
        "serial 115200 baud, serial ports, serial SPI",
        "see https://onnxruntime.ai/docs",
        "write http://127.0.0.1:8080, or [::1]:9464; it serves on 0.0.0.0:9464",
        "i2c@fe804000.brcm: 0x410fd034, 1234567890123",
        "6.1.0-rc1-00123-gabcdef012345",
        "sudo usermod -aG video $USER",
        "only root may read it",
        "Hannah",
    ],
)
def test_what_describes_a_board_stays(redaction, text):
    assert redaction.text(text) == text


def test_a_document_is_redacted_in_depth_and_keeps_its_numbers(redaction):
    document = {"a": [{"anna": "anna", "n": 10000000, "x": None, "ok": True}], "t": ("berta", 1.5)}
    assert redaction.document(document) == {
        "a": [{"anna": "xxxx", "n": 10000000, "x": None, "ok": True}],
        "t": ["xxxxx", 1.5],
    }
    assert redaction.foreign({"anna": ["berta"]}) == {"xxxx": ["xxxxx"]}


def test_four_numbers_are_a_version_in_a_document_whose_key_says_so(redaction):
    document = {"version": "10.0.1.6", "driver": ["36.4.3.1"], "engine": {"runtime_version": "36.4.3.1"}}
    assert redaction.document(document) == document
    addresses = {"version": "at 10.0.0.4", "driver": "10.0.0.4", "server": "84.5.6.7", "versions": {"x": "84.5.6.7"}}
    assert redaction.document(addresses) == {
        "version": "at xx.x.x.x",
        "driver": "xx.x.x.x",
        "server": "xx.x.x.x",
        "versions": {"x": "xx.x.x.x"},
    }


@pytest.mark.parametrize("name", ["board", "cpu", "temp", "sensors", "pi", "root", "doctor", "throttled"])
def test_a_host_or_a_user_named_by_a_word_of_edgetop_changes_no_document(name, tmp_path, monkeypatch):
    for variable in ("USER", "LOGNAME", "HOSTNAME"):
        monkeypatch.setenv(variable, name)
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text(f"{name}\n")
    document = {name: {"name": name, "what": f"The {name} of this board: throttled, with a root file system"}}
    assert Redaction(Root(tmp_path)).document(document) == document


def test_a_host_with_the_name_of_its_board_is_not_blanked_in_what_tells_the_board(tmp_path):
    """Armbian's first name for a host."""
    plant(
        tmp_path,
        {"etc/hostname": "orangepi5\n", "proc/device-tree/compatible": "xunlong,orangepi-5\0rockchip,rk3588s\0"},
    )
    text = "BOARD=orangepi5, dtb/rockchip/orangepi5.dtb"
    assert Private(Root(tmp_path)).text(text) == text


def test_a_short_label_of_a_domain_is_no_name_but_its_domain_is(tmp_path):
    """Half of the laptops of a university would have no mains adapter."""
    private = Private(plant(tmp_path, {"etc/hostname": "cam7.cs.ox.ac.uk\n"}))
    adapter = "sys/class/power_supply/AC/online"
    assert (private.text(adapter), private.is_in_path(adapter)) == (adapter, False)
    assert private.text("cam7, cs.ox.ac.uk, www.ox.ac.uk") == "xxxx, xx.xx.xx.xx, www.xx.xx.xx"


@pytest.mark.parametrize(
    "word", ["A", ":", "a.", "\\", "x@", "/", "/a", "/a ", "a-", "1.", "/a:", "é", "a://", "f_", "1.1.1.1 "]
)
def test_a_long_word_takes_no_longer_than_many_short_ones(word, redaction):
    """The time would be minutes if it grew with the square of the length."""
    assert len(redaction.text(word * 100_000)) > 0


def test_a_user_without_a_name_and_a_home_has_names_of_none(monkeypatch):
    """As in a container with `--user 54321`, in which sensors can be captured all the same."""
    for variable in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME", "SUDO_USER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert users_of_this_machine() <= {""}


def test_this_very_user_and_machine_are_removed():
    name = os.uname().nodename
    left = Redaction(Root()).text(f"{Path.home()}/x on {name}-{name}")
    assert left.startswith("~/PATH on ")
    assert len(name) < 3 or name not in left or own_words(frozenset({name.lower()}))
