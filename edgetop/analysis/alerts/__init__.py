"""Alerts: what a person should hear of, with when it began and ended, found anew from what was recorded.

Like slowdowns they are derived and not recorded: a replay comes to the same ones, and a later edgetop to better ones.
"""
