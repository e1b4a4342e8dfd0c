"""Counters of a capture that run since the boot are rounded; nothing else is."""

from pathlib import Path

import pytest

from edgetop.sensors.capture.collect import collect
from edgetop.sensors.capture.since_boot import without_boot
from tests.support.trees import plant

EXACT = "123456"


@pytest.mark.parametrize(
    ("path", "text", "rounded"),
    [
        ("proc/stat", "cpu  4321 17 5\nintr 123456 0 9\nbtime 0\n", "cpu  4400 17 5\nintr 130000 0 9\nbtime 0\n"),
        ("proc/diskstats", " 259  123 nvme0n1 4321 7\n", " 259  123 nvme0n1 4400 7\n"),
        ("proc/net/dev", "  eth0: 19478195194 12 0\n", "  eth0: 20000000000 12 0\n"),
        ("proc/loadavg", "2.54 2.50 3.24 5/321 15589\n", "2.54 2.50 3.24 5/321 1\n"),
        ("proc/pressure/io", "some avg10=1.25 avg60=0.00 total=54321\n", "some avg10=1.25 avg60=0.00 total=55000\n"),
        ("proc/cpuinfo", "cpu MHz\t\t: 2596.148\nbogomips\t: 5192.29\n", "cpu MHz\t\t: 2596\nbogomips\t: 5192\n"),
        ("sys/fs/cgroup/memory.stat", "anon 654321\npgfault 654321\n", "anon 660000\npgfault 660000\n"),
        (
            "sys/fs/cgroup/memory/memory.stat",
            "hierarchical_memory_limit 987654\n",
            "hierarchical_memory_limit 987654\n",
        ),
        ("sys/fs/cgroup/memory.stat", "pswpin 4321\nnuma_hint_faults 4321\n", "pswpin 4400\nnuma_hint_faults 4400\n"),
        ("sys/fs/cgroup/memory.peak", "104857600\n", "110000000\n"),
        ("proc/meminfo", "MemTotal: 8123456 kB\n", "MemTotal: 8123456 kB\n"),
        ("sys/class/thermal/thermal_zone0/temp", "50123\n", "50123\n"),
    ],
)
def test_a_counter_keeps_two_digits(path: str, text: str, rounded: str) -> None:
    assert without_boot(path, text) == rounded


def test_no_capture_has_an_exact_counter(tmp_path: Path) -> None:
    counters = {
        "proc/stat": f"cpu {EXACT} 1\nctxt {EXACT}\nprocesses {EXACT}\n",
        "proc/vmstat": f"pgpgout {EXACT}\n",
        "proc/diskstats": f"   8  0 sda {EXACT} 5 {EXACT}\n",
        "proc/net/dev": f"  eth0: {EXACT} 5 0\n",
        "proc/loadavg": f"0.00 0.00 0.00 1/99 {EXACT}\n",
        "proc/pressure/cpu": f"some avg10=0.00 avg60=0.00 avg300=0.00 total={EXACT}\n",
        "sys/block/sda/stat": f" {EXACT} 5 {EXACT}\n",
        "sys/fs/cgroup/memory/memory.stat": f"total_pgpgin {EXACT}\n",
        "sys/fs/cgroup/memory/memory.max_usage_in_bytes": f"{EXACT}\n",
        "sys/fs/cgroup/memory.pressure": f"some avg10=0.00 avg60=0.00 avg300=0.00 total={EXACT}\n",
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": f"{EXACT}\n",
        "sys/class/powercap/intel-rapl:0/energy_uj": f"{EXACT}\n",
        "sys/class/hwmon/hwmon0/energy1_input": f"{EXACT}\n",
        "sys/fs/cgroup/memory.events": f"low 0\nhigh {EXACT}\nmax {EXACT}\n",
        "sys/class/accel/accel0/device/npu_busy_time_us": f"{EXACT}\n",
        "sys/class/hwmon/hwmon0/oc1_event_cnt": f"{EXACT}\n",
    }
    capture = collect(plant(tmp_path, counters))
    assert set(counters) <= set(capture.files)
    assert [path for path, content in capture.files.items() if EXACT.encode() in content] == []
