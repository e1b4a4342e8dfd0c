"""Memory: what the engine holds, and what the board has left."""

from dataclasses import replace

from edgetop.ui.panes.memory_pane import MEMORY, has_chart
from tests.support.screens import area, plain, view_of
from tests.support.scripts import SCARCE_MEMORY, SENSORS, Script, manifest, measured, scarce, sensor


def rows(script: Script, width: int = 60, height: int = 8) -> list[str]:
    return [plain(line) for line in MEMORY.body(view_of(script), area(width, height))]


def test_each_figure_stands_with_what_it_means() -> None:
    table = rows(measured(50), height=4)
    assert [row.split()[0] for row in table] == ["engine", "peak", "PSS", "system"]
    assert table[0].split() == ["engine", "RSS", "108.5"]
    assert table[2].split() == ["PSS", "100.5", "USS", "99.5,", "swapped", "out", "0.0"]
    assert table[3].split() == ["system", "left", "6.1", "GiB", "of", "8.0", "GiB"]


def test_what_decides_stands_first() -> None:
    table = rows(scarce(), 60, 12)
    assert [" ".join(row.split()) for row in table[:6]] == [
        "engine RSS 104.9 anon 84.2, file 24.3",
        "peak 106.4",
        "PSS 96.9 USS 95.9, swapped out 0.0",
        "GPU part 740.4 not part of RSS",
        "cgroup 498.2 13.8 below its limit of 512.0",
        "system left 6.1 GiB of 8.0 GiB",
    ]
    assert " ".join(table[6].split()) == "per second swap in 812.0, out 0.0, major faults 41.0"


def test_the_stages_take_as_many_lines_as_they_need() -> None:
    wide = rows(scarce(), 90, 8)
    assert " ".join(wide[7].split()) == "by stage start 26.4, runtime 45.7, model 88.2, first run 96.1, steady 96.5"
    narrow = rows(scarce(), 60, 9)
    assert [" ".join(row.split()) for row in narrow[7:]] == [
        "by stage start 26.4, runtime 45.7, model 88.2",
        "first run 96.1, steady 96.5",
    ]


def pressed() -> Script:
    """A board whose memory another program fills after a minute, while the engine's stays as it is."""

    def readings(second: float) -> dict[str, float]:
        return {"mem/rss": 100.0, "mem/system-available": 3000.0 if second < 70 else 80.0}

    infos = tuple(map(sensor, ("mem/rss", "mem/system-available")))
    board = replace(manifest().board, memory_bytes=4 * 2**30)
    return Script(manifest(sensors=infos, board=board), readings).load().warm_up().begin().measure(60)


def test_memory_that_others_fill_is_a_chart_of_what_is_left() -> None:
    assert not has_chart(view_of(pressed()))
    view = view_of(pressed().measure(70))
    assert has_chart(view)
    assert MEMORY.title(view, area(60, 8)) == "80.0 MiB left in system, shown below; engine 100.0"
    chart = [plain(line) for line in MEMORY.body(view, replace(area(60, 8), is_stacked=True))]
    assert chart[0].split()[0] == "3000"
    assert chart[-1].split()[0] == "0"


def test_a_gpu_without_known_parts_is_shown_as_a_whole() -> None:
    whole = {"mem/rss": 100.0, "mem/system-accelerator": 740.4}
    script = Script(manifest(sensors=tuple(map(sensor, whole))), lambda _: whole).load().measure(3)
    table = rows(script)
    assert " ".join(table[3].split()) == "GPU, all 740.4 of all processes, not part of RSS"
    assert plain(MEMORY.line(view_of(script), area(80, 1))).startswith("memory   engine 100.0 MiB, GPU of all 740.4")


def test_a_cgroup_without_a_limit_says_so() -> None:
    held = {"mem/cgroup": 100.0}
    script = Script(manifest(sensors=tuple(map(sensor, held))), lambda _: held).load().measure(3)
    assert " ".join(rows(script)[3].split()) == "cgroup 100.0 no limit"


def styles(script: Script, word: str) -> set[str]:
    lines = MEMORY.body(view_of(script), area(60, 12))
    return {span.style for line in lines for span in line if word in span.text}


def test_what_is_nearly_used_up_is_a_warning_and_so_is_traffic() -> None:
    assert styles(scarce(), "13.8 below") == {"warning"}
    assert styles(scarce(), "swap in") == styles(scarce(), "major faults") == {"warning"}
    assert "warning" not in styles(scarce(), "out 0.0")
    assert styles(measured(20), "6.1 GiB") == {"text"}


def test_a_board_with_little_left_is_a_warning() -> None:
    script = Script(manifest(), lambda _: {"mem/system-available": 700.0}).load().measure(3)
    assert styles(script, "700.0") == {"warning"}


def test_the_swap_in_use_stands_below_what_the_board_has_left() -> None:
    held = {"mem/rss": 104.9, "mem/system-available": 6204.2, "mem/system-swap": 86.0}
    script = Script(manifest(sensors=tuple(map(sensor, held))), lambda _: held).load().measure(3)
    shown = [row.split() for row in rows(script, 50)]
    (place,) = (i for i, row in enumerate(shown) if row[:2] == ["system", "left"])
    assert shown[place + 1] == ["swap", "in", "use", "86.0", "by", "all", "processes"]
    assert not any(row.startswith("swap in use") for row in rows(measured(20), 80))


def test_a_kill_in_the_cgroup_is_told_for_good() -> None:
    script = Script(
        manifest(sensors=tuple(map(sensor, SCARCE_MEMORY))),
        lambda second: SCARCE_MEMORY | {"rate/oom-kills": float(second == 3)},
    )
    assert styles(script.load().measure(9), "OOM killer") == {"critical"}


def test_numbers_keep_their_place_at_any_size() -> None:
    big = {"mem/rss": 123_456.7, "mem/system-available": 9.1}
    script = Script(manifest(), lambda _: big).load().warm_up().begin().measure(3)
    table = rows(script)
    assert table[0].index(".") == table[3].index(".")


def test_a_figure_that_is_not_there_is_a_dash_and_a_reason() -> None:
    without = tuple(info for info in SENSORS if info.id != "mem/pss")
    script = Script(manifest(sensors=without)).load().warm_up().begin().measure(3).lose("mem/rss-peak", reason="gone")
    table = rows(script)
    assert table[2].split() == ["PSS", "-", "no", "such", "sensor"]
    assert table[1].split() == ["peak", "99.6"]  # of the readings of RSS, as in the report


def test_one_line_tells_the_engine_first() -> None:
    view = view_of(measured(75))
    whole = plain(MEMORY.line(view, area(80, 1)))
    assert whole == "memory   engine 108.5 MiB, peak 110.0   system has 6.1 GiB left"
    assert plain(MEMORY.line(view, area(40, 1))) == "memory   engine 108.5 MiB, peak 110.0"
    assert plain(MEMORY.line(view, area(30, 1))) == "memory   engine 108.5 MiB"


def test_one_line_of_a_program_has_the_peak_of_all_its_processes() -> None:
    whole = {"mem/rss": 1.7, "mem/rss-peak": 1.7, "mem/application": 5.2}
    script = Script(manifest(sensors=tuple(map(sensor, whole))), lambda _: whole).load().begin().measure(3)
    assert "program 5.2 MiB, peak 5.2" in plain(MEMORY.line(view_of(script), area(80, 1)))


def test_one_line_tells_whose_memory_ends_first() -> None:
    whole = plain(MEMORY.line(view_of(scarce()), area(80, 1)))
    assert whole == "memory   engine 104.9 MiB, GPU 740.4, peak 106.4   its cgroup has 13.8 MiB left"


def test_the_chart_of_growth_is_below_or_beside_the_figures() -> None:
    moving = Script(manifest(), lambda second: {"mem/rss": 100 + second}).load().warm_up().begin().measure(75)
    assert rows(moving, 60, 12)[-1].split() == ["0s"]
    beside = rows(moving, 120, 8)
    assert "engine RSS" in beside[0]
    assert beside[-1].split()[:1] == ["0s"]
    assert len(beside) == 8


def test_a_resident_set_that_hardly_changes_is_a_number() -> None:
    script = Script(manifest(), lambda second: {"mem/rss": 100 + second % 2 / 10}).load().warm_up().begin().measure(30)
    assert not any("0:15" in row for row in rows(script, 60, 12))


def growing(mib_per_h: float, seconds: float = 400) -> Script:
    held = ("mem/rss", "mem/system-available")
    weather = {"mem/system-available": 720.0}
    script = Script(
        manifest(sensors=tuple(map(sensor, held))),
        lambda second: weather | {"mem/rss": 100 + second * mib_per_h / 3600},
    )
    return script.load().warm_up().begin().measure(seconds, rate_hz=5)


def test_a_leak_stands_below_the_resident_set_with_what_is_left() -> None:
    table = rows(growing(72), 90)
    assert " ".join(table[1].split()) == "growth 72.0 MiB/h LEAKING 95 %: 72.0 to 72.0 system is full in 10h00m"
    assert styles(growing(72), "LEAKING") == {"warning"}


def test_growth_that_is_no_leak_is_a_figure() -> None:
    assert " ".join(rows(growing(0.5), 90)[1].split()) == "growth 0.5 MiB/h 95 %: 0.5 to 0.5"


def test_before_growth_is_known_there_is_no_line_of_it() -> None:
    assert "growth" not in "".join(rows(growing(72, 60), 90))
