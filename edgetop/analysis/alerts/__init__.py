"""Alerts: the problems that are reported to a person, with their beginnings and ends."""
