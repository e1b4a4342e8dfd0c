"""Feeds, from which screens read sessions: live, attached or replayed ones, behind one protocol.

A reader must not ask for the kind of a feed, only for its abilities.
"""
