"""Alerts: the problems that are reported to a person, with their beginnings and ends.

Like slowdowns they are derived, not recorded: a replay gives the same ones, and a later edgetop may give better ones.
"""
