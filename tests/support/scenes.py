"""Sessions whose screens are worth looking at: a board that throttles, one with little, one whose engine died."""

from dataclasses import replace

from edgetop.session.load_settings import Load
from tests.support.scripts import SENSORS, Script, hot, manifest, measured, sensor


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
