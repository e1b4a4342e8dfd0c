"""Feeds, from which screens read the data of a session.

The session runs in this process (live), runs in another process (attached), or is played from a recording (replayed).

All feeds have the same interface. A reader must not ask what kind of feed it has, only which abilities the feed has.
"""
