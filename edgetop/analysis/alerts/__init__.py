"""Alerts: the problems that a person should hear of, with when they began and ended.

Like slowdowns they are derived, not recorded: a replay comes to the same ones, and a later edgetop to better ones.
"""
