"""The topic `alerts` names what there is: events, values and keys of JSON."""

import json
import re
from importlib import resources

from edgetop.analysis.alerts.alert import Alert, AlertsView
from edgetop.analysis.alerts.alert_rules import PER_SECOND, parse_rule
from edgetop.analysis.session_gates import METRICS
from edgetop.wording.alert_names import NAMES
from edgetop.wording.alert_words import alert_document, alerts_document

TOPIC = resources.files("edgetop").joinpath("docs/alerts.md").read_text(encoding="utf-8")
EXAMPLE = TOPIC[TOPIC.index('{"event"') : TOPIC.index("`begin_s` and")]


def test_every_event_is_in_its_table() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \| [a-z]", TOPIC.partition("## Rules")[0], re.MULTILINE)
    assert set(re.findall(r"^\| `([a-z-]+)` \|", TOPIC.partition("## Rules")[0], re.MULTILINE)) == set(NAMES)


def test_what_stands_in_no_report_is_said_to() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", TOPIC.partition("## Rules")[0], re.MULTILINE))
    reported = {
        told["event"] for told in alerts_document(AlertsView(tuple(Alert(n, "info", 0, 0, "") for n in NAMES), 0))
    }
    assert {name for name, told in rows.items() if "not in the report" not in told} == reported


def test_every_value_that_a_rule_can_be_about_is_told() -> None:
    rows = re.findall(r"^\| ((?:`[a-z0-9]+` ?)+) \|", TOPIC.partition("## Rules")[2], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(PER_SECOND)
    assert set(PER_SECOND) <= set(METRICS)


def test_the_example_has_the_keys_that_hooks_are_given() -> None:
    told = json.loads(EXAMPLE)
    assert set(told) == set(alert_document(Alert("misses", "warning", 0, None, ""))) | {
        "time_utc",
        "skipped",
        "session",
    }


def test_the_rules_of_the_examples_are_in_order() -> None:
    rules = re.findall(r"--alert '([^'\[]+)'", TOPIC)
    assert len(rules) >= 2
    assert all(parse_rule(rule) for rule in rules)
