"""Alerts: problems that are reported to the user, each with the time when it began and the time when it ended."""
