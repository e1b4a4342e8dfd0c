"""The alert rules, by Prometheus' own `promtool test rules`, on what real fleets do. `.ci/run` executes these tests."""

import json
import subprocess

import pytest

from edgetop.metrics.grafana_dashboard import ALERTS, alert_rules

pytestmark = [pytest.mark.promtool, pytest.mark.slow]

EVERY_S = 30  # between two scrapes
HOUR, LONG = 60, 4 * 60  # in minutes
RUN = "job='node',instance='board-1',run='1'"
ENDPOINT = "job='edgetop',instance='board-1'"  # has no label `run`
ABSENT = "_"


def of(minutes, value, step=0):
    """Samples of so many minutes: `value`, or one that moves by `step` from scrape to scrape."""
    scrapes = int(minutes * 60 / EVERY_S)
    return f"_x{scrapes}" if value == ABSENT else f"{value}+{step}x{scrapes - 1}"


def then(*parts):
    return " ".join(parts)


def gone(minutes):
    """As after a scrape in which a series was not there any more."""
    return f"stale _x{int(minutes * 60 / EVERY_S) - 1}"


def board(labels, *phases):
    """The series of a session, and whether its target is up. Each phase: minutes, "runs", "frozen", "off" or "none"."""
    up, running, seconds, inferences = [], [], [], []
    was_there, at, count = False, 0, 0
    for minutes, state in phases:
        up.append(of(minutes, {"off": 0, "unscraped": ABSENT}.get(state, 1)))
        if state in ("runs", "frozen"):
            running.append(of(minutes, 1))
            seconds.append(of(minutes, at, EVERY_S if state == "runs" else 0))
            inferences.append(of(minutes, count, 100 if state == "runs" else 0))
            if state == "runs":
                at, count = at + minutes * 60, count + minutes * 60 * 100 // EVERY_S
        else:
            missing = gone(minutes) if was_there and state != "unscraped" else of(minutes, ABSENT)
            for values in (running, seconds, inferences):
                values.append(missing)
            at = count = 0  # the next session begins anew
        was_there = state in ("runs", "frozen")
    target = ",".join(labels.split(",")[:2])
    return {
        f"up{{{target}}}": then(*up),
        f"edgetop_session_running{{{labels}}}": then(*running),
        f"edgetop_session_duration_seconds{{{labels}}}": then(*seconds),
        f"edgetop_inference_duration_seconds_count{{{labels}}}": then(*inferences),
    }


def never(minutes):
    """No alert at any of these."""
    return {minute: [] for minute in minutes}


def silent(labels=RUN):
    return "EdgetopBoardSilent", labels, "the session on board-1 is silent, but has not ended"


def failed(labels=RUN):
    what = "the session on board-1 failed: its engine, its program, a gate or its disk"
    return "EdgetopSessionFailed", labels, what


def ended(labels, minutes, *, failed=0, off=LONG):
    """An endpoint that was scraped once more after the end of the session, and is gone then."""
    found = board(labels, (minutes, "runs"), (off, "off"))
    found[f"edgetop_session_running{{{labels}}}"] = then(of(minutes - 0.5, 1), "0", gone(off))
    found[f"edgetop_session_failed{{{labels}}}"] = then(of(minutes - 0.5, 0), str(failed), gone(off))
    return found


# What happens, the series, and which alerts fire at which minutes; at all others that are named, none.
SCENARIOS = {
    "a board whose session goes on": (board(RUN, (3 * HOUR, "runs")), {1: [], 10: [], 3 * HOUR - 1: []}),
    "a board that has no session": (board(RUN, (HOUR, "none")), {10: [], 59: []}),
    "a target that has never had one": (board(ENDPOINT, (LONG, "off")), {10: [], LONG - 1: []}),
    "edgetop was killed, and its file stays": (
        board(RUN, (10, "runs"), (3 * HOUR, "frozen"), (HOUR, "runs")),
        {9: [], 13: [], 18: [silent()], 3 * HOUR: [silent()], 3 * HOUR + 12: [], 3 * HOUR + 40: []},
    ),
    "the board is off for longer than anything is remembered of it": (
        board(RUN, (10, "runs"), (26 * HOUR, "off"), (HOUR, "runs")),
        {11: [], 13: [silent()], HOUR: [silent()], 26 * HOUR: [silent()], 26 * HOUR + 12: [], 26 * HOUR + 50: []},
    ),
    "the board comes back without a session": (
        board(RUN, (10, "runs"), (HOUR, "off"), (HOUR, "none")), {13: [silent()], HOUR: [silent()], HOUR + 12: []},
    ),
    "the board comes back with the file of a session that died with it": (
        board(RUN, (10, "runs"), (HOUR, "off"), (HOUR, "frozen")),
        {13: [silent()], HOUR + 12: [silent()], 2 * HOUR: [silent()]},
    ),
    "a board reboots within a minute": (
        board(RUN, (10, "runs"), (1, "off"), (HOUR, "runs")), never((10, 11, 12, 13, 15, HOUR)),
    ),
    "edgetop is restarted within a minute": (
        board(RUN, (10, "runs"), (1, "frozen"), (HOUR, "runs")), never((10, 11, 12, 13, 15, HOUR)),
    ),
    "a run ends as it should, and its file is gone": (
        board(RUN, (10, "runs"), (5 * HOUR, "none")), {11: [], 13: [], HOUR: [], 5 * HOUR: []},
    ),
    "a run ends, and then the board is switched off": (
        board(RUN, (10, "runs"), (3, "none"), (LONG, "off")), {12: [], 16: [], HOUR: [], LONG: []},
    ),
    "a session of an endpoint ends as it should": (
        ended(ENDPOINT, 10), {10: [], 12: [], 15: [], HOUR: [], LONG: []},
    ),
    "a board is switched off while its session runs, and its textfile told of the end": (
        board(RUN, (10, "runs"), (LONG, "off"), (HOUR, "runs")) | {
            f"edgetop_session_running{{{RUN}}}": then(of(9.5, 1), "0", gone(LONG), of(HOUR, 1)),
            f"edgetop_session_failed{{{RUN}}}": then(of(10, 0), gone(LONG), of(HOUR, 0)),
        },
        {10: [], 13: [], HOUR: [], LONG: [], LONG + 12: [], LONG + 50: []},
    ),
    "the board comes back without a session, after its textfile told of the end": (
        board(RUN, (10, "runs"), (LONG, "off"), (HOUR, "none")) | {
            f"edgetop_session_running{{{RUN}}}": then(of(9.5, 1), "0", gone(LONG), of(HOUR, ABSENT)),
        },
        {10: [], 13: [], LONG: [], LONG + 12: [], LONG + 50: []},
    ),
    "a session of an endpoint dies": (
        board(ENDPOINT, (10, "runs"), (LONG, "off"), (HOUR, "runs")),
        {13: [silent(ENDPOINT)], LONG: [silent(ENDPOINT)], LONG + 12: []},
    ),
    "the engine of an endpoint's session dies": (
        ended(ENDPOINT, 10, failed=1),
        {9: [], 10: [failed(ENDPOINT)], HOUR: [failed(ENDPOINT)], LONG: [failed(ENDPOINT)]},
    ),
    "Prometheus is down for an hour, and the board is not": (
        board(RUN, (10, "runs"), (HOUR, "unscraped"), (HOUR, "runs")),
        {9: [], **never(range(HOUR + 10, HOUR + 20))},
    ),
    "Prometheus is down for an hour, and the board is off then": (
        board(RUN, (10, "runs"), (HOUR, "unscraped"), (HOUR, "off")),
        {9: [], HOUR + 15: [silent()], 2 * HOUR: [silent()]},
    ),
    "Prometheus is down for an hour while the board is off": (
        board(RUN, (10, "runs"), (HOUR, "off"), (HOUR, "unscraped"), (HOUR, "off"), (20, "runs")),
        {HOUR: [silent()], 2 * HOUR + 15: [silent()], 3 * HOUR + 15: []},
    ),
    "the board is taken out of the configuration": (
        board(RUN, (10, "runs"), (HOUR, "off"), (HOUR, "unscraped")), {HOUR: [silent()], HOUR + 20: [], 2 * HOUR: []},
    ),
    "one run of two dies": (
        board(RUN.replace("run='1'", "run='2'"), (2 * HOUR, "runs"))
        | board(RUN, (10, "runs"), (2 * HOUR - 10, "frozen")),
        {9: [], 20: [silent()], 2 * HOUR - 1: [silent()]},
    ),
    "the engine dies, its file says so, and a new session runs": (
        board(RUN, (10, "runs"), (2 * HOUR, "none"), (HOUR, "runs")) | {
            f"edgetop_session_running{{{RUN}}}": then(of(10, 1), of(2 * HOUR, 0), of(HOUR, 1)),
            f"edgetop_session_failed{{{RUN}}}": then(of(10, 0), of(2 * HOUR, 1), of(HOUR, 0)),
        },
        {9: [], 11: [failed()], 2 * HOUR: [failed()], 2 * HOUR + 20: [failed()], 2 * HOUR + 30: []},
    ),
    "an engine dies every five minutes, and is started again each time": (
        board(RUN, (HOUR, "runs"), (HOUR, "runs")) | {
            f"edgetop_session_failed{{{RUN}}}": then(*["1 0x8"] * (HOUR // 5), of(HOUR, 0)),
        },
        {10: [failed()], 13: [failed()], 30: [failed()], 59: [failed()], HOUR + 20: []},
    ),
}  # fmt: skip


def one(name, labels, values, alert, firing, *, minutes=HOUR):
    """A session that runs, of which one series tells of trouble. `firing`: at which of these minutes."""
    return (
        board(RUN, (minutes, "runs")) | {f"{name}{{{RUN}{',' if labels else ''}{labels}}}": values},
        {minute: [alert] if fires else [] for minute, fires in firing.items()},
    )


def told(name, summary, labels=""):
    return name, f"{RUN}{',' if labels else ''}{labels}", summary


STALLED = told("EdgetopStalled", "an inference on board-1 does not return")
RECORDS_NOT = told("EdgetopNotRecording", "measurements on board-1 are not being recorded")
NO_INFERENCE = told("EdgetopNoInference", "the session on board-1 runs, but has measured no inference")
LEAKS = told("EdgetopMemoryLeak", "the engine's memory on board-1 grows and does not level off")
THROTTLED = told("EdgetopThrottled", "board-1 is throttled: thermal", "cause='thermal'")
INTERNAL = told(
    "EdgetopInternalError",
    "an internal error of edgetop on board-1 affects a part of its analysis: power",
    "part='power'",
)
MISSES = told("EdgetopDeadlineMisses", "board-1 misses its deadline in 5% of inferences")
ERRORS = told("EdgetopInferenceErrors", "inferences on board-1 fail: 1 a second")
ERRORS_RESTARTED = ("EdgetopInferenceErrors", RUN, "inferences on board-1 fail: 3.333 a second")

SCENARIOS |= {
    "inferences stand still for ten minutes": one(
        "edgetop_stalled", "", then(of(10, 0), of(10, 1), of(40, 0)), STALLED,
        {9: False, 11: False, 14: True, 19: True, 21: False},
    ),
    "an inference is late now and then": one(
        "edgetop_stalled", "", then(*["0x6 1 1"] * 12), STALLED, dict.fromkeys(range(5, 50, 3), False)
    ),
    "recording stops": one(
        "edgetop_verdict", "verdict='NOT RECORDING'", then(of(10, ABSENT), of(20, 1), "stale", of(20, ABSENT)),
        RECORDS_NOT, {9: False, 13: False, 17: True, 29: True, 31: False},
    ),
    "steady": one("edgetop_verdict", "verdict='STEADY'", of(HOUR, 1), RECORDS_NOT, {30: False}),
    "a part of the analysis failed": one(
        "edgetop_internal_error", "part='power'", then(of(10, ABSENT), of(20, 1), "stale", of(20, ABSENT)),
        INTERNAL, {9: False, 12: True, 29: True, 31: False},
    ),
    "throttling for ten minutes": one(
        "edgetop_throttled", "cause='thermal'", then(of(10, 0), of(10, 1), of(40, 0)), THROTTLED,
        {9: False, 12: True, 19: True, 21: False},
    ),
    "a leak": one(
        "edgetop_memory_leak", "", then(of(10, 0), of(20, 1), of(30, 0)), LEAKS,
        {15: False, 22: True, 29: True, 31: False}
    ),
    "one inference in twenty is late for twenty minutes": one(
        "edgetop_deadline_misses_total", "", then(of(10, 0), of(20, 0, 5), of(30, 195)), MISSES,
        {9: False, 12: False, 22: True, 28: True, 38: False},
    ),
    "one inference in a thousand is late": one(
        "edgetop_deadline_misses_total", "", then("0 0 0 0 0 0 0 0 0 1"), MISSES, {4: False, 10: False}
    ),
    "inferences fail for twenty minutes": one(
        "edgetop_inference_errors_total", "", then(of(10, 0), of(20, 0, 30), of(30, 1170)), ERRORS,
        {9: False, 15: False, 25: True, 28: True, 36: False},
    ),
    "one inference fails": one(
        "edgetop_inference_errors_total", "", then(of(10, 0), of(50, 1)), ERRORS, dict.fromkeys(range(8, 40, 2), False)
    ),
    "counters begin anew with a new session": (
        board(RUN, (20, "runs"), (1, "none"), (39, "runs")) | {
            f"edgetop_inference_errors_total{{{RUN}}}": then(of(20, 7), gone(1), of(39, 0)),
            f"edgetop_deadline_misses_total{{{RUN}}}": then(of(20, 900), gone(1), of(39, 0)),
        },
        never(range(18, 50, 3)),
    ),
    "a session that never measures": (
        {series: values for series, values in board(RUN, (HOUR, "runs")).items() if "inference" not in series},
        {10: [], 18: [NO_INFERENCE], 59: [NO_INFERENCE]},
    ),
    "a session that measures after ten minutes": (
        board(RUN, (HOUR, "runs"))
        | {f"edgetop_inference_duration_seconds_count{{{RUN}}}": then(of(10, ABSENT), of(50, 1, 9))},
        {9: [], 17: [], 40: []},
    ),
    "a board that died while it was throttled and stalled": (
        board(RUN, (10, "runs"), (HOUR, "frozen")) | {
            f"edgetop_throttled{{{RUN},cause='thermal'}}": of(70, 1),
            f"edgetop_stalled{{{RUN}}}": then(of(9, 0), of(61, 1)),
            f"edgetop_internal_error{{{RUN},part='power'}}": then(of(9, ABSENT), of(61, 1)),
        },
        {20: [silent()], 60: [silent()]},
    ),
}  # fmt: skip


def rule_test(series, alerts):
    names, severities = [name for name, *_ in ALERTS], {name: severity for name, _, _, severity, _ in ALERTS}
    return {
        "interval": f"{EVERY_S}s",
        "input_series": [{"series": name.replace("'", '"'), "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{minute}m",
                "alertname": name,
                "exp_alerts": [
                    {
                        "exp_labels": {
                            **dict(pair.replace("'", "").split("=") for pair in labels.split(",")),
                            "severity": severities[name],
                        },
                        "exp_annotations": {"summary": summary},
                    }
                    for alert, labels, summary in firing
                    if alert == name
                ],
            }
            for minute, firing in alerts.items()
            for name in names
        ],
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_rules(name, tmp_path) -> None:
    (tmp_path / "edgetop.yml").write_text(alert_rules())
    tests = {
        "rule_files": ["edgetop.yml"], "evaluation_interval": "1m", "tests": [rule_test(*SCENARIOS[name])],
    }  # fmt: skip
    (tmp_path / "test.yml").write_text(json.dumps(tests))  # JSON is YAML
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_in_one_scenario_and_not_in_another() -> None:
    fired = {name for _, alerts in SCENARIOS.values() for firing in alerts.values() for name, _, _ in firing}
    assert fired == {name for name, *_ in ALERTS}


def test_promtool_finds_no_fault_in_the_rules(tmp_path) -> None:
    (tmp_path / "edgetop.yml").write_text(alert_rules())
    check = ("promtool", "check", "rules", "--lint=all", "--lint-fatal", tmp_path / "edgetop.yml")
    done = subprocess.run(check, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
