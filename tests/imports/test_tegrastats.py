"""A log of tegrastats as a session: the board's readings, at the times that the log tells."""

import pytest

from edgetop.errors import InputError
from edgetop.imports.read import Options, read, read_all
from tests.imports.test_session import analysed, imported, reported, text_of
from tests.support import printed

NS = 1_000_000_000


def log(*lines):
    return "".join(f"{line}\n" for line in lines)


def orin(second, watts=17946):
    return printed.ORIN_NANO.replace("18:30:28", f"18:30:{second:02d}").replace("17946mW", f"{watts}mW")


def readings(folder, text, interval_ns=NS):
    path = folder / "t.log"
    path.write_text(text)
    found = read(path, Options(interval_ns=interval_ns)).found[0]
    return {
        info.id: list(zip((times / NS).tolist(), values.tolist(), strict=True))
        for info, times, values in zip(found.sensors, found.times_ns, found.values, strict=True)
    }, found


def test_times_are_those_of_the_lines_and_split_a_shared_second(tmp_path):
    told, found = readings(tmp_path, log(orin(10, 1000), orin(11, 2000), orin(11, 3000), orin(14, 4000)))
    assert told["power/VDD_IN"] == [(0.0, 1.0), (1.0, 2.0), (1.5, 3.0), (4.0, 4.0)]
    assert (found.end_ns, found.memory_bytes) == (4 * NS, 7620 * 2**20)
    assert "from 2025-05-15 18:30:10 local time on" in found.note


def test_without_times_lines_are_an_interval_apart_and_say_so(tmp_path):
    told, found = readings(tmp_path, log(*[printed.NANO] * 3), interval_ns=NS // 2)
    assert [t for t, _ in told["load/gpu"]] == [0.0, 0.5, 1.0]
    assert "its lines have no time: one each 0.5 s is assumed" in found.note


def test_what_a_line_leaves_out_is_no_reading(tmp_path):
    told, _ = readings(tmp_path, log(orin(10), orin(11).replace("NVENC 1%@115", "NVENC off"), orin(12)))
    assert [t for t, _ in told["load/nvenc"]] == [0.0, 2.0]


def test_other_lines_are_passed_over_and_counted(tmp_path):
    told, _ = readings(tmp_path, log("Starting", orin(10), "[ 12.3] dmesg", orin(11)) + orin(12)[:150])
    assert len(told["power/VDD_IN"]) == 2
    assert read(tmp_path / "t.log").notes == ('3 of 5 lines not understood, the first: "Starting"',)


def test_a_last_line_without_its_end_counts_where_it_is_whole(tmp_path):
    told, _ = readings(tmp_path, log(orin(10), orin(11)) + orin(12))
    assert len(told["power/VDD_IN"]) == 3


def test_the_session_has_readings_the_total_and_no_inference(tmp_path):
    folder = imported(tmp_path, log(*[orin(10 + i, 10_000 + 1000 * i) for i in range(5)]))
    document = reported(folder)
    session, power = document["session"], document["power"]
    assert (session["labels"], session["engine"]["runtime"]) == ({"imported": "tegrastats"}, None)
    assert (power["total_sensor"], power["max_w"]) == ("power/VDD_IN", 14.0)
    assert power["mean_w"] == pytest.approx(12.0)
    roles = {info["id"]: info["role"] for info in session["sensors"] if info["id"].startswith("power/")}
    assert roles == {"power/VDD_IN": "total", "power/VDD_CPU_GPU_CV": "part", "power/VDD_SOC": "part"}
    assert document["temperature"]["temp/cpu"]["max"] == 65.562
    assert (document["latency"]["count"], "told_by" in document["latency"]) == (0, False)
    assert "nothing was measured" in text_of(folder)
    assert (session["duration_ns"], session["board"]["memory_bytes"]) == (4 * NS, 7620 * 2**20)
    view = analysed(folder).view(None)
    assert view.memory.system_swap.value == 2640.0


BAD = {
    "of two logs": (log(printed.NANO, orin(10)), "lines with a time and lines without"),
    "of two logs, the other way round": (log(orin(10), printed.NANO), "lines with a time and lines without"),
    "a clock that was set back": (
        log(orin(10), orin(9)),
        "its clock was set back at 2025-05-15 18:30:09: cut it there",
    ),
    "years": (log(orin(10), orin(11).replace("-2025", "-2031")), "it takes longer than a run can"),
    "no time of day": (log(orin(10).replace("05-15", "15-45")), "no line of it is whole"),
}


def test_an_interval_longer_than_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="longer than a run can"):
        readings(tmp_path, log(*[printed.NANO] * 2), interval_ns=10**20)


@pytest.mark.parametrize("case", BAD)
def test_a_log_that_cannot_be_is_refused_in_one_line(tmp_path, case):
    text, why = BAD[case]
    path = tmp_path / "t.log"
    path.write_text(text)
    with pytest.raises(InputError, match=why) as refused:
        read_all([path])
    assert "\n" not in str(refused.value)


def test_cores_that_are_not_understood_are_said(tmp_path):
    lines = [orin(10), orin(11).replace("CPU [", "CPU [7 of 8,")]
    told, _ = readings(tmp_path, log(*lines))
    assert len(told["power/VDD_IN"]) == 2
    assert read(tmp_path / "t.log").notes == ('1 of 2 lines have parts not understood, the first: "7 of 8"',)
