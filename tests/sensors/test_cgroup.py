"""Which cgroup the engine is in, and what it holds: version 1, 2, both, nested, and none."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import cgroup
from edgetop.sensors.cgroup_location import V2 as V2_FILES
from edgetop.sensors.cgroup_location import Group
from edgetop.sensors.counters import WENT_BACK
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Notifying, Reader, Source
from tests.support.trees import plant

PID = 4711
V2_MOUNT = "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "38 32 0:33 / /sys/fs/cgroup/memory rw,nosuid shared:14 - cgroup cgroup rw,memory\n"
HYBRID_MOUNT = V1_MOUNT + "33 32 0:28 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw\n"
OTHER_MOUNTS = "24 30 0:22 / /sys rw - sysfs sysfs rw\n1 1 8:1 / /memory rw - ext4 /dev/memory rw\nnonsense\n"
MIB = 1 << 20

USER = "sys/fs/cgroup/user.slice/user-1000.slice"
SCOPE = f"{USER}/session-3.scope"


def process(cgroups: str, mounts: str) -> dict[str, str]:
    return {f"proc/{PID}/cgroup": cgroups, "proc/self/mountinfo": OTHER_MOUNTS + mounts}


def v2_group(folder: str, current_mib: int, limit: str = "max", oom_kill: int = 0) -> dict[str, str]:
    return {
        f"{folder}/memory.current": f"{current_mib * MIB}\n",
        f"{folder}/memory.peak": f"{current_mib * MIB * 2}\n",
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.events": f"low 0\nhigh 0\nmax 3\noom 1\noom_kill {oom_kill}\noom_group_kill 0\n",
    }


V2 = process("0::/user.slice/user-1000.slice/session-3.scope\n", V2_MOUNT)
V1_FOLDER = "sys/fs/cgroup/memory/docker/abc"
V1_FILES = {
    f"{V1_FOLDER}/memory.usage_in_bytes": "52428800\n",
    f"{V1_FOLDER}/memory.max_usage_in_bytes": "62914560\n",
    f"{V1_FOLDER}/memory.limit_in_bytes": "104857600\n",
    f"{V1_FOLDER}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
}
V1 = {**process("9:name=systemd:/docker/abc\n4:cpuset,memory:/docker/abc\n0::/docker/abc\n", V1_MOUNT), **V1_FILES}
V1_READ = {
    "mem/cgroup": 50.0, "mem/cgroup-peak": 60.0, "mem/cgroup-limit": 100.0, "mem/cgroup-left": 50.0,
}  # fmt: skip


def found_in(tmp_path: Path, *trees: dict[str, str]) -> Found:
    root = plant(tmp_path, {name: content for tree in trees for name, content in tree.items()})
    return cgroup.discover_engine(PID, shares_process=False, root=root)


def only(found: Found) -> Source:
    """All its sources whose sensors a session has from its start on, as one."""
    sources = [each for each in found.sources if not (isinstance(each, Reader) and each.is_latent)]
    infos = tuple(info for each in sources for info in each.sensors)
    return Reader(infos, lambda: [value for each in sources for value in each.read()])


def read(source: Source) -> dict[str, float | Gap]:
    return {info.id: value for info, value in zip(source.sensors, source.read(), strict=True)}


def amounts(source: Source) -> dict[str, float | Gap]:
    return {name: value for name, value in read(source).items() if name.startswith("mem/")}


def test_version_2_without_a_limit_has_none_to_tell(tmp_path: Path) -> None:
    source = only(found_in(tmp_path, V2, v2_group(SCOPE, 100)))
    assert amounts(source) == {"mem/cgroup": 100.0, "mem/cgroup-peak": 200.0}
    assert source.sensors[0].source == f"/{SCOPE}/memory.current"


def test_a_limit_is_told_with_what_is_left(tmp_path: Path) -> None:
    source = only(found_in(tmp_path, V2, v2_group(SCOPE, 100, limit=str(512 * MIB))))
    assert amounts(source)["mem/cgroup-limit"] == 512.0
    assert amounts(source)["mem/cgroup-left"] == 412.0


def test_a_limit_further_up_counts_with_its_other_members(tmp_path: Path) -> None:
    tree = v2_group(SCOPE, 100, limit=str(400 * MIB)) | v2_group(USER, 700, limit=str(750 * MIB))
    source = only(found_in(tmp_path, V2, tree))
    assert amounts(source)["mem/cgroup-limit"] == 400.0
    assert amounts(source)["mem/cgroup-left"] == 50.0


def test_a_group_without_accounting_counts_in_the_one_above(tmp_path: Path) -> None:
    source = only(found_in(tmp_path, V2, v2_group(USER, 700), {f"{SCOPE}/cgroup.procs": f"{PID}\n"}))
    assert amounts(source)["mem/cgroup"] == 700.0
    assert source.sensors[0].source == f"/{USER}/memory.current"


def test_a_limit_that_is_taken_away_is_a_gap(tmp_path: Path) -> None:
    source = only(found_in(tmp_path, V2, v2_group(SCOPE, 100, limit=str(512 * MIB))))
    plant(tmp_path, {f"{SCOPE}/memory.max": "max\n"})
    assert amounts(source)["mem/cgroup-limit"] == amounts(source)["mem/cgroup-left"] == Gap("no limit is set any more")
    assert amounts(source)["mem/cgroup"] == 100.0


def test_more_than_the_limit_leaves_nothing_and_not_less(tmp_path: Path) -> None:
    source = only(found_in(tmp_path, V2, v2_group(SCOPE, 513, limit=str(512 * MIB))))
    assert amounts(source)["mem/cgroup-left"] == 0.0


def test_a_kernel_without_peak_tells_the_rest(tmp_path: Path) -> None:
    tree = v2_group(SCOPE, 100)
    del tree[f"{SCOPE}/memory.peak"]
    assert amounts(only(found_in(tmp_path, V2, tree))) == {"mem/cgroup": 100.0}


def test_kills_are_reported_when_they_happen(tmp_path: Path) -> None:
    at_s = iter((10.0, 12.0))
    plant(tmp_path, v2_group(SCOPE, 100, oom_kill=5))
    source = cgroup.memory_in_use(Root(tmp_path), Group(V2_FILES, (SCOPE,)), lambda: next(at_s))
    assert isinstance(read(source)["rate/oom-kills"], Gap)
    plant(tmp_path, v2_group(SCOPE, 100, oom_kill=6))
    assert read(source)["rate/oom-kills"] == 0.5


def test_version_1_is_read_by_its_own_names(tmp_path: Path) -> None:
    assert amounts(only(found_in(tmp_path, V1))) == V1_READ


@pytest.mark.parametrize("number", ["9223372036854771712", "8796093018112"], ids=["64 bits", "32 bits"])
def test_the_number_by_which_version_1_says_no_limit_is_none(tmp_path: Path, number: str) -> None:
    unlimited = {f"{V1_FOLDER}/memory.limit_in_bytes": f"{number}\n"}
    assert "mem/cgroup-limit" not in amounts(only(found_in(tmp_path, V1, unlimited)))


def test_on_a_hybrid_system_the_accounting_hierarchy_counts(tmp_path: Path) -> None:
    empty = {"sys/fs/cgroup/unified/docker/abc/cgroup.procs": "4711\n"}
    hybrid = process("4:memory:/docker/abc\n0::/docker/abc\n", HYBRID_MOUNT)
    assert amounts(only(found_in(tmp_path, hybrid, V1_FILES, empty))) == V1_READ


def test_on_a_hybrid_system_memory_may_be_in_version_2(tmp_path: Path) -> None:
    hybrid = process("3:cpu:/\n0::/a\n", HYBRID_MOUNT.replace("rw,memory", "rw,cpu"))
    source = only(found_in(tmp_path, hybrid, v2_group("sys/fs/cgroup/unified/a", 10)))
    assert amounts(source)["mem/cgroup"] == 10.0


def test_in_a_container_the_mount_begins_at_its_own_group(tmp_path: Path) -> None:
    mount = V1_MOUNT.replace(" / /sys/fs/cgroup/memory", " /docker/abc /sys/fs/cgroup/memory")
    files = {name.replace("/docker/abc", ""): content for name, content in V1_FILES.items()}
    container = process("4:memory:/docker/abc\n", mount)
    assert amounts(only(found_in(tmp_path, container, files))) == V1_READ


@pytest.mark.parametrize("path", ["/../other", "/system.slice/docker-abd.scope"])
def test_a_group_outside_the_mount_is_missing(tmp_path: Path, path: str) -> None:
    mount = V2_MOUNT.replace(" / /sys/fs/cgroup", " /system.slice/docker-abc.scope /sys/fs/cgroup")
    found = found_in(tmp_path, process(f"0::{path}\n", mount), v2_group("sys/fs/cgroup", 10))
    (missing,) = found.missing
    assert found.sources == ()
    assert "not mounted here" in missing.why


def test_a_blank_in_a_mount_point_is_written_as_an_escape(tmp_path: Path) -> None:
    mount = V2_MOUNT.replace("/sys/fs/cgroup", "/sys/fs/c\\040group")
    source = only(found_in(tmp_path, process("0::/a\n", mount), v2_group("sys/fs/c group/a", 10)))
    assert amounts(source)["mem/cgroup"] == 10.0


def test_memory_cgroups_that_are_off_are_missing_with_a_fix(tmp_path: Path) -> None:
    controllers = {"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io pids\n"}
    (missing,) = found_in(tmp_path, V2, controllers).missing
    assert missing.why == "the kernel's memory cgroups are off"
    assert missing.fix is not None
    assert "cgroup_enable=memory" in missing.fix


def test_no_cgroups_at_all_are_told_the_same(tmp_path: Path) -> None:
    (missing,) = found_in(tmp_path, process("", "")).missing
    assert missing.why == "the kernel's memory cgroups are off"


def test_a_group_without_accounting_is_missing_with_a_fix(tmp_path: Path) -> None:
    (missing,) = found_in(tmp_path, V2, {"sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n"}).missing
    assert missing.fix is not None
    assert "systemd-run" in missing.fix


def test_a_process_that_is_gone_is_missing(tmp_path: Path) -> None:
    (missing,) = cgroup.discover_engine(PID, shares_process=False, root=Root(tmp_path)).missing
    assert missing.why == f"/proc/{PID}/cgroup: No such file or directory"


def test_on_this_machine_it_is_found_or_said_why_not() -> None:
    found = cgroup.discover_engine(os.getpid(), shares_process=True)
    of_memory = [source for source in found.sources if source.name == "cgroup memory"]
    assert bool(of_memory) != bool(found.missing)
    for source in of_memory:
        held = read(source)["mem/cgroup"]
        assert isinstance(held, float)
        assert held > 0


NUMBERS = st.sampled_from(("max", "", "-5", "9" * 400, "²", "oom_kill", "oom_kill -1", "oom_kill 1_0", "\0", "12", "0"))
FILES = st.dictionaries(
    st.sampled_from([f"{folder}/{name}" for folder in (SCOPE, USER) for name in ("memory.current", "memory.peak",
                    "memory.max", "memory.events")]),
    NUMBERS | st.text(max_size=20),
)  # fmt: skip
LINES = st.sampled_from((V2[f"proc/{PID}/cgroup"], "0::/\n", "4:memory:/a\n", ":::::", "0::\0", "0::/a\0b\n"))
MOUNTS = st.sampled_from((V2_MOUNT, V1_MOUNT, HYBRID_MOUNT, V2_MOUNT[:40], V2_MOUNT.replace("cgroup ", "\\000 ")))


@settings(deadline=None, max_examples=60)
@given(files=FILES, later=FILES, lines=LINES | st.text(max_size=30), mounts=MOUNTS | st.text(max_size=60))
def test_no_content_breaks_it_or_makes_up_a_value(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str], later: dict[str, str], lines: str, mounts: str
) -> None:
    tree = tmp_path_factory.mktemp("cgroup")
    found = found_in(tree, files, process(lines, mounts))
    assert all(isinstance(missing, Missing) and missing.why for missing in found.missing)
    plant(tree, later)
    for source in found.sources:
        for values in (read_source(source), read_source(source)):
            if not isinstance(values, Gap):
                assert len(values) == len(source.sensors)
                assert all(isinstance(value, Gap) or value >= 0 for value in values)
                assert isinstance(values[0], Gap) or any(ch.isdigit() for ch in {**files, **later}[_current(source)])


def _current(source: Source) -> str:
    return source.sensors[0].source.lstrip("/")


def counted(source: Source, root: Root, name: str, *contents: str) -> list[float | Gap]:
    """What the source's last sensor reads while a file changes."""
    return [values[-1] for values in read_while(source, root, name, *contents)]


def read_while(source: Source, root: Root, name: str, *contents: str) -> list[tuple[float | Gap, ...]]:
    """What the source reads while a file changes."""
    found = []
    for content in contents:
        Path(root.real(name)).write_text(content)
        found.append(tuple(source.read()))
    return found


V1_CPU_MOUNT = "39 32 0:34 / /sys/fs/cgroup/cpu rw,nosuid shared:14 - cgroup cgroup rw,cpu\n"
QUOTAS = {
    "version 2, set above": (
        process("0::/a/b\n", V2_MOUNT),
        {"sys/fs/cgroup/a/b/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n"},
        "sys/fs/cgroup/a/cpu.stat",
    ),
    "version 1": (
        process("1:cpu:/c\n0::/\n", V1_CPU_MOUNT),
        {"sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"},
        "sys/fs/cgroup/cpu/c/cpu.stat",
    ),
}


@pytest.mark.parametrize("case", QUOTAS)
def test_a_quota_tells_in_how_many_periods_it_was_used_up(case: str, tmp_path: Path) -> None:
    about, files, stat = QUOTAS[case]
    root = plant(tmp_path, {**about, **files, stat: ""})
    (quota,) = cgroup.discover_engine(PID, shares_process=False, root=root).sources
    assert [info.id for info in quota.sensors] == ["pressure/cpu-quota", "rate/cpu-throttled"]
    stats = [f"nr_periods {n}\nnr_throttled {m}\n" for n, m in ((100, 10), (110, 16), (110, 16), (130, 16), (140, 26))]
    first, *shares = (share for share, _ in read_while(quota, root, stat, *stats))
    assert isinstance(first, Gap)
    assert shares == [60.0, 0.0, 0.0, 100.0]
    assert isinstance(quota, Notifying)
    assert [event.body.kind for event in quota.take_events()] == ["cpu-quota"]  # once, until it was quiet for long
    assert quota.take_events() == ()


@pytest.mark.parametrize(("field", "unit"), [("throttled_usec", 1_000), ("throttled_time", 1_000_000)])
def test_a_quota_tells_for_how_long_it_stopped_the_engine(field: str, unit: int, tmp_path: Path) -> None:
    clock = iter(range(100))
    root = plant(tmp_path, {"a/cpu.stat": ""})
    source = cgroup.cpu_quota(root, ["a"], lambda: 2.0 * next(clock))
    first, *stalls = counted(source, root, "a/cpu.stat", *(f"{field} {ms * unit}\n" for ms in (500, 500, 1500)))
    assert isinstance(first, Gap)
    assert stalls == [0.0, 500.0]


IMPOSSIBLE_QUOTAS = {
    "more periods than the shortest allow": ((10, 0), (10**9, 0), "leapt"),
    "waited more often than there were periods": ((10, 0), (20, 5000), "impossible"),
    "went back": ((10, 5), (20, 4), "back"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE_QUOTAS)
def test_counts_of_a_quota_that_cannot_be_right_are_a_gap(case: str, tmp_path: Path) -> None:
    before, after, why = IMPOSSIBLE_QUOTAS[case]
    clock = iter(range(100))
    root = plant(tmp_path, {"a/cpu.stat": ""})
    source = cgroup.cpu_quota(root, ["a"], lambda: float(next(clock)))
    texts = (f"nr_periods {n}\nnr_throttled {m}\n" for n, m in (before, after))
    _, share = (value for value, _ in read_while(source, root, "a/cpu.stat", *texts))
    assert isinstance(share, Gap)
    assert why in share.reason


def test_a_count_of_hits_that_leaps_is_a_gap_and_no_event(tmp_path: Path) -> None:
    clock = iter(range(100))
    root = plant(tmp_path, {**V2, **v2_group(SCOPE, 50, limit=str(60 * MIB))})
    source = cgroup.memory_limit(root, Group(V2_FILES, (SCOPE,)), lambda: float(next(clock)))
    values = counted(source, root, f"{SCOPE}/memory.events", *(f"oom_kill 0\nmax {hits}\n" for hits in (3, 2**63)))
    assert isinstance(values[1], Gap)
    assert source.take_events() == ()


def test_of_several_quotas_the_one_that_stops_the_engine_counts(tmp_path: Path) -> None:
    """A service of its own in a container: only the container's quota is used up."""
    stat = "nr_periods 10\nnr_throttled 0\n"
    files = {"sys/fs/cgroup/a/b/cpu.max": "90000 100000\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n"}
    files |= {"sys/fs/cgroup/a/b/cpu.stat": stat, "sys/fs/cgroup/a/cpu.stat": stat}
    root = plant(tmp_path, {**process("0::/a/b\n", V2_MOUNT), **files})
    (quota,) = cgroup.discover_engine(PID, shares_process=False, root=root).sources
    quota.read()
    Path(root.real("sys/fs/cgroup/a/b/cpu.stat")).write_text("nr_periods 20\nnr_throttled 0\n")
    Path(root.real("sys/fs/cgroup/a/cpu.stat")).write_text("nr_periods 20\nnr_throttled 5\n")
    assert next(iter(quota.read())) == 50.0


@pytest.mark.parametrize(
    ("inner", "outer", "share"),
    [
        ("nr_periods 20\nnr_throttled 0\n", "nr_periods 5\nnr_throttled 0\n", WENT_BACK),
        ("nr_periods 20\nnr_throttled 5\n", "nr_periods 5\nnr_throttled 0\n", 50.0),
        ("nr_periods 20\nnr_throttled 0\n", None, Gap("No such file or directory")),
        ("nr_periods 20\nnr_throttled 5\n", None, 50.0),
    ],
)
def test_a_group_that_cannot_be_read_is_no_0(inner: str, outer: str | None, share: float | Gap, tmp_path: Path) -> None:
    stat = "nr_periods 10\nnr_throttled 0\n"
    files = {"sys/fs/cgroup/a/cpu.max": "50000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}
    files |= {"sys/fs/cgroup/a/b/cpu.stat": stat, "sys/fs/cgroup/a/cpu.stat": stat}
    root = plant(tmp_path, {**process("0::/a/b\n", V2_MOUNT), **files})
    (quota,) = cgroup.discover_engine(PID, shares_process=False, root=root).sources
    quota.read()
    Path(root.real("sys/fs/cgroup/a/b/cpu.stat")).write_text(inner)
    whole = Path(root.real("sys/fs/cgroup/a/cpu.stat"))
    whole.unlink() if outer is None else whole.write_text(outer)
    assert next(iter(quota.read())) == share


LATER = {
    "version 2": (
        process("0::/a\n", V2_MOUNT), {"sys/fs/cgroup/a/cpu.max": "max 100000\n"}, "sys/fs/cgroup/a/cpu.stat"
    ),
    "version 2, whose controller is enabled with it": (
        process("0::/a\n", V2_MOUNT), {"sys/fs/cgroup/a/cgroup.type": "domain\n"}, "sys/fs/cgroup/a/cpu.stat"
    ),
    "version 1": (
        process("1:cpu:/c\n0::/\n", V1_CPU_MOUNT),
        {"sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "-1\n"},
        "sys/fs/cgroup/cpu/c/cpu.stat",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LATER)
def test_a_quota_that_is_set_later_is_told_from_its_first_stop_on(case: str, tmp_path: Path) -> None:
    about, files, stat = LATER[case]
    root = plant(tmp_path, {**about, **files, stat: ""})
    (quota,) = cgroup.discover_engine(PID, shares_process=False, root=root).sources
    assert isinstance(quota, Reader)
    assert quota.is_latent
    counts = "usage_usec 9\n", "usage_usec 9\n", "nr_periods 9\nnr_throttled 5\nthrottled_usec 8\n"
    first, unlimited, stopped = read_while(quota, root, stat, *counts)
    assert all(isinstance(value, Gap) for value in first)
    assert unlimited == (0.0, 0.0)
    assert stopped[0] == pytest.approx(500 / 9)


def test_the_root_of_version_2_has_no_quota(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/cpu.stat": "usage_usec 7\n"}
    assert found_in(tmp_path, process("0::/\n", V2_MOUNT), files).sources == ()


def test_the_cgroup_of_a_container_is_found_from_outside(tmp_path: Path) -> None:
    """Its own list of mounts shows where it is in the container."""
    inside = {f"proc/{PID}/mountinfo": V2_MOUNT.replace(" / /sys", " /docker/abc /sys")}
    files = {"sys/fs/cgroup/docker/abc/cpu.max": "50000 100000\n", "sys/fs/cgroup/docker/abc/cpu.stat": ""}
    quota = only(found_in(tmp_path, process("0::/docker/abc\n", V2_MOUNT), inside, files))
    assert quota.sensors[0].source == "/sys/fs/cgroup/docker/abc/cpu.stat"


def test_how_often_the_limit_is_met_is_told(tmp_path: Path) -> None:
    clock = iter(range(100))
    root = plant(tmp_path, {**V2, **v2_group(SCOPE, 50, limit=str(60 * MIB))})
    source = cgroup.memory_limit(root, Group(V2_FILES, (SCOPE,)), lambda: float(next(clock)))
    assert source.sensors[-1].id == "rate/memory-limit-hits"
    events = f"{SCOPE}/memory.events"
    values = counted(source, root, events, *(f"oom_kill 0\nmax {hits}\n" for hits in (3, 3, 43)))
    assert isinstance(values[0], Gap)
    assert values[1:] == [0.0, 40.0]
    assert isinstance(source, Notifying)
    assert [event.body.kind for event in source.take_events()] == ["memory-limit"]


def test_memory_high_below_the_maximum_is_the_limit(tmp_path: Path) -> None:
    files = {**V2, **v2_group(SCOPE, 50, limit=str(80 * MIB)), f"{SCOPE}/memory.high": f"{60 * MIB}\n"}
    root = plant(tmp_path, files)
    clock = iter(range(100))
    source = cgroup.memory_limit(root, Group(V2_FILES, (SCOPE,)), lambda: float(next(clock)))
    read = dict(zip((info.id for info in source.sensors), source.read(), strict=True))
    assert (read["mem/cgroup-limit"], read["mem/cgroup-left"]) == (60.0, 10.0)
    limit = next(info for info in source.sensors if info.id == "mem/cgroup-limit")
    assert limit.source.endswith("memory.high")
    values = counted(source, root, f"{SCOPE}/memory.events", *(f"high {n}\nmax 1\noom_kill 0\n" for n in (2, 2, 42)))
    assert values[1:] == [0.0, 40.0]
    (event,) = source.take_events()
    assert event.message.startswith("memory.high is exceeded")


def test_memory_high_without_a_maximum_is_a_limit_whose_hits_are_its_own(tmp_path: Path) -> None:
    """On a level above, as systemd's MemoryHigh= of a slice, whose neighbours' hits do not count."""
    above = SCOPE.rpartition("/")[0]
    files = {**V2, **v2_group(SCOPE, 50), **v2_group(above, 90), f"{above}/memory.high": f"{100 * MIB}\n"}
    files |= {
        f"{above}/memory.events.local": "high 5\nmax 0\n",
        f"{above}/memory.events": "high 9\nmax 7\noom_kill 0\n",
    }
    root = plant(tmp_path, files)
    clock = iter(range(100))
    group = Group(V2_FILES, (SCOPE, above))
    limit, high = (make(root, group, lambda: float(next(clock))) for make in (cgroup.memory_limit, cgroup.memory_high))
    assert [info.id for info in high.sensors] == ["rate/memory-high-hits"]
    assert list(limit.read())[:2] == [100.0, 10.0]
    high.read()
    plant(tmp_path, {f"{above}/memory.events.local": "high 9\nmax 2\n"})
    assert list(limit.read())[2:] == [3.0]  # two seconds pass from read to read
    assert high.read() == [2.0]


# What the engine's cgroups have, before and after it is moved; what is read then, with the limit of the memory in MiB.
STAT = "nr_periods 10\nnr_throttled 5\nthrottled_usec 9\n"
V2_MOVE = {
    **v2_group("sys/fs/cgroup/a", 100),
    **v2_group("sys/fs/cgroup/b", 40, limit=str(64 * MIB)),
    "sys/fs/cgroup/a/cpu.max": "max 100000\n", "sys/fs/cgroup/b/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/a/cpu.stat": STAT, "sys/fs/cgroup/b/cpu.stat": STAT,
}  # fmt: skip
V1_MEMORY, V1_CPU = "sys/fs/cgroup/memory", "sys/fs/cgroup/cpu"
V1_MOVE = {
    **{f"{V1_MEMORY}/{name}/memory.usage_in_bytes": f"{mib * MIB}\n" for name, mib in (("a", 100), ("b", 40))},
    **{f"{V1_MEMORY}/{name}/memory.max_usage_in_bytes": f"{2 * mib * MIB}\n" for name, mib in (("a", 100), ("b", 40))},
    **{f"{V1_MEMORY}/{name}/memory.oom_control": "oom_kill 0\n" for name in "ab"},
    **{f"{V1_MEMORY}/{name}/memory.failcnt": "0\n" for name in "ab"},
    f"{V1_MEMORY}/a/memory.limit_in_bytes": "9223372036854771712\n",
    f"{V1_MEMORY}/b/memory.limit_in_bytes": f"{64 * MIB}\n",
    f"{V1_CPU}/a/cpu.cfs_quota_us": "-1\n", f"{V1_CPU}/b/cpu.cfs_quota_us": "50000\n",
    f"{V1_CPU}/a/cpu.stat": STAT, f"{V1_CPU}/b/cpu.stat": STAT,
}  # fmt: skip
MOVES = {
    "version 2": ("0::/{}\n", V2_MOUNT, V2_MOVE),
    "version 1": ("4:memory:/{0}\n1:cpu:/{0}\n0::/\n", V1_MOUNT + V1_CPU_MOUNT, V1_MOVE),
}
RUNNING, ENDING = (f"{PID} (python) {state} 1 1 1 0 -1 {flags} 0 0\n" for state, flags in (("R", 0x400000), ("Z", 0x4)))


def watched(tmp_path: Path, case: str) -> tuple[Found, list[float], str]:
    """What is found of an engine in the cgroup `a`, the clock, and the text of its file `cgroup` with a gap for it."""
    line, mounts, files = MOVES[case]
    clock = [0.0]
    root = plant(tmp_path, {**process(line.format("a"), mounts), **files, f"proc/{PID}/stat": RUNNING})
    return cgroup.discover_engine(PID, shares_process=False, root=root, now=lambda: clock[0]), clock, line


def held_by(found: Found) -> dict[str, float | Gap]:
    return {name: value for source in found.sources for name, value in read(source).items()}


@pytest.mark.parametrize("case", MOVES)
def test_an_engine_that_is_moved_is_followed_there_and_back(case: str, tmp_path: Path) -> None:
    found, clock, line = watched(tmp_path, case)
    assert held_by(found)["mem/cgroup"] == 100.0
    assert "mem/cgroup-limit" not in held_by(found)
    (watch,) = found.watches
    plant(tmp_path, {f"proc/{PID}/cgroup": line.format("b")})
    clock[0] = 4.9
    assert watch() is None
    clock[0] = 5.0
    there = watch()
    assert there is not None
    assert there.event is not None
    assert there.event.message == "the engine was moved to another cgroup: from /a to /b"
    held = held_by(there.found)
    assert {name: held[name] for name in ("mem/cgroup", "mem/cgroup-peak", "mem/cgroup-limit", "mem/cgroup-left")} == {
        "mem/cgroup": 40.0, "mem/cgroup-peak": 80.0, "mem/cgroup-limit": 64.0, "mem/cgroup-left": 24.0
    }  # fmt: skip
    (quota,) = (source for source in there.found.sources if source.name == "cgroup CPU quota")
    assert isinstance(quota, Reader)
    assert not quota.is_latent
    assert "b/cpu.stat" in quota.sensors[0].source
    clock[0] = 20.0
    assert watch() is None
    plant(tmp_path, {f"proc/{PID}/cgroup": line.format("a")})
    clock[0] = 25.0
    back = watch()
    assert back is not None
    before, after = ({source.sensors[0].id for source in each.found.sources} for each in (there, back))
    assert before == after
    assert held_by(back.found)["mem/cgroup"] == 100.0
    assert held_by(back.found)["mem/cgroup-limit"] == Gap("no limit is set any more")


def test_where_no_cgroup_can_be_read_a_quota_is_unknown(tmp_path: Path) -> None:
    found, clock, line = watched(tmp_path, "version 2")
    (watch,) = found.watches
    plant(tmp_path, {f"proc/{PID}/cgroup": line.format("b")})
    clock[0] = 5.0
    assert watch() is not None
    plant(tmp_path, {f"proc/{PID}/cgroup": "0::/../elsewhere\n"})
    clock[0] = 10.0
    away = watch()
    assert away is not None
    held = held_by(away.found)
    assert set(map(type, held.values())) == {Gap}
    assert "pressure/cpu-quota" in held


@pytest.mark.parametrize("case", MOVES)
def test_an_engine_that_ends_is_moved_nowhere(case: str, tmp_path: Path) -> None:
    """Version 1 shows a process that ends in the root of the hierarchy."""
    found, clock, line = watched(tmp_path, case)
    (watch,) = found.watches
    for stat in (ENDING, "", f"{PID} (python) R\n"):
        plant(tmp_path, {f"proc/{PID}/cgroup": line.format(""), f"proc/{PID}/stat": stat})
        clock[0] += 10.0
        assert watch() is None
    (tmp_path / f"proc/{PID}/cgroup").unlink()
    clock[0] += 10.0
    assert watch() is None


def test_a_group_that_counts_less_leaves_gaps_and_a_group_elsewhere_says_so(tmp_path: Path) -> None:
    found, clock, _ = watched(tmp_path, "version 2")
    (watch,) = found.watches
    plant(tmp_path, {f"proc/{PID}/cgroup": "0::/c\n", "sys/fs/cgroup/c/memory.current": f"{7 * MIB}\n"})
    clock[0] += 5.0
    less = watch()
    assert less is not None
    held = held_by(less.found)
    assert held["mem/cgroup"] == 7.0
    assert held["mem/cgroup-peak"] == held["rate/oom-kills"] == cgroup.NOT_COUNTED
    assert held["pressure/cpu-quota"] == held["rate/cpu-throttled"] == 0.0
    plant(tmp_path, {f"proc/{PID}/cgroup": "0::/../out\n"})
    clock[0] += 5.0
    out = watch()
    assert out is not None
    assert held_by(out.found)["mem/cgroup"] == Gap("the engine's cgroup /../out is not mounted here")


@pytest.mark.parametrize(
    ("file", "more"),
    [("memory.max", set()), ("memory.high", {"rate/memory-high-hits"})],
)
def test_a_memory_limit_that_is_set_later_has_its_sensors(file: str, more: set[str], tmp_path: Path) -> None:
    found, clock, _ = watched(tmp_path, "version 2")
    limit = {"mem/cgroup-limit", "mem/cgroup-left", "rate/memory-limit-hits"}
    assert {*found.unset} == {*limit, "rate/memory-high-hits", "pressure/cpu-quota", "rate/cpu-throttled"}
    (watch,) = found.watches
    clock[0] = 5.0
    assert watch() is None
    plant(tmp_path, {f"sys/fs/cgroup/a/{file}": f"{128 * MIB}\n"})
    clock[0] = 10.0
    change = watch()
    assert change is not None
    assert change.event is None
    ids = {info.id for source in change.found.sources for info in source.sensors}
    assert ids >= limit | more
    assert ("rate/memory-high-hits" in ids) == bool(more)
    assert held_by(change.found)["mem/cgroup-left"] == 28.0
    clock[0] = 15.0
    assert watch() is None


def test_where_no_limit_can_be_seen_none_is_said_to_be_unset(tmp_path: Path) -> None:
    assert found_in(tmp_path, process("0::/../out\n", V2_MOUNT)).unset == ()
    root = found_in(tmp_path, process("0::/\n", V2_MOUNT), {"sys/fs/cgroup/cpu.stat": "usage_usec 7\n"})
    assert root.unset == ("pressure/cpu-quota", "rate/cpu-throttled")
