"""A running session takes orders from other processes of its user: through a Unix socket in its folder.

One order a connection, one line of JSON each way. Nothing listens on a network.
"""
