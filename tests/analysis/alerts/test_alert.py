"""What a person is told, and how often."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from edgetop.analysis.alerts.alert import Alert, AlertNews, AlertsView
from edgetop.session.seconds import NS

HOT = Alert("alert", "warning", 100 * NS, None, "temp>80C", "temp>80C")


def told(news: AlertNews, now_s: int, *alerts: Alert) -> list[str]:
    newest_first = sorted(alerts, key=lambda alert: -alert.begin_ns)
    return [str(alert.about) for alert in news.due(AlertsView(tuple(newest_first), now_s * NS))]


def times(alert: Alert, seconds: Iterable[int]) -> list[int]:
    news = AlertNews()
    return [now_s for now_s in seconds if told(news, now_s, alert)]


def test_an_alert_is_told_once_while_it_lasts() -> None:
    assert times(HOT, range(110, 10_000, 10)) == [110]


def test_one_with_repeat_is_told_again() -> None:
    assert times(replace(HOT, repeat_ns=300 * NS), range(110, 1_000, 10)) == [110, 410, 710]


def test_it_is_told_again_when_it_begins_anew() -> None:
    news = AlertNews()
    over = replace(HOT, end_ns=200 * NS)
    assert told(news, 110, HOT) == ["temp>80C"]
    assert told(news, 210, over) == []
    assert told(news, 310, over, replace(HOT, begin_ns=300 * NS)) == ["temp>80C"]


def test_unless_it_is_to_be_told_once() -> None:
    news = AlertNews()
    once = replace(HOT, is_once=True)
    assert told(news, 110, once) == ["temp>80C"]
    assert told(news, 1_000, replace(once, begin_ns=900 * NS)) == []


def test_what_comes_and_goes_is_told_once_a_minute() -> None:
    news = AlertNews()
    heard = []
    for now_s in range(101, 400, 2):
        over = replace(HOT, begin_ns=(now_s - 3) * NS, end_ns=(now_s - 2) * NS)
        if told(news, now_s, over, replace(HOT, begin_ns=(now_s - 1) * NS)):
            heard.append(now_s)
    assert heard == [101, 161, 221, 281, 341]


def test_a_beginning_that_is_judged_anew_is_no_news() -> None:
    news = AlertNews()
    assert told(news, 110, HOT) == ["temp>80C"]
    assert told(news, 200, replace(HOT, begin_ns=104 * NS)) == []


def test_a_late_reader_gets_what_goes_on_and_not_the_past() -> None:
    long_over = replace(HOT, end_ns=200 * NS)
    slow = Alert("slowed", "warning", 50 * NS, None, "slower")
    assert told(AlertNews(), 1_000, long_over, slow) == ["slower"]


def test_two_rules_are_two_things() -> None:
    other = replace(HOT, about="p99>33ms", rule="p99>33ms", begin_ns=90 * NS)
    assert told(AlertNews(), 110, HOT, other) == ["p99>33ms", "temp>80C"]


def test_of_those_that_are_told_each_none_is_left_out() -> None:
    news = AlertNews(each=("throttled",))
    hot = Alert("throttled", "critical", 10 * NS, 15 * NS, "thermal")
    weak = replace(hot, begin_ns=12 * NS, end_ns=None, about="under-voltage")
    assert told(news, 11, replace(hot, end_ns=None)) == ["thermal"]
    assert told(news, 13, replace(hot, end_ns=None), weak) == ["under-voltage"]
    again = [replace(hot, begin_ns=begin * NS, end_ns=(begin + 3) * NS, about=str(begin)) for begin in (20, 26)]
    assert told(news, 40, hot, weak, *again) == ["20", "26"]
    assert told(news, 41, hot, weak, *again) == []
    assert told(news, 42, hot, replace(weak, begin_ns=11 * NS), *again) == []
    assert told(news, 300, replace(hot, begin_ns=100 * NS, end_ns=110 * NS)) == []


@pytest.mark.parametrize(("ended_s", "is_told"), [(59, True), (61, False)])
def test_what_ended_a_minute_ago_is_no_news(ended_s: int, is_told: bool) -> None:
    over = replace(HOT, end_ns=200 * NS)
    assert bool(told(AlertNews(), 200 + ended_s, over)) is is_told
