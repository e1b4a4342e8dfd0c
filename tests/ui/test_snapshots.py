"""Whole screens as they were last looked at and found right: text, and where which style stands.

`pytest tests/ui --update-snapshots` stores what they show now; look at the difference.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.session.manifest import Load
from tests.support.replays import replayed
from tests.support.screens import opened, pictured
from tests.support.scripts import (
    SENSORS,
    Script,
    hot,
    leaking,
    manifest,
    measured,
    measured_with_power,
    paced,
    scarce,
    sensor,
)

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "snapshots"

SMALL, MEDIUM, LARGE, WIDE, TINY = (80, 24), (120, 40), (160, 50), (200, 60), (50, 12)


def throttled() -> Script:
    """The CPU reaches its trip in the thirtieth second, and everything takes longer."""
    script = Script(weather=hot).load().warm_up().begin().measure(29)
    script.tell("log", "warning", message="[W:onnxruntime:, transformer_memcpy.cc:74] 2 Memcpy nodes are added")
    script.measure(61, rate_hz=80, median_ms=7.2)
    return script.tell("mark", source="user", message="fan on").miss("power", "no power sensor", "modprobe ina2xx")


def limited() -> Script:
    """A board with zones, clocks and limits enough for any screen, two of its clusters throttled after a minute."""
    zones = {"package": 84.1, "bigcore0": 86.2, "bigcore2": 85.9, "littlecore": 81.5, "center": 79.0, "gpu": 77.8}
    clocks = {"cpu0": (1800, 1800), "cpu4": (1608, 2400), "cpu6": (1800, 2400), "gpu": (1000, 1000)}
    devices = {"cpufreq-cpu0": (0, 7), "cpufreq-cpu4": (5, 11), "cpufreq-cpu6": (4, 11), "pwm-fan": (4, 4)}
    trips = {"passive": 85.0, "critical": 115.0}
    sensors = (
        *(sensor(f"temp/{name}-thermal", trips=trips if "core" in name else None) for name in zones),
        sensor("temp/nvme:Composite", trips={"critical": 84.8}),
        *(sensor(f"{kind}/{name}", max=most) for name, (_, most) in clocks.items() for kind in ("freq", "freqcap")),
        *(
            sensor(f"cooling/{number}-{name}", throttles="fan" not in name, max_state=most)
            for number, (name, (_, most)) in enumerate(devices.items())
        ),
        *(sensor(f"throttle/{name}") for name in ("thermal", "under-voltage", "under-voltage-sticky")),
    )

    def weather(second: float) -> dict[str, float]:
        is_hot = second > 60
        return (
            {f"temp/{name}-thermal": celsius - (0 if is_hot else 60 - second) / 2 for name, celsius in zones.items()}
            | {
                f"{kind}/{name}": now if is_hot else most
                for name, (now, most) in clocks.items()
                for kind in ("freq", "freqcap")
            }
            | {f"cooling/{number}-{name}": now * is_hot for number, (name, (now, _)) in enumerate(devices.items())}
            | {"throttle/thermal": is_hot, "throttle/under-voltage": 0, "throttle/under-voltage-sticky": 1}
            | {"temp/nvme:Composite": 44.85}
        )

    board = replace(manifest().board, model="Xunlong Orange Pi 5", cpu="Cortex-A55 + Cortex-A76", cores=8)
    script = Script(manifest(sensors=sensors, board=board), weather).load().warm_up().begin().measure(60)
    return script.measure(35, rate_hz=80, median_ms=7.2)


def bare() -> Script:
    """A board, or a container, without any sensor of heat, clocks or power."""
    sensors = tuple(info for info in SENSORS if info.id.partition("/")[0] in ("mem", "load"))
    script = Script(manifest(sensors=sensors)).load().warm_up().begin().measure(200)
    return script.miss("temperature", "no thermal zone", "").miss("CPU clocks", "no cpufreq", "")


def lost() -> Script:
    return measured(40).lose(*(info.id for info in SENSORS), reason="Input/output error").measure(5)


def profiled() -> Script:
    """The first operators of the run become slower than they were."""
    script = measured(10)
    for burst in range(6):
        script.profile(slower=1.08 + 0.05 * burst).measure(10)
    return script


def simulated() -> Script:
    whole = manifest(board=replace(manifest().board, simulated=True, model="Virtual board"))
    return Script(whole).load().warm_up().begin().measure(200)


def overloaded() -> Script:
    """30 a second are asked for, and 22 are done: the queue grows."""
    load = Load(mode="fixed", rate_hz=30.0, deadline_ns=33_000_000)
    script = Script(manifest(load=load)).load().warm_up().begin().measure(10, rate_hz=30, median_ms=21.0)
    for second in range(30):
        script.measure(1, rate_hz=22, median_ms=45.0, wait_ms=60.0 * second)
    return script


def eventful() -> Script:
    """Events of every severity, some of them longer than a line."""
    script = throttled().lose("temp/gpu-thermal", reason="Input/output error")
    script.tell("alert-began", "warning", "alert", "temp>80C: 86.2 C cpu-thermal", name="temp")
    script.tell("engine-died", "critical", message="SIGKILL, out of memory at 498 MiB. " + "The kernel said so. " * 9)
    return script.end("engine-died")


def stalled() -> Script:
    return measured(30).wait(42)


def died() -> Script:
    script = measured(30).tell("engine-died", "critical", message="SIGKILL, out of memory at 498 MiB")
    return script.end("engine-died")


def long_run() -> Script:
    return Script(step_s=10).load().warm_up().begin().measure(3_700, rate_hz=2)


CASES: dict[str, tuple[tuple[int, int], Callable[[], Script], tuple[str, ...], dict[str, object]]] = {
    "80x24-loading": (SMALL, Script, (), {}),
    "80x24-warming-up": (SMALL, lambda: Script().load().warm_up(37), (), {}),
    "80x24-measuring": (SMALL, lambda: measured(75), (), {}),
    "80x24-frozen": (SMALL, lambda: measured(75), ("space",), {}),
    "80x24-latency": (SMALL, lambda: measured(75), ("1",), {}),
    "80x24-heat": (SMALL, throttled, ("2",), {}),
    "80x24-power": (SMALL, lambda: measured_with_power(75), ("3",), {}),
    "80x24-no-power": (SMALL, throttled, ("3",), {}),
    "80x24-sensors-lost": (SMALL, lost, ("6",), {}),
    "80x24-session": (SMALL, lambda: throttled().end("user"), ("7",), {}),
    "80x24-memory": (SMALL, scarce, ("4",), {}),
    "80x24-memory-line": (SMALL, scarce, (), {}),
    "80x24-hotspots": (SMALL, profiled, ("8",), {}),
    "80x24-hot": (SMALL, throttled, (), {}),
    "80x24-over": (SMALL, lambda: measured(75).end("duration"), (), {"ends": True}),
    "80x24-died": (SMALL, died, (), {"ends": True}),
    "80x24-ascii": (SMALL, throttled, (), {"ascii_only": True, "theme": "dark"}),
    "80x24-reset": (SMALL, lambda: measured(20), ("x",), {}),
    "80x24-help": (SMALL, lambda: measured(75), ("question_mark",), {}),
    "80x24-leave": (SMALL, lambda: measured(75), ("q",), {}),
    "80x24-mark": (SMALL, lambda: measured(75), ("m", *"fan on"), {}),
    "80x24-paced": (SMALL, lambda: paced(60), (), {}),
    "120x40-paced": (MEDIUM, lambda: paced(60, p99="p99>33ms", hot="temp>60C"), (), {}),
    "120x40-measuring": (MEDIUM, lambda: measured(75), (), {}),
    "120x40-power": (MEDIUM, lambda: measured_with_power(75), (), {}),
    "120x40-memory": (MEDIUM, scarce, (), {}),
    "120x40-lost": (MEDIUM, lost, (), {}),
    "120x40-stalled": (MEDIUM, stalled, ("tab",), {}),
    "80x24-limits": (SMALL, limited, (), {}),
    "80x24-limits-heat": (SMALL, limited, ("2",), {}),
    "120x40-limits": (MEDIUM, limited, (), {}),
    "200x60-limits": (WIDE, limited, (), {}),
    "120x40-heat": (MEDIUM, limited, ("2",), {}),
    "120x40-closer": (MEDIUM, throttled, ("z", "left"), {}),
    "120x40-palette": (MEDIUM, lambda: measured(20), ("ctrl+p", *"heat"), {}),
    "200x60-bare": (WIDE, bare, (), {}),
    "160x50-hot": (LARGE, throttled, (), {}),
    "160x50-power": (LARGE, lambda: measured_with_power(200), (), {}),
    "160x50-profiled": (LARGE, profiled, (), {}),
    "160x50-simulated": (LARGE, simulated, (), {}),
    "160x50-ascii": (LARGE, throttled, (), {"ascii_only": True, "theme": "dark"}),
    "200x60-hot": (WIDE, throttled, (), {}),
    "200x60-long-run": (WIDE, long_run, ("w", "w", "w"), {}),
    "120x40-loading": (MEDIUM, Script, (), {}),
    "120x40-events": (MEDIUM, eventful, ("5",), {"ends": True}),
    "120x40-overloaded": (MEDIUM, overloaded, (), {}),
    "80x24-overloaded": (SMALL, overloaded, (), {}),
    "80x24-leaking": (SMALL, leaking, (), {}),
    "200x60-leaking": (WIDE, leaking, ("4",), {}),
    "80x24-simulated": (SMALL, simulated, (), {}),
    "80x24-no-colour": (SMALL, throttled, (), {"theme": "mono"}),
    "200x60-latency": (WIDE, lambda: paced(200), ("1",), {}),
    "200x60-heat": (WIDE, limited, ("2",), {}),
    "200x60-power": (WIDE, lambda: measured_with_power(200), ("3",), {}),
    "120x40-latency": (MEDIUM, throttled, ("1",), {}),
    "120x40-hotspots": (MEDIUM, profiled, ("8", "s"), {}),
    "50x12-measuring": (TINY, lambda: measured(75), (), {}),
    "50x12-latency": (TINY, lambda: measured(75), ("1",), {}),
    "50x12-over": (TINY, lambda: measured(75).end("duration"), (), {"ends": True}),
}


# Of a recording: with it, how many seconds into it.
REPLAYS: dict[str, tuple[tuple[int, int], Callable[[], Script], float, tuple[str, ...], dict[str, object]]] = {
    "80x24-replay": (SMALL, lambda: throttled().end(), 50, (), {}),
    "80x24-replay-help": (SMALL, lambda: throttled().end(), 50, ("question_mark",), {}),
    "80x24-replay-go-to": (SMALL, lambda: throttled().end(), 50, ("space", "g", *"soon", "enter"), {}),
    "80x24-replay-ascii": (SMALL, lambda: throttled().end(), 50, (), {"ascii_only": True, "theme": "dark"}),
    "120x40-replay": (MEDIUM, lambda: throttled().end(), 50, ("space",), {}),
    "200x60-replay": (WIDE, lambda: throttled().end(), 50, ("greater_than_sign", "n", "w", "w", "w"), {}),
    "50x12-replay": (TINY, lambda: throttled().end(), 50, (), {}),
}


def check(shown: str, name: str, request: pytest.FixtureRequest) -> None:
    stored = FOLDER / f"{name}.txt"
    if request.config.getoption("--update-snapshots"):
        stored.write_text(shown, encoding="utf-8")
    assert shown == stored.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
async def test_the_screen_is_as_it_was_found_right(name: str, request: pytest.FixtureRequest) -> None:
    size, script, keys, options = CASES[name]
    async with opened(script(), size, **options) as screen:  # type: ignore[arg-type]
        await screen.press(*keys)
        shown = pictured(screen.app, str(options.get("theme", "dark")))
    check(shown, name, request)


@pytest.mark.parametrize("name", REPLAYS)
async def test_a_replay_is_as_it_was_found_right(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    size, script, from_s, keys, options = REPLAYS[name]
    async with replayed(script(), tmp_path, size, from_s=from_s, **options) as screen:
        await screen.press(*keys)
        shown = pictured(screen.app)
    check(shown, name, request)


def test_no_snapshot_is_left_of_a_screen_that_is_gone() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*CASES, *REPLAYS}
