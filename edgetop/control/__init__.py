"""Orders from other processes of the user to a running session, through a Unix socket in its folder.

One order a connection, one line of JSON each way. Nothing listens on a network.
"""
