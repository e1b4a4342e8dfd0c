"""Feeds, from which screens read the data of a session, which is live, attached (in another process) or replayed.

All feeds have the same interface. A reader must not ask what kind of feed it has, only which abilities the feed has.
"""
