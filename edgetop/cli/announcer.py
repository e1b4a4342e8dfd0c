"""`--notify` without a screen: alerts told by the terminal on which a session was started."""

import os
import sys

import click

from edgetop.analysis.alerts.news import AlertNews
from edgetop.analysis.alerts.words import title_words, told_words
from edgetop.analysis.analysis import MonitorView
from edgetop.notification import notification


class Announcer:
    def __init__(self) -> None:
        self._news = AlertNews()

    def look(self, view: MonitorView) -> None:
        """Tell of what is new, where stderr still is a terminal."""
        news = self._news.look(view.alerts)
        if not sys.stderr.isatty():
            return
        for alert in news:
            click.echo(notification(title_words(view.manifest), told_words(alert), os.environ), nl=False, err=True)
