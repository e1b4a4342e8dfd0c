"""Engines run the model. An engine says what was loaded, then sends records until it ends.

Behind one protocol: a child process (the default) or a thread of the app, both running
the same loop (`edgetop.engines.child`), on any of the runtimes the registry lists.
"""
