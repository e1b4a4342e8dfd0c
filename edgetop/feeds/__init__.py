"""Feeds, from which screens read the data of a session.

The session runs in this process (live) or in another (attached), or is played from a recording (replayed). All feeds
have the same interface. Readers ask which abilities a feed has, and never what kind of feed it is.
"""
