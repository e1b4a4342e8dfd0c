"""Feeds, from which screens read sessions. The session may be live, attached or replayed; the interface is the same.

A reader must not ask what kind of feed it has, only which abilities the feed has.
"""
