"""What identifies a person, a machine or a network is planted everywhere, and looked for in every byte that is sent."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from edgetop.cli.board.redaction import Redaction
from edgetop.recording.session_folder import read_manifest, write_manifest
from edgetop.sensors.capture.collect import collect, pack
from edgetop.sensors.capture.unpack import REPORT
from edgetop.session.manifest import BackgroundProcess, InContainer, Watched, WatchedStream
from tests.support.commands import edgetop
from tests.support.recordings import record
from tests.support.scripts import measured
from tests.support.trees import link, plant

HOST, USER, SERIAL = "cam7.site12.acme.org", "marta", "10000000abcdef01"
SECRETS = {
    "host": "cam7",
    "domain": "site12",
    "login": USER,
    "real name": "Beispiel",
    "short login": "zo",
    "serial": SERIAL,
    "DMI serial": "5CG1234XYZ",
    "UUID": "4c4c4544-0035-3010-8051-b9c04f4d3232",
    "machine id": "fedcba9876543210fedcba9876543210",
    "MAC": "d8:3a:dd:01:02:03",
    "MAC with dashes": "D8-3A-DD-01-02-03",
    "MAC without separators": "d83add010203",
    "MAC with underscores": "d8_3a_dd_01_02_03",
    "MAC of Cisco": "d83a.dd01.0203",
    "EUI-64": "d8:3a:dd:ff:fe:01:02:03",
    "IPv4": "192.168.178.21",
    "Tailscale": "100.101.102.103",
    "IPv6": "fe80::da3a:ddff:fe01:203%wlan0",
    "short IPv6": "2001:db8::7",
    "ULA": "fd7a:115c:a1e0::1234",
    "MagicDNS": "nas.tail1234.ts.net",
    "mDNS": "annas-printer.local",
    "e-mail": "carla@firma.example",
    "URL": "http://bob:hunter2@nas.firma.example:8080/x?token=abc",
    "partition": "PARTUUID=4e639091-02",
    "label": "LABEL=CARLAS",
    "SSID": "ssid=FirmaNetz",
    "disk": "/dev/disk/by-id/ata-Samsung_SSD_870_S5Y1NX0R123456",
    "adapter": "/dev/serial/by-id/usb-FTDI_A50285BI-if00",
    "volume": "/dev/mapper/firmavg-root",
    "USB serial": "0K4711ABC",
    "container": "docker-" + "4f1e" * 16 + ".scope",
    "pod": "kubepods/burstable/pod3f2c1b0a_1111_2222_3333_444455556666/firma",
    "unit": "firma-line3.service",
    "path": "/home/carla/firma/model.onnx",
    "path with spaces": "/srv/Firma Nord/bottling/model.onnx",
    "path with signs": "/opt/firma,x(1)~y/geheim",
    "GPU": "GPU-4f0c3b2a-1111-4222-8333-444455556666",
    "nfsroot": "nfsroot=10.0.0.9:/srv/firma,v3",
    "macaddr": "smsc95xx.macaddr=B8:27:EB:01:02:03",
}
# What must not be left of each, in lower case.
FORBIDDEN = (
    "cam7", "site12", "acme", "marta", "beispiel", " zo ", SERIAL, "5cg1234", "4c4c4544", "fedcba98", "d8:3a", "d8-3a",
    "d83add", "d8_3a", "d83a.dd", "192.168.", "100.101.", "fe80::da3a", "2001:db8", "115c", "tail1234", "annas-printer",
    "carla", "hunter2", "firma", "4e639091", "s5y1nx0r", "a50285bi", "0k4711", "4f1e4f1e", "3f2c1b0a", "4f0c3b2a",
    "10.0.0.9", "b8:27", "bottling", "geheim", "s3cr3t", "0a1b2c3d4e5f",
)  # fmt: skip
EVERYTHING = "; ".join(f"{name}: {text} ;" for name, text in SECRETS.items())


@pytest.fixture
def board(tmp_path, monkeypatch):
    """A board with a secret in each file that has one, and in files that should have none."""
    for name in ("HOSTNAME", "LOGNAME", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)
    hub, label = "sys/class/hwmon/hwmon0", f"{EVERYTHING}\n"
    files = {
        "etc/hostname": f"{HOST}\n",
        "etc/machine-id": f"{SECRETS['machine id']}\n",
        "etc/passwd": "marta:x:1000:1000:Marta Beispiel,,,:/home/marta:/bin/sh\nzo:x:1001:1001::/home/zo:/bin/sh\n",
        "etc/os-release": 'NAME="Debian"\nVARIANT="image of marta on cam7"\n',
        "proc/cpuinfo": f"processor\t: 0\nSerial\t\t: {SERIAL}\nModel\t\t: Raspberry Pi 4\n",
        "proc/cmdline": (
            f"psi=1 root={SECRETS['partition']} {SECRETS['macaddr']} {SECRETS['nfsroot']} ip=192.168.178.21::::cam7"
            f" bcm2708_fb.fbwidth=656 androidboot.serialno=5CG1234XYZ"
        ),
        "proc/stat": "cpu 1 2\nbtime 1764300000\n",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/mapper/firmavg-swap partition 100 0 -2\n"
        "/home/marta/swap file 100 0 -2\n",
        "proc/net/dev": "a |b\n eth0: 1\nenxd83add010203: 2\nwlx00c0caabcdef: 3\nbr-4f1e4f1e4f1e: 4\nveth-cam7: 5\n",
        "proc/device-tree/serial-number": f"{SERIAL}\0",
        "proc/device-tree/model": "Raspberry Pi 4\0",
        "proc/device-tree/chosen/bootargs": f"root={SECRETS['partition']}\0",
        "sys/class/dmi/id/product_serial": "5CG1234XYZ\n",
        "sys/class/dmi/id/product_uuid": f"{SECRETS['UUID']}\n",
        "sys/class/net/eth0/address": "d8:3a:dd:01:02:03\n",
        "sys/bus/usb/devices/1-1/serial": "0K4711ABC\n",
        "sys/bus/usb/devices/1-1/idVendor": "0403\n",
        "sys/bus/usb/devices/usb1/serial": "0000:01:00.0\n",
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "50000\n",
        f"{hub}/name": "probe\n",
        "sys/devices/w1_bus_master1/28-0a1b2c3d4e5f/hwmon/hwmon1/name": "w1_slave_temp\n",
        "sys/devices/w1_bus_master1/28-0a1b2c3d4e5f/hwmon/hwmon1/temp1_input": "21000\n",
        f"{hub}/temp1_label": label,
        f"{hub}/temp1_input": "41000\n",
        "sys/class/power_supply/hid-d8:3a:dd:01:02:03-battery/capacity": "80\n",
        "sys/class/power_supply/ps-0K4711ABC/capacity": "80\n",
        "sys/class/power_supply/marta_phone/capacity": "80\n",
        "sys/class/power_supply/BAT0/type": "Battery\n",
        "commands/vcgencmd_get_throttled": f"throttled=0x0 {EVERYTHING}",
    }
    root = plant(tmp_path / "board", files)
    link(tmp_path / "board", "sys/class/hwmon/hwmon1", "../../devices/w1_bus_master1/28-0a1b2c3d4e5f/hwmon/hwmon1")
    return root


def left_in(texts: Iterator[tuple[str, str]]) -> list[str]:
    return [f"{where}: {word}" for where, text in texts for word in FORBIDDEN if word in f" {text.lower()} "]


def texts_of_tar(packed: bytes) -> Iterator[tuple[str, str]]:
    """Yield everything that an archive holds: its headers as they are, its names, links and contents."""
    assert struct.unpack("<4xI", packed[:8]) == (0,)  # the time in gzip's header
    assert packed[3] == 0  # neither a name nor a comment
    plain = gzip.decompress(packed)
    yield "bytes", plain.decode("utf-8", "replace")
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        for member in archive:
            assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)
            assert member.pax_headers == {}


def test_nothing_planted_is_left_in_a_capture(board):
    capture = collect(board)
    assert "sys/class/hwmon/hwmon0/temp1_label" in capture.files
    assert capture.files["sys/class/thermal/thermal_zone0/temp"] == b"50000\n"
    assert "sys/bus/usb/devices/1-1/idVendor" in capture.files
    assert {path for path in capture.files if "power_supply" in path} == {"sys/class/power_supply/BAT0/type"}
    assert capture.files["proc/cmdline"] == b"psi=1\n"
    probe = "sys/devices/w1_bus_master1/28-000000000001/hwmon/hwmon1"
    assert capture.files[f"{probe}/temp1_input"] == b"21000\n"
    assert capture.links["sys/class/hwmon/hwmon1"] == f"../../{probe.removeprefix('sys/')}"
    assert left_in(texts_of_tar(pack(capture))) == []


def test_nothing_planted_is_left_in_a_report(board):
    document = {name: {"found": text, "list": [text, {"advice": f"see {text}"}]} for name, text in SECRETS.items()}
    document["all"] = EVERYTHING
    document["start"] = {f"temp/probe:{USER}": 20.0}
    redacted = Redaction(board).document(document)
    packed = pack(collect(board), collect(board), {REPORT: json.dumps(redacted, ensure_ascii=False).encode()})
    assert set(redacted) == set(document)
    assert redacted["start"] == {"temp/probe:xxxxx": 20.0}
    assert left_in(texts_of_tar(packed)) == []


@pytest.mark.parametrize("name", SECRETS)
def test_each_secret_is_removed_wherever_it_stands_in_a_sentence(name, board):
    redaction = Redaction(board)
    text = SECRETS[name]
    for sentence in (
        text,
        f"{text}.",
        f"({text})",
        f"{text}: unreadable",
        f"'{text}', 3",
        f"a={text} b",
        f"of {text}; x",
    ):
        assert left_in(iter([(sentence, redaction.text(sentence))])) == []


def texts_of_parquet(content: bytes) -> Iterator[str]:
    file = pq.ParquetFile(io.BytesIO(content))
    yield str(file.schema_arrow.metadata)
    yield str(file.metadata)
    yield json.dumps(file.read().to_pylist(), default=str, ensure_ascii=False)


@pytest.mark.slow
def test_nothing_planted_is_left_in_a_bundle(tmp_path):
    """A bundle reads the names of this very machine, so these are given by the environment."""
    texts = {name: text for name, text in SECRETS.items() if name not in ("short login", "USB serial", "real name")}
    texts = {name: text for name, text in texts.items() if name not in ("serial", "DMI serial")}
    everything = "; ".join(f"{name}: {text} ;" for name, text in texts.items())
    folder = tmp_path / "demo-20261129-072050.edgetop"
    record(folder, measured(20).tell("mark", source="user", message=everything, note=everything).end().batches)
    whole = read_manifest(folder)
    command = ("/home/marta/bin/app", "--token", "s3cr3t", "-c", "/srv/firma/x")
    changed = replace(
        whole,
        name="demo-20261129-072050",
        created_utc="2026-11-29T01:50:50.914506Z",
        model=replace(whole.model, path="/home/marta/bin/app --token s3cr3t -c /srv/firma/x"),
        load=replace(whole.load, input="/home/carla/firma/crops"),
        clock=replace(whole.clock, boot_id=SECRETS["UUID"]),
        labels={"site": texts["IPv4"]},
        methodology=replace(
            whole.methodology, notes=(everything,), background=(BackgroundProcess("marta-backup", 12.0),)
        ),
        engine=replace(whole.engine, settings={"library": SECRETS["path"]}, asked=(SECRETS["path with signs"],)),
        watched=Watched(
            command,
            streams=(WatchedStream("/opt/firma/model.onnx"),),
            container=InContainer("docker", "registry.firma.example:5000/firma/app:1.2", "4f1e4f1e4f1e"),
        ),
        command=("edgetop", "watch", "-o", "firma/x", "--", *command),
    )
    write_manifest(folder, changed)
    names = {"USER": USER, "HOSTNAME": HOST, "HOME": str(tmp_path), "TZ": "Asia/Kolkata"}
    done = edgetop("bundle", "demo-20261129-072050", home=tmp_path, **names)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "demo-20261129-015050-bundle.zip") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        sent = [(info.filename, archive.read(info)) for info in archive.infolist()]
    found = [(name, name) for name, _ in sent]
    for name, content in sent:
        found += [
            (name, one) for one in (texts_of_parquet(content) if name.endswith("parquet") else [content.decode()])
        ]
    assert left_in(iter(found)) == []
    assert not [name for name, text in found if "072050" in text or "Kolkata" in text]
    document = json.loads(next(content for name, content in sent if name.endswith("session.json")))
    assert document["command"] == ["edgetop", "watch", "-o", "x", "--", "app"]
    assert (document["model"]["path"], document["watched"]["container"]["image"]) == ("app", "app:1.2")
