"""The boards: each with the sensors, limits and habits of a real one."""

from collections.abc import Callable

import numpy as np

from tests.support.generator.boards import Board, add_load, add_scheduling, bursts, clock_values, temperature


def raspberry_pi_4(board: Board) -> None:
    """The firmware limits; Linux sees full clocks. No PSI as a rule, flags every 2 s, sticky bits from before."""
    world = board.world
    heat, volts = np.maximum(world.of("thermal"), world.extra["flag"]), world.of("under-voltage")
    add_load(board)
    add_scheduling(board, psi=0.8, waits=0.4)
    full = np.full_like(world.t_s, 1.0)
    asked = 1 - (1 - world.clock) * (world.of("clock-change") > 0)
    board.source(
        ("freq/cpu0", clock_values(board, 1800, idles=board.idles, clock=asked), {"max": 1800.0}),
        ("freqcap/cpu0", clock_values(board, 1800, idles=False, clock=full), {"max": 1800.0}),
    )
    board.source(
        ("freq/arm", clock_values(board, 1800, idles=board.idles), {"max": 1800.0}), cadence_s=2.0, lacking=0.3
    )
    board.source(("temp/cpu-thermal", board.sampled(temperature(board, 83, 66), 0.3), {"trips": {"critical": 110.0}}))
    before = np.full_like(world.t_s, float(board.random.random() < 0.4))
    now = {"under-voltage": volts, "freq-capped": np.maximum(heat, volts), "throttled": np.maximum(heat, volts)}
    flags = [(f"throttle/{name}", board.lately((g > 0.05).astype(float), 2.0), {}) for name, g in now.items()]
    sticky = [
        (f"throttle/{name}-sticky", board.sampled(np.maximum(before, np.maximum.accumulate(g > 0.05))), {})
        for name, g in now.items()
    ]
    thermal = ("throttle/thermal", board.lately((heat > 0.05).astype(float), 2.0), {})
    board.source(*flags, *sticky, thermal, cadence_s=2.0, lacking=0.1)


def raspberry_pi_5(board: Board) -> None:
    world = board.world
    raspberry_pi_4(board)
    fan = temperature(board, 80, 62)
    board.source(
        ("cooling/0-pwm-fan", board.sampled(np.clip((fan - 50) // 7, 0, 4)), {"throttles": False, "max_state": 4})
    )
    board.source(("fan/pwmfan", board.sampled(1500 + 40 * fan, 50), {}))
    supply = np.where(world.of("under-voltage") > 0, 4.55, 5.02 - 0.2 * (board.random.random() < 0.3))
    board.source(("volt/EXT5V", board.sampled(supply, 0.015), {}), cadence_s=2.0, lacking=0.3)


def jetson_orin(board: Board) -> None:
    """Passive trips at 99 °C; a hot surface alerts far below; over-current events that no clock shows."""
    world = board.world
    heat, modes = world.of("thermal"), world.of("power-cap", "mode")
    add_load(board)
    add_scheduling(board, psi=0.2, waits=0.4)
    cap = np.where(modes > 0, world.slows("power-cap") ** (-1 / world.beta), 1.0)
    user = np.where(world.of("clock-change") > 0, world.slows("clock-change") ** (-1 / world.beta), 1.0)
    idles = board.idles
    for label, mhz in (("cpu0", 1728.0), ("cpu4", 1728.0)):
        board.source(
            (f"freq/{label}", clock_values(board, mhz, idles=idles), {"max": mhz}),
            (f"freqcap/{label}", clock_values(board, mhz, idles=False, clock=cap * user), {"max": mhz}),
        )
    board.source(
        (
            "freq/gpu",
            clock_values(board, 1020, idles=False, clock=cap * (1 - 0.4 * (world.extra["clock"] > 0))),
            {"max": 1020.0},
        ),
        ("freqcap/gpu", clock_values(board, 1020, idles=False, clock=cap), {"max": 1020.0}),
    )
    usual = float(board.random.choice([58, 72, 94]))
    trips = {"trips": {"passive": 99.0, "critical": 104.5}}
    for label, off in (("cpu-thermal", 0.0), ("gpu-thermal", -2.5), ("tj-thermal", -0.2)):
        board.source((f"temp/{label}", board.sampled(temperature(board, 99.2 + off, usual + off), 0.2), trips))
    throttling = [
        (f"cooling/{n}-{name}", board.sampled(np.ceil(states * heat)), {"throttles": True, "max_state": states})
        for n, (name, states) in enumerate((("cpufreq-cpu0", 28), ("cpu-throttle-alert", 1)))
    ]
    others = [
        ("cooling/7-hot-surface-alert", board.flag(bursts(board, 8, 6, 2)), {"throttles": False, "max_state": 1}),
        ("cooling/8-pwm-fan", board.sampled(np.full_like(heat, 3.0)), {"throttles": False, "max_state": 10}),
    ]
    board.source(*throttling, *others, ("throttle/thermal", board.flag((heat > 0.01).astype(float)), {}))
    halved = 100 * (world.slows("power-cap") - 1) * (world.of("power-cap", "over-current") > 0)
    calm = board.random.choice([0.0, 0.3])  # percent of the time, as the largest mode has always
    share = np.minimum(halved + calm, 100)
    board.source(
        ("rate/over-current-events", board.positive(10 * share, 0.5), {}),
        ("pressure/over-current", board.positive(share, 0.05), {}),
        ("throttle/over-current", board.flag((share >= 1).astype(float)), {}),
        ("throttle/under-voltage", board.lately(world.of("under-voltage"), 2.0), {}),
        cadence_s=2.0,
    )
    drawn = 9 * world.clock**2 * board.load_pct / 100 + 4
    board.source(("power/VDD_IN", board.positive(drawn, 0.2), {"role": "total"}), lacking=0.2)
    low = np.where(world.of("under-voltage") > 0, 4.4, 5.0)
    board.source(("volt/VDD_IN", board.sampled(low, 0.02), {}), lacking=0.2)


def rk3588(board: Board) -> None:
    world = board.world
    heat = np.maximum(world.of("thermal"), 0.2 * world.extra["flag"])
    add_load(board)
    add_scheduling(board, psi=0.4, waits=0.4)
    user = np.where(world.of("clock-change") > 0, world.slows("clock-change") ** (-1 / world.beta), 1.0)
    for label, mhz in (("cpu0", 1800.0), ("cpu4", 2400.0), ("cpu6", 2400.0)):
        little = np.ones_like(heat) if label == "cpu0" else None
        board.source(
            (f"freq/{label}", clock_values(board, mhz, idles=label == "cpu0", clock=little), {"max": mhz}),
            (f"freqcap/{label}", clock_values(board, mhz, idles=False, clock=user), {"max": mhz}),
        )
    usual = float(board.random.choice([55, 70, 82]))
    for label in ("bigcore0-thermal", "soc-thermal"):
        trips = {"trips": {"passive": 85.0, "critical": 115.0}} if "big" in label else {"trips": {"critical": 115.0}}
        board.source((f"temp/{label}", board.sampled(temperature(board, 85.3, usual), 0.3), trips))
    states = ("cooling/1-thermal-cpufreq-1", board.sampled(np.ceil(6 * heat)), {"throttles": True, "max_state": 8})
    flag = ("throttle/thermal", board.flag((heat > 0.01).astype(float)), {})
    board.source(states, flag, lacking=0.4)


def laptop(board: Board) -> None:
    """Eight clocks that idle and wander, counters of throttling, a flag of the power limit."""
    world = board.world
    heat, power = np.maximum(world.of("thermal"), 0.2 * world.extra["flag"]), world.of("power-cap")
    add_load(board)
    add_scheduling(board, psi=0.1, waits=0.3)
    turbo = 1 - 0.05 * (world.of("contention") > 0)  # more busy cores, less turbo
    for cpu in range(8):
        values = clock_values(board, 3800, idles=cpu > 0, clock=world.clock * turbo, noise=0.02)
        user = np.where(world.of("clock-change") > 0, world.clock, 1.0)
        board.source(
            (f"freq/cpu{cpu}", values, {"max": 4200.0}),
            (f"freqcap/cpu{cpu}", clock_values(board, 4200, idles=False, clock=user), {"max": 4200.0}),
        )
    board.source(("temp/x86_pkg_temp", board.sampled(temperature(board, 97, 78), 1.5), {}))
    before = np.full_like(heat, float(board.random.random() < 0.5))
    events = np.where(heat > 0, 8.0, 0.0)
    board.source(
        ("throttle/thermal", board.lately((heat > 0.01).astype(float), 1.0), {}),
        ("throttle/thermal-sticky", board.sampled(np.maximum(before, np.maximum.accumulate(heat > 0))), {}),
        ("rate/thermal-events", board.positive(events, 0.0), {}),
        ("rate/core-thermal-events", board.positive(events * 2, 0.0), {}),
    )
    board.source(("throttle/power-limit", board.flag((power > 0.01).astype(float)), {}))
    drawn = 40 * world.clock**2
    board.source(("power/package-0", board.positive(drawn, 0.5), {"role": "total"}), lacking=0.3)


def virtual_machine(board: Board) -> None:
    add_load(board)
    add_scheduling(board, psi=0.0, waits=0.3)


Kind = Callable[[Board], None]

# Which causes a board can be slowed by, and the sensors without which nobody could tell.
BOARDS: dict[str, tuple[Kind, int, dict[str, tuple[str, ...]]]] = {
    "raspberry-pi-4": (raspberry_pi_4, 4, {
        "thermal": ("throttle/thermal",), "under-voltage": ("throttle/under-voltage",),
        "contention": ("load/cpu", "load/engine", "load/edgetop"), "memory-pressure": ("rate/major-faults",),
        "clock-change": ("freq/arm",), "unknown": (),
    }),
    "raspberry-pi-5": (raspberry_pi_5, 4, {
        "thermal": ("throttle/thermal",), "under-voltage": ("throttle/under-voltage",),
        "contention": ("load/cpu", "load/engine", "load/edgetop"), "memory-pressure": ("rate/major-faults",),
        "unknown": (),
    }),
    "jetson-orin": (jetson_orin, 6, {
        "thermal": (), "power-cap": (), "under-voltage": (), "contention": ("pressure/cpu-some",),
        "memory-pressure": ("rate/major-faults",), "clock-change": (), "unknown": (),
    }),
    "rk3588": (rk3588, 8, {
        "thermal": (), "contention": ("rate/run-queue-wait",), "memory-pressure": ("pressure/memory-some",),
        "clock-change": (), "unknown": (),
    }),
    "laptop": (laptop, 8, {
        "thermal": (), "power-cap": (), "contention": ("pressure/cpu-some",),
        "memory-pressure": ("rate/major-faults",), "clock-change": (), "unknown": (),
    }),
    "virtual-machine": (virtual_machine, 2, {
        "contention": ("load/steal", "load/cpu"), "memory-pressure": ("rate/major-faults",), "unknown": (),
    }),
}  # fmt: skip
